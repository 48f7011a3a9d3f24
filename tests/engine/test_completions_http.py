"""Completions and tokens over a real socket, by the official SDK where it knows them."""

import json
from pathlib import Path

import openai
import pytest

from engine.sequence import Sequence
from tests.engine import tiny
from tests.engine.fakes import ScriptedRunner, byte_tokenizer, script
from tests.engine.serving import NAME, Served, serving

SAYING = "Hé said: 12 🙂!"


def call(**fields: object) -> dict[str, object]:
    return {"model": NAME, "prompt": "once", "temperature": 0, "max_tokens": 40} | fields


@pytest.fixture(scope="module")
def served(tiny_folder: Path) -> object:
    with serving(tiny_folder, ScriptedRunner(300, script(SAYING))) as running:
        yield running


async def test_text_and_tokens_are_prompts(served: Served) -> None:
    async with served.sdk() as client:
        for prompt in ("once", byte_tokenizer().encode("once")):
            answer = await client.completions.create(**call(prompt=prompt))
            (choice,) = answer.choices
            assert (choice.text, choice.finish_reason, choice.index) == (SAYING, "stop", 0)
            assert (answer.object, answer.id[:5]) == ("text_completion", "cmpl-")
            assert answer.usage is not None
            assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (4, len(SAYING.encode()) + 1)


async def test_a_stream_of_several_prompts_accumulates_to_the_same_answers(served: Served) -> None:
    fields = call(prompt=["once", "upon a"], n=2, stream_options={"include_usage": True})
    texts = [""] * 4
    ends = [""] * 4
    async with served.sdk() as client:
        stream = await client.completions.create(**fields, stream=True)
        async for chunk in stream:
            for choice in chunk.choices:
                texts[choice.index] += choice.text
                ends[choice.index] = choice.finish_reason or ends[choice.index]
            used = chunk.usage
        whole = await client.completions.create(**call(prompt=["once", "upon a"], n=2))
    assert texts == [SAYING] * 4 == [choice.text for choice in whole.choices]
    assert ends == ["stop"] * 4
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    assert used is not None
    assert whole.usage is not None
    assert (used.prompt_tokens, used.completion_tokens) == (
        whole.usage.prompt_tokens,
        whole.usage.completion_tokens,
    )
    assert used.prompt_tokens == 10


async def test_16_tokens_are_the_default(served: Served) -> None:
    async with served.sdk() as client:
        answer = await client.completions.create(model=NAME, prompt="once", temperature=0)
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (16, "length")


@pytest.mark.parametrize("stream", [False, True])
async def test_logprobs_in_the_older_shape(served: Served, stream: bool) -> None:
    async with served.http() as http:
        reply = await http.post("/v1/completions", json=call(logprobs=2, stream=stream))
    bodies = [json.loads(one[6:]) for one in reply.text.split("\n\n")[:-2]] if stream else [reply.json()]
    found = [body["choices"][0]["logprobs"] for body in bodies]
    count = len(SAYING.encode())
    assert sum(len(one["tokens"]) for one in found) == count
    assert all(len(top) == 2 for one in found for top in one["top_logprobs"])
    assert all(value <= 0 for one in found for value in one["token_logprobs"])
    assert [offset for one in found for offset in one["text_offset"]][:2] == [0, 1]


async def test_nothing_is_generated_where_nothing_is_asked_for(served: Served) -> None:
    async with served.sdk() as client:
        answer = await client.completions.create(**call(max_tokens=0))
        warmed = await client.chat.completions.create(
            model=NAME, messages=[{"role": "user", "content": "hi"}], max_tokens=0
        )
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("", "length")
    assert (warmed.choices[0].message.content, warmed.choices[0].finish_reason) == ("", "length")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 0


