"""Runs guardrails on writes, hits and questions: under a deadline, and failing closed.

A guard that raises, or is not done in time, means that nothing is stored; the answer is served all the same. Short
texts are judged where they are; long ones on a thread, so that the loop goes on.
"""

import asyncio
import importlib
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from gateway.settings_tables import GuardSettings
from gateway.telemetry.metrics import Metrics
from policies import guardrails
from policies.guardrails import GUARDRAILS
from policies.guardrails.judgement import ALLOWED, GuardDecision, GuardMaterial, decide, policy_version, refused
from policies.guardrails.subject import subject_of
from policies.guardrails.types import Guard, Material, Subject, Verdict

__all__ = ["DATA", "GuardDecision", "Guards", "Subject", "load_guards", "open_guards", "subject_of"]

DATA = Path(guardrails.__file__).parent / "data"
"""Where the guards' data files are."""
_THREADS = 2
_FIRST = Subject(
    question="My name is Ann, call me at 020 7946 0000; what is 4929 1234 5678 9012?",
    turn_texts=("Mail a.b@mail.example from 81.2.69.160 about 078-05-1120 and password = 'secret'.",),
    answer_texts=("I cannot help with that, but see https://host.example/a?b=c.",),
)


@dataclass(frozen=True, slots=True)
class _Finding:
    """What a run over some guards brought: verdicts, and why it is not to be trusted, with what is counted."""

    verdicts: list[Verdict] = field(default_factory=list)
    fault: str = ""
    counted: str = ""


_LATE = _Finding(fault="guard_timeout", counted="guard_timeout")


def load_guards(settings: GuardSettings) -> list[GuardMaterial]:
    """Reads the data files and builds the guards that are switched on, in the table's order."""
    return [
        _load(spec, settings) for name, spec in GUARDRAILS.items() if settings.enabled and name not in settings.off
    ]


def _load(spec: str, settings: GuardSettings) -> GuardMaterial:
    module, _, class_name = spec.partition(":")
    kind: type[Guard] = getattr(importlib.import_module(module), class_name)
    material = Material(
        action=settings.actions.get(kind.name, kind.default_action),
        data=(DATA / kind.data_file).read_bytes() if kind.data_file else b"",
        ttl_s=settings.short_life_s,
        public=settings.public_contacts,
        max_chars=settings.max_chars,
        max_semantic_chars=settings.max_semantic_chars,
    )
    return kind(material), material


def open_guards(settings: GuardSettings, metrics: Metrics) -> "Guards":
    """The guards of one gateway worker; close them once."""
    guards = Guards(load_guards(settings), settings, metrics)
    guards.warm()
    return guards


class Guards:
    """Judges writes, hits and questions.

    Args:
        guards: with what each was built from.
        settings: the deadline, and up to which length texts are judged where they are.
        metrics: takes verdicts, faults and times.
        cpu_s: the thread's own clock, so that a busy machine makes no guard late.

    Attributes:
        policy_version: equal only for equal judgement.
        built: the guards, with what each was built from.
        hidden: names of guards whose findings must never reach the index.
    """

    def __init__(
        self,
        guards: Iterable[GuardMaterial],
        settings: GuardSettings,
        metrics: Metrics,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self.built = tuple(guards)
        self.policy_version = policy_version(self.built)
        self._guards = [guard for guard, _ in self.built]
        self._of_questions = [guard for guard in self._guards if guard.of_questions]
        self.hidden = frozenset(guard.name for guard in self._of_questions)
        self._deadline_s = settings.deadline_ms / 1000
        self._inline_chars = settings.inline_chars
        self._metrics = metrics
        self._wait_s = settings.wait_ms / 1000
        self._cpu_s = cpu_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="guards")

    async def judge_write(self, subject: Subject) -> GuardDecision:
        """Where this answer may be stored; never raises, and forbids everything when a guard fails or is late."""
        if not self._guards:
            return ALLOWED
        finding = await self._run("answer", self._guards, subject)
        return refused(finding.fault) if finding.fault else decide(finding.verdicts, subject, self.hidden)

    async def judge_hit(self, subject: Subject, policy_version: str) -> GuardDecision:
        """Whether a stored answer may still be served: judged anew when it was stored under another policy.

        Args:
            subject: the request now, and the stored answer.
            policy_version: the one that the entry carries.
        """
        if policy_version == self.policy_version:
            return ALLOWED
        return await self.judge_write(subject)

    async def question_is_clean(self, subject: Subject) -> tuple[str, ...]:
        """Why the prompt must reach no index, no database and no log; empty when it may."""
        finding = await self._run("question", self._of_questions, subject)
        return (finding.fault,) if finding.fault else tuple(verdict.reason for verdict in finding.verdicts)

    def verdicts(self, subject: Subject) -> list[Verdict]:
        """What every guard says, uncounted and however long it takes; to explain by.

        Raises:
            Exception: a guard failed.
        """
        said = (guard.check(subject) for guard in self._guards)
        return [verdict for verdict in said if verdict is not None]

    def warm(self) -> None:
        """Judges a first text, since patterns and metadata are made ready at their first use."""
        for guard in self._guards:
            guard.check(_FIRST)

    def close(self) -> None:
        """Lets the threads end; a guard that hangs is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, judged: str, guards: list[Guard], subject: Subject) -> _Finding:
        begun = time.perf_counter()
        if subject.chars <= self._inline_chars:
            finding = self._judge(guards, subject)
        else:
            finding = await self._on_a_thread(guards, subject)
        self._metrics.guarded(judged, time.perf_counter() - begun)
        if finding.counted:
            self._metrics.fault("guards", finding.counted)
        for verdict in finding.verdicts:
            self._metrics.guard_verdict(verdict.guard, verdict.reason, verdict.action)
        return finding

    async def _on_a_thread(self, guards: list[Guard], subject: Subject) -> _Finding:
        judging = asyncio.get_running_loop().run_in_executor(self._threads, self._judge, guards, subject)
        try:
            return await asyncio.wait_for(judging, self._wait_s)
        except TimeoutError:
            return _LATE

    def _judge(self, guards: list[Guard], subject: Subject) -> _Finding:
        """Asks guards in turn, until one forbids everything."""
        due_s = self._cpu_s() + self._deadline_s
        finding = _Finding()
        for guard in guards:
            try:
                verdict = guard.check(subject)
            except Exception as error:  # noqa: BLE001  (recorded by name; the answer is served and not stored)
                return _Finding(fault="guard_fault", counted=f"guard_fault_{guard.name}_{type(error).__name__}")
            if self._cpu_s() > due_s:
                return _LATE
            if verdict is not None:
                finding.verdicts.append(verdict)
                if verdict.action == "refuse":
                    break
        return finding
