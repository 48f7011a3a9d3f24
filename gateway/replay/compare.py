"""One comparison: which policies a wish asks for, built and replayed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gateway.replay.contract import Policy
from gateway.replay.errors import ReplayError
from gateway.replay.layer import LayerRules, SemanticLayer
from gateway.replay.models import question_vectors
from gateway.replay.prepare import Prepared
from gateway.replay.report import Report
from gateway.replay.run import replay
from gateway.replay.shelf import ExactOnly
from gateway.replay.threshold import Nearness, PlainThreshold
from gateway.replay.tune import Tuned, candidates, halves, tune
from gateway.settings import Settings
from policies.replay import Line, Prices
from semantic.rehearsal import Rehearsal

KINDS = ("exact", "threshold", "layer")
THRESHOLDS = (0.80, 0.85, 0.90, 0.95)
BUDGETS = (0.005, 0.01, 0.02)

Begin = Callable[[str, int], Callable[[int], None]]
"""Begins a piece of work of so many steps; what it returns is told how many more are done."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a replay.

    Attributes:
        kinds: of KINDS.
        choose: which policy `max_wrong` judges: `exact`, `layer`, or a threshold such as `0.9`.
        tuned: whether to search settings of the layer.
    """

    kinds: Sequence[str]
    choose: str | None
    max_wrong: float | None
    tuned: bool
    seed: int
    ttl_s: float
    prices: Prices

    @property
    def needs_models(self) -> bool:
        """Whether meaning is compared."""
        return self.tuned or bool({"threshold", "layer"} & set(self.kinds))

    def checked(self) -> "Wish":
        """The wish.

        Raises:
            ReplayError: it contradicts itself.
        """
        if self.tuned and self.max_wrong is None:
            raise ReplayError("--tune needs --max-wrong: the bound to tune for")
        if self.tuned and self.choose not in (None, "layer"):
            raise ReplayError("--tune tunes the layer; leave --choose out")
        chosen = self.choose
        kind = "threshold" if chosen not in (None, "exact", "layer") else chosen
        if kind == "threshold" and chosen not in {f"{least:g}" for least in THRESHOLDS} | {
            f"{least:.2f}" for least in THRESHOLDS
        }:
            raise ReplayError(
                f"--choose takes exact, layer, or one of {', '.join(f'{one:.2f}' for one in THRESHOLDS)}"
            )
        if kind is not None and kind not in self.kinds and not self.tuned:
            raise ReplayError(f"--choose {chosen} is not among the policies that are replayed")
        return self


@dataclass(frozen=True, slots=True)
class Log:
    """A log under its file's name."""

    name: str
    lines: Sequence[Line]
    prepared: Sequence[Prepared]


class Comparison:
    """Builds the policies of a wish over one log, and replays them.

    Args:
        log: the whole one.
        rehearsal: the models; None where no policy needs them.
    """

    def __init__(self, log: Log, settings: Settings, wish: Wish, rehearsal: Rehearsal | None) -> None:
        self._name = log.name
        self._lines = log.lines
        self._prepared = log.prepared
        self._wish = wish
        self._rehearsal = rehearsal
        semantic = settings.semantic
        budget = wish.max_wrong or semantic.max_wrong
        self._rules = LayerRules(
            budget,
            semantic.min_probability,
            semantic.audit_share,
            semantic.limit,
            semantic.min_conversation_probability,
        )

    def run(self, begin: Begin) -> Report:
        """Replays everything."""
        policies = self._policies(begin)
        done = begin("replaying", len(self._lines))
        results = replay(self._prepared, policies, done)
        lines, wish = self._lines, self._wish
        return Report(
            log=self._name,
            requests=len(lines),
            tenants=len({line.tenant for line in lines}),
            labelled=sum(line.truth is not None for line in lines),
            span_s=lines[-1].t_s - lines[0].t_s,
            results=results,
            chosen=self._chosen([policy.name for policy in policies]),
            max_wrong=wish.max_wrong,
            tuned=self._tuned(begin) if wish.tuned else None,
            prices=wish.prices,
            verifies=self._rehearsal.verifies if self._rehearsal and self._layers() else None,
        )

    def _policies(self, begin: Begin) -> list[Policy]:
        kinds = self._wish.kinds
        policies: list[Policy] = [ExactOnly(self._lines)] if "exact" in kinds else []
        if "threshold" in kinds and self._rehearsal is not None:
            embedded = begin("embedding", len(self._lines))
            vectors = question_vectors(self._rehearsal, self._prepared, embedded)
            nearness = Nearness(self._prepared, vectors)
            policies += [PlainThreshold(self._lines, nearness, least) for least in THRESHOLDS]
        return policies + [self._layer(rules) for rules in self._layers()]

    def _layers(self) -> list[LayerRules]:
        """The layer under several budgets, the one that is held against the bound among them."""
        if "layer" not in self._wish.kinds:
            return []
        own = self._rules
        budgets = sorted({*BUDGETS, own.max_wrong})
        return [replace(own, max_wrong=budget) for budget in budgets]

    def _layer(self, rules: LayerRules, draw: int = 0) -> SemanticLayer:
        assert self._rehearsal is not None  # noqa: S101  (narrowing: a wish for the layer opens the models)
        return SemanticLayer(self._lines, self._rehearsal.judging(), rules, self._wish.seed + draw)

    def _chosen(self, names: Sequence[str]) -> str:
        choose = self._wish.choose
        if choose == "exact" or self._wish.kinds == ("exact",):
            return ExactOnly.name
        if choose is None and "layer" not in self._wish.kinds:
            return names[-1]
        if choose in (None, "layer"):
            return self._rules.name
        return f"threshold {float(choose):.2f}"

    def _tuned(self, begin: Begin) -> Tuned:
        max_wrong = self._rules.max_wrong
        tried = candidates(max_wrong, self._rules)
        first, second = halves(self._prepared)
        done = begin("tuning", len(tried) * len(first) + len(second))
        return tune(self._prepared, tried, max_wrong, self._layer, done)
