"""Who runs next: pure bookkeeping over integers, no tensors, no clock of its own."""

from engine.scheduler.refusals import context_overflow
from engine.scheduler.scheduler import Scheduler

__all__ = ["Scheduler", "context_overflow"]
