"""The cycle of the engine: plan, run, sample, tell. One thread, no sockets, no waiting."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from engine.errors import RequestError
from engine.events import FinishReason, TokenEvent
from engine.kv.outline import Outline
from engine.pace import Pace
from engine.prompt_use import PromptUse
from engine.sampler import NOTHING_LEFT, Sampled, sample
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence, Status
from engine.tokenizer import Tokenizer
from engine.work import Plan

_log = logging.getLogger(__name__)


class StepRunner(Protocol):
    """What computes a plan; the engine's is `engine.runner.Runner`.

    Attributes:
        any_chunks: whether prompts may be cut anywhere: a token's numbers are the same wherever its prompt is cut
            and beside whatever else, or no way to cut would make them so (`engine.scheduler.cuts`).
    """

    any_chunks: bool

    def run(self, plan: Plan) -> torch.Tensor:
        """Carry out the plan's transfers, then its work; return logits, one row per work item that samples."""
        ...


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What a step did.

    Attributes:
        seconds: planning, computing and sampling.
        plan: what was to be done.
        fault: None, "out_of_memory", or "error" for a step that raised anything else.
    """

    seconds: float
    plan: Plan
    fault: str | None = None


class Observer(Protocol):
    """Counts what the engine does; the engine's is `engine.metrics.Metrics`."""

    def admitted(self, sequence: Sequence) -> None:
        """Note that a sequence left the queue for the first time."""

    def token(self, sequence: Sequence, since_last_s: float | None) -> None:
        """Note a token; `since_last_s` is None for the first one."""

    def finished(self, sequence: Sequence, reason: FinishReason, now_s: float) -> None:
        """Note the end of a sequence."""

    def stepped(self, step: StepFigures) -> None:
        """Note the end of a step."""

    def level(self, scheduler: Scheduler) -> None:
        """Read queue and pool after a change."""


@dataclass(frozen=True, slots=True)
class CoreParts:
    """What a core is made of."""

    scheduler: Scheduler
    runner: StepRunner
    tokenizer: Tokenizer
    eos_ids: frozenset[int]
    observer: Observer
    clock: Callable[[], float]


