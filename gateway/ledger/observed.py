"""What layers in mode observe counted, read from the metrics text of a gateway; pure."""

from gateway.telemetry.report import LayerReport, read_report
from policies.ledger.levers import Observed


def observed(text: str) -> dict[str, Observed]:
    """By layer, since the gateway started; layers that were not only observed are left out.

    Raises:
        ReportError: see `read_report`.
    """
    return {layer.layer: _seen(layer) for layer in read_report(text).layers if layer.observed}


def _seen(layer: LayerReport) -> Observed:
    tokens = layer.would_save_prompt_tokens + layer.would_save_completion_tokens
    return Observed(layer.observed, layer.would_hits, tokens)
