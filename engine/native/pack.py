"""Weights rearranged into the panels of src/matrix.h, without loss.

Legend: R rows (outputs), C columns (inputs), B blocks of a row in the file, P panels of sixteen outputs.

Every supported kind becomes q * scale + least in fp32, rounded once, which is what GGUF's own dequantiser gives:
products of its scales and small integers fit fp32's 24 bits, so only the sum with a least value rounds.
"""

import mmap
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch

from engine.loader.matrix import Matrix
from engine.native.library import INPUT_GRAIN, PANEL, TAIL_BYTES, PanelMatrix

_PLAIN_RECORD = 8
_WIDTHS = {"F32": np.float32, "F16": np.uint16, "BF16": np.uint16}
_HALF_MAX = 65504.0

KINDS: Mapping[str, int] = {
    name: number for number, name in enumerate(("F32", "F16", "BF16", "Q4H", "Q4S", "Q8H", "Q8HM", "Q8SM", "Q8S"))
}
"""`enum kind` of src/matrix.h."""


@dataclass(frozen=True, slots=True)
class Integers:
    """A quantised matrix taken apart.

    Attributes:
        q: [R, C], unsigned and below 16 when `bits` is 4, else int8.
        scale: [R, C / group], fp16 or fp32.
        least: same shape, fp16 or fp32; None for zero.
        bits: 4 or 8.
    """

    q: np.ndarray
    scale: np.ndarray
    least: np.ndarray | None
    bits: int

    @property
    def kind(self) -> str:
        """Name in `KINDS`."""
        half = self.scale.dtype == np.float16
        if self.bits == 4:  # noqa: PLR2004
            return "Q4H" if half else "Q4S"
        if self.least is not None:
            return "Q8HM" if half else "Q8SM"
        return "Q8H" if half else "Q8S"


def _halves(data: np.ndarray, start: int) -> np.ndarray:
    return np.ascontiguousarray(data[..., start : start + 2]).view(np.float16)[..., 0]


def _nibbles(packed: np.ndarray) -> np.ndarray:
    """Low halves of the last axis, then its high halves."""
    return np.concatenate((packed & 15, packed >> 4), axis=-1)


def _bits(packed: np.ndarray, count: int) -> np.ndarray:
    """The first `count` bits of each last axis of bytes, lowest first."""
    return np.unpackbits(packed, axis=-1, count=count, bitorder="little")


def _q4_0(blocks: np.ndarray) -> Integers:
    scale, q = _halves(blocks, 0), _nibbles(blocks[..., 2:])
    least = scale.astype(np.float32) * -8
    if np.abs(least).max(initial=0) <= _HALF_MAX:
        return Integers(q, scale, least.astype(np.float16), 4)
    return Integers(q, scale.astype(np.float32), least, 4)


def _q4_1(blocks: np.ndarray) -> Integers:
    return Integers(_nibbles(blocks[..., 4:]), _halves(blocks, 0), _halves(blocks, 2), 4)


def _q5_0(blocks: np.ndarray) -> Integers:
    q = _nibbles(blocks[..., 6:]) | _bits(blocks[..., 2:6], 32) << 4
    return Integers((q.view(np.int8) - 16).astype(np.int8), _halves(blocks, 0), None, 8)


def _q5_1(blocks: np.ndarray) -> Integers:
    q = _nibbles(blocks[..., 8:]) | _bits(blocks[..., 4:8], 32) << 4
    return Integers(q.view(np.int8), _halves(blocks, 0), _halves(blocks, 2), 8)


def _q8_0(blocks: np.ndarray) -> Integers:
    return Integers(blocks[..., 2:].view(np.int8), _halves(blocks, 0), None, 8)


