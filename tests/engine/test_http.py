"""The protocol over a real Unix socket, spoken by the official SDK."""

import asyncio
import json
import time
from pathlib import Path

import httpx2
import openai
import pytest

from engine.sequence import Sequence
from tests.engine import tiny
from tests.engine.fakes import Gate, ScriptedRunner, script
from tests.engine.serving import NAME, Served, serving

HELLO = [{"role": "user", "content": "hello"}]
SAYING = "Hé said: 12 🙂!"


def call(**fields: object) -> dict[str, object]:
    return {"model": NAME, "messages": HELLO, "temperature": 0, "max_tokens": 40} | fields


def chunks(text: str) -> list[dict[str, object]]:
    """The events of a stream; checks the frame around them."""
    assert text.endswith("data: [DONE]\n\n")
    events = text.split("\n\n")[:-2]
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events]


@pytest.fixture(scope="module")
def served(tiny_folder: Path) -> object:
    with serving(tiny_folder, ScriptedRunner(300, script(SAYING))) as running:
        yield running


async def test_an_answer_in_one_piece(served: Served) -> None:
    async with served.sdk() as client:
        answer = await client.chat.completions.create(**call())
    (choice,) = answer.choices
    assert (choice.index, choice.message.role, choice.message.content) == (0, "assistant", SAYING)
    assert (choice.finish_reason, choice.logprobs, choice.message.refusal) == ("stop", None, None)
    assert (answer.object, answer.model) == ("chat.completion", NAME)
    assert answer.id.startswith("chatcmpl-")
    assert abs(answer.created - time.time()) < 60
    usage = answer.usage
    assert usage is not None
    assert usage.completion_tokens == len(SAYING.encode()) + 1
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 0


async def test_a_stream_accumulates_to_the_same_answer(served: Served) -> None:
    fields = call(n=2, stream_options={"include_usage": True})
    async with served.sdk() as client, client.chat.completions.stream(**fields) as stream:
        async for _ in stream:
            pass
        answer = await stream.get_final_completion()
    assert [choice.message.content for choice in answer.choices] == [SAYING, SAYING]
    assert [choice.message.role for choice in answer.choices] == ["assistant", "assistant"]
    assert [choice.finish_reason for choice in answer.choices] == ["stop", "stop"]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 2 * (len(SAYING.encode()) + 1)


async def test_the_wire_shape_of_a_stream(served: Served) -> None:
    async with served.http() as http:
        fields = call(stream=True, n=2, stream_options={"include_usage": True})
        reply = await http.post("/v1/chat/completions", json=fields)
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache"
    found = chunks(reply.text)
    assert len({(one["id"], one["created"], one["model"], one["object"]) for one in found}) == 1
    assert [one["choices"][0]["delta"] for one in found[:2]] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"role": "assistant", "content": "", "refusal": None},
    ]
    assert [one["choices"][0]["index"] for one in found[:2]] == [0, 1]
    assert all("role" not in one["choices"][0]["delta"] for one in found[2:-1])
    ends = [one["choices"][0] for one in found[:-1] if one["choices"][0]["finish_reason"]]
    assert ends == [{"index": index, "delta": {}, "logprobs": None, "finish_reason": "stop"} for index in range(2)]
    assert all(one["usage"] is None for one in found[:-1])
    assert (found[-1]["choices"], found[-1]["usage"]["prompt_tokens"] > 0) == ([], True)


async def test_a_stream_says_nothing_of_usage_unasked(served: Served) -> None:
    async with served.http() as http:
        found = chunks((await http.post("/v1/chat/completions", json=call(stream=True))).text)
    assert all("usage" not in one and one["choices"] for one in found)


async def test_stop_and_length(served: Served) -> None:
    async with served.sdk() as client:
        stopped = await client.chat.completions.create(**call(stop=[" 12", "zzz"]))
        cut = await client.chat.completions.create(**call(max_completion_tokens=3))
    assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("Hé said:", "stop")
    assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == ("Hé", "length")


@pytest.mark.parametrize("stream", [False, True])
async def test_logprobs_spell_the_answer(served: Served, stream: bool) -> None:
    async with served.http() as http:
        reply = await http.post("/v1/chat/completions", json=call(logprobs=True, top_logprobs=2, stream=stream))
    choices = [one["choices"][0] for one in chunks(reply.text)] if stream else reply.json()["choices"]
    entries = [entry for choice in choices for entry in (choice["logprobs"] or {"content": []})["content"]]
    assert bytes(byte for entry in entries for byte in entry["bytes"]).decode() == SAYING
    assert all(entry["top_logprobs"][0]["bytes"] == entry["bytes"] for entry in entries)
    assert all(len(entry["top_logprobs"]) == 2 and entry["logprob"] <= 0 for entry in entries)


