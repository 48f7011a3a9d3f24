"""One child process: started, started again when it ends, and stopped."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from gateway.supervisor.restart import Restarts

_LEASH = Path(__file__).with_name("leash.py")


@dataclass(frozen=True, slots=True)
class Program:
    """What to run.

    Attributes:
        name: in logs.
        argv: program, by its whole path, and arguments.
        environment: all of it.
        fds: descriptors the child inherits.
        stale: files removed before each start, such as the socket of a killed predecessor.
        before_restart: told the past before each start but the first; may repair what makes the child fail.
        after_exit: told the process id of a child that has ended.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    fds: tuple[int, ...] = ()
    stale: tuple[Path, ...] = ()
    before_restart: Callable[[Restarts], None] | None = None
    after_exit: Callable[[int], None] | None = None


class Child:
    """Keeps one program running until it is told to stop.

    Args:
        program: what to run; in a process group of its own, and dying with us.
        logger: gets one event per exit.
    """

    def __init__(self, program: Program, logger: FilteringBoundLogger) -> None:
        self._program = program
        self._logger = logger
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self.restarts = Restarts()

    def start(self) -> None:
        """Begins to keep it running."""
        self._task = asyncio.create_task(self._keep_running(), name=self._program.name)

    async def stop(self, within_s: float) -> bool:
        """Asks it to end and kills it when it has not within the time; returns whether it ended by itself."""
        self._stopping.set()
        self._send(signal.SIGTERM)
        if self._task is None:
            return True
        _, late = await asyncio.wait({self._task}, timeout=within_s)
        if late:
            self._logger.warning("killed", part=self._program.name, reason="did not stop in time")
            self.kill()
            await self._task
        return not late

    def kill(self) -> None:
        """Ends it and whatever it started, at once."""
        self._stopping.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _keep_running(self) -> None:
        while not self._stopping.is_set():
            began_s = time.monotonic()
            status = await self._run_once()
            if self._stopping.is_set():
                return
            self.restarts = self.restarts.after_exit(time.monotonic() - began_s)
            self._logger.warning("child ended", part=self._program.name, status=status, count=self.restarts.total)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self.restarts.delay_s)
            if self._program.before_restart is not None:
                with self._logged("cannot repair"):
                    self._program.before_restart(self.restarts)

    async def _run_once(self) -> int | None:
        with self._logged("cannot tidy up"):
            for path in self._program.stale:
                path.unlink(missing_ok=True)
        leash = (sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()))
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *leash,
                *self._program.argv,
                env=self._program.environment,
                pass_fds=self._program.fds,
                stdin=asyncio.subprocess.DEVNULL,
                process_group=0,
            )
        except OSError as error:
            self._logger.warning("cannot start", part=self._program.name, reason=error.strerror)
            return None
        if self._stopping.is_set():
            self._send(signal.SIGTERM)
        status = await process.wait()
        self._process = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if self._program.after_exit is not None:
            with self._logged("cannot tidy up"):
                self._program.after_exit(process.pid)
        return status

    @contextlib.contextmanager
    def _logged(self, event: str) -> Iterator[None]:
        """Goes on after a fault of the file system, so that the child is started again all the same."""
        try:
            yield
        except OSError as error:
            self._logger.warning(event, part=self._program.name, reason=error.strerror)

    def _send(self, sent: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(sent)