def _k_scales(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scales and least values [.., 8] of Q4_K and Q5_K, from 12 bytes of six-bit numbers."""
    packed = blocks[..., 4:16]
    low, middle, high = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scale = np.concatenate((low & 63, high & 15 | low >> 6 << 4), axis=-1)
    least = np.concatenate((middle & 63, high >> 4 | middle >> 6 << 4), axis=-1)
    unit, least_unit = (_halves(blocks, start).astype(np.float32)[..., None] for start in (0, 2))
    return unit * scale.astype(np.float32), -(least_unit * least.astype(np.float32))


def _q4_k(blocks: np.ndarray) -> Integers:
    packed = blocks[..., 16:].reshape(*blocks.shape[:-1], 4, 32)
    return Integers(_nibbles(packed), *_k_scales(blocks), 4)


def _q5_k(blocks: np.ndarray) -> Integers:
    packed = blocks[..., 48:].reshape(*blocks.shape[:-1], 4, 32)
    fifth = blocks[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q = _nibbles(packed) | fifth.reshape(*packed.shape[:-1], 64) << 4
    return Integers(q.view(np.int8), *_k_scales(blocks), 8)


def _q6_k(blocks: np.ndarray) -> Integers:
    lead = blocks.shape[:-1]
    low = _nibbles(blocks[..., :128].reshape(*lead, 2, 64)).reshape(*lead, 2, 4, 32)
    high = blocks[..., 128:192].reshape(*lead, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    q = (low | high << 4).view(np.int8) - 32
    scale = _halves(blocks, 208).astype(np.float32)[..., None] * blocks[..., 192:208].view(np.int8)
    return Integers(q.astype(np.int8), scale.astype(np.float32), None, 8)


_BLOCKS: Mapping[str, tuple[int, int, Callable[[np.ndarray], Integers]]] = {
    "Q4_0": (32, 18, _q4_0),
    "Q4_1": (32, 20, _q4_1),
    "Q5_0": (32, 22, _q5_0),
    "Q5_1": (32, 24, _q5_1),
    "Q8_0": (32, 34, _q8_0),
    "Q4_K": (256, 144, _q4_k),
    "Q5_K": (256, 176, _q5_k),
    "Q6_K": (256, 210, _q6_k),
}
"""GGUF kind to weights and bytes of a block, and how it comes apart."""


def integers(matrix: Matrix) -> Integers | None:
    """Take a quantised matrix apart; None for a kind that is not kept as integers."""
    if matrix.kind not in _BLOCKS:
        return None
    weights, size, take_apart = _BLOCKS[matrix.kind]
    rows = matrix.rows
    parts = take_apart(np.ascontiguousarray(matrix.data).reshape(rows, matrix.columns // weights, size))
    least = None if parts.least is None else parts.least.reshape(rows, -1)
    return Integers(parts.q.reshape(rows, -1), parts.scale.reshape(rows, -1), least, parts.bits)


def _by_panel(values: np.ndarray) -> np.ndarray:
    """[R, n] to [P, n, 16], zeros in the outputs that are not there."""
    rows, width = values.shape
    panels = -(-rows // PANEL)
    if rows % PANEL:
        values = np.concatenate((values, np.zeros((panels * PANEL - rows, width), values.dtype)))
    return values.reshape(panels, PANEL, width).transpose(0, 2, 1)


def _bytes_of(values: np.ndarray, panels: int, records: int) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint8).reshape(panels, records, -1)


def _quantised_records(parts: Integers) -> np.ndarray:
    groups = parts.scale.shape[1]
    q = _by_panel(parts.q)
    panels = q.shape[0]
    pieces = [_bytes_of(_by_panel(parts.scale), panels, groups)]
    if parts.least is not None:
        pieces.append(_bytes_of(_by_panel(parts.least), panels, groups))
    if parts.bits == 4:  # noqa: PLR2004
        # Eight inputs of an output share a word: two to a byte.
        pairs = q.reshape(panels, -1, 4, 2, PANEL)
        q = (pairs[:, :, :, 0] | pairs[:, :, :, 1] << 4).transpose(0, 1, 3, 2)
    return np.concatenate((*pieces, _bytes_of(q, panels, groups)), axis=-1)


def _plain_records(values: np.ndarray) -> np.ndarray:
    short = -values.shape[1] % _PLAIN_RECORD
    panels = _by_panel(np.pad(values, ((0, 0), (0, short))) if short else values)
    return _bytes_of(panels, panels.shape[0], panels.shape[1] // _PLAIN_RECORD)


def _records(matrix: Matrix, narrow: bool) -> tuple[str, np.ndarray]:
    parts = integers(matrix)
    if parts is not None:
        return parts.kind, _quantised_records(parts)
    if matrix.kind in ("F16", "BF16"):
        return matrix.kind, _plain_records(np.ascontiguousarray(matrix.data).view(np.uint16))
    dense = matrix.dense()
    if narrow:
        halves = dense.clamp_(-_HALF_MAX, _HALF_MAX).to(torch.float16)  # as torch's own fp16 kernel packs them
        return "F16", _plain_records(halves.numpy().view(np.uint16))
    return "F32", _plain_records(dense.numpy())


@dataclass(frozen=True, slots=True)
class Packed:
    """A matrix in panels and what C is told of it; `memory` must live as long as C may use it."""

    view: PanelMatrix
    memory: mmap.mmap

    @property
    def size_bytes(self) -> int:
        """Bytes of weights, scales included."""
        return int(self.view.panels * self.view.panel_bytes)


def pack(matrix: Matrix, *, narrow: bool = False) -> Packed:
    """Rearrange a matrix.

    Args:
        matrix: of any kind; one that is not kept as integers or halves becomes fp32.
        narrow: whether what would become fp32 becomes fp16 instead, which rounds.
    """
    kind, records = _records(matrix, narrow)
    panels, count, size = records.shape
    # Whole pages of two megabytes spare the walk through the page table that 4 KB pages cost a stream of weights.
    memory = mmap.mmap(-1, records.nbytes + TAIL_BYTES)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    flat = np.frombuffer(memory, dtype=np.uint8)
    flat[: records.nbytes] = records.reshape(-1)
    view = PanelMatrix(
        kind=KINDS[kind],
        outputs=matrix.rows,
        inputs=matrix.columns,
        panels=panels,
        records=count,
        panel_bytes=count * size,
        data=flat.ctypes.data,
    )
    return Packed(view, memory)


def padded(values: torch.Tensor) -> np.ndarray:
    """Copy a vector to fp32, zeros behind it up to a multiple of `INPUT_GRAIN`."""
    out = np.zeros(-(-values.numel() // INPUT_GRAIN) * INPUT_GRAIN, np.float32)
    out[: values.numel()] = values.to(torch.float32).reshape(-1).numpy()
    return out
