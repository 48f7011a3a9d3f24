"""The cycle of the engine: plan, run, sample, tell. One thread, no sockets, no waiting."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from engine.errors import RequestError
from engine.events import FinishReason, TokenEvent
from engine.sampler import Sampled, sample
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence, Status
from engine.tokenizer import Tokenizer
from engine.work import Plan

_log = logging.getLogger(__name__)


class StepRunner(Protocol):
    """What computes a plan; the engine's is `engine.runner.Runner`."""

    def run(self, plan: Plan) -> torch.Tensor:
        """Carry out the plan's transfers, then its work; return logits, one row per work item that samples."""
        ...


class Observer(Protocol):
    """Counts what the engine does; the engine's is `engine.metrics.Metrics`."""

    def admitted(self, sequence: Sequence) -> None:
        """Note that a sequence left the queue for the first time."""

    def token(self, sequence: Sequence, since_last_s: float | None) -> None:
        """Note a token; `since_last_s` is None for the first one."""

    def finished(self, sequence: Sequence, reason: FinishReason) -> None:
        """Note the end of a sequence."""

    def stepped(self, preempted: int, failed: bool) -> None:
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
    fails the sequences in it; either way their blocks are free before the next step.
    """

    def __init__(self, parts: CoreParts) -> None:
        self._parts = parts
        self.scheduler = parts.scheduler
        self._live: dict[int, Sequence] = {}
        self._last_token_s: dict[int, float] = {}

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self.scheduler.has_work

    def add(self, sequence: Sequence) -> list[TokenEvent]:
        """Queue a sequence, or refuse it with an error event."""
        try:
            self.scheduler.add(sequence)
        except RequestError as error:
            return [self._error_event(sequence, error)]
        self._live[sequence.seq_id] = sequence
        self._parts.observer.level(self.scheduler)
        return []

    def abort(self, seq_id: int) -> None:
        """End a sequence in any state and free its blocks; unknown and finished ids are fine."""
        sequence = self._live.get(seq_id)
        if sequence is not None:
            self._end(sequence, FinishReason.ABORT)
            self._parts.observer.level(self.scheduler)

    def fail_all(self, why: str) -> list[TokenEvent]:
        """End every sequence with an error."""
        return [self._fail(sequence, why) for sequence in tuple(self._live.values())]

    def step(self) -> list[TokenEvent]:
        """Advance every planned sequence once; return what happened, one event per sequence at most."""
        plan = self.scheduler.plan()
        now = self._parts.clock()
        for sequence in plan.admitted:
            if sequence.admitted_s is None:
                sequence.admitted_s = now
                self._parts.observer.admitted(sequence)
        try:
            sampled = self._run(plan)
        except Exception as error:  # noqa: BLE001  (that step's fault alone: counted, logged, and the loop goes on)
            _log.exception("a step failed")
            events = [self._fail(item.sequence, f"{type(error).__name__} in the model step") for item in plan.work]
            self._parts.observer.stepped(len(plan.preempted), failed=True)
        else:
            now = self._parts.clock()
            events = [
                self._with_prompt(sequence, self._advance(sequence, token, now)) for sequence, token in sampled
            ]
            self._parts.observer.stepped(len(plan.preempted), failed=False)
        self._parts.observer.level(self.scheduler)
        return events

    def _run(self, plan: Plan) -> list[tuple[Sequence, Sampled | None]]:
        logits = self._parts.runner.run(plan)
        sequences = [item.sequence for item in plan.work if item.samples]
        tokens = sample(logits, sequences, self._parts.eos_ids) if sequences else []
        self.scheduler.computed(plan)
        return list(zip(sequences, tokens, strict=True))

    def _advance(self, sequence: Sequence, sampled: Sampled | None, now: float) -> TokenEvent:
        if sampled is None:
            return self._fail(sequence, "the model produced no usable logits")
        params, grammar = sequence.params, sequence.grammar
        if params.max_tokens == 0:
            return self._finish(sequence, FinishReason.LENGTH)
        self._parts.observer.token(sequence, self._since_last(sequence, now))
        sequence.output_ids.append(sampled.token_id)
        if grammar is not None and not grammar.accept(sampled.token_id):
            return self._fail(sequence, "the grammar of the answer became too hard to follow")
        if self._ends(sampled.token_id, params):
            return self._finish(sequence, FinishReason.STOP)
        count = len(sequence.output_ids)
        piece = self._parts.tokenizer.piece(sampled.token_id)
        text = sequence.output.push(piece, may_stop=count >= params.min_tokens)
        if sequence.output.stopped or (grammar is not None and grammar.finished):
            return self._finish(sequence, FinishReason.STOP, text, (sampled,))
        if count >= params.max_tokens:
            return self._finish(sequence, FinishReason.LENGTH, text, (sampled,))
        return TokenEvent(sequence.seq_id, sequence.sample_index, text, (sampled,), count)

    def _with_prompt(self, sequence: Sequence, event: TokenEvent) -> TokenEvent:
        """Tell what became of the prompt with a sequence's first event."""
        if len(sequence.output_ids) > 1:
            return event
        return replace(event, prompt=sequence.prompt_use(self.scheduler.config.block_size))

    def _ends(self, token_id: int, params: SamplingParams) -> bool:
        if token_id in self._parts.eos_ids:
            return not params.ignore_eos
        return token_id in params.stop_token_ids

    def _since_last(self, sequence: Sequence, now: float) -> float | None:
        if sequence.first_token_s is None:
            sequence.first_token_s = now
        before = self._last_token_s.get(sequence.seq_id)
        self._last_token_s[sequence.seq_id] = now
        return None if before is None else now - before

    def _finish(
        self, sequence: Sequence, reason: FinishReason, text: str = "", tokens: tuple[Sampled, ...] = ()
    ) -> TokenEvent:
        text += sequence.output.finish()
        self._end(sequence, reason)
        return TokenEvent(
            sequence.seq_id, sequence.sample_index, text, tokens, len(sequence.output_ids), finish=reason
        )

    def _fail(self, sequence: Sequence, why: str) -> TokenEvent:
        self._end(sequence, FinishReason.ERROR)
        return self._error_event(sequence, RequestError(500, f"The engine failed: {why}.", kind="server_error"))

    def _error_event(self, sequence: Sequence, error: RequestError) -> TokenEvent:
        return TokenEvent(sequence.seq_id, sequence.sample_index, finish=FinishReason.ERROR, error=error)

    def _end(self, sequence: Sequence, reason: FinishReason) -> None:
        if sequence.status is not Status.FINISHED:
            self.scheduler.finish(sequence)
            self._parts.observer.finished(sequence, reason)
        self._live.pop(sequence.seq_id, None)
        self._last_token_s.pop(sequence.seq_id, None)