class Core:
    """Owns every live sequence. Not thread-safe: the worker's thread is its only caller.

    A fault on one request ends that request: NaN logits fail the sequence they belong to, a step that raises
    fails the sequences in it, and a request whose own conditions leave no token is told so; each way their blocks
    are free, and nothing of theirs is cached, before the next step.

    Attributes:
        pace: how fast steps have been lately.
    """

    def __init__(self, parts: CoreParts) -> None:
        self._parts = parts
        self.scheduler = parts.scheduler
        self.pace = Pace()
        self._live: dict[int, Sequence] = {}
        self._last_token_s: dict[int, float] = {}

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self.scheduler.has_work

    def add(self, sequence: Sequence) -> list[TokenEvent]:
        """Queue a sequence and the siblings that follow it, or refuse them with an error event each."""
        family = (sequence, *sequence.siblings)
        try:
            self.scheduler.add(sequence)
        except RequestError as error:
            return [_error_event(one, error) for one in family]
        self._live.update((one.seq_id, one) for one in family)
        self._parts.observer.level(self.scheduler)
        return []

    def abort(self, seq_id: int) -> None:
        """End a sequence in any state and free its blocks; unknown and finished ids are fine."""
        sequence = self._live.get(seq_id)
        if sequence is not None:
            self._end(sequence, FinishReason.ABORT, self._parts.clock())
            self._parts.observer.level(self.scheduler)

    def purge(self, salts: Iterable[str]) -> int:
        """Forget everything cached under these salts, in every tier; return how many blocks that were."""
        kv = self.scheduler.kv
        kept = 0 if kv.host is None else len(kv.host)
        forgotten = sum(kv.purge(salt) for salt in salts)
        return forgotten + (0 if kv.host is None else kept - len(kv.host))

    def outline(self, most_trees: int, most_runs: int) -> Outline:
        """Return what is cached, in outline; see engine.kv.outline."""
        return self.scheduler.kv.outline(most_trees, most_runs)

    def fail_all(self, why: str) -> list[TokenEvent]:
        """End every sequence with an error."""
        now_s = self._parts.clock()
        followers_first = sorted(self._live.values(), key=lambda one: one.leader is None)
        return [self._fail(sequence, why, now_s) for sequence in followers_first]

    def step(self) -> list[TokenEvent]:
        """Advance every planned sequence once; return what happened, one event per sequence at most."""
        began_s = self._parts.clock()
        plan = self.scheduler.plan(began_s)
        for sequence in plan.admitted:
            if sequence.admitted_s is None:
                sequence.admitted_s = began_s
                self._parts.observer.admitted(sequence)
        fault = None
        try:
            events = self._carry_out(plan)
        except Exception as error:  # noqa: BLE001  (that step's fault alone: counted, logged, and the loop goes on)
            _log.exception("a step failed")
            fault = _fault(error)
            events = self._fail_plan(plan, f"{type(error).__name__} in the model step")
        seconds = self._parts.clock() - began_s
        if fault is None and plan.work:
            self._note_pace(plan, seconds)
        self._parts.observer.stepped(StepFigures(seconds, plan, fault))
        self._parts.observer.level(self.scheduler)
        return events

    def _carry_out(self, plan: Plan) -> list[TokenEvent]:
        logits = self._parts.runner.run(plan)
        joining = self.scheduler.joining(plan)
        sequences: list[Sequence] = []
        rows: list[int] = []
        for row, item in enumerate(one for one in plan.work if one.samples):
            family = (item.sequence, *joining.get(item.sequence, ()))
            sequences += family
            rows += [row] * len(family)
        if len(rows) > len(logits):
            logits = logits[rows]
        sampled = sample(logits, sequences, self._parts.eos_ids) if sequences else []
        chosen = dict(zip(sequences, sampled, strict=True))
        now_s = self._parts.clock()
        self.scheduler.computed(plan, now_s, {one for one, token in chosen.items() if token is None})
        for leader in joining:
            if chosen[leader] is not None:
                self.scheduler.fork(leader, joining[leader])
        events = [event for one, token in chosen.items() for event in self._advance(one, token, now_s)]
        return events + self._finish_prewarmed(plan, now_s)

    def _advance(self, sequence: Sequence, sampled: Sampled | None, now_s: float) -> list[TokenEvent]:
        if sequence.status is Status.FINISHED:
            return []
        if sampled is None:
            return self._fail_family(sequence, "the model produced no usable logits", now_s)
        if sampled is NOTHING_LEFT:
            return [self._give_up(sequence, "what it must follow and what it must avoid leave no token", now_s)]
        self._parts.observer.token(sequence, self._since_last(sequence, now_s))
        sequence.output_ids.append(sampled.token_id)
        return [self._judge(sequence, sampled, now_s)]

    def _judge(self, sequence: Sequence, sampled: Sampled, now_s: float) -> TokenEvent:
        """Decide whether the newest token ends the answer."""
        params, count, grammar = sequence.params, len(sequence.output_ids), sequence.grammar
        if grammar is not None and not grammar.accept(sampled.token_id):
            return self._give_up(sequence, "its grammar became too hard to follow", now_s)
        if self._ends(sampled.token_id, params):
            return self._finish(sequence, FinishReason.STOP, now_s)
        piece = self._parts.tokenizer.piece(sampled.token_id)
        text = sequence.output.push(piece, may_stop=count >= params.min_tokens)
        event = TokenEvent(sequence.seq_id, sequence.sample_index, text, (sampled,), count)
        if sequence.output.stopped or (grammar is not None and grammar.finished):
            return self._finish(sequence, FinishReason.STOP, now_s, event)
        if count >= params.max_tokens or sequence.num_tokens >= self.scheduler.max_tokens:
            return self._finish(sequence, FinishReason.LENGTH, now_s, event)
        return self._with_prompt(sequence, event)

    def _with_prompt(self, sequence: Sequence, event: TokenEvent) -> TokenEvent:
        """Tell what became of the prompt with a sequence's first event."""
        if len(sequence.output_ids) > 1:
            return event
        config = self.scheduler.config
        use = sequence.prompt_use(config.block_size) if config.prefix_cache else PromptUse()
        return replace(event, prompt=use)

    def _ends(self, token_id: int, params: SamplingParams) -> bool:
        if token_id in self._parts.eos_ids:
            return not params.ignore_eos
        return token_id in params.stop_token_ids

    def _finish_prewarmed(self, plan: Plan, now_s: float) -> list[TokenEvent]:
        """End those that wanted their prompt computed and no more."""
        done = [
            item.sequence
            for item in plan.work
            if item.sequence.params.max_tokens == 0 and item.sequence.num_uncomputed == 0
        ]
        for sequence in done:
            for follower in sequence.siblings:
                follower.prefix, follower.cache_upto = sequence.prefix, sequence.cache_upto
        families = [one for sequence in done for one in (*sequence.siblings, sequence)]
        return [self._finish(one, FinishReason.LENGTH, now_s) for one in families]

    def _since_last(self, sequence: Sequence, now_s: float) -> float | None:
        if sequence.first_token_s is None:
            sequence.first_token_s = now_s
        before = self._last_token_s.get(sequence.seq_id)
        self._last_token_s[sequence.seq_id] = now_s
        return None if before is None else now_s - before

    def _note_pace(self, plan: Plan, seconds: float) -> None:
        self.pace = self.pace.after(plan.prefill_tokens, plan.decoding, seconds)
        kv = self.scheduler.kv
        kv.rates = replace(kv.rates, recompute_s=self.pace.prefill_s)

    def _finish(
        self, sequence: Sequence, reason: FinishReason, now_s: float, event: TokenEvent | None = None
    ) -> TokenEvent:
        """End an answer; `event` is what its last token says, absent for an end token."""
        last = event or TokenEvent(sequence.seq_id, sequence.sample_index, num_output=len(sequence.output_ids))
        last = replace(self._with_prompt(sequence, last), text=last.text + sequence.output.finish(), finish=reason)
        self._end(sequence, reason, now_s)
        return last

    def _fail_plan(self, plan: Plan, why: str) -> list[TokenEvent]:
        touched = dict.fromkeys([*(item.sequence for item in plan.work), *plan.admitted])
        now_s = self._parts.clock()
        return [event for one in touched for event in self._fail_family(one, why, now_s)]

    def _fail_family(self, sequence: Sequence, why: str, now_s: float) -> list[TokenEvent]:
        """Fail a sequence and those that wait for the same prompt."""
        if sequence.status is Status.FINISHED:
            return []
        return [self._fail(one, why, now_s) for one in (*sequence.siblings, sequence)]

    def _fail(self, sequence: Sequence, why: str, now_s: float) -> TokenEvent:
        self._end(sequence, FinishReason.ERROR, now_s)
        return _error_event(sequence, RequestError(500, f"The engine failed: {why}.", kind="server_error"))

    def _give_up(self, sequence: Sequence, why: str, now_s: float) -> TokenEvent:
        """End an answer that its own request made impossible: no fault of the engine's."""
        self._end(sequence, FinishReason.ERROR, now_s)
        return _error_event(sequence, RequestError(400, f"The answer cannot go on: {why}.", code="invalid_value"))

    def _end(self, sequence: Sequence, reason: FinishReason, now_s: float) -> None:
        if self.scheduler.finish(sequence, now_s, trusted=reason is not FinishReason.ERROR):
            self._parts.observer.finished(sequence, reason, now_s)
        self._live.pop(sequence.seq_id, None)
        self._last_token_s.pop(sequence.seq_id, None)


def _error_event(sequence: Sequence, error: RequestError) -> TokenEvent:
    return TokenEvent(sequence.seq_id, sequence.sample_index, finish=FinishReason.ERROR, error=error)


def _fault(error: Exception) -> str:
    """Name a step's fault for the metric; torch has no common class for a lack of memory on every device."""
    lacking = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
    return "out_of_memory" if lacking else "error"
