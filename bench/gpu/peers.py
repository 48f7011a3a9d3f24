"""Other engines on the same card, each in a process of its own: `python -m bench.gpu.peers NAME FOLDER`.

They get the same prompts as token ids. A folder that holds nothing but config.json makes them draw their weights.
"""

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.gpu.models import SHAPES
from bench.gpu.serving import prompts_of
from engine.loader import ModelConfig

_TIMEOUT_S = 150
_HF = {"qwen3": ("Qwen3ForCausalLM", "qwen3"), "llama": ("LlamaForCausalLM", "llama")}


def peer_throughput(name: str, model: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Run a peer over the benchmark's prompts (how many, shortest, longest), or say why not."""
    if importlib.util.find_spec(name) is None:
        return {"absent": f"{name} is not installed"}
    with tempfile.TemporaryDirectory() as scratch:
        folder = _folder(model, Path(scratch))
        command = [sys.executable, "-m", "bench.gpu.peers", name, str(folder), *map(str, shape)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return {"failed": f"took longer than {_TIMEOUT_S} s"}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _folder(model: str, scratch: Path) -> Path:
    """A model's own folder, or one with a shape's config.json."""
    if model not in SHAPES:
        return Path(model)
    (scratch / "config.json").write_text(json.dumps(hf_config(SHAPES[model])), "utf-8")
    return scratch


def hf_config(config: ModelConfig) -> dict[str, Any]:
    """Return config.json for a shape."""
    architecture, model_type = _HF[config.family]
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.intermediate,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tied,
        "torch_dtype": "bfloat16",
    }


def _vllm(folder: Path, asked: list[tuple[list[int], int]]) -> dict[str, Any]:
    vllm = importlib.import_module("vllm")
    drawn = not any(folder.glob("*.safetensors"))
    engine = vllm.LLM(
        model=str(folder),
        skip_tokenizer_init=True,
        load_format="dummy" if drawn else "auto",
        max_model_len=4096,
        disable_log_stats=True,
    )
    wishes = [
        vllm.SamplingParams(temperature=0.6, ignore_eos=True, max_tokens=tokens, detokenize=False)
        for _, tokens in asked
    ]
    prompts = [{"prompt_token_ids": prompt} for prompt, _ in asked]
    engine.generate(prompts[:1], wishes[:1], use_tqdm=False)
    began = time.perf_counter()
    answers = engine.generate(prompts, wishes, use_tqdm=False)
    took_s = time.perf_counter() - began
    return _figures(sum(len(one.outputs[0].token_ids) for one in answers), took_s, vllm.__version__)


def _transformers(folder: Path, asked: list[tuple[list[int], int]]) -> dict[str, Any]:
    """Batches of 32 answers of like length, padded on the left: one by one or all at once would be unfair."""
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    auto = transformers.AutoModelForCausalLM
    if any(folder.glob("*.safetensors")):
        model = auto.from_pretrained(str(folder), dtype=torch.bfloat16)
    else:
        model = auto.from_config(transformers.AutoConfig.from_pretrained(str(folder)), dtype=torch.bfloat16)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    asked = sorted(asked, key=lambda one: one[1])
    answered, began = 0, time.perf_counter()
    for start in range(0, len(asked), 32):
        batch = asked[start : start + 32]
        longest = max(len(prompt) for prompt, _ in batch)
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt, _ in batch], device=model.device)
        mask = torch.tensor(
            [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt, _ in batch], device=model.device
        )
        tokens = max(tokens for _, tokens in batch)
        with torch.inference_mode():
            model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                do_sample=True,
                temperature=0.6,
                pad_token_id=0,
            )
        answered += sum(tokens for _, tokens in batch)
    return _figures(answered, time.perf_counter() - began, transformers.__version__)


def _figures(answered: int, took_s: float, version: str) -> dict[str, Any]:
    return {
        "output_tokens": answered,
        "seconds": took_s,
        "output_tokens_per_s": answered / took_s,
        "version": version,
    }


PEERS: Mapping[str, Callable[[Path, list[tuple[list[int], int]]], dict[str, Any]]] = {
    "vllm": _vllm,
    "transformers": _transformers,
}


def main() -> None:
    """Answer the prompts and print one line of JSON, the last one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=PEERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("shape", type=int, nargs=3, metavar="N", help="prompts, shortest and longest")
    options = parser.parse_args()
    config = json.loads((options.folder / "config.json").read_text("utf-8"))
    requests, shortest, longest = options.shape
    asked = prompts_of(requests, shortest, longest, min(10000, config["vocab_size"] - 1))
    print("\n" + json.dumps(PEERS[options.name](options.folder, asked)))


if __name__ == "__main__":
    main()
