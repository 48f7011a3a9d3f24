"""The engine's thread, and the asyncio side that talks to it.

Commands go in through one queue; token events come back through `call_soon_threadsafe`, one call per step. The
event loop never touches a sequence, and the thread never touches a stream.
"""

import asyncio
import logging
import queue
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.backlog import Backlog
from engine.core import Core
from engine.detokenizer import OutputText
from engine.errors import RequestError
from engine.events import FinishReason, TokenEvent
from engine.grammar.contract import Grammar
from engine.kv.outline import Outline
from engine.kv.wishes import CacheWishes
from engine.pace import Pace
from engine.sampling import SamplingParams
from engine.sequence import Sequence

_log = logging.getLogger(__name__)
_SEED_BITS = 63

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """One request, ready to run: `n` answers to one prompt.

    Attributes:
        grammar: at its beginning; each answer follows a copy of its own.
        cache: tenant, breakpoints, and whether cached tokens may be used.
        priority: lower runs sooner.
    """

    prompt_ids: tuple[int, ...]
    params: SamplingParams
    n: int = 1
    grammar: Grammar | None = None
    cache: CacheWishes = field(default_factory=CacheWishes)
    priority: int = 0


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How many sequences may be running and waiting together.

    Attributes:
        open: of all tenants.
        open_per_tenant: of one, so that none can fill the queue.
    """

    open: int
    open_per_tenant: int


@dataclass(frozen=True, slots=True)
class Purge:
    """A command: forget what is cached under these salts, and tell how many blocks that were."""

    salts: tuple[str, ...]
    told: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Look:
    """A command: tell what is cached, in outline."""

    most_trees: int
    most_runs: int
    told: Callable[[Outline | RequestError], None]


class ClientGone:
    """Put into a generation's queue when its client has hung up."""


@dataclass(slots=True, eq=False)
class Generation:
    """The asyncio end of jobs that were submitted together.

    Attributes:
        seq_ids: its sequences, consecutive, by job and sample index.
        events: token events, and `ClientGone` at most once.
        open_ids: sequences whose last event has not arrived.
    """

    seq_ids: tuple[int, ...]
    submitted_s: float
    events: asyncio.Queue[TokenEvent | ClientGone] = field(default_factory=asyncio.Queue)
    open_ids: set[int] = field(default_factory=set)


