"""Chooses what computes steps: the fastest that this machine and this model allow, or the one that is named.

The torch runner is the reference and runs everywhere. The native one does a step in one call; its numbers depend
on nothing but a sequence's own tokens, so prompts may be cut anywhere.
"""

from dataclasses import dataclass

from engine.core import StepRunner
from engine.errors import EngineError
from engine.loader.contract import ModelConfig
from engine.models.decoder_weights import DecoderWeights
from engine.native.build import BuildError, built_library
from engine.native.library import Library
from engine.native.runner import build_native_runner
from engine.native.support import machine_gap, model_gap
from engine.runner import RunnerSpec, SaveSink, build_runner


@dataclass(frozen=True, slots=True)
class RunnerChoice:
    """What a runner is made from.

    Attributes:
        name: one of `engine.config.RUNNERS`.
        threads: that compute a step.
    """

    name: str
    spec: RunnerSpec
    threads: int


def make_runner(choice: RunnerChoice, config: ModelConfig, weights: DecoderWeights, saved: SaveSink) -> StepRunner:
    """Pack the weights, reserve the KV pool, and make the runner of both.

    Raises:
        EngineError: the runner that was named cannot be had, or the spec names what it does not know.
        MemoryError, RuntimeError: this machine lacks a kernel or the memory.
    """
    library = None if choice.name == "torch" else _library(choice, config)
    if library is None:
        return build_runner(config, weights, choice.spec, saved)
    return build_native_runner(library, config, weights, choice.spec, threads=choice.threads, saved=saved)


def _library(choice: RunnerChoice, config: ModelConfig) -> Library | None:
    """The native kernels; None when they cannot be had and need not be."""
    gap, path = machine_gap() or model_gap(config, choice.spec.kv_dtype), built_library()
    if path is None:
        gap = gap or "its kernels are not built; run python -m engine.native"
    if path is not None and gap is None:
        try:
            return Library(path)
        except BuildError as error:
            gap = str(error)
    if choice.name == "native":
        raise EngineError(f"the native runner cannot be had: {gap}")
    return None
