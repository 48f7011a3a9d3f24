"""Tiny random models on disk, made in a moment, and what it takes to run them."""

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from engine.attention.contract import Segment
from engine.attention.paged import PagedKV
from engine.config import EngineConfig
from engine.detokenizer import OutputText
from engine.kv.contract import NULL_BLOCK
from engine.kv.kv_cache import KvCache
from engine.loader import Checkpoint, ModelConfig, open_checkpoint
from engine.models.contract import StepInput
from engine.models.read_decoder import read_decoder
from engine.pool import new_kv
from engine.runner import Runner, RunnerSpec
from engine.runner import build_runner as packed_runner
from engine.sampler import sample
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.tokenizer import byte_alphabet

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
}
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
EOS_ID = 2
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "t"), ("Ã", "©")]


@dataclass(frozen=True)
class Shape:
    """What varies between tiny models."""

    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    hidden: int = 48
    layers: int = 2
    intermediate: int = 80
    context: int = 1024
    tied: bool = True
    rope: str = "default"
    family: str = "llama"
    window: int = 8
    seed: int = 0


def byte_level_tokenizer() -> tokenizers.Tokenizer:
    """256 byte tokens behind three special ones, and a few merges."""
    tokens = [*SPECIALS, *sorted(byte_alphabet()), *("".join(pair) for pair in _MERGES)]
    backend = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, _MERGES))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIALS])
    return backend


def hf_config(shape: Shape, vocab: int) -> dict[str, object]:
    """The config.json of a shape."""
    config: dict[str, object] = {
        "architectures": [ARCHITECTURES[shape.family]],
        "model_type": "gemma3_text" if shape.family == "gemma3" else shape.family,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "vocab_size": vocab,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": shape.tied,
        "eos_token_id": EOS_ID,
    }
    if shape.family == "gemma3":
        config |= {
            "hidden_activation": "gelu_pytorch_tanh",
            "sliding_window": shape.window,
            "rope_theta": 1_000_000.0,
            "rope_local_base_freq": 10_000.0,
            "query_pre_attn_scalar": shape.head_dim,
        }
    if shape.rope == "linear":
        config["rope_scaling"] = {"rope_type": "linear", "factor": 8.0}
    if shape.rope == "llama3":
        config["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 128,
        }
    return config


def random_weights(shape: Shape, vocab: int) -> dict[str, torch.Tensor]:
    """Weights by Hugging Face name, large enough to make attention and order matter."""
    generator = torch.Generator().manual_seed(shape.seed)

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator) * (1.5 / size[-1] ** 0.5)

    def gain(size: int) -> torch.Tensor:
        return draw(size) + (0 if shape.family == "gemma3" else 1)

    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    weights = {
        "model.embed_tokens.weight": draw(vocab, shape.hidden) * 4,
        "model.norm.weight": gain(shape.hidden),
    }
    for index in range(shape.layers):
        name = f"model.layers.{index}."
        weights |= {
            f"{name}input_layernorm.weight": gain(shape.hidden),
            f"{name}post_attention_layernorm.weight": gain(shape.hidden),
            f"{name}self_attn.q_proj.weight": draw(query, shape.hidden),
            f"{name}self_attn.k_proj.weight": draw(key, shape.hidden),
            f"{name}self_attn.v_proj.weight": draw(key, shape.hidden),
            f"{name}self_attn.o_proj.weight": draw(shape.hidden, query),
            f"{name}mlp.gate_proj.weight": draw(shape.intermediate, shape.hidden),
            f"{name}mlp.up_proj.weight": draw(shape.intermediate, shape.hidden),
            f"{name}mlp.down_proj.weight": draw(shape.hidden, shape.intermediate),
        }
        if shape.family == "qwen2":
            sizes = {"q": query, "k": key, "v": key}
            weights |= {f"{name}self_attn.{part}_proj.bias": draw(size) for part, size in sizes.items()}
        if shape.family in ("qwen3", "gemma3"):
            weights |= {f"{name}self_attn.{part}_norm.weight": gain(shape.head_dim) for part in "qk"}
        if shape.family == "gemma3":
            weights |= {
                f"{name}{part}_feedforward_layernorm.weight": gain(shape.hidden) for part in ("pre", "post")
            }
    if not shape.tied:
        weights["lm_head.weight"] = draw(vocab, shape.hidden)
    return weights


def write_folder(path: Path, shape: Shape | None = None) -> Path:
    """Write a Hugging Face folder and return it."""
    shape = shape or Shape()
    backend = byte_level_tokenizer()
    vocab = backend.get_vocab_size()
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(hf_config(shape, vocab)))
    (path / "tokenizer.json").write_text(backend.to_str())
    settings = {"chat_template": TEMPLATE, "eos_token": "<|im_end|>", "bos_token": "<|im_start|>"}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    save_file(random_weights(shape, vocab), path / "model.safetensors", metadata={"format": "pt"})
    return path


def small_config(**changes: object) -> EngineConfig:
    """Limits small enough for edges to be near: blocks of 4, chunks of 16."""
    base = EngineConfig(
        block_size=4,
        kv_tokens=512,
        max_running=4,
        max_waiting=8,
        chunk_tokens=16,
        step_tokens=32,
        prefill_tokens=16,
        long_prefill=16,
        weights="fp32",
    )
    return replace(base, **changes)


def build_runner(folder: Path, config: EngineConfig, **choices: str) -> tuple[Checkpoint, Runner]:
    """Load a model; `choices` go into the runner's spec."""
    checkpoint = open_checkpoint(folder)
    weights = read_decoder(checkpoint.config, checkpoint.weights)
    blocks = (config.num_blocks,) * len(checkpoint.config.kv_groups)
    spec = RunnerSpec(config.weights, blocks, config.block_size, **choices)
    return checkpoint, packed_runner(checkpoint.config, weights, spec)


