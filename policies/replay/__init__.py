"""Replaying a log of requests against cache policies: what a line says, what is true, and how it is counted."""

from policies.replay.line import Line, LineError, read_line
from policies.replay.tally import LAYERS, Counts, Outcome, Prices, Tally, enough_for
from policies.replay.truth import same_answer

__all__ = [
    "LAYERS",
    "Counts",
    "Line",
    "LineError",
    "Outcome",
    "Prices",
    "Tally",
    "enough_for",
    "read_line",
    "same_answer",
]
