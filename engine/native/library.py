"""The compiled kernels as seen from Python: the structures of src/native.h and typed functions.

Nothing here checks sizes or indices; `runner` and `pack` do, before anything gets to C.
"""

import ctypes
from ctypes import POINTER, c_float, c_int, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

from engine.native.build import BuildError

VERSION = 1
PANEL = 16
INPUT_GRAIN = 32
TAIL_BYTES = 64
"""Behind every matrix: kernels read a few bytes past its end, and prefetch further."""


class Shape(ctypes.Structure):
    """`native_shape`."""

    _fields_ = (
        *((name, c_int32) for name in ("hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab")),
        *((name, c_int32) for name in ("layers", "groups", "activation", "threads")),
        *((name, c_float) for name in ("norm_eps", "query_scale", "embedding_scale")),
        ("block_size", c_int32),
    )


class PanelMatrix(ctypes.Structure):
    """`matrix`."""

    _fields_ = (
        *((name, c_int32) for name in ("kind", "outputs", "inputs", "panels", "records", "reserved")),
        ("panel_bytes", c_int64),
        ("data", c_void_p),
    )


class Layer(ctypes.Structure):
    """`native_layer`."""

    _fields_ = (
        *((name, PanelMatrix) for name in ("query", "key", "value", "output", "gate", "up", "down")),
        *((name, c_void_p) for name in ("attention_norm", "feed_norm", "post_attention_norm", "post_feed_norm")),
        *((name, c_void_p) for name in ("query_bias", "key_bias", "value_bias", "query_norm", "key_norm")),
        ("rotary", c_void_p),
        ("group", c_int32),
        ("group_layer", c_int32),
        ("window", c_int64),
    )


class Weights(ctypes.Structure):
    """`native_weights`."""

    _fields_ = (
        ("embedding", PanelMatrix),
        ("head", PanelMatrix),
        ("norm", c_void_p),
        ("layers", POINTER(Layer)),
    )


class Kv(ctypes.Structure):
    """`native_kv`."""

    _fields_ = (
        ("kind", c_int32),
        ("reserved", c_int32),
        ("layer_bytes", c_int64),
        ("layer_scales", c_int64),
        ("values", c_void_p),
        ("scales", c_void_p),
    )


class Segment(ctypes.Structure):
    """`native_segment`."""

    _fields_ = tuple((name, c_int32) for name in ("row", "count", "start", "write_from", "table", "reserved"))


class Step(ctypes.Structure):
    """`native_step`."""

    _fields_ = (
        *((name, c_int32) for name in ("rows", "segments", "samples", "reserved")),
        ("ids", c_void_p),
        ("segment", POINTER(Segment)),
        ("tables", POINTER(c_void_p)),
        ("sample_rows", c_void_p),
        ("logits", c_void_p),
    )


_STRUCTURES = (Shape, PanelMatrix, Layer, Weights, Kv, Segment, Step)


class Library:
    """An opened library. Calls release the interpreter lock.

    Raises:
        BuildError: on opening, when the file is no library of this version.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._c = ctypes.CDLL(str(path))
            self._declare()
        except (OSError, AttributeError) as error:
            raise BuildError(f"{path} cannot be loaded: {error}") from error
        sizes = (c_int * len(_STRUCTURES))()
        known = self._c.native_sizes(sizes, len(_STRUCTURES))
        mine = [ctypes.sizeof(structure) for structure in _STRUCTURES]
        if self._c.native_version() != VERSION or known != len(mine) or list(sizes) != mine:
            raise BuildError(f"{path} is of another version")

    def _declare(self) -> None:
        for name, result, *arguments in (
            ("native_version", c_int),
            ("native_sizes", c_int, POINTER(c_int), c_int),
            ("native_open", c_void_p, POINTER(Shape), POINTER(Weights), POINTER(Kv)),
            ("native_run", c_int, c_void_p, POINTER(Step)),
            ("native_close", None, c_void_p),
            ("native_dense", None, POINTER(PanelMatrix), c_void_p),
            ("native_multiply", c_int, POINTER(PanelMatrix), c_void_p, c_int, c_void_p),
            ("native_exp", None, c_void_p, c_int, c_void_p),
        ):
            function = getattr(self._c, name)
            function.restype, function.argtypes = result, arguments

    def open(self, shape: Shape, weights: Weights, kv: "ctypes.Array[Kv]") -> int:
        """Make a model and its threads; what the structures point to must outlive it.

        Raises:
            MemoryError: the system refuses memory or threads.
        """
        model: int | None = self._c.native_open(shape, weights, kv)
        if not model:
            raise MemoryError("no memory or threads for the native kernels")
        return model

    def run(self, model: int, step: Step) -> None:
        """Compute a step.

        Raises:
            MemoryError: the system refuses memory; nothing was done.
        """
        if self._c.native_run(model, step):
            raise MemoryError("no memory for this step")

    def close(self, model: int) -> None:
        """End the model's threads and free its scratch."""
        self._c.native_close(model)

    def dense(self, weight: PanelMatrix, out: Any) -> None:
        """Write the whole matrix to `out`, fp32 [outputs, inputs]."""
        self._c.native_dense(weight, out)

    def multiply(self, weight: PanelMatrix, rows: Any, count: int, out: Any) -> None:
        """Multiply fp32 rows, padded to INPUT_GRAIN, into `out`, fp32 [count, panels * PANEL].

        Raises:
            MemoryError: the system refuses memory.
        """
        if self._c.native_multiply(weight, rows, count, out):
            raise MemoryError("no memory for a product")

    def exp(self, values: Any, count: int, out: Any) -> None:
        """Exponentials of `count` floats, a multiple of 8."""
        self._c.native_exp(values, count, out)
