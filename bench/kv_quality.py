"""`python -m bench.kv_quality --data FOLDER [--json]`: what a smaller KV format costs in quality.

Text is teacher-forced token by token, so that every prediction reads the pool: perplexity,
and how often the most likely token is that of the first format. Beside it, greedy answers to chat prompts.
"""

import argparse
import gzip
import json
import math
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from bench.data import require
from engine.config import EngineConfig, EngineSpec
from engine.core import Core, StepRunner
from engine.detokenizer import OutputText
from engine.loader import Checkpoint
from engine.metrics import Metrics
from engine.packaged import packaged_model
from engine.plan.kv import KV_TYPES
from engine.sampling import SamplingParams
from engine.sequence import Sequence as Answer
from engine.wiring import build_core, load

_TEXT, _CHATS = "prompts/wikitext2.jsonl.gz", "prompts/mt_bench.jsonl"
_HEAD_TOKENS = 32
_ANSWER_TOKENS = 64


@dataclass(slots=True)
class Score:
    """What one format made of the text and the chats.

    Attributes:
        nats: negative log-likelihoods of the true tokens.
        best: most likely token at each of those places.
        answers: greedy answers.
    """

    nats: list[float] = field(default_factory=list)
    best: list[int] = field(default_factory=list)
    answers: list[list[int]] = field(default_factory=list)
    kv_bytes_per_token: float = 0.0
    seconds: float = 0.0

    @property
    def perplexity(self) -> float:
        """Exponential of the mean."""
        return math.exp(sum(self.nats) / len(self.nats))


class Forced:
    """Runs texts whose tokens are known through the engine's own scheduler and kernels."""

    def __init__(self, core: Core, runner: StepRunner) -> None:
        self._scheduler, self._runner = core.scheduler, runner

    def run(self, texts: Sequence[Sequence[int]], score: Score) -> None:
        """Score every token after the head of each text; all texts run together."""
        rows = [self._row(number, ids) for number, ids in enumerate(texts)]
        nats: list[list[float]] = [[] for _ in rows]
        best: list[list[int]] = [[] for _ in rows]
        for row in rows:
            self._scheduler.add(row)
        while self._scheduler.has_work:
            plan = self._scheduler.plan(time.monotonic())
            logits = self._runner.run(plan)
            sampling = [item.sequence for item in plan.work if item.samples]
            self._scheduler.computed(plan, time.monotonic())
            logprobs = torch.log_softmax(logits.float(), dim=-1)
            for sequence, line in zip(sampling, logprobs, strict=True):
                true = texts[sequence.seq_id][sequence.num_tokens]
                nats[sequence.seq_id].append(-float(line[true]))
                best[sequence.seq_id].append(int(line.argmax()))
                sequence.output_ids.append(true)
                if sequence.num_tokens == len(texts[sequence.seq_id]):
                    self._scheduler.finish(sequence, time.monotonic())
        score.nats = [value for of in nats for value in of]
        score.best = [value for of in best for value in of]

    def _row(self, number: int, ids: Sequence[int]) -> Answer:
        params = SamplingParams(max_tokens=len(ids) - _HEAD_TOKENS, temperature=0, ignore_eos=True)
        return Answer(number, 0, tuple(ids[:_HEAD_TOKENS]), params, 0, OutputText(()), 0.0)


def main() -> int:
    """Run every format over the same text and print."""
    options = _options()
    model = options.model or packaged_model()
    scores: dict[str, Score] = {}
    for name in options.formats:
        _tell(f"{name} ...")
        scores[name] = _score(model, name, options)
    report = _report(scores, options)
    print(json.dumps(report, indent=None if options.json else 2))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.kv_quality", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"folder that holds {_TEXT} and {_CHATS}")
    parser.add_argument("--model", type=Path, help="default: the packaged model")
    parser.add_argument("--formats", nargs="+", default=["fp32", "fp16", "int8"], help="the first is the standard")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--windows", type=int, default=16, help="texts, one per document")
    parser.add_argument("--tokens", type=int, default=384, help="tokens of each text")
    parser.add_argument("--chats", type=int, default=16, help="prompts answered greedily")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args()
    require(parser, options.data, (_TEXT, _CHATS))
    return options