async def test_models_and_health(served: Served) -> None:
    async with served.sdk() as client:
        assert [model.id async for model in client.models.list()] == [NAME]
        assert (await client.models.retrieve(NAME)).object == "model"
        with pytest.raises(openai.NotFoundError) as caught:
            await client.models.retrieve("a/b")
    assert caught.value.code == "model_not_found"
    async with served.http() as http:
        assert (await http.get("/health")).json() == {"status": "ok", "model": NAME}


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"model": "gpt-9"}, 404, "model_not_found"),
        ({"temperature": 3}, 400, "invalid_value"),
        ({"max_tokens": 5000}, 400, "context_length_exceeded"),
        ({"messages": [{"role": "user", "content": "x" * 2000}]}, 400, "context_length_exceeded"),
        ({"messages": [{"role": "user", "content": "x" * 2_000_000}]}, 400, "context_length_exceeded"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, 400, "unsupported_parameter"),
        ({"logit_bias": {"999999": 1}}, 400, None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_errors_are_native(
    served: Served, fields: dict[str, object], status: int, code: str | None, stream: bool
) -> None:
    async with served.sdk() as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(**call(**fields, stream=stream))
    assert (caught.value.status_code, caught.value.code, caught.value.type) == (
        status,
        code,
        "invalid_request_error",
    )
    assert set(caught.value.response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/chat/completions", b"{broken", 400),
        ("POST", "/v1/chat/completions", b'{"model": NaN}', 400),
        ("POST", "/v1/chat/completions", b"[]", 400),
        ("POST", "/v1/chat/completions", b" " * (9 << 20), 413),
        ("GET", "/v1/chat/completions", b"", 405),
        ("POST", "/v1/models", b"", 405),
        ("GET", "/v2/anything", b"", 404),
    ],
)
async def test_bad_requests_get_a_native_error_too(
    served: Served, method: str, path: str, body: bytes, status: int
) -> None:
    async with served.http() as http:
        reply = await http.request(method, path, content=body)
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/json"
    assert reply.json()["error"]["type"] == "invalid_request_error"


async def test_many_at_once_each_get_their_own(tiny_folder: Path) -> None:
    config = tiny.small_config()
    _, runner = tiny.build_runner(tiny_folder, config)
    with serving(tiny_folder, runner, config) as running:
        async with running.sdk() as client:

            async def ask(seed: int) -> str | None:
                fields = call(temperature=1.0, seed=seed, max_tokens=12, extra_body={"ignore_eos": True})
                return (await client.chat.completions.create(**fields)).choices[0].message.content

            alone = [await ask(seed) for seed in range(6)]
            assert await asyncio.gather(*(ask(seed) for seed in range(6))) == alone
        assert len(set(alone)) == 6
        assert await running.metric("kv_blocks_used") == 0
        assert await running.metric("generation_tokens_total") == 12 * 12


async def settled(running: Served, name: str, value: float) -> None:
    """Wait until a metric has a value."""
    deadline = time.monotonic() + 10
    while await running.metric(name) != value:
        assert time.monotonic() < deadline, f"{name} never became {value}"
        await asyncio.sleep(0.01)


def slowly(_: object) -> None:
    time.sleep(0.01)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_frees_its_blocks(tiny_folder: Path, stream: bool) -> None:
    """ROCm/ATOM#1562, vllm#9428: also when nobody streams."""
    with serving(tiny_folder, ScriptedRunner(300, before=slowly)) as running:
        async with running.http() as http:
            fields = call(max_tokens=400, n=2, stream=stream)
            asked = asyncio.create_task(_read_a_little(http, fields))
            await settled(running, "running", 2)
            assert await running.metric("kv_blocks_used") > 0
            asked.cancel()
        await settled(running, "aborted_total", 2)
        assert await running.metric("running") == 0
        assert await running.metric("kv_blocks_used") == 0
        assert await running.metric("generation_tokens_total") < 700


async def _read_a_little(http: httpx2.AsyncClient, fields: dict[str, object]) -> None:
    async with http.stream("POST", "/v1/chat/completions", json=fields) as reply:
        async for _ in reply.aiter_bytes():
            pass


async def test_a_finished_answer_is_not_aborted(served: Served) -> None:
    """ROCm/ATOM#1589."""
    before = await served.metric("aborted_total")
    async with served.sdk() as client:
        await client.chat.completions.create(**call())
    assert await served.metric("aborted_total") == before


async def test_a_full_queue_is_429_and_clears(tiny_folder: Path) -> None:
    gate, config = Gate(), tiny.small_config(max_running=1, max_waiting=1)
    with serving(tiny_folder, ScriptedRunner(300, script("ok"), before=gate), config) as running:
        async with running.sdk() as client:
            first = [asyncio.create_task(client.chat.completions.create(**call())) for _ in range(2)]
            await asyncio.to_thread(gate.entered.wait, 10)
            await asyncio.sleep(0.05)
            with pytest.raises(openai.RateLimitError) as caught:
                await client.chat.completions.create(**call())
            assert int(caught.value.response.headers["retry-after"]) >= 1
            gate.opened.set()
            assert [one.choices[0].message.content for one in await asyncio.gather(*first)] == ["ok", "ok"]
            assert (await client.chat.completions.create(**call())).choices[0].message.content == "ok"


async def test_a_fault_in_the_model_is_a_500_or_an_error_event(tiny_folder: Path) -> None:
    def failing(sequence: Sequence) -> int | None:
        return 65 if len(sequence.output_ids) < len(sequence.params.stop) else None

    with serving(tiny_folder, ScriptedRunner(300, failing)) as running:
        async with running.sdk() as client:
            for stream in (False, True):
                with pytest.raises(openai.InternalServerError) as caught:
                    await client.chat.completions.create(**call(stream=stream))
                assert caught.value.type == "server_error"
            stream = await client.chat.completions.create(**call(stream=True, stop=["zz", "yy"]))
            async with stream:
                assert [(await anext(stream)).choices[0].delta.content for _ in range(3)] == ["", "_", "_"]
                with pytest.raises(openai.APIError, match="no usable logits"):
                    await anext(stream)
        assert await running.metric("kv_blocks_used") == 0
