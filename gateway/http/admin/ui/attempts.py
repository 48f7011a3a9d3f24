"""How often somebody may try to sign in; counted by this worker, in bounded memory."""

from collections import OrderedDict

MOST_FAILURES = 10
WINDOW_S = 60.0
_MOST_ADDRESSES = 10_000


class Attempts:
    """Counts failed sign-ins by address over a fixed window."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_s(self, address: str, now_s: float) -> float:
        """Seconds until this address may try again; 0 when it may now."""
        began_s, count = self._failed.get(address, (now_s, 0))
        left_s = began_s + WINDOW_S - now_s
        return max(left_s, 0.0) if count >= MOST_FAILURES and left_s <= WINDOW_S else 0.0

    def failed(self, address: str, now_s: float) -> None:
        """An attempt failed."""
        began_s, count = self._failed.pop(address, (now_s, 0))
        if not 0 <= now_s - began_s < WINDOW_S:
            began_s, count = now_s, 0
        self._failed[address] = (began_s, count + 1)
        if len(self._failed) > _MOST_ADDRESSES:
            self._failed.popitem(last=False)
