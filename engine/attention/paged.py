"""The KV pool as tensors.

Legend: L layers of a KV group, S slots (blocks x block size), K KV heads, D head size, T tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from engine.errors import EngineError
from engine.kv.contract import BlockCopy, KvGroup


@dataclass(frozen=True, slots=True)
class KvFormat:
    """How numbers lie in the pool.

    Attributes:
        dtype: of the stored values.
        limit: what the largest magnitude of a token's head is scaled to, the scale kept beside; None without.
    """

    dtype: torch.dtype
    limit: float | None = None

    @property
    def slot_overhead_bytes(self) -> int:
        """Bytes of scale a token's head takes, in keys or in values."""
        return 0 if self.limit is None else torch.float32.itemsize


KV_FORMATS: Mapping[str, KvFormat] = {
    "fp32": KvFormat(torch.float32),
    "fp16": KvFormat(torch.float16),
    "bf16": KvFormat(torch.bfloat16),
    "int8": KvFormat(torch.int8, 127.0),
    "fp8": KvFormat(torch.float8_e4m3fn, 448.0),
}
"""KV formats by the name `--kv-dtype` takes; 448 is the largest e4m3."""


@dataclass(frozen=True, slots=True)
class KvShape:
    """What all groups of a pool share.

    Attributes:
        block_size: slots in a block.
        dtype: a name in `KV_FORMATS`.
        device: where the pool lies.
    """

    kv_heads: int
    head_dim: int
    block_size: int
    dtype: str = "fp32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse formats nobody knows."""
        if self.dtype not in KV_FORMATS:
            raise EngineError(f"KV type {self.dtype!r} is unknown; known: {', '.join(KV_FORMATS)}")


@dataclass(frozen=True, slots=True)
class KvPool:
    """The memory of one group, contiguous; a native kernel may use it by pointer.

    Attributes:
        values: [L, S, 2K, D], a token's K keys beside its K values.
        scales: fp32 [L, S, 2K], what each head of each token is multiplied with; None for formats without.
    """

    group: KvGroup
    values: torch.Tensor
    scales: torch.Tensor | None

    @property
    def parts(self) -> tuple[torch.Tensor, ...]:
        """Values, then scales where there are any."""
        return (self.values,) if self.scales is None else (self.values, self.scales)


class PagedKV:
    """Keys and values of every layer, by group; the `engine.kv.contract.KvStore` of a model.

    Memory is reserved, not touched; on a CPU the system commits a page when it is first written.

    Attributes:
        pools: one per group, in the groups' order.
    """

    def __init__(self, groups: Sequence[KvGroup], num_blocks: Sequence[int], shape: KvShape) -> None:
        self.shape = shape
        self._format = KV_FORMATS[shape.dtype]
        self.pools = tuple(self._pool(group, count) for group, count in zip(groups, num_blocks, strict=True))
        self._places = {
            layer: (index, place) for index, group in enumerate(groups) for place, layer in enumerate(group.layers)
        }

    def group_of(self, layer: int) -> int:
        """Return the index of the group a layer belongs to."""
        return self._places[layer][0]

    def write(self, layer: int, slots: torch.Tensor, rows: torch.Tensor) -> None:
        """Store keys and values [T, 2K, D] at int64 slots [T], quantised where the format says so."""
        group, place = self._places[layer]
        pool = self.pools[group]
        if pool.scales is not None and self._format.limit is not None:
            scales = rows.abs().amax(dim=-1).float() / self._format.limit
            rows = rows / torch.where(scales > 0, scales, 1.0).unsqueeze(-1)
            rows = rows.round() if self._format.dtype == torch.int8 else rows
            pool.scales[place].index_copy_(0, slots, scales)
        _bits(pool.values[place]).index_copy_(0, slots, _bits(rows.to(self._format.dtype)))

    def read(self, layer: int, slots: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy keys and values out, each [1, K, T, D] of `dtype`."""
        group, place = self._places[layer]
        pool = self.pools[group]
        rows = _bits(pool.values[place]).index_select(0, slots).view(self._format.dtype).to(dtype)
        if pool.scales is not None:
            rows = rows * pool.scales[place].index_select(0, slots).unsqueeze(-1).to(dtype)
        by_head = rows.transpose(0, 1).unsqueeze(0)
        return by_head[:, : self.shape.kv_heads], by_head[:, self.shape.kv_heads :]

    def copy(self, copies: tuple[BlockCopy, ...]) -> None:
        """Copy slots between blocks, one after the other."""
        size = self.shape.block_size
        for one in copies:
            source, target = one.source * size, one.target * size
            for part in self.pools[one.group].parts:
                part[:, target : target + one.tokens] = part[:, source : source + one.tokens]

    def read_block(self, group: int, block: int) -> bytes:
        """Return the bytes of a block, every layer of the group, scales behind the values."""
        return b"".join(
            part.contiguous().view(torch.uint8).cpu().numpy().tobytes() for part in self._block(group, block)
        )

    def write_block(self, group: int, block: int, payload: bytes) -> None:
        """Put back what `read_block` returned, bit for bit.

        Raises:
            ValueError: the payload is of another size.
        """
        if len(payload) != self.block_bytes(group):
            raise ValueError(f"{len(payload)} bytes are not a block of group {group}")
        at = 0
        for part in self._block(group, block):
            size = part.numel() * part.itemsize
            raw = torch.frombuffer(bytearray(payload[at : at + size]), dtype=torch.uint8)
            part.copy_(raw.view(part.dtype).view(part.shape))
            at += size

    def block_bytes(self, group: int) -> int:
        """Bytes of one block over all layers of the group."""
        head = self.shape.head_dim * self._format.dtype.itemsize + self._format.slot_overhead_bytes
        return len(self.pools[group].group.layers) * self.shape.block_size * 2 * self.shape.kv_heads * head

    def _pool(self, group: KvGroup, num_blocks: int) -> KvPool:
        shape = self.shape
        size = (len(group.layers), num_blocks * shape.block_size, 2 * shape.kv_heads)
        values = torch.empty(*size, shape.head_dim, dtype=self._format.dtype, device=shape.device)
        scales = None if self._format.limit is None else torch.empty(size, device=shape.device)
        return KvPool(group, values, scales)

    def _block(self, group: int, block: int) -> tuple[torch.Tensor, ...]:
        size = self.shape.block_size
        return tuple(part[:, block * size : (block + 1) * size] for part in self.pools[group].parts)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """View fp8 as plain bytes, which is all that moving it takes; torch does not index fp8 everywhere."""
    return tensor.view(torch.uint8) if tensor.dtype == torch.float8_e4m3fn else tensor