class Worker:
    """Runs a core in its own thread.

    Args:
        core: used by the thread alone once it is started.
        limits: what is refused with 429.
        clock: monotonic seconds.
    """

    def __init__(self, core: Core, limits: QueueLimits, clock: Callable[[], float]) -> None:
        self._core = core
        self._limits = limits
        self._clock = clock
        self._commands: queue.SimpleQueue[Sequence | Purge | Look | int | None] = queue.SimpleQueue()
        self._generations: dict[int, Generation] = {}
        self._questions: set[asyncio.Future[Any]] = set()
        self._backlog = Backlog()
        self._pace = Pace()
        self._next_id = 0
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether a job submitted now will be run, or told that it was not."""
        return not self._ended and self._thread.is_alive()

    @property
    def num_open(self) -> int:
        """Sequences that have not finished."""
        return len(self._generations)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread; events will be delivered on `loop`."""
        self._loop = loop
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Abort what runs and end the thread; blocks for one step at most."""
        for seq_id in tuple(self._generations):
            self._commands.put(seq_id)
        self._commands.put(None)
        self._thread.join(timeout_s)

    def submit(self, *jobs: Job) -> Generation:
        """Queue jobs as one generation, all of them or none. Call on the event loop.

        Raises:
            RequestError: 400 for more answers than may ever be open, 429 when the queue is full, 503 when the
                thread has died.
        """
        if not self.alive:
            raise RequestError(503, "The engine has stopped.", kind="server_error")
        self._check_room(jobs)
        now = self._clock()
        count = sum(job.n for job in jobs)
        first, self._next_id = self._next_id, self._next_id + count
        generation = Generation(tuple(range(first, self._next_id)), now)
        generation.open_ids.update(generation.seq_ids)
        seq_ids = iter(generation.seq_ids)
        for job in jobs:
            seed = secrets.randbits(_SEED_BITS) if job.params.seed is None else job.params.seed
            family = [_sequence(job, next(seq_ids), index, seed, now) for index in range(job.n)]
            family[0].siblings = family[1:]
            self._open(generation, family)
            self._commands.put(family[0])
        return generation

    def abort(self, generation: Generation) -> None:
        """End what is left of a generation; its blocks are free before the next step. Harmless when finished."""
        for seq_id in tuple(generation.open_ids):
            self._forget(generation, seq_id)
            self._commands.put(seq_id)

    async def purge(self, salts: Iterable[str]) -> int:
        """Forget what is cached under these salts, in every tier; return how many blocks that were.

        Raises:
            RequestError: 503 when the thread has died.
        """
        return await self._asked(lambda tell: Purge(tuple(salts), tell))

    async def outline(self, most_trees: int, most_runs: int) -> Outline:
        """Return what is cached, in outline, as it is between two steps; see engine.kv.outline.

        Raises:
            RequestError: 503 when the thread has died.
        """
        return await self._asked(lambda tell: Look(most_trees, most_runs, tell))

    async def _asked(self, command: Callable[[Callable[[T | RequestError], None]], Purge | Look]) -> T:
        if not self.alive:
            raise RequestError(503, "The engine has stopped.", kind="server_error")
        done: asyncio.Future[T] = self._loop.create_future()
        self._questions.add(done)
        done.add_done_callback(self._questions.discard)

        def tell(answer: T | RequestError) -> None:
            if done.done():
                return
            if isinstance(answer, RequestError):
                done.set_exception(answer)
            else:
                done.set_result(answer)

        self._commands.put(command(tell))
        return await done

    def _open(self, generation: Generation, family: list[Sequence]) -> None:
        """Book the answers to one prompt, which is computed once."""
        for index, one in enumerate(family):
            self._generations[one.seq_id] = generation
            self._backlog.opened(
                one.seq_id, one.tenant, 0 if index else len(one.prompt_ids), one.params.max_tokens
            )

    def _check_room(self, jobs: Iterable[Job]) -> None:
        wanted = Counter[str]()
        for job in jobs:
            wanted[job.cache.salt] += job.n
        if wanted.total() > self._limits.open or any(n > self._limits.open_per_tenant for n in wanted.values()):
            raise RequestError(400, "This server never queues so many answers for one request.", param="n")
        if self.num_open + wanted.total() > self._limits.open:
            reason, message = "queue_full", "The engine's queue is full. Please retry later."
        elif any(self._backlog.of(name) + n > self._limits.open_per_tenant for name, n in wanted.items()):
            reason, message = "tenant_queue_full", "Too many of your requests are queued. Please retry later."
        else:
            return
        raise RequestError(
            429,
            message,
            code="rate_limit_exceeded",
            kind="requests",
            retry_after_s=self._backlog.retry_after_s(self._pace),
            reason=reason,
        )

    def _forget(self, generation: Generation, seq_id: int, complete: bool = False) -> None:
        generation.open_ids.discard(seq_id)
        self._generations.pop(seq_id, None)
        self._backlog.closed(seq_id, complete)

    def _deliver(self, events: Iterable[TokenEvent], pace: Pace) -> None:
        self._pace = pace
        for event in events:
            generation = self._generations.get(event.seq_id)
            if generation is None:
                continue
            self._backlog.advanced(event.seq_id, event.num_output)
            if event.finish is not None:
                self._forget(generation, event.seq_id, complete=event.error is None)
            generation.events.put_nowait(event)

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            self._post(self._abandon)

    def _turn(self) -> bool:
        """Obey, then step once; False means stop."""
        events: list[TokenEvent] = []
        try:
            if not self._obey(events):
                return False
            if self._core.has_work:
                events += self._core.step()
        except Exception:  # noqa: BLE001  (logged; a bug must not leave clients waiting: all are told)
            _log.exception("the engine loop failed")
            events += self._core.fail_all("its bookkeeping broke")
        if events:
            self._post(self._deliver, events, self._core.pace)
        return True

    def _abandon(self) -> None:
        self._ended = True
        error = RequestError(503, "The engine has stopped.", kind="server_error")
        for seq_id in tuple(self._generations):
            self._deliver([TokenEvent(seq_id, 0, finish=FinishReason.ERROR, error=error)], self._pace)
        for question in tuple(self._questions):
            if not question.done():
                question.set_exception(error)

    def _obey(self, events: list[TokenEvent]) -> bool:
        """Carry out queued commands, waiting for one when idle; False means stop."""
        while not (self._commands.empty() and self._core.has_work):
            command = self._commands.get()
            if command is None:
                return False
            if isinstance(command, Sequence):
                events += self._core.add(command)
            elif isinstance(command, Purge):
                self._post(command.told, self._core.purge(command.salts))
            elif isinstance(command, Look):
                self._post(command.told, self._looked(command))
            else:
                self._core.abort(command)
            if events and self._commands.empty():
                return True
        return True

    def _looked(self, command: Look) -> Outline | RequestError:
        try:
            return self._core.outline(command.most_trees, command.most_runs)
        except Exception:  # noqa: BLE001  (logged, and the asker is told; nobody's answer hangs on an outline)
            _log.exception("the outline of the prefix trees failed")
            return RequestError(500, "The prefix trees cannot be told.", kind="server_error")

    def _post(
        self, call: Callable[..., None], *args: Iterable[TokenEvent] | Pace | int | Outline | RequestError
    ) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *args)


def _sequence(job: Job, seq_id: int, index: int, seed: int, now: float) -> Sequence:
    return Sequence(
        seq_id=seq_id,
        sample_index=index,
        prompt_ids=job.prompt_ids,
        params=job.params,
        seed=seed,
        output=OutputText(job.params.stop),
        arrival_s=now,
        cache=job.cache,
        priority=job.priority,
        grammar=None if job.grammar is None else job.grammar.fork(),
    )