def _score(model: Path, kv_dtype: str, options: argparse.Namespace) -> Score:
    tokens = options.windows * (options.tokens + 64)
    config = EngineConfig(kv_tokens=max(16384, tokens), max_running=options.windows, kv_dtype=kv_dtype)
    config = replace(config, step_tokens=config.chunk_tokens + config.max_running)
    loaded = load(EngineSpec(model, "bench", options.threads, config))
    checkpoint = loaded.checkpoint
    score = Score()
    began = time.perf_counter()
    Forced(build_core(loaded, Metrics()), loaded.runner).run(_texts(checkpoint, options), score)
    core = build_core(loaded, Metrics())
    score.answers = [_greedy(core, number, ids) for number, ids in enumerate(_chats(checkpoint, options))]
    score.seconds = time.perf_counter() - began
    shape = checkpoint.config
    score.kv_bytes_per_token = shape.layers * 2 * shape.kv_heads * KV_TYPES[kv_dtype].row_bytes(shape.head_dim)
    return score


def _texts(checkpoint: Checkpoint, options: argparse.Namespace) -> list[list[int]]:
    with gzip.open(options.data / _TEXT, "rt", encoding="utf-8") as file:
        encoded = (checkpoint.tokenizer.encode(json.loads(line)["text"]) for line in file)
        long = (ids[: options.tokens] for ids in encoded if len(ids) >= options.tokens)
        return [ids for ids, _ in zip(long, range(options.windows), strict=False)]


def _chats(checkpoint: Checkpoint, options: argparse.Namespace) -> Iterable[list[int]]:
    template = checkpoint.template
    for line in (options.data / _CHATS).read_text(encoding="utf-8").splitlines()[: options.chats]:
        question: dict[str, Any] = json.loads(line)
        text = question["turns"][0]
        if template is not None:
            text = template.render([{"role": "user", "content": text}])
        yield checkpoint.tokenizer.encode(text)


def _greedy(core: Core, number: int, ids: Sequence[int]) -> list[int]:
    params = SamplingParams(max_tokens=_ANSWER_TOKENS, temperature=0, ignore_eos=True)
    answer = Answer(number, 0, tuple(ids), params, 0, OutputText(()), 0.0)
    core.add(answer)
    while core.has_work:
        core.step()
    return answer.output_ids


def _report(scores: dict[str, Score], options: argparse.Namespace) -> dict[str, Any]:
    standard_name, standard = next(iter(scores.items()))
    formats = {}
    for name, score in scores.items():
        same = [ours == theirs for ours, theirs in zip(score.best, standard.best, strict=True)]
        equal = [_agreed(ours, theirs) for ours, theirs in zip(score.answers, standard.answers, strict=True)]
        formats[name] = {
            "perplexity": round(score.perplexity, 4),
            "perplexity_over_standard": round(score.perplexity / standard.perplexity, 5),
            "top_token_agreement": round(sum(same) / len(same), 5),
            "greedy_answers_identical": sum(count == _ANSWER_TOKENS for count in equal),
            "greedy_tokens_before_difference": round(sum(equal) / len(equal), 1),
            "kv_bytes_per_token": score.kv_bytes_per_token,
            "seconds": round(score.seconds, 1),
        }
    return {
        "standard": standard_name,
        "scored_tokens": len(standard.nats),
        "answers": len(standard.answers),
        "answer_tokens": _ANSWER_TOKENS,
        "text": _TEXT,
        "chats": _CHATS,
        "context_tokens": options.tokens,
        "formats": formats,
    }


def _agreed(ours: Sequence[int], theirs: Sequence[int]) -> int:
    pairs = zip(ours, theirs, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), len(theirs))


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
