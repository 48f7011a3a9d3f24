"""Qwen2 and Qwen2.5: Llama with biases on queries, keys and values."""

from engine.models.family import Family

QWEN2 = Family(architectures=("Qwen2ForCausalLM",), gguf="qwen2", qkv_bias=True)
