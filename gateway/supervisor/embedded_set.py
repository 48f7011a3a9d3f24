"""The processes of one set: started in order, watched, and ended in order within a bounded time."""

import asyncio
import contextlib
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from gateway.supervisor.child import Child, Program
from gateway.supervisor.embedded_redis import redis_answers
from gateway.supervisor.listener import reachable_address
from gateway.supervisor.readiness import until_socket_is_healthy, until_tcp_answers

_REDIS_STARTS_WITHIN_S = 2.0
_WORKER_MARGIN_S = 2.0
_ASKED_STOP_WITHIN_S = 5.0
_REDIS_STOPS_WITHIN_S = 10.0
_HOPELESS_FAILURES = 5


@dataclass(frozen=True, slots=True)
class SetPrograms:
    """What one set runs.

    Attributes:
        redis, engine, semantic: None where another one is used, or none.
        workers: at least one.
    """

    redis: Program | None
    engine: Program | None
    workers: Sequence[Program]
    semantic: Program | None = None


class EmbeddedSet:
    """All children of one supervisor.

    Args:
        programs: what to run.
        listener: shared by the workers; closed when the set stops, so that new connections are refused.
        drain_s: how long requests in flight may take to end.
        logger: gets what happens to the children.
    """

    def __init__(
        self, programs: SetPrograms, listener: socket.socket, drain_s: float, logger: FilteringBoundLogger
    ) -> None:
        self._programs = programs
        self._listener = listener
        self._drain_s = drain_s
        self._logger = logger
        self.killed = False
        self._redis = Child(programs.redis, logger) if programs.redis else None
        self._engine = Child(programs.engine, logger) if programs.engine else None
        self._semantic = Child(programs.semantic, logger) if programs.semantic else None
        self._workers = [Child(program, logger) for program in programs.workers]

    async def start(self) -> None:
        """Starts everything; returns when Redis answers or has had its time, the rest still starting.

        A Redis that does not answer stops nothing: it goes on being started again, and the set serves without it.
        """
        if self._engine is not None:
            self._engine.start()
        if self._semantic is not None:
            self._semantic.start()
        if self._redis is not None and self._programs.redis is not None:
            self._redis.start()
            if not await redis_answers(self._programs.redis.stale[0], _REDIS_STARTS_WITHIN_S):
                self._logger.warning("serving without redis", part="redis", reason="it does not answer")
        for worker in self._workers:
            worker.start()

    @property
    def has_engine(self) -> bool:
        """Whether an engine is among the children."""
        return self._engine is not None

    async def until_ready(self) -> bool:
        """Returns True once the gateway answers, False when its workers keep failing."""
        host, port = reachable_address(self._listener)
        return await _in_time(until_tcp_answers(host, port), self._workers)

    async def until_engine_ready(self) -> bool:
        """Returns True once the embedded engine has loaded its model, False when it keeps failing."""
        if self._engine is None or self._programs.engine is None:
            return True
        return await _in_time(until_socket_is_healthy(self._programs.engine.stale[0]), [self._engine])

    async def stop(self) -> None:
        """Ends everything: workers once their requests are answered, then what they asked, then Redis."""
        self._listener.close()
        within_s = self._drain_s + _WORKER_MARGIN_S
        in_time = await asyncio.gather(*(worker.stop(within_s) for worker in self._workers))
        self._logger.info("workers ended", part="workers", count=sum(in_time))
        asked = [child for child in (self._engine, self._semantic) if child is not None]
        await asyncio.gather(*(child.stop(_ASKED_STOP_WITHIN_S) for child in asked))
        if self._redis is not None:
            await self._redis.stop(_REDIS_STOPS_WITHIN_S)

    def kill(self) -> None:
        """Ends everything at once."""
        self.killed = True
        with contextlib.suppress(OSError):
            self._listener.close()
        for child in (*self._workers, self._semantic, self._engine, self._redis):
            if child is not None:
                child.kill()


async def _in_time(answer: Coroutine[None, None, None], children: Sequence[Child]) -> bool:
    """Whether the answer comes before all of these children have become hopeless."""
    answering = asyncio.create_task(answer)
    try:
        while not answering.done():
            if all(child.restarts.failures >= _HOPELESS_FAILURES for child in children):
                return False
            await asyncio.wait({answering}, timeout=0.1)
    finally:
        answering.cancel()
    return True
