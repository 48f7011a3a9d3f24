"""`python -m engine`: serve one model over the OpenAI protocol."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.config import (
    GPU_CONFIG,
    KV_DTYPES,
    RETENTION,
    RUNNERS,
    WEIGHT_FORMATS,
    Address,
    EngineConfig,
    EngineSpec,
)
from engine.cuda.options import ATTENTION, DTYPES, DeviceOptions, resolved_device
from engine.cuda.visible import visible_devices
from engine.errors import EngineError
from engine.packaged import FILE_NAME, SAMPLING, packaged_model, verify
from engine.sampling import SamplingDefaults
from engine.start import start

_DEFAULTS = EngineConfig()
_GPU = DeviceOptions()
_BY_DEVICE = (
    "block_size",
    "kv_tokens",
    "kv_dtype",
    "max_running",
    "max_waiting",
    "step_tokens",
    "prefill_tokens",
    "long_prefill",
)
"""Options whose defaults depend on the device, by their fields."""


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
    add("--block-size", type=int, help=_either("tokens in a KV block", "block_size"))
    _add_device_options(parser)
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


def _either(text: str, field: str) -> str:
    """Name both defaults of a number that suits a GPU otherwise than a CPU."""
    return f"{text} (default: {getattr(_DEFAULTS, field)}, on a GPU {getattr(GPU_CONFIG, field)})"


def _add_device_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--device", default="auto", help="auto (a GPU if there is one), cpu, cuda or cuda:N")
    add("--dtype", choices=DTYPES, default=_GPU.dtype, help="weights and activations on a GPU")
    add("--attention", choices=ATTENTION, default=_GPU.attention, help="prompt chunks on a GPU")
    add("--cuda-graphs", choices=("on", "off"), default="on", help="whether decode steps are recorded")


def _add_kv_options(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--kv-tokens",
        type=int,
        help=f"tokens the KV pool holds (default: {_DEFAULTS.kv_tokens}, on a GPU --kv-memory)",
    )
    size.add_argument("--kv-memory-mb", type=int, help="memory of the KV pool in MiB, instead of its tokens")
    size.add_argument(
        "--kv-memory",
        type=float,
        default=_GPU.kv_share,
        help="share for the KV pool of what a GPU has left beside weights and the largest step",
    )
    add = parser.add_argument
    add("--kv-dtype", choices=KV_DTYPES, help=_either("how keys and values are kept", "kv_dtype"))
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
    add("--max-running", type=int, help=_either("sequences decoded in one step", "max_running"))
    add("--max-waiting", type=int, help=_either("sequences queued before 429", "max_waiting"))
    add("--tenant-waiting", type=int, help="of those, what one tenant may queue (default: three quarters)")
    add("--step-tokens", type=int, help=_either("prompt tokens of a step without decodes", "step_tokens"))
    add("--prefill-tokens", type=int, help=_either("prompt tokens of a step beside decodes", "prefill_tokens"))
    add("--long-prefill", type=int, help=_either("tokens of one prompt while others want some", "long_prefill"))


def _spec(options: argparse.Namespace) -> EngineSpec:
    model: Path = options.model or packaged_model()
    if options.model is None:
        verify(model)
    device = _device(options)
    config = replace(
        _sizes(options, _DEFAULTS if device is None else GPU_CONFIG),
        kv_memory_mb=options.kv_memory_mb,
        host_kv_mb=options.host_kv_mb,
        prefix_cache=options.prefix_cache == "on",
        retention=options.retention,
        min_cache_tokens=options.min_cache_tokens,
        tenant_waiting=options.tenant_waiting,
        runner=options.runner,
        weights=options.weights,
        sampling=_sampling(options, model),
        device=device,
    )
    return EngineSpec(model, options.name, options.threads or len(os.sched_getaffinity(0)), config)


def _device(options: argparse.Namespace) -> DeviceOptions | None:
    device = resolved_device(options.device, visible_devices())
    if device == "cpu":
        return None
    sized = options.kv_tokens is not None or options.kv_memory_mb is not None
    share = None if sized else options.kv_memory
    return DeviceOptions(device, options.dtype, share, options.attention, options.cuda_graphs == "on")


def _sizes(options: argparse.Namespace, base: EngineConfig) -> EngineConfig:
    """Take the numbers that were given, and the others from what suits the device."""
    named = {name: value for name in _BY_DEVICE if (value := getattr(options, name)) is not None}
    steps = (named.get(name, getattr(base, name)) for name in ("step_tokens", "prefill_tokens"))
    return replace(base, **named, chunk_tokens=min(base.chunk_tokens, *steps))


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
