"""`python -m bench.gpu --json`: the engine on a GPU, against the card's limits and its peers."""

import argparse
import gc
import json
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.gpu.limits import Limits, measure_limits
from bench.gpu.models import open_model
from bench.gpu.peers import peer_throughput
from bench.gpu.serving import Load, first_token, prompts_of, throughput
from bench.gpu.steps import all_steps
from engine.config import GPU_CONFIG, KV_DTYPES, EngineSpec
from engine.cuda.build import DTYPES
from engine.cuda.options import ATTENTION, DeviceOptions
from engine.cuda.runner import DeviceRunner
from engine.wiring import Loaded, load_checkpoint

_BATCHES = ((1, 512), (1, 4096), (8, 2048), (32, 2048), (64, 1024), (128, 1024), (256, 1024), (256, 4096))
_PROMPTS = (512, 2048, 8192)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    requests: int
    shortest: int
    longest: int
    batches: tuple[tuple[int, int], ...]
    prompts: tuple[int, ...]
    steps: int
    prefix: int
    rounds: int


_WHOLE = Scale(256, 100, 1024, _BATCHES, _PROMPTS, 30, 4096, 5)
_TINY = Scale(4, 4, 12, ((1, 40), (3, 20)), (32, 64), 2, 96, 1)


def main() -> int:
    """Run the parts that were asked for and print; a part that fails says so and the others go on."""
    options = _options()
    scale = _TINY if options.tiny else _WHOLE
    device = options.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    if device.startswith("cuda") and not torch.cuda.is_available():
        sys.stderr.write("bench.gpu: there is no CUDA device; --device cpu --tiny tries the benchmark itself\n")
        return 2
    report: dict[str, Any] = _about(options, device)
    dtype = "fp32" if device == "cpu" else options.dtype
    limits = measure_limits(device, DTYPES[dtype], options.tiny)
    report["limits"] = asdict(limits)
    run = _Run(options, scale, device, dtype, limits)
    parts: Mapping[str, Callable[[], Any]] = {
        "throughput": run.throughput,
        "steps": run.steps,
        "first_token": run.first_token,
        "peers": run.peers,
    }
    for name in options.parts or parts:
        sys.stderr.write(f"bench.gpu: {name}\n")
        report[name] = _tried(parts[name])
    text = json.dumps(report, indent=None if options.json else 2)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "bench_gpu.json").write_text(text, "utf-8")
    print(text)
    return 0


def _tried(part: Callable[[], Any]) -> Any:
    try:
        return part()
    except Exception as error:  # noqa: BLE001  (a part's fault alone: it is in the report)
        return {"failed": f"{type(error).__name__}: {error}"}


@dataclass(frozen=True, slots=True)
class _Run:
    """The parts of a run; each loads the model anew, so that none is measured in another's memory."""

    options: argparse.Namespace
    scale: Scale
    device: str
    dtype: str
    limits: Limits

    def throughput(self) -> dict[str, Any]:
        scale = self.scale
        loaded = self._loaded(self._kv_dtypes()[0])
        ids = min(10000, loaded.checkpoint.config.vocab - 1)
        asked = prompts_of(scale.requests, scale.shortest, scale.longest, ids)
        load = Load(loaded)
        found = {"sampled": throughput(load, asked, 0.6), "greedy": throughput(load, asked, 0.0)}
        return found | self._graphs(loaded)

    def steps(self) -> dict[str, Any]:
        scale, found = self.scale, {}
        for kv_dtype in self._kv_dtypes():
            loaded = self._loaded(kv_dtype)
            assert isinstance(loaded.runner, DeviceRunner)
            timed = partial(all_steps, loaded.runner, self.limits, scale.batches, scale.prompts, scale.steps)
            found[kv_dtype] = _tried(timed)
            del loaded, timed
        return found

    def first_token(self) -> dict[str, Any]:
        loaded = self._loaded(self._kv_dtypes()[0], prefix_cache=True)
        ids = min(10000, loaded.checkpoint.config.vocab - 1)
        return first_token(Load(loaded), self.scale.prefix, 30, self.scale.rounds, ids)

    def peers(self) -> dict[str, Any]:
        gc.collect()
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()
        shape = (self.scale.requests, self.scale.shortest, self.scale.longest)
        return {name: peer_throughput(name, self.options.model, shape) for name in self.options.peers}

    def _kv_dtypes(self) -> list[str]:
        return ["fp32"] if self.device == "cpu" else self.options.kv_dtypes

    def _graphs(self, loaded: Loaded) -> dict[str, Any]:
        runner = loaded.runner
        if not isinstance(runner, DeviceRunner) or runner.graphs is None:
            return {"graphs": None}
        cache = runner.graphs.cache
        counts = {"recorded": len(cache), "failed": cache.failed, "replays": cache.replays, "eager": cache.eager}
        return {"graphs": counts, "attention": runner.graphs.like.attention, "kv_tokens": loaded.config.kv_tokens}

    def _loaded(self, kv_dtype: str, prefix_cache: bool = False) -> Loaded:
        gc.collect()
        on_gpu = self.device.startswith("cuda")
        if on_gpu:
            torch.cuda.empty_cache()
        place = DeviceOptions(
            self.device,
            self.dtype,
            self.options.kv_memory if on_gpu else None,
            self.options.attention,
            self.options.cuda_graphs == "on",
        )
        config = replace(GPU_CONFIG, kv_dtype=kv_dtype, device=place, prefix_cache=prefix_cache)
        if not on_gpu:
            config = replace(config, kv_tokens=2048, max_running=4)
        model = self.options.model
        return load_checkpoint(EngineSpec(Path(model), "bench", 2, config), open_model(model), model)


def _about(options: argparse.Namespace, device: str) -> dict[str, Any]:
    return {
        "model": options.model,
        "device": device,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "tiny": options.tiny,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    add = parser.add_argument
    add("--model", help="a folder, a GGUF file, or a shape with random weights (default: qwen3-0.6b)")
    add("--device", help="cuda:N or cpu (default: the first GPU)")
    add("--tiny", action="store_true", help="a tiny model and few requests, to try the benchmark itself")
    add("--dtype", choices=("bf16", "fp16"), default="bf16")
    add("--kv-dtypes", nargs="+", choices=KV_DTYPES, default=["bf16", "int8", "fp8"], help="the first serves")
    add("--kv-memory", type=float, default=0.8, help="share of what is left beside weights and the largest step")
    add("--attention", choices=ATTENTION, default="auto")
    add("--cuda-graphs", choices=("on", "off"), default="on")
    add("--parts", nargs="+", choices=("throughput", "steps", "first_token", "peers"))
    add("--peers", nargs="*", default=["vllm", "transformers"], choices=("vllm", "transformers"))
    add("--out", type=Path, help="also write bench_gpu.json into this folder")
    add("--json", action="store_true", help="one line")
    options = parser.parse_args()
    options.model = options.model or ("tiny" if options.tiny else "qwen3-0.6b")
    return options


if __name__ == "__main__":
    sys.exit(main())
