"""The life of a server process: load, listen, serve."""

import gc

from engine.config import Address, EngineSpec
from engine.server import listening, serve
from engine.wiring import build_app


def start(spec: EngineSpec, address: Address, drain_s: float) -> None:
    """Load the model, then serve it until a signal says stop.

    Raises:
        EngineError: the model cannot be loaded, or the address cannot be bound.
    """
    app = build_app(spec)
    # What was loaded lives as long as the process: the collector need not walk it again.
    gc.collect()
    gc.freeze()
    with listening(address) as listener:
        serve(app, listener, drain_s)
