"""Pure decisions: no I/O, no clock, no third-party client; each returns a value with a reason."""
