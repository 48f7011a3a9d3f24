"""`python -m bench.cached_equals_cold --data FOLDER [--json]`: the prefix cache changes no answer.

Conversations are answered greedily twice: many at a time with the prefix cache on, and one at a time with it off.
In the recorded conversations each turn extends the prompt of the last; in the chats the second turn extends the
engine's own answer, so that keys and values from decoding are reused by a prompt.
"""

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from bench.data import require
from engine.config import EngineConfig, EngineSpec
from engine.core import Core
from engine.detokenizer import OutputText
from engine.metrics import Metrics
from engine.packaged import packaged_model
from engine.sampling import SamplingParams
from engine.sequence import Sequence as Answer
from engine.wiring import Loaded, build_core, load

_DIALOGUES, _CHATS = "traces/sgd_dialogues.jsonl.gz", "prompts/mt_bench.jsonl"
Message = dict[str, str]


@dataclass(slots=True)
class Talk:
    """A conversation as it is answered.

    Attributes:
        turns: recorded messages, user first; None in the place of an answer that the engine's own takes.
        answers: token ids of the engine's answers, one for each user turn.
    """

    turns: list[Message | None]
    history: list[Message] = field(default_factory=list)
    answers: list[list[int]] = field(default_factory=list)


class Side:
    """One way of serving: a core with a KV cache of its own over the shared weights."""

    def __init__(self, loaded: Loaded, max_tokens: int) -> None:
        self._loaded, self._max_tokens = loaded, max_tokens
        self._core: Core = build_core(loaded, Metrics())
        self._next_id = 0
        self.cached_tokens = self.prompt_tokens = 0

    def answer(self, talks: Sequence[Talk], width: int) -> None:
        """Answer every turn of every talk, `width` talks at a time."""
        waiting = iter(talks)
        while together := list(islice(waiting, width)):
            while self._round(together):
                pass

    def _round(self, talks: Iterable[Talk]) -> bool:
        asked = [(talk, self._ask(talk)) for talk in talks if _advance(talk)]
        while self._core.has_work:
            for event in self._core.step():
                if event.error is not None:
                    raise event.error
        for talk, answer in asked:
            talk.answers.append(answer.output_ids)
            self.prompt_tokens += len(answer.prompt_ids)
            self.cached_tokens += 0 if answer.prefix is None else answer.prefix.hit_tokens
            if talk.turns and talk.turns[0] is None:
                ids = [token for token in answer.output_ids if token not in self._loaded.checkpoint.eos_ids]
                text = self._loaded.checkpoint.tokenizer.decode(ids)
                talk.turns[0] = {"role": "assistant", "content": text}
        return bool(asked)

    def _ask(self, talk: Talk) -> Answer:
        checkpoint = self._loaded.checkpoint
        assert checkpoint.template is not None
        ids = checkpoint.tokenizer.encode(checkpoint.template.render(talk.history))
        params = SamplingParams(max_tokens=self._max_tokens, temperature=0)
        answer = Answer(self._next_id, 0, tuple(ids), params, 0, OutputText(()), time.monotonic())
        self._next_id += 1
        for event in self._core.add(answer):
            if event.error is not None:
                raise event.error
        return answer


def _advance(talk: Talk) -> bool:
    """Move turns into the history up to the next user turn; False at the end."""
    while talk.turns:
        turn = talk.turns.pop(0)
        assert turn is not None
        talk.history.append(turn)
        if turn["role"] == "user":
            return True
    return False


def main() -> int:
    """Answer twice, compare, print; 1 when anything differs."""
    options = _options()
    config = EngineConfig(max_running=options.width, kv_dtype=options.kv_dtype, runner=options.runner)
    spec = EngineSpec(options.model or packaged_model(), "bench", options.threads, config)
    loaded = load(spec)
    cold_loaded = load(replace(spec, config=replace(config, prefix_cache=False)))
    report: dict[str, Any] = {"kv_dtype": options.kv_dtype, "answer_tokens": options.max_tokens}
    different = 0
    for name, source in ((_DIALOGUES, _dialogues), (_CHATS, _chats)):
        cached, cold = list(source(options)), list(source(options))
        on, off = Side(loaded, options.max_tokens), Side(cold_loaded, options.max_tokens)
        on.answer(cached, options.width)
        off.answer(cold, 1)
        found = _compare(cached, cold)
        different += found["answers_that_differ"]
        report[name] = found | {
            "prompt_tokens": on.prompt_tokens,
            "cached_tokens": on.cached_tokens,
            "cached_tokens_cold": off.cached_tokens,
        }
    print(json.dumps(report, indent=None if options.json else 2))
    return int(different > 0)


def _compare(cached: Sequence[Talk], cold: Sequence[Talk]) -> dict[str, int]:
    pairs = [
        (ours, theirs)
        for one, other in zip(cached, cold, strict=True)
        for ours, theirs in zip(one.answers, other.answers, strict=True)
    ]
    return {
        "conversations": len(cached),
        "answers": len(pairs),
        "answers_that_differ": sum(ours != theirs for ours, theirs in pairs),
    }


def _dialogues(options: argparse.Namespace) -> Iterator[Talk]:
    with gzip.open(options.data / _DIALOGUES, "rt", encoding="utf-8") as file:
        for line in islice(file, options.dialogues):
            yield Talk(list(json.loads(line)["messages"][: options.messages]))


def _chats(options: argparse.Namespace) -> Iterator[Talk]:
    with (options.data / _CHATS).open(encoding="utf-8") as file:
        for line in islice(file, options.chats):
            first, *rest = json.loads(line)["turns"]
            turns: list[Message | None] = [{"role": "user", "content": first}]
            for text in rest:
                turns += [None, {"role": "user", "content": text}]
            yield Talk(turns)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cached_equals_cold", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"folder that holds {_DIALOGUES} and {_CHATS}")
    parser.add_argument("--model", type=Path, help="default: the packaged model")
    parser.add_argument("--runner", default="auto", help="what computes the steps, as the engine's flag")
    parser.add_argument("--kv-dtype", default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--width", type=int, default=8, help="conversations answered together on the cached side")
    parser.add_argument("--dialogues", type=int, default=1_000_000)
    parser.add_argument("--messages", type=int, default=1_000_000, help="of each dialogue")
    parser.add_argument("--chats", type=int, default=1_000_000)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args()
    require(parser, options.data, (_DIALOGUES, _CHATS))
    return options


if __name__ == "__main__":
    sys.exit(main())
