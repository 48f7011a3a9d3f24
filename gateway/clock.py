"""The time of a worker: read once from the wall, then carried on by a clock that nobody sets.

A step of the wall clock, forward or back, changes nothing for a worker that runs. Workers on one machine agree on
how old an entry is whatever the wall said when they began, since entries carry the time since boot as well.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STEP_S = 60.0
"""A difference from the wall that is worth telling."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot_s() -> float:
    """Seconds since the machine started, sleep included; no step of the wall clock moves it."""
    return time.clock_gettime(_BOOT_CLOCK)


def boot_id() -> bytes:
    """What tells this boot of this machine from any other, 16 bytes; empty where the system does not say."""
    try:
        return bytes.fromhex(_BOOT_ID.read_text("ascii").strip().replace("-", ""))
    except (OSError, ValueError):
        return b""


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds since the epoch, steadily.

    Attributes:
        wall_s, steady_s: the clocks themselves.
        boot: the steady clock's zero; two of the same can be compared.
        anchor_s: the wall's time at that zero, as this worker believes.
    """

    wall_s: Callable[[], float]
    steady_s: Callable[[], float]
    boot: bytes
    anchor_s: float

    @classmethod
    def start(
        cls,
        wall_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = since_boot_s,
        boot: bytes | None = None,
    ) -> "Clock":
        """A clock that shows the wall's time now."""
        return cls(wall_s, steady_s, boot_id() if boot is None else boot, wall_s() - steady_s())

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self.anchor_s + self.steady_s()

    def stepped_s(self) -> float:
        """How far the wall has been set since the start."""
        return self.wall_s() - self.now_s()

    def mark(self, at_s: float) -> float:
        """A time of this worker as all workers of this boot can read it."""
        return at_s - self.anchor_s

    def read(self, boot: bytes, marked_s: float, at_s: float) -> float:
        """A marked time as this worker counts; what the wall said then, where the mark is of another boot."""
        return self.anchor_s + marked_s if boot and boot == self.boot else at_s
