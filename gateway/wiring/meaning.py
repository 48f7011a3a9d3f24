"""Builds the layers, and what compares meaning, from the set's clients."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from gateway.db import SemanticRows
from gateway.guards import Guards
from gateway.layers import LAYERS
from gateway.layers.exact import ExactLayer
from gateway.layers.parts import Parts
from gateway.layers.row_writer import RowWriter, sweep_for_ever
from gateway.layers.semantic import SemanticLayer
from gateway.semantic_link import SemanticLink, SemanticTarget
from gateway.semantic_walk import Budget, SemanticWalk
from gateway.semantic_walk import Parts as WalkParts
from gateway.settings import SemanticSettings, Settings
from gateway.telemetry.metrics import Metrics
from policies.budget import Decision
from policies.nomination import Candidate
from policies.semantic import Least, Threshold


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of LAYERS, built; `semantic` is None where meaning is not compared."""

    exact: ExactLayer
    semantic: SemanticLayer | None


@dataclass(frozen=True, slots=True)
class Meaning:
    """What compares meaning; `close` it once."""

    link: SemanticLink
    writer: RowWriter
    walk: SemanticWalk
    rows: SemanticRows
    settings: SemanticSettings
    metrics: Metrics
    now_s: Callable[[], float]

    async def sweep(self) -> None:
        """Removes rows that can serve no more, for ever."""
        await sweep_for_ever(
            self.rows,
            self.now_s,
            self.settings.max_rows,
            self.settings.sweep_s,
            lambda reason: self.metrics.fault("semantic_rows", reason),
        )

    async def close(self) -> None:
        """Writes the rows that wait, then drops the connections."""
        await self.writer.close()
        await self.link.close()


class FixedBudget:
    """A budget that learns nothing."""

    def __init__(self, settings: SemanticSettings) -> None:
        self._threshold = Threshold(Least(settings.min_probability, settings.min_conversation_probability))

    def decide(
        self, _tenant_id: str, _route: str, candidate: Candidate, _models: str, *, serving: bool
    ) -> Decision:
        """See Budget."""
        del serving
        return self._threshold.decide(candidate)

    def came(self, _tenant_id: str, _route: str, _models: str) -> None:
        """See Budget; nothing is counted."""


def semantic_link(settings: Settings, metrics: Metrics) -> SemanticLink | None:
    """The way to the service, where some route compares meaning and one is named.

    Raises:
        SettingsError: its URL is none, or lacks a token.
    """
    if settings.semantic_url is None or not settings.compares_meaning:
        return None
    semantic = settings.semantic
    token = None if semantic.token is None else semantic.token.get_secret_value()
    return SemanticLink(
        SemanticTarget.parse(settings.semantic_url, token),
        failures=semantic.breaker_failures,
        retry_s=semantic.breaker_retry_ms / 1000,
        on_fault=lambda reason: metrics.fault("semantic", reason),
    )


def open_layers(parts: Parts) -> Layers:
    """Every layer of the table, built from its parts."""
    built = {name: _built(spec, parts) for name, spec in LAYERS.items()}
    exact, semantic = built["exact"], built["semantic"]
    assert isinstance(exact, ExactLayer)  # noqa: S101  (narrowing: the table says so)
    return Layers(exact, semantic if isinstance(semantic, SemanticLayer) else None)


def _built(spec: str, parts: Parts) -> object:
    module, _, name = spec.partition(":")
    layer: object = getattr(importlib.import_module(module), name).from_parts(parts)
    return layer


def open_meaning(
    parts: Parts, layers: Layers, guards: Guards, budget: Budget | None, now_s: Callable[[], float]
) -> Meaning | None:
    """What compares meaning, or None where there is no layer for it."""
    if layers.semantic is None or parts.semantic is None:
        return None
    settings, metrics = parts.settings.semantic, parts.metrics
    writer = RowWriter(parts.rows, parts.sealer, layers.semantic, metrics, settings.max_waiting, parts.dead)
    walk = SemanticWalk(
        WalkParts(
            layers.semantic,
            layers.exact,
            parts.sealer,
            guards,
            budget or FixedBudget(settings),
            metrics,
            parts.settings.cache,
            now_s,
        )
    )
    return Meaning(parts.semantic, writer, walk, parts.rows, settings, metrics, now_s)
