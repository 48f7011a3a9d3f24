"""`python -m engine`: serve one model over the OpenAI protocol."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.config import WEIGHT_FORMATS, Address, EngineConfig, EngineSpec
from engine.errors import EngineError
from engine.packaged import FILE_NAME, SAMPLING, packaged_model, verify
from engine.sampling import SamplingDefaults
from engine.start import start

_DEFAULTS = EngineConfig()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server; 0 after a clean stop, 2 when the model, an option or the address is bad."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        address = Address(options.socket, options.host, options.port)
        start(_spec(options), address, options.drain)
    except EngineError as error:
        sys.stderr.write(f"engine: {error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine", description="Serve one model, OpenAI protocol.")
    add = parser.add_argument
    add("--model", type=Path, help="a GGUF file or a safetensors folder (default: the packaged SmolLM2)")
    add("--name", default="smollm2", help="the model's name on the API")
    add("--socket", type=Path, help="listen on this Unix socket")
    add("--host", default="127.0.0.1", help="listen here when no --socket is given")
    add("--port", type=int, default=8081, help="listen here when no --socket is given")
    add("--threads", type=int, default=0, help="torch threads (default: the cores this process may use)")
    add("--block-size", type=int, default=_DEFAULTS.block_size, help="tokens in a KV block")
    add("--kv-tokens", type=int, default=_DEFAULTS.kv_tokens, help="tokens the KV pool holds")
    add("--max-running", type=int, default=_DEFAULTS.max_running, help="sequences decoded in one step")
    add("--max-waiting", type=int, default=_DEFAULTS.max_waiting, help="sequences queued before 429")
    add(
        "--min-cache-tokens",
        type=int,
        default=_DEFAULTS.min_cache_tokens,
        help="shortest marked prefix that is kept longer than others",
    )
    add(
        "--temperature",
        type=float,
        help="of requests that name none (default: 0.2 for the packaged model, else 1)",
    )
    add("--top-p", type=float, help="of requests that name none (default: 0.9 for the packaged model, else 1)")
    add("--weights", choices=WEIGHT_FORMATS, default=_DEFAULTS.weights, help="how linear weights are kept")
    add("--drain", type=float, default=10.0, help="seconds to finish open requests after SIGTERM")
    return parser


def _spec(options: argparse.Namespace) -> EngineSpec:
    model: Path = options.model or packaged_model()
    if options.model is None:
        verify(model)
    config = EngineConfig(
        block_size=options.block_size,
        kv_tokens=options.kv_tokens,
        max_running=options.max_running,
        max_waiting=options.max_waiting,
        min_cache_tokens=options.min_cache_tokens,
        step_tokens=max(_DEFAULTS.step_tokens, _DEFAULTS.chunk_tokens + options.max_running),
        weights=options.weights,
        sampling=_sampling(options, model),
    )
    return EngineSpec(model, options.name, options.threads or len(os.sched_getaffinity(0)), config)


def _sampling(options: argparse.Namespace, model: Path) -> SamplingDefaults:
    advised = SAMPLING if model.name == FILE_NAME else SamplingDefaults()
    given = (options.temperature, options.top_p)
    temperature, top_p = (
        default if value is None else value
        for value, default in zip(given, (advised.temperature, advised.top_p), strict=True)
    )
    return SamplingDefaults(temperature, top_p)


if __name__ == "__main__":
    sys.exit(main())