async def test_best_of_gives_the_likeliest(tiny_folder: Path) -> None:
    def token(sequence: Sequence) -> int | None:
        """The third sample is surer than the others."""
        return 65 + sequence.sample_index

    runner = ScriptedRunner(300, token)
    with serving(tiny_folder, runner) as running:
        async with running.sdk() as client:
            answer = await client.completions.create(**call(max_tokens=3, n=1, best_of=3, logit_bias={"67": 5}))
            with pytest.raises(openai.BadRequestError):
                await client.completions.create(**call(n=2, best_of=1))
            with pytest.raises(openai.BadRequestError):
                await client.completions.create(**call(n=1, best_of=2), stream=True)
    assert len(answer.choices) == 1
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 9


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": [99999]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": ["a", 7]}, "prompt[1]"),
        ({"prompt": ["a"] * 65}, "prompt"),
        ({"prompt": ["a"] * 33, "n": 4}, "n"),
        ({"prompt": "x" * 5000}, "prompt"),
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"logprobs": 6}, "logprobs"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"min_tokens": 99}, "min_tokens"),
        ({"extra_body": {"guided_regex": "("}}, "guided_regex"),
        ({"extra_body": {"allowed_token_ids": [99999]}}, "allowed_token_ids"),
    ],
)
async def test_a_bad_field_is_named(served: Served, fields: dict[str, object], param: str | None) -> None:
    extra = fields.pop("extra_body", {})
    async with served.http() as http:
        reply = await http.post("/v1/completions", json=call(**fields) | extra)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param


async def test_a_completion_may_follow_a_grammar_and_keep_off_words(served: Served) -> None:
    async with served.sdk() as client:
        held = await client.completions.create(**call(extra_body={"guided_choice": ["yes", "no"]}))
        kept = await client.completions.create(**call(max_tokens=2, extra_body={"bad_words": ["H", "he"]}))
    assert held.choices[0].text in {"yes", "no"}
    assert not kept.choices[0].text.startswith("H")


async def test_tokens_go_out_and_come_back(served: Served) -> None:
    async with served.http() as http:
        found = (await http.post("/tokenize", json={"prompt": "hello é", "return_token_strs": True})).json()
        assert found["tokens"] == byte_tokenizer().encode("hello é")
        assert (found["count"], found["max_model_len"]) == (len(found["tokens"]), 512)
        assert found["token_strs"][0] == "hello"
        back = await http.post("/detokenize", json={"tokens": found["tokens"]})
        assert back.json() == {"prompt": "hello é"}
        chat = {"messages": [{"role": "user", "content": "hello"}]}
        assert (await http.post("/tokenize", json=chat)).json()["tokens"][0] == tiny.SPECIALS.index("<|im_start|>")
        for bad in ({}, {"prompt": 7}, {"prompt": "a", "messages": []}):
            assert (await http.post("/tokenize", json=bad)).status_code == 400
        for tokens in (["a"], [2**40], [100_000]):
            assert (await http.post("/detokenize", json={"tokens": tokens})).status_code == 400


async def test_logprobs_and_penalties_are_the_same_on_a_cached_prompt(tiny_folder: Path) -> None:
    """vllm#8268, llama.cpp#8971: a prompt that is not computed again still counts."""
    config = tiny.small_config()
    with serving(tiny_folder, tiny.build_runner(tiny_folder, config)[1], config) as running:
        async with running.sdk() as client:
            fields = call(
                prompt="say it again and again, " * 4,
                max_tokens=8,
                temperature=0.7,
                seed=5,
                logprobs=3,
                extra_body={"repetition_penalty": 1.3, "ignore_eos": True},
            )
            cold, warm = [await client.completions.create(**fields) for _ in range(2)]
    assert cold.usage is not None
    assert warm.usage is not None
    assert cold.usage.prompt_tokens_details is not None
    assert warm.usage.prompt_tokens_details is not None
    assert cold.usage.prompt_tokens_details.cached_tokens == 0

    first, second = cold.choices[0], warm.choices[0]
    assert first.logprobs is not None
    assert second.logprobs is not None
    assert first.text == second.text
    assert second.logprobs.tokens == first.logprobs.tokens
    assert second.logprobs.token_logprobs == pytest.approx(first.logprobs.token_logprobs, abs=1e-4)
