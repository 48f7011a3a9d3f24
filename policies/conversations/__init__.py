"""Conversations: whether two of them, each ending with a user's turn, deserve the same answer.

`read_turns` reads each turn once. `early_verdict` says what needs no model; for the rest `late_verdict` aligns the
histories and lets a small learnt forest weigh what differs. Lists, weights and likenesses come from the caller.
"""

from policies.conversations.forest import Weights, read_weights
from policies.conversations.turns import Told, read_turn, read_turns
from policies.conversations.verdict import Verdict, early_verdict, late_verdict, texts_needed, unneeded
from policies.conversations.wording import Wording, parse_wording

__all__ = [
    "Told", "Verdict", "Weights", "Wording", "early_verdict", "late_verdict", "parse_wording", "read_turn",
    "read_turns", "read_weights", "texts_needed", "unneeded",
]  # fmt: skip
