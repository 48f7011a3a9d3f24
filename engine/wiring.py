"""Builds the engine from a model on disk; the only place that knows how the parts fit."""

import time
from dataclasses import dataclass, replace

import torch

from engine.app import App
from engine.config import EngineConfig, EngineSpec
from engine.core import Core, CoreParts, Observer, StepRunner
from engine.cuda.build import DeviceSpec, prepare_device
from engine.cuda.options import DeviceOptions
from engine.errors import ModelError
from engine.grammar.llguidance_grammar import LlguidanceCompiler
from engine.kv.kv_cache import KvCache
from engine.loader import Checkpoint, open_checkpoint
from engine.metrics import Metrics
from engine.models.read_decoder import read_decoder
from engine.pool import identity, measured_rates, new_kv, token_bytes
from engine.revision import model_revision
from engine.runner import RunnerSpec
from engine.runners import find_kernels
from engine.scheduler import Scheduler
from engine.served_model import ServedModel
from engine.worker import QueueLimits, Worker


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that can be computed, and the blocks it computes in."""

    config: EngineConfig
    checkpoint: Checkpoint
    runner: StepRunner
    kv: KvCache


def build_app(spec: EngineSpec) -> App:
    """Load the model and put the server together; nothing runs until the app's lifespan starts.

    Raises:
        ModelError: the model cannot be loaded.
    """
    return assemble(spec.name, load(spec))


def load(spec: EngineSpec) -> Loaded:
    """Read a model and make what computes it; for servers and benchmarks.

    Raises:
        ModelError: the model cannot be loaded.
    """
    return load_checkpoint(spec, open_checkpoint(spec.model), model_revision(spec.model, ()))


def load_checkpoint(spec: EngineSpec, checkpoint: Checkpoint, revision: str) -> Loaded:
    """Make what computes a model that has been opened; `revision` names its very weights.

    Raises:
        ModelError: it does not fit this machine.
    """
    torch.set_num_threads(spec.threads)
    model = checkpoint.config
    layer_bytes = token_bytes(model, spec.config.kv_dtype)
    config = spec.config.sized(layer_bytes * model.layers)
    try:
        if config.device is not None:
            return _on_device(config, config.device, checkpoint, revision)
        kernels = find_kernels(config.runner, model, config.kv_dtype)
        root = identity(checkpoint, revision, config, kernels.name).root()
        kv = new_kv(config, model.kv_groups, layer_bytes, root)
        runner_spec = RunnerSpec(config.weights, kv.num_blocks, config.block_size, config.kv_dtype)
        runner = kernels.runner(runner_spec, read_decoder(model, checkpoint.weights), spec.threads, kv.saved)
    except (RuntimeError, MemoryError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(f"{spec.model} does not fit this machine as {config.weights}: {reason}") from error
    if kv.host is not None:
        with torch.inference_mode():
            kv.rates = measured_rates(runner.kv, model.kv_groups)
    return Loaded(config, checkpoint, runner, kv)


def _on_device(config: EngineConfig, options: DeviceOptions, checkpoint: Checkpoint, revision: str) -> Loaded:
    """Put the model on a device; the pool takes what is left there, unless the config says how many tokens."""
    model = checkpoint.config
    prepared = prepare_device(
        model,
        read_decoder(model, checkpoint.weights),
        DeviceSpec(
            device=options.device,
            block_size=config.block_size,
            max_rows=config.max_running,
            step_tokens=config.max_step_tokens,
            dtype=options.dtype,
            kv_dtype=config.kv_dtype,
            attention=options.attention,
            num_blocks=config.num_blocks if options.kv_share is None else None,
            kv_share=options.kv_share or 1.0,
            graphs=options.graphs,
        ),
    )
    config = replace(config, kv_tokens=prepared.num_blocks * config.block_size)
    root = identity(checkpoint, revision, config, f"{options.device} {options.dtype} {options.attention}").root()
    kv = new_kv(config, model.kv_groups, token_bytes(model, config.kv_dtype), root)
    runner = prepared.runner(kv.saved)
    if kv.host is not None:
        kv.rates = measured_rates(runner.kv, model.kv_groups)
    return Loaded(config, checkpoint, runner, kv)


def build_core(loaded: Loaded, observer: Observer) -> Core:
    """Put a loaded model behind a scheduler; what the worker's thread drives."""
    context, runner = loaded.checkpoint.config.context, loaded.runner
    return Core(
        CoreParts(
            scheduler=Scheduler(loaded.config, loaded.kv, context, runner.any_chunks),
            runner=runner,
            tokenizer=loaded.checkpoint.tokenizer,
            eos_ids=loaded.checkpoint.eos_ids,
            observer=observer,
            clock=time.monotonic,
        )
    )


def assemble(name: str, loaded: Loaded) -> App:
    """Put a loaded model behind the server, under a name."""
    config, checkpoint = loaded.config, loaded.checkpoint
    metrics = Metrics()
    core = build_core(loaded, metrics)
    metrics.level(core.scheduler)
    limits = QueueLimits(config.max_running + config.max_waiting, config.max_running + config.waiting_per_tenant)
    worker = Worker(core, limits, time.monotonic)
    served = ServedModel(
        name=name,
        tokenizer=checkpoint.tokenizer,
        template=checkpoint.template,
        max_context=core.scheduler.max_tokens,
        default_max_tokens=config.default_max_tokens,
        created=int(time.time()),
        grammars=LlguidanceCompiler(checkpoint.tokenizer, checkpoint.eos_ids),
        sampling=config.sampling,
        min_cache_tokens=config.min_cache_tokens,
    )
    return App(served, worker, metrics, time.time)
