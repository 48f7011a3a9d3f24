"""What the layers saved, or would have saved, read from the metrics text of a running gateway; pure."""

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from gateway.errors import LaminaError

_PERCENT = 100.0


class ReportError(LaminaError):
    """The text is not what a gateway's /metrics says."""


@dataclass(frozen=True, slots=True)
class LayerReport:
    """One layer since the gateway started.

    Attributes:
        lookups: requests that asked it.
        observed: of those, the ones it could serve nothing of, in mode observe.
        hits: answered by it, stale ones included.
        would_hits: it had an answer and was only observed.
        hit_share: (hits + would_hits) / lookups, in percent.
        saved_prompt_tokens, saved_completion_tokens: that no model had to process.
        would_save_prompt_tokens, would_save_completion_tokens: the same, had it been allowed to serve.
        misses: by reason.
    """

    layer: str
    lookups: int
    hits: int
    would_hits: int
    hit_share: float
    saved_prompt_tokens: int
    saved_completion_tokens: int
    would_save_prompt_tokens: int
    would_save_completion_tokens: int
    misses: dict[str, int]
    observed: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The whole gateway since it started.

    Attributes:
        prompt_cached_tokens: of the model's prompt tokens, those that its server had in a cache of its own.
        refused_writes: by reason.
        compared: stored answers compared with the model's: right, wrong, unknown, lost.
    """

    requests: int
    layers: tuple[LayerReport, ...]
    model_prompt_tokens: int
    prompt_cached_tokens: int
    model_completion_tokens: int
    stored: int
    refused_writes: dict[str, int]
    compared: dict[str, int]
    faults: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return asdict(self)


Sample = tuple[dict[str, str], float]


def read_report(text: str) -> Report:
    """The report of a metrics text.

    Raises:
        ReportError: the text is not Prometheus text, or not of a gateway.
    """
    samples: dict[str, list[Sample]] = defaultdict(list)
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples[sample.name].append((sample.labels, sample.value))
    except ValueError as error:
        raise ReportError(f"that is no metrics text: {error}") from None
    if not any(name.startswith("lamina_") for name in samples):
        raise ReportError("the text holds no figures of a gateway")
    lookups = samples["lamina_cache_lookups_total"]
    layers = sorted({labels["layer"] for labels, _ in lookups})
    tokens, writes = samples["lamina_tokens_total"], samples["lamina_cache_writes_total"]
    return Report(
        requests=_sum(samples["lamina_requests_total"]),
        layers=tuple(_layer(layer, samples) for layer in layers),
        model_prompt_tokens=_sum(tokens, source="model", kind="prompt"),
        prompt_cached_tokens=_sum(samples["lamina_tokens_saved_total"], layer="prompt"),
        model_completion_tokens=_sum(tokens, source="model", kind="completion"),
        stored=_sum(writes, result="stored"),
        refused_writes=_by(writes, "reason", result="refused"),
        compared=_by(samples["lamina_budget_audits_total"], "result"),
        faults={
            f"{part}: {reason}": count
            for part in sorted({labels["part"] for labels, _ in samples["lamina_faults_total"]})
            for reason, count in _by(samples["lamina_faults_total"], "reason", part=part).items()
        },
    )


def _layer(layer: str, samples: dict[str, list[Sample]]) -> LayerReport:
    lookups = samples["lamina_cache_lookups_total"]
    asked = _sum(lookups, layer=layer)
    hits = _sum(lookups, layer=layer, result="hit") + _sum(lookups, layer=layer, result="stale")
    would = _sum(lookups, layer=layer, result="would_hit") + _sum(lookups, layer=layer, result="would_stale")
    saved, would_save = samples["lamina_tokens_saved_total"], samples["lamina_tokens_would_save_total"]
    missed = [s for s in lookups if s[0]["result"] in ("miss", "would_miss", "unavailable")]
    return LayerReport(
        layer=layer,
        lookups=asked,
        hits=hits,
        would_hits=would,
        hit_share=round(_PERCENT * (hits + would) / asked, 1) if asked else 0.0,
        saved_prompt_tokens=_sum(saved, layer=layer, kind="prompt"),
        saved_completion_tokens=_sum(saved, layer=layer, kind="completion"),
        would_save_prompt_tokens=_sum(would_save, layer=layer, kind="prompt"),
        would_save_completion_tokens=_sum(would_save, layer=layer, kind="completion"),
        misses=_by(missed, "reason", layer=layer),
        observed=would + _sum(lookups, layer=layer, result="would_miss"),
    )


def _matching(samples: list[Sample], wanted: dict[str, str]) -> list[Sample]:
    return [sample for sample in samples if all(sample[0].get(name) == value for name, value in wanted.items())]


def _sum(samples: list[Sample], **wanted: str) -> int:
    return int(sum(value for _, value in _matching(samples, wanted)))


def _by(samples: list[Sample], label: str, **wanted: str) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for labels, value in _matching(samples, wanted):
        counts[labels[label]] += int(value)
    return {name: count for name, count in sorted(counts.items(), key=lambda item: -item[1]) if count}
