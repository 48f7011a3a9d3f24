"""The error budget: serve a stored answer only where the share of wrong ones stays under a bound."""

from policies.budget.bank import Bank
from policies.budget.curves import score_of
from policies.budget.decision import Caution, Decision, Explore, Refuse, Rules, Serve, decide, would_serve
from policies.budget.guard import Figures, Step, Window, step
from policies.budget.pool import Mark, Pool

__all__ = [
    "Bank",
    "Caution",
    "Decision",
    "Explore",
    "Figures",
    "Mark",
    "Pool",
    "Refuse",
    "Rules",
    "Serve",
    "Step",
    "Window",
    "decide",
    "score_of",
    "step",
    "would_serve",
]
