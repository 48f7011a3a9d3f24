"""Builds the engine from a model on disk; the only place that knows how the parts fit."""

import time

import torch

from engine.app import App
from engine.config import EngineConfig, EngineSpec
from engine.core import Core, CoreParts, Observer, StepRunner
from engine.errors import ModelError
from engine.grammar.llguidance_grammar import LlguidanceCompiler
from engine.kv.block_pool import BlockPool
from engine.loader import Checkpoint, open_checkpoint
from engine.metrics import Metrics
from engine.models.read_decoder import read_decoder
from engine.runner import RunnerSpec, build_runner
from engine.scheduler import Scheduler
from engine.served_model import ServedModel
from engine.worker import Worker


def build_app(spec: EngineSpec) -> App:
    """Load the model and put the server together; nothing runs until the app's lifespan starts.

    Raises:
        ModelError: the model cannot be loaded.
    """
    checkpoint, runner = load(spec)
    return assemble(spec, checkpoint, runner)


def load(spec: EngineSpec) -> tuple[Checkpoint, StepRunner]:
    """Read a model and make what computes it; for servers and benchmarks.

    Raises:
        ModelError: the model cannot be loaded.
    """
    torch.set_num_threads(spec.threads)
    checkpoint = open_checkpoint(spec.model)
    try:
        with torch.inference_mode():
            weights = read_decoder(checkpoint.config, checkpoint.weights)
            groups = len(checkpoint.config.kv_groups)
            runner = RunnerSpec(spec.config.weights, (spec.config.num_blocks,) * groups, spec.config.block_size)
            return checkpoint, build_runner(checkpoint.config, weights, runner)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(f"{spec.model} does not fit this machine as {spec.config.weights}: {reason}") from error


def build_core(config: EngineConfig, checkpoint: Checkpoint, runner: StepRunner, observer: Observer) -> Core:
    """Put a loaded model behind a scheduler; what the worker's thread drives."""
    pool = BlockPool(config.num_blocks, config.block_size)
    return Core(
        CoreParts(
            scheduler=Scheduler(config, pool, checkpoint.config.context),
            runner=runner,
            tokenizer=checkpoint.tokenizer,
            eos_ids=checkpoint.eos_ids,
            observer=observer,
            clock=time.monotonic,
        )
    )


def assemble(spec: EngineSpec, checkpoint: Checkpoint, runner: StepRunner) -> App:
    """Put a loaded model behind the server."""
    config = spec.config
    metrics = Metrics()
    core = build_core(config, checkpoint, runner, metrics)
    metrics.level(core.scheduler)
    worker = Worker(core, config.max_running + config.max_waiting, config.max_running, time.monotonic)
    served = ServedModel(
        name=spec.name,
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
