"""Chooses what computes steps: the fastest that this machine and this model allow, or what is named.

The torch kernels are the reference and run everywhere. The native ones do a step in one call; their numbers depend
on nothing but a sequence's own tokens, so prompts may be cut anywhere.
"""

from dataclasses import dataclass
from typing import Protocol

from engine.core import StepRunner
from engine.errors import EngineError
from engine.kv.contract import KvStore
from engine.loader.contract import ModelConfig
from engine.models.decoder_weights import DecoderWeights
from engine.native.build import BuildError, build
from engine.native.library import Library
from engine.native.runner import build_native_runner
from engine.native.support import machine_gap, model_gap
from engine.runner import RunnerSpec, SaveSink, build_runner


class PooledRunner(StepRunner, Protocol):
    """A runner with its KV pool."""

    @property
    def kv(self) -> KvStore:
        """The pool."""
        ...


@dataclass(frozen=True, slots=True)
class Kernels:
    """What will compute a model.

    Attributes:
        native: the compiled kernels; None for torch's.
    """

    model: ModelConfig
    native: Library | None

    @property
    def name(self) -> str:
        """Tells kernels with other numbers apart."""
        return "torch" if self.native is None else "native"

    def runner(self, spec: RunnerSpec, weights: DecoderWeights, threads: int, saved: SaveSink) -> PooledRunner:
        """Pack the weights, reserve the KV pool, and make the runner of both.

        Raises:
            EngineError: the spec names what the kernels do not know.
            MemoryError, RuntimeError: this machine lacks a kernel or the memory.
        """
        if self.native is None:
            return build_runner(self.model, weights, spec, saved)
        return build_native_runner(self.native, self.model, weights, spec, threads=threads, saved=saved)


def find_kernels(name: str, model: ModelConfig, kv_dtype: str) -> Kernels:
    """Find the kernels of a name in `engine.config.RUNNERS`.

    Side effects: compiles the native ones when that has not been done, which takes some ten seconds once.

    Raises:
        EngineError: `native` was asked for and cannot be had.
    """
    if name == "torch":
        return Kernels(model, None)
    gap = machine_gap() or model_gap(model, kv_dtype)
    if gap is None:
        try:
            return Kernels(model, Library(build()))
        except BuildError as error:
            gap = str(error)
    if name == "native":
        raise EngineError(f"the native runner cannot be had: {gap}")
    return Kernels(model, None)
