"""What has been promised and not done yet, and how long that will take: the loop's side of back-pressure."""

import math
from collections import Counter
from dataclasses import dataclass

from engine.pace import Pace

_SMOOTHING = 0.1
_MAX_RETRY_AFTER_S = 120


@dataclass(slots=True)
class _Open:
    tenant: str
    prompt_left: int
    answer_left: int
    wanted: int


class Backlog:
    """Open sequences: whose they are and how many tokens they still need.

    An answer is expected to take the share of its `max_tokens` that answers have taken lately.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._by_tenant: Counter[str] = Counter()
        self._used_share = 1.0

    def __len__(self) -> int:
        return len(self._open)

    def of(self, tenant: str) -> int:
        """Count a tenant's open sequences."""
        return self._by_tenant[tenant]

    def opened(self, seq_id: int, tenant: str, prompt: int, max_tokens: int) -> None:
        """Note a new sequence; `prompt` is 0 for one that shares another's."""
        self._open[seq_id] = _Open(tenant, prompt, max_tokens, max_tokens)
        self._by_tenant[tenant] += 1

    def advanced(self, seq_id: int, num_output: int) -> None:
        """Note that a sequence has that many tokens; so its prompt is computed."""
        one = self._open.get(seq_id)
        if one is not None:
            one.prompt_left = 0
            one.answer_left = max(0, one.wanted - num_output)

    def closed(self, seq_id: int, complete: bool) -> None:
        """Note the end of a sequence; harmless when it was closed before.

        Args:
            seq_id: which.
            complete: whether it ended by itself, so that its length says something about others.
        """
        one = self._open.pop(seq_id, None)
        if one is None:
            return
        self._by_tenant[one.tenant] -= 1
        if not self._by_tenant[one.tenant]:
            del self._by_tenant[one.tenant]
        if complete and one.wanted:
            used = (one.wanted - one.answer_left) / one.wanted
            self._used_share += _SMOOTHING * (used - self._used_share)

    def drain_s(self, pace: Pace) -> float:
        """Predict how long what is open will take at a pace."""
        prompt = sum(one.prompt_left for one in self._open.values())
        answer = sum(
            max(0.0, one.wanted * self._used_share - (one.wanted - one.answer_left)) for one in self._open.values()
        )
        return prompt * pace.prefill_s + answer * pace.decode_s

    def retry_after_s(self, pace: Pace) -> int:
        """Whole seconds after which a refused client may come back, 1 to 120."""
        return max(1, min(_MAX_RETRY_AFTER_S, math.ceil(self.drain_s(pace))))
