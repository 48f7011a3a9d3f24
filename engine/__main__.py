"""`python -m engine`: serve one model over the OpenAI protocol."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.config import KV_DTYPES, RETENTION, RUNNERS, WEIGHT_FORMATS, Address, EngineConfig, EngineSpec
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
    _add_kv_options(parser)
    _add_scheduling_options(parser)
    add(
        "--temperature",
        type=float,
        help="of requests that name none (default: 0.2 for the packaged model, else 1)",
    )
    add("--top-p", type=float, help="of requests that name none (default: 0.9 for the packaged model, else 1)")
    add("--weights", choices=WEIGHT_FORMATS, default=_DEFAULTS.weights, help="how linear weights are kept")
    add("--runner", choices=RUNNERS, default=_DEFAULTS.runner, help="what computes steps")
    add("--drain", type=float, default=10.0, help="seconds to finish open requests after SIGTERM")
    return parser


def _add_kv_options(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--kv-tokens", type=int, default=_DEFAULTS.kv_tokens, help="tokens the KV pool holds")
    size.add_argument("--kv-memory-mb", type=int, help="memory of the KV pool in MiB, instead of its tokens")
    add = parser.add_argument
    add("--kv-dtype", choices=KV_DTYPES, default=_DEFAULTS.kv_dtype, help="how keys and values are kept")
    add(
        "--host-kv-mb",
        type=int,
        default=_DEFAULTS.host_kv_mb,
        help="host memory for blocks the pool gives up, MiB",
    )
    add("--prefix-cache", choices=("on", "off"), default="on", help="whether prompts use what earlier ones left")
    add("--retention", choices=RETENTION, default=_DEFAULTS.retention, help="which cached prefixes stay")
    add(
        "--min-cache-tokens",
        type=int,
        default=_DEFAULTS.min_cache_tokens,
        help="shortest marked prefix that is kept longer than others",
    )


def _add_scheduling_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--max-running", type=int, default=_DEFAULTS.max_running, help="sequences decoded in one step")
    add("--max-waiting", type=int, default=_DEFAULTS.max_waiting, help="sequences queued before 429")
    add("--tenant-waiting", type=int, help="of those, what one tenant may queue (default: three quarters)")
    add("--step-tokens", type=int, default=_DEFAULTS.step_tokens, help="prompt tokens of a step without decodes")
    add(
        "--prefill-tokens",
        type=int,
        default=_DEFAULTS.prefill_tokens,
        help="prompt tokens of a step beside decodes",
    )
    add(
        "--long-prefill",
        type=int,
        default=_DEFAULTS.long_prefill,
        help="tokens of one prompt while others want some",
    )


def _spec(options: argparse.Namespace) -> EngineSpec:
    model: Path = options.model or packaged_model()
    if options.model is None:
        verify(model)
    config = EngineConfig(
        block_size=options.block_size,
        kv_tokens=options.kv_tokens,
        kv_memory_mb=options.kv_memory_mb,
        kv_dtype=options.kv_dtype,
        host_kv_mb=options.host_kv_mb,
        prefix_cache=options.prefix_cache == "on",
        retention=options.retention,
        min_cache_tokens=options.min_cache_tokens,
        max_running=options.max_running,
        max_waiting=options.max_waiting,
        tenant_waiting=options.tenant_waiting,
        chunk_tokens=min(_DEFAULTS.chunk_tokens, options.step_tokens, options.prefill_tokens),
        step_tokens=options.step_tokens,
        prefill_tokens=options.prefill_tokens,
        long_prefill=options.long_prefill,
        runner=options.runner,
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
