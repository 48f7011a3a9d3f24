"""Hugging Face transformers on the same weights, dequantised to fp32, through `generate`."""

import argparse
import logging
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from bench.engine.answering import Task, answer, ids_from
from engine.loader import open_checkpoint


class Transformers:
    """A loaded model."""

    def __init__(self, path: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        checkpoint = open_checkpoint(path)
        shape = checkpoint.config
        config = transformers.LlamaConfig(
            vocab_size=shape.vocab,
            hidden_size=shape.hidden,
            intermediate_size=shape.intermediate,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            max_position_embeddings=shape.context,
            rms_norm_eps=shape.norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
            tie_word_embeddings=shape.tied,
        )
        self.model: Any = transformers.LlamaForCausalLM(config)
        self.model.train(mode=False)
        own = self.model.state_dict()
        taken = {
            name: checkpoint.weights.take(name, *own[name].shape) for name in own if name in checkpoint.weights
        }
        self.model.load_state_dict(taken, strict=False)
        self.model.tie_weights()
        self.vocab = shape.vocab
        self._seed = 0

    def _fresh(self, rows: int, count: int) -> torch.Tensor:
        self._seed += rows
        return torch.tensor([ids_from(self._seed - row, count, self.vocab) for row in range(rows)])

    def _generate(self, ids: torch.Tensor, tokens: int) -> float:
        began = time.perf_counter()
        self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            pad_token_id=0,
        )
        return time.perf_counter() - began

    @torch.inference_mode()
    def prefill(self, tokens: int) -> float:
        """Time a prompt and its first token."""
        return self._generate(self._fresh(1, tokens), 1)

    @torch.inference_mode()
    def decode(self, sequences: int, context: int, tokens: int) -> float:
        """Time `tokens` steps of a batch: a long generation less a short one over the same prompts."""
        ids = self._fresh(sequences, context)
        short = self._generate(ids, 1)
        return self._generate(ids, tokens + 1) - short


def main() -> None:
    """Load and answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    peer = Transformers(options.model, options.threads)
    tasks: dict[str, Task] = {"prefill": peer.prefill, "decode": peer.decode}
    answer({"name": "transformers", "version": transformers.__version__, "kv": "f32"}, tasks)


if __name__ == "__main__":
    main()
