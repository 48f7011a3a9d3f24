"""Qwen3: Llama with a norm on each query and key head."""

from engine.models.family import Family

QWEN3 = Family(architectures=("Qwen3ForCausalLM",), gguf="qwen3", qk_norm=True)
