"""Llama: the plain decoder."""

from engine.models.family import Family

LLAMA = Family(architectures=("LlamaForCausalLM",), gguf="llama")