def new_sequence(seq_id: int, prompt: tuple[int, ...], params: SamplingParams | None = None) -> Sequence:
    """A greedy sequence unless `params` say otherwise; its seed is theirs, or 0."""
    params = params or SamplingParams(max_tokens=8, temperature=0)
    return Sequence(seq_id, 0, prompt, params, params.seed or 0, OutputText(params.stop), arrival_s=0.0)


def generate(
    runner: Runner, config: EngineConfig, sequences: list[Sequence], kv: KvCache | None = None
) -> list[list[int]]:
    """Run sequences to their length, together, checking the books after each step."""
    kv = kv or new_kv(config, tuple(pool.group for pool in runner.kv.pools))
    scheduler = Scheduler(config, kv, runner.model.config.context)
    for sequence in sequences:
        scheduler.add(sequence)
    while scheduler.has_work:
        plan = scheduler.plan(0.0)
        logits = runner.run(plan)
        sampling = [item.sequence for item in plan.work if item.samples]
        scheduler.computed(plan, 0.0)
        for sequence, token in zip(sampling, sample(logits, sampling), strict=True):
            assert token is not None, "NaN logits"
            sequence.output_ids.append(token.token_id)
            if len(sequence.output_ids) >= sequence.params.max_tokens:
                scheduler.finish(sequence, 0.0)
        scheduler.check()
    return [sequence.output_ids for sequence in sequences]


def plain_logits(weights: dict[str, torch.Tensor], config: ModelConfig, ids: list[int]) -> torch.Tensor:
    """Every position's logits by the textbook: no cache, no fusion, rotary in two halves. fp32 [T, V]."""
    half = config.head_dim // 2
    frequency = config.rope_theta ** (-torch.arange(half) * 2 / config.head_dim)
    angle = torch.outer(torch.arange(len(ids)).float(), frequency)
    cos, sin = (torch.cat((part, part), -1) for part in (angle.cos(), angle.sin()))

    def norm(rows: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return rows * (rows.square().mean(-1, keepdim=True) + config.norm_eps).rsqrt() * gain

    def rotate(rows: torch.Tensor) -> torch.Tensor:
        return rows * cos + torch.cat((-rows[..., half:], rows[..., :half]), -1) * sin

    stream = weights["model.embed_tokens.weight"][ids]
    hidden = torch.full((len(ids), len(ids)), -torch.inf).triu(1)
    for index in range(config.layers):
        part = {name.removeprefix(f"model.layers.{index}."): value for name, value in weights.items()}
        rows = norm(stream, part["input_layernorm.weight"])
        query, key, value = (
            (rows @ part[f"self_attn.{name}_proj.weight"].T).view(len(ids), -1, config.head_dim).transpose(0, 1)
            for name in "qkv"
        )
        share = config.heads // config.kv_heads
        key, value = rotate(key).repeat_interleave(share, 0), value.repeat_interleave(share, 0)
        scores = rotate(query) @ key.transpose(1, 2) / config.head_dim**0.5 + hidden
        mixed = (scores.softmax(-1) @ value).transpose(0, 1).reshape(len(ids), -1)
        stream = stream + mixed @ part["self_attn.o_proj.weight"].T
        rows = norm(stream, part["post_attention_layernorm.weight"])
        gated = torch.nn.functional.silu(rows @ part["mlp.gate_proj.weight"].T) * (
            rows @ part["mlp.up_proj.weight"].T
        )
        stream = stream + gated @ part["mlp.down_proj.weight"].T
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return norm(stream, weights["model.norm.weight"]) @ head.T


def engine_logits(runner: Runner, config: EngineConfig, ids: list[int]) -> torch.Tensor:
    """Every position's logits through the engine: prefill in chunks, then one token at a time. fp32 [T, V].

    Blocks lie in the pool in any order, and those that have left a window are taken out of its table.
    """
    rows: list[torch.Tensor] = []
    prefill = len(ids) * 15 // 16
    cuts = [*range(0, prefill, config.chunk_tokens), *range(prefill, len(ids) + 1)]
    for start, end in pairwise(cuts):
        count = end - start
        pad = -count % 3
        tables = [scattered(pool.group.window, start, config) for pool in runner.kv.pools]
        step = StepInput(
            ids=torch.tensor(ids[start:end] + [0] * pad),
            positions=torch.tensor([*range(start, end), *[0] * pad]),
            logit_rows=torch.tensor([*range(count), *[0] * pad]),
            num_logits=count,
            attend=runner.attention.step([Segment(0, start, count, start, tables)]),
        )
        with torch.inference_mode():
            rows.append(runner.model.forward(step))
    return torch.cat(rows)


def scattered(window: int | None, start: int, config: EngineConfig) -> list[int]:
    """All blocks in one fixed random order, without those no token from `start` on can see."""
    order = torch.randperm(config.num_blocks, generator=torch.Generator().manual_seed(window or 0)).tolist()
    gone = 0 if window is None else max(0, start + 1 - window) // config.block_size
    return [NULL_BLOCK] * gone + order[gone:]


def poison(kv: PagedKV) -> None:
    """Fill the whole pool with NaN, or quantised with garbage of scale NaN, so that any stale read shows."""
    with torch.inference_mode():
        for pool in kv.pools:
            for part in pool.parts:
                part.fill_(torch.nan if part.dtype.is_floating_point else 99)
