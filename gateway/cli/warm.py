"""`lamina warm`."""

import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from gateway.cli.administration import Outcome, json_option, show, shown_text, table
from gateway.cli.gateway_client import Answer, GatewayClient, GatewayUnreachable, gateway_url, tenants_key
from gateway.cli.warm_lines import Done, Job, WarmError, read_jobs
from gateway.settings import settings_from_environment

_PATH = "/v1/chat/completions"
_OK, _UNAUTHORISED, _FORBIDDEN, _TOO_MANY, _SERVER_ERROR = 200, 401, 403, 429, 500
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 30.0
_INTERRUPTED = 130
_STORED_WORDS = frozenset({"HIT", "STALE"})


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a request.

    Attributes:
        kind: `stored`, `cached` (it was stored before), `refused` (answered, and not stored) or `failed`.
        reason: of a refusal or failure, else empty.
        fatal: whether every other request would fail alike.
    """

    kind: str
    reason: str = ""
    fatal: bool = False


@dataclass(slots=True)
class Summary:
    """What became of a file."""

    lines: int
    skipped: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False
    stopped: str = ""

    def add(self, result: Result) -> None:
        """Counts one request."""
        self.kinds[result.kind] += 1
        if result.kind == "refused":
            self.refused[result.reason] += 1
        elif result.kind == "failed":
            self.failed[result.reason] += 1

    @property
    def whole(self) -> bool:
        """Whether nothing is left to be done."""
        return not (self.failed or self.interrupted or self.stopped)

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "lines": self.lines,
            "done_before": self.skipped,
            "stored": self.kinds["stored"],
            "cached": self.kinds["cached"],
            "refused": dict(self.refused.most_common()),
            "failed": dict(self.failed.most_common()),
            "interrupted": self.interrupted,
        }


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--model", metavar="NAME", help="For lines that name none; the embedded engine's when absent.")
@click.option("--system", metavar="TEXT", help="System text for questions and prompts that bring none.")
@click.option("--key", metavar="KEY", help="API key of the tenant; else LAMINA_API_KEY.")
@click.option(
    "--url", metavar="URL", help="The gateway; else the set in LAMINA_HOME, else LAMINA_HOST:LAMINA_PORT."
)
@click.option("--concurrency", type=click.IntRange(1, 256), default=4, show_default=True, help="Requests at once.")
@click.option("--retries", type=click.IntRange(0, 100), default=8, show_default=True, help="Per request.")
@json_option
@click.pass_context
def warm(
    ctx: click.Context,
    *,
    file: Path,
    model: str | None,
    system: str | None,
    key: str | None,
    url: str | None,
    concurrency: int,
    retries: int,
    as_json: bool,
) -> None:
    """Sends every request of FILE through the gateway, so that their answers are stored.

    FILE is JSONL (chat bodies, or {"prompt": TEXT}) or a list of questions, one per line. What is done is kept in
    FILE.done, so that a run that was stopped goes on where it was. Exit status: 0 when every request was answered,
    1 when some failed, 130 when it was interrupted.
    """
    settings = settings_from_environment()
    jobs = read_jobs(file, model or settings.engine.name, system)
    client = GatewayClient(gateway_url(settings, url), tenants_key(settings, key))
    state = file.with_name(f"{file.name}.done")
    with Done(state, f"{client.url} {client.key}") as done, _bar(len(jobs)) as bar:
        summary = Warming(client, done, concurrency, retries).run(jobs, bar)
        if summary.whole:
            done.forget()
    show(Outcome(summary.as_json(), _shown(summary), note=_note(summary, state)), as_json=as_json)
    if summary.stopped:
        raise WarmError(summary.stopped)
    ctx.exit(_INTERRUPTED if summary.interrupted else int(bool(summary.failed)))


class Bar:
    """Shows how far it is."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def step(self, summary: Summary) -> None:
        """One more request is done, or was before."""
        told = f"stored {summary.kinds['stored']}, cached {summary.kinds['cached']}"
        self._progress.update(self._task, advance=1, description=told)


