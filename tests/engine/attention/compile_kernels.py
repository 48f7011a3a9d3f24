"""Compiles kernels for a GPU that need not be there; a JSON line for each: `... CAPABILITY [SHAPE [KIND ...]]`.

Triton carries its own assembler, so what a launch would compile can be compiled anywhere. A stand-in for the
driver names the target, and launches stop when the machine code is there.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from engine.attention.triton_kernels.copy import copy_slots
from engine.attention.triton_kernels.decode import DecodeBatch, decode_attention
from engine.attention.triton_kernels.pool import LayerPool
from engine.attention.triton_kernels.prefill import PrefillBatch, prefill_attention
from engine.attention.triton_kernels.rows import TritonRowOps
from engine.attention.triton_kernels.store import store_rows

SHAPES = {
    "gqa64": (9, 3, 64, None),
    "gqa128": (32, 8, 128, None),
    "mqa256": (4, 1, 256, 512),
    "mha80": (8, 8, 80, None),
}
KINDS = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "int8": torch.int8,
    "fp8": torch.float8_e4m3fn,
}
SCALED = (torch.int8, torch.float8_e4m3fn)


class NamedTarget:
    """A driver that knows what it drives, and nothing else."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device


def main(capability: int, shape: str, kinds: list[str]) -> None:
    driver.set_active(NamedTarget(capability))
    launch = JITFunction.run
    label = [""]

    def compiled(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        kernel = launch(self, *args, grid=grid, warmup=True, **kwargs)
        line = {"kernel": self.fn.__name__, "case": label[0], **figures(kernel, capability)}
        sys.stdout.write(json.dumps(line) + "\n")
        return kernel

    JITFunction.run = compiled
    for chosen in [shape] if shape else SHAPES:
        heads, kv_heads, dim, window = SHAPES[chosen]
        for name in kinds or KINDS:
            label[0] = f"{chosen} {name}"
            attention(heads, kv_heads, dim, (window, KINDS[name]))
    label[0] = "rows"
    rows()


def attention(heads: int, kv_heads: int, dim: int, rest: tuple[int | None, torch.dtype]) -> None:
    """Launch what a step over such a pool launches."""
    window, kind = rest
    dtype = torch.bfloat16 if kind in SCALED else kind
    values = torch.zeros(64, 2 * kv_heads, dim, dtype=kind)
    scales = torch.zeros(64, 2 * kv_heads) if kind in SCALED else None
    pool = LayerPool(values, scales, 32)
    projected = torch.zeros(4, heads + 2 * kv_heads, dim, dtype=dtype)
    store_rows(projected[:, heads:], torch.zeros(4, dtype=torch.int64), pool)
    tables, lengths = torch.zeros(4, 2, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    out = torch.zeros(4, heads, dim, dtype=dtype)
    for splits in (1, 4, 16):
        batch = DecodeBatch(tables, lengths, splits)
        decode_attention(projected[:, :heads], pool, batch, out, score_scale=0.1, window=window)
    chunks = PrefillBatch(tables, lengths, torch.zeros(5, dtype=torch.int32), 4)
    prefill_attention(projected[:, :heads], pool, chunks, out, score_scale=0.1, window=window)
    copy_slots(values[None], torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64))


def rows() -> None:
    """Launch what lies between matrix products."""
    for width in (576, 4096):
        for activation in ("silu", "gelu_tanh"):
            ops = TritonRowOps(1e-6, torch.bfloat16, activation)
            stream, half = torch.zeros(3, width), torch.zeros(3, width, dtype=torch.bfloat16)
            ops.add_norm(stream, half, None, torch.zeros(width))
            ops.add_norm(stream, half, torch.zeros(width), torch.zeros(width))
            ops.add_norm(stream, None, None, torch.zeros(width))
            ops.gate(torch.zeros(3, 2 * width, dtype=torch.bfloat16))
    for gains in (None, torch.zeros(6, 128)):
        heads = torch.zeros(3, 8, 128, dtype=torch.bfloat16)[:, :6]
        ops.turn(heads, torch.zeros(3, dtype=torch.int64), torch.zeros(9, 128), gains)


def figures(kernel: Any, capability: int) -> dict[str, int]:
    """Shared memory by Triton's count; registers and spills by the assembler's."""
    assembler = get_ptxas(capability).path
    suffix = "a" if capability == 90 else ""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "kernel.ptx")
        source.write_text(kernel.asm["ptx"], "utf-8")
        command = [
            assembler,
            "-v",
            f"--gpu-name=sm_{capability}{suffix}",
            str(source),
            "-o",
            f"{scratch}/kernel.cubin",
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return {
        "shared_bytes": kernel.metadata.shared,
        "registers": int(re.search(r"Used (\d+) registers", said)[1]),
        "spilled_bytes": int(re.search(r"(\d+) bytes spill stores", said)[1]),
        "warps": kernel.metadata.num_warps,
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), "".join(sys.argv[2:3]), sys.argv[3:])
