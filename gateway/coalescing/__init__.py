"""Coalescing across workers and replicas: a lease per flight in Redis, and the leader's answer relayed to all."""

from gateway.coalescing.everywhere import Everywhere
from gateway.coalescing.leases import MARK_BYTES
from gateway.coalescing.worker import Coalescer, OneWorker, Shared, works

__all__ = ["MARK_BYTES", "Coalescer", "Everywhere", "OneWorker", "Shared", "works"]
