"""From a log to what every policy needs to know of each line, worked out once."""

import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import ApiError
from gateway.guards import load_guards
from gateway.protocols.openai_chat import read_request
from gateway.replay.errors import ReplayError
from gateway.settings import Settings
from policies.controls import ControlError, Controls, read_controls
from policies.decide import Bypass, Discard, WriteRules, admit, route
from policies.guardrails.judgement import ALLOWED, GuardDecision, decide
from policies.guardrails.subject import subject_of
from policies.guardrails.types import Guard, Subject, Verdict
from policies.keys import CacheKey, KeySpace, Namespace, canonical_request
from policies.questions import NoQuestion, Place, place
from policies.replay import Line, LineError, read_line
from policies.strict_json import StrictJsonError, loads
from policies.types import ChatResponse, Choice, Json

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Prepared:
    """One line, ready to be replayed.

    Attributes:
        at: its position in the log, from 0.
        key: None where it bypasses the cache, and `reason` says why.
        read: whether a stored answer may serve it.
        ttl_s: how long its answer lives in the exact layer; None when it may not be stored.
        place: where its question is compared by meaning; None when it is not.
        by_meaning: whether its answer may be found by meaning.
    """

    at: int
    line: Line
    controls: Controls
    key: CacheKey | None
    reason: str = ""
    read: bool = False
    ttl_s: float | None = None
    unguarded_ttl_s: float | None = None
    place: Place | None = None
    unguarded_place: Place | None = None
    by_meaning: bool = False


def read_log(path: Path) -> list[Line]:
    """The lines of a log, JSONL or the same in gzip.

    Raises:
        ReplayError: it cannot be read; names the line.
    """
    lines: list[Line] = []
    after_s = 0.0
    for number, raw in _raw_lines(path):
        try:
            line = read_line(loads(raw), after_s)
        except (LineError, StrictJsonError) as error:
            raise ReplayError(f"{path}, line {number}: {error}") from None
        lines.append(line)
        after_s = line.t_s
    if not lines:
        raise ReplayError(f"{path} has no line to replay")
    return lines


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        whole = path.read_bytes()
        whole = gzip.decompress(whole) if whole.startswith(_GZIP) else whole
    except (OSError, EOFError) as error:
        raise ReplayError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    for number, raw in enumerate(whole.split(b"\n"), 1):
        if raw.strip():
            yield number, raw


class Preparer:
    """Works out keys, places, and where answers may be stored, as a gateway with these settings would."""

    def __init__(self, settings: Settings, ttl_s: float) -> None:
        self._settings = settings
        self._rules = WriteRules(ttl_s, max(ttl_s, settings.cache.max_ttl_s))
        self._guards = [guard for guard, _ in load_guards(settings.guards)]
        self._hidden = frozenset(guard.name for guard in self._guards if guard.of_questions)

    def prepare(self, lines: Sequence[Line], tick: Callable[[int], None] = lambda _count: None) -> list[Prepared]:
        """Every line of a log, in order.

        Args:
            lines: of the log.
            tick: told after each that one more is done.

        Raises:
            ReplayError: a request is none that the gateway takes; names the line.
        """
        prepared: list[Prepared] = []
        for at, line in enumerate(lines):
            try:
                prepared.append(self._prepared(at, line))
            except (ApiError, ControlError) as error:
                raise ReplayError(f"line {at + 1} of those replayed: {error}") from None
            tick(1)
        return prepared

    def _prepared(self, at: int, line: Line) -> Prepared:
        cache = self._settings.cache
        request = read_request({**line.body, "model": line.model}, self._settings.limits.max_n)
        controls = read_controls(line.headers, line.body)
        plan = route(request.body, controls, "semantic")
        if isinstance(plan, Bypass):
            return Prepared(at, line, controls, None, plan.reason)
        versions = (controls.scope, controls.partition, tuple(sorted(cache.versions.items())), controls.versions)
        namespace = Namespace(line.tenant, "chat", line.model, *versions)
        space = KeySpace(namespace)
        if controls.caller_key is None:
            key = space.of_request(canonical_request(request.body, cache.ignored_fields))
        else:
            key = space.of_caller(controls.caller_key)
        admitted = self._admitted(line, request.body, controls) if plan.write else None
        verdicts, judged = self._judged(line, request.body, controls)
        where = self._place(request.body, controls, namespace)
        clean = where is not None and self._is_clean(verdicts, request.body)
        return Prepared(
            at,
            line,
            controls,
            key,
            read=plan.read,
            ttl_s=_capped(admitted, judged),
            unguarded_ttl_s=admitted,
            place=where if clean else None,
            unguarded_place=where,
            by_meaning=judged.semantic and clean,
        )

    def _place(self, body: Json, controls: Controls, namespace: Namespace) -> Place | None:
        if controls.mode == "exact" or controls.caller_key is not None:
            return None
        where = place(body, namespace, self._settings.cache.ignored_fields)
        return None if isinstance(where, NoQuestion) else where

    def _admitted(self, line: Line, body: Json, controls: Controls) -> float | None:
        """How long the answer may live by the write gate; an answer that the log lacks is taken for a good one."""
        response = _response(line, "ok" if line.answer is None else line.answer)
        decision = admit(response, body, controls, self._rules, fallback=False)
        return None if isinstance(decision, Discard) else decision.ttl_s

    def _judged(self, line: Line, body: Json, controls: Controls) -> tuple[list[Verdict], GuardDecision]:
        response = None if line.answer is None else _response(line, line.answer)
        subject = subject_of(body, response, scope=controls.scope.kind)
        verdicts = _verdicts(self._guards, subject)
        return verdicts, decide(verdicts, subject, self._hidden) if verdicts else ALLOWED

    def _is_clean(self, verdicts: Sequence[Verdict], body: Json) -> bool:
        """Whether the question alone may be compared; when nothing was said of it with its answer, it may."""
        if not any(verdict.guard in self._hidden for verdict in verdicts):
            return True
        return not _verdicts([guard for guard in self._guards if guard.of_questions], subject_of(body))


def _verdicts(guards: Sequence[Guard], subject: Subject) -> list[Verdict]:
    return [verdict for guard in guards if (verdict := guard.check(subject)) is not None]


def _capped(admitted_s: float | None, judged: GuardDecision) -> float | None:
    if admitted_s is None or not judged.exact:
        return None
    return admitted_s if judged.ttl_cap_s is None else min(admitted_s, judged.ttl_cap_s)


def _response(line: Line, answer: str) -> ChatResponse:
    message = {"role": "assistant", "content": answer}
    return ChatResponse("", 0, line.model, (Choice(0, message, "stop"),))
