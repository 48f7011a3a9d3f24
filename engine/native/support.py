"""Which machines, models and KV formats the native kernels can run; a reason in words where not."""

import platform

import torch

from engine.loader.contract import ModelConfig

KV_KINDS = {"fp32": 0, "fp16": 1, "bf16": 2, "int8": 3}
"""KV formats the kernels know, as `enum kv_kind` of src/attention.h numbers them."""

ACTIVATIONS = {"silu": 0, "gelu_tanh": 1}
"""`enum activation` of src/rows.h."""

LARGEST_HEAD = 256
HEAD_GRAIN = 16


def machine_gap() -> str | None:
    """Say what this machine lacks; None when nothing."""
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return f"the native kernels are for x86-64, this machine is {platform.machine()}"
    # Every processor with AVX2 and FMA, which is what torch looks for, also converts halves (F16C).
    capability = torch.backends.cpu.get_cpu_capability()
    if not capability.startswith(("AVX2", "AVX512")):
        return f"the processor has no AVX2 ({capability})"
    return None


def model_gap(config: ModelConfig, kv_dtype: str) -> str | None:
    """Say what a model or its KV format has that the kernels do not know; None when nothing."""
    if config.head_dim % HEAD_GRAIN or config.head_dim > LARGEST_HEAD:
        return f"heads of {config.head_dim} are not a multiple of {HEAD_GRAIN} up to {LARGEST_HEAD}"
    if config.activation not in ACTIVATIONS:
        return f"activation {config.activation!r} is unknown to the native kernels"
    if kv_dtype not in KV_KINDS:
        return f"KV type {kv_dtype!r} is unknown to the native kernels"
    return None