class Warming:
    """Sends requests, several at once; only the calling thread counts and keeps the state."""

    def __init__(self, client: GatewayClient, done: Done, concurrency: int, retries: int) -> None:
        self._client = client
        self._done = done
        self._concurrency = concurrency
        self._retries = retries
        self._stop = threading.Event()

    def run(self, jobs: Sequence[Job], bar: Bar) -> Summary:
        """Sends what is not done yet; an interrupt ends it once what is in flight is answered."""
        summary = Summary(len(jobs))
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="warm") as threads:
            flying: dict[Future[Result], Job] = {}
            try:
                for job in self._open(jobs, summary, bar):
                    flying[threads.submit(self._send, job)] = job
                    if len(flying) >= self._concurrency:
                        self._land(flying, summary, bar)
                    if summary.stopped:
                        break
                while flying and not summary.stopped:
                    self._land(flying, summary, bar)
            except KeyboardInterrupt:
                summary.interrupted = True
            self._stop.set()
            while flying:
                self._land(flying, summary, bar)
        return summary

    def _open(self, jobs: Sequence[Job], summary: Summary, bar: Bar) -> Iterator[Job]:
        for job in jobs:
            if job.digest in self._done:
                summary.skipped += 1
                bar.step(summary)
            else:
                yield job

    def _land(self, flying: dict[Future[Result], Job], summary: Summary, bar: Bar) -> None:
        """Waits until at least one request is done, and counts it."""
        landed, _ = wait(flying, return_when=FIRST_COMPLETED)
        for future in landed:
            job, result = flying.pop(future), future.result()
            if result.kind == "failed" and result.reason == "interrupted":
                continue
            summary.add(result)
            if result.fatal:
                summary.stopped = summary.stopped or result.reason
                self._stop.set()
            if result.kind != "failed":
                self._done.add(job.digest)
            bar.step(summary)

    def _send(self, job: Job) -> Result:
        """One request with its retries; runs on a thread."""
        pause_s = _FIRST_PAUSE_S
        for left in range(self._retries, -1, -1):
            if self._stop.is_set():
                return Result("failed", "interrupted")
            asked_s: float | None = None
            try:
                answer = self._client.post(_PATH, job.body)
            except GatewayUnreachable:
                result = Result("failed", "unreachable")
            else:
                result = _result(answer)
                vain = answer.headers.get("x-should-retry") == "false"
                if vain or (answer.status != _TOO_MANY and answer.status < _SERVER_ERROR):
                    return result
                asked_s = _retry_after_s(answer)
            if left:
                wanted_s = pause_s * (0.5 + random.random()) if asked_s is None else asked_s  # noqa: S311  (a pause)
                self._stop.wait(min(_LONGEST_PAUSE_S, wanted_s))
                pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
        return result


def _result(answer: Answer) -> Result:
    if answer.status in (_UNAUTHORISED, _FORBIDDEN):
        return Result("failed", answer.problem, fatal=True)
    if answer.status != _OK:
        error = answer.body.get("error") if isinstance(answer.body, dict) else None
        code = error.get("code") if isinstance(error, dict) else None
        return Result("failed", f"{answer.status} {code or ''}".strip())
    if answer.headers.get("x-lamina-cache") in _STORED_WORDS:
        return Result("cached")
    status = answer.headers.get("cache-status", "")
    words = [word.strip() for word in status.split(";")]
    if "stored" in words:
        return Result("stored")
    detail = next((word.removeprefix("detail=") for word in words if word.startswith("detail=")), "unknown")
    bypassed = "fwd=bypass" in words
    return Result("refused", detail if bypassed else answer.headers.get("x-lamina-cache-reason", detail))


def _retry_after_s(answer: Answer) -> float | None:
    value = answer.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None


@contextmanager
def _bar(total: int) -> Iterator[Bar]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        yield Bar(progress, progress.add_task("warming", total=total))


def _shown(summary: Summary) -> Table:
    rows = table("requests", str(summary.lines))
    rows.add_row("done before", str(summary.skipped))
    rows.add_row("stored", str(summary.kinds["stored"]))
    rows.add_row("already cached", str(summary.kinds["cached"]))
    for name, counts in (("refused", summary.refused), ("failed", summary.failed)):
        for reason, count in counts.most_common():
            rows.add_row(shown_text(f"{name}: {reason}"), str(count))
    return rows


def _note(summary: Summary, state: Path) -> str | None:
    return None if summary.whole else f"{state} knows what is done: give the command again to go on"
