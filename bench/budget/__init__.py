"""Error budgets on a simulated stream whose truth is known."""
