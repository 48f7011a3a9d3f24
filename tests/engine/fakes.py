"""Runners and observers that do as a test says."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from engine.config import EngineConfig
from engine.core import Core, CoreParts, Observer, StepFigures
from engine.events import FinishReason
from engine.pool import new_kv
from engine.scheduler import Scheduler
from engine.sequence import Sequence as Answer
from engine.tokenizer import Tokenizer
from engine.work import Plan, Work
from tests.engine import tiny


@dataclass
class ScriptedRunner:
    """Makes the greedy token whatever `token(sequence)` says; None makes the row NaN.

    Attributes:
        before: called with the work before each step; may raise or block.
    """

    vocab: int
    token: Callable[[Answer], int | None] = lambda _: 65
    before: Callable[[Sequence[Work]], None] = lambda _: None
    steps: int = 0
    any_chunks: bool = False

    def run(self, plan: Plan) -> torch.Tensor:
        """Return logits, one row per work item that samples."""
        self.steps += 1
        self.before(plan.work)
        wanted = [self.token(item.sequence) for item in plan.work if item.samples]
        logits = torch.zeros(len(wanted), self.vocab)
        for row, token in enumerate(wanted):
            if token is None:
                logits[row] = torch.nan
            else:
                logits[row, token] = 10.0
        return logits


@dataclass
class CountingObserver:
    """Remembers what it was told."""

    ends: list[tuple[int, FinishReason]] = field(default_factory=list)
    tokens: int = 0
    admissions: list[int] = field(default_factory=list)
    failed_steps: int = 0
    preemptions: int = 0

    def admitted(self, sequence: Answer) -> None:
        """Note that a sequence left the queue."""
        self.admissions.append(sequence.seq_id)

    def token(self, sequence: Answer, since_last_s: float | None) -> None:  # noqa: ARG002  (the contract's shape)
        """Note a token."""
        self.tokens += 1

    def finished(self, sequence: Answer, reason: FinishReason, now_s: float) -> None:  # noqa: ARG002
        """Note the end of a sequence."""
        self.ends.append((sequence.seq_id, reason))

    def stepped(self, step: StepFigures) -> None:
        """Note the end of a step."""
        self.failed_steps += step.fault is not None
        self.preemptions += len(step.plan.preempted)

    def level(self, scheduler: Scheduler) -> None:
        """Check the books after every change."""
        scheduler.check()


def byte_tokenizer() -> Tokenizer:
    """The tiny models' tokenizer."""
    return Tokenizer(tiny.byte_level_tokenizer(), byte_level=True, specials=frozenset(range(len(tiny.SPECIALS))))


def script(text: str, end: int | None = tiny.EOS_ID) -> Callable[[Answer], int | None]:
    """Spell a text byte by byte, then end."""
    tokenizer = byte_tokenizer()
    ids = [next(i for i in range(3, 259) if tokenizer.piece(i) == bytes([byte])) for byte in text.encode()]

    def token(sequence: Answer) -> int | None:
        position = len(sequence.output_ids)
        return ids[position] if position < len(ids) else end

    return token


def build_core(
    runner: ScriptedRunner, config: EngineConfig | None = None, observer: Observer | None = None
) -> Core:
    """A core around a scripted runner, its clock standing still."""
    config = config or tiny.small_config()
    scheduler = Scheduler(config, new_kv(config), 1024, runner.any_chunks)
    return Core(
        CoreParts(
            scheduler=scheduler,
            runner=runner,
            tokenizer=byte_tokenizer(),
            eos_ids=frozenset([tiny.EOS_ID]),
            observer=observer or CountingObserver(),
            clock=lambda: 0.0,
        )
    )


@dataclass
class Gate:
    """Holds the engine's thread inside a step until it is opened."""

    entered: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def __call__(self, work: Sequence[Work]) -> None:  # noqa: ARG002
        self.entered.set()
        self.opened.wait(timeout=20)
