"""The official Anthropic SDK, in every form it has, gets what Anthropic would send: from model and cache."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest
import pytest_asyncio
from anthropic.types import Message
from pydantic import BaseModel

from tests.gateway.http.anthropic_sdk import MESSAGES, NEW, OLD, claude, native, post, told
from tests.gateway.http.wire import ask, fetch, measured
from tests.gateway.stand import KEY, Stand
from tests.upstream import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "Hello from upstream"
CALLS = (
    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}},
    {"id": "call_2", "type": "function", "function": {"name": "walk", "arguments": "{}"}},
)
TOOLS: list[Any] = [
    {"name": name, "description": name, "input_schema": {"type": "object", "properties": {}}}
    for name in ("look", "walk")
]
FORMS = [(False, False), (False, True), (True, False), (True, True)]
FORM_NAMES = ["whole-whole", "whole-stream", "stream-whole", "stream-stream"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(gate: Stand) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """The official client of the module's gateway."""
    async with claude(gate) as client:
        yield client


async def asked(api: anthropic.AsyncAnthropic, *, stream: bool, **body: Any) -> Message:
    """The answer, whichever way it came; a stream is put together by the SDK's own accumulator."""
    if not stream:
        return await api.messages.create(**body)
    async with api.messages.stream(**body) as events:
        return await events.get_final_message()


def heard(message: Message) -> dict[str, Any]:
    return message.to_dict(exclude_unset=False) | {"id": None}


@pytest.mark.parametrize(("first", "second"), FORMS, ids=FORM_NAMES)
async def test_either_form_is_replayed_in_either_form(
    it: Stand, api: anthropic.AsyncAnthropic, prompt: str, first: bool, second: bool
) -> None:
    made = await asked(api, stream=first, **told(prompt))
    found = [await asked(api, stream=second, **told(prompt)) for _ in range(2)]
    assert len(it.upstream.calls) == 1
    assert heard(made) == heard(found[0]) == heard(found[1])
    assert len({message.id for message in (made, *found)}) == 3
    assert all(message.id.startswith("msg_") for message in (made, *found))
    assert [block.to_dict() for block in made.content] == [{"type": "text", "text": TEXT, "citations": None}]
    assert (made.role, made.model, made.stop_reason, made.stop_sequence) == ("assistant", "m", "end_turn", None)
    assert (made.usage.input_tokens, made.usage.output_tokens) == (7, 4)
    assert (made.usage.cache_read_input_tokens, made.usage.cache_creation_input_tokens) == (0, 0)


@pytest.mark.parametrize(("first", "second"), FORMS, ids=FORM_NAMES)
async def test_tool_calls_are_replayed_in_either_form(
    it: Stand, api: anthropic.AsyncAnthropic, prompt: str, first: bool, second: bool
) -> None:
    it.upstream.default = Script(pieces=("Let me ", "look."), tool_calls=CALLS, finish_reason="tool_calls")
    body = told(prompt, tools=TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": False})
    made = await asked(api, stream=first, **body)
    assert heard(made) == heard(await asked(api, stream=second, **body))
    assert len(it.upstream.calls) == 1
    assert made.stop_reason == "tool_use"
    text, look, walk = made.content
    assert (text.type, look.type, walk.type) == ("text", "tool_use", "tool_use")
    assert look.type == "tool_use"
    assert (look.id, look.name, look.input) == ("call_1", "look", {"at": "sky"})
    assert walk.type == "tool_use"
    assert walk.input == {}


async def test_a_tool_round_trip_reaches_the_model_in_its_protocol(
    it: Stand, api: anthropic.AsyncAnthropic, prompt: str
) -> None:
    it.upstream.enqueue(Script(pieces=None, tool_calls=CALLS, finish_reason="tool_calls"))
    turns: list[Any] = told(prompt)["messages"]
    call = await api.messages.create(model="m", max_tokens=50, messages=turns, tools=TOOLS, system="Be kind.")
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": f"{block.name} done", "is_error": at == 1}
        for at, block in enumerate(call.content)
        if block.type == "tool_use"
    ]
    turns = [*turns, call.to_param(), {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]}]
    last = await api.messages.create(model="m", max_tokens=50, messages=turns, tools=TOOLS, system="Be kind.")
    assert last.stop_reason == "end_turn"
    sent = it.upstream.calls[1].body
    assert sent["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": prompt},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {**CALLS[0], "function": {"name": "look", "arguments": '{"at":"sky"}'}},
                CALLS[1],
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "look done"},
        {"role": "tool", "tool_call_id": "call_2", "content": "Error: walk done"},
        {"role": "user", "content": "Go on."},
    ]
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["look", "walk"]
    assert sent["max_tokens"] == 50
    assert not sent.keys() & {"system", "anthropic_version", "stop_sequences"}


async def test_the_sync_client_gets_answers_and_streams(it: Stand, prompt: str) -> None:
    def talk() -> list[str]:
        with anthropic.Anthropic(api_key=KEY, base_url=it.url, max_retries=0) as client:
            bodies = [told(prompt), told(prompt), told(prompt + " 2")]
            messages = [client.messages.create(**body) for body in bodies]
            for body in (told(prompt), told(prompt + " 3")):
                with client.messages.stream(**body) as events:
                    assert "".join(events.text_stream) == TEXT
                    messages.append(events.get_final_message())
            return [block.text for message in messages for block in message.content if block.type == "text"]

    assert await asyncio.to_thread(talk) == [TEXT] * 5
    assert len(it.upstream.calls) == 3


async def test_a_replayed_stream_keeps_the_pieces_it_came_in(
    it: Stand, api: anthropic.AsyncAnthropic, prompt: str
) -> None:
    pieces = ("Grü", "ße, ", "世界", " 🌍", "!\n\ndata: [DONE]\n\n")
    it.upstream.default = Script(pieces=pieces)
    for _ in range(2):
        stream = await api.messages.create(stream=True, **told(prompt))
        deltas = [event.delta async for event in stream if event.type == "content_block_delta"]
        assert tuple(delta.text for delta in deltas if delta.type == "text_delta") == pieces
    assert len(it.upstream.calls) == 1


async def test_on_the_wire_every_event_is_named_and_the_last_is_message_stop(it: Stand, prompt: str) -> None:
    for word in ("MISS", "HIT"):
        reply = await post(it, told(prompt, stream=True), NEW, ("accept", "application/json"))
        assert (reply.status, reply["x-lamina-cache"]) == (200, word)
        assert reply["content-type"] == "text/event-stream; charset=utf-8"
        assert reply["cache-control"] == "no-cache"
        assert reply["request-id"] == reply["x-request-id"]
        blocks = reply.body.decode().split("\n\n")
        assert blocks.pop() == ""
        names = [block.split("\n")[0] for block in blocks]
        assert all(name.startswith("event: ") for name in names)
        assert [name.removeprefix("event: ") for name in (names[0], *names[-2:])] == [
            "message_start",
            "message_delta",
            "message_stop",
        ]
        assert b"[DONE]" not in reply.body


async def test_hits_and_misses_are_told_in_the_headers(
    it: Stand, api: anthropic.AsyncAnthropic, prompt: str
) -> None:
    told_words = []
    for _ in range(2):
        raw = await api.messages.with_raw_response.create(**told(prompt))
        told_words.append((raw.headers["x-lamina-cache"], raw.headers["cache-status"].split(";")[1].strip()))
        assert raw.headers["request-id"].startswith("req_")
        assert (await raw.parse())._request_id == raw.headers["request-id"]
    assert told_words == [("MISS", "fwd=uri-miss"), ("HIT", "hit")]
    assert await measured(it, "lamina_requests_total", route="messages") >= 2


@pytest.mark.parametrize("path", [MESSAGES, "/messages", f"{MESSAGES}?beta=true", "/messages?beta=true"])
async def test_every_form_of_the_path(it: Stand, prompt: str, path: str) -> None:
    reply = await post(it, told(prompt), path=path)
    assert reply.json["content"][0]["text"] == TEXT


async def test_the_beta_client_works_too(it: Stand, api: anthropic.AsyncAnthropic, prompt: str) -> None:
    made = await api.beta.messages.create(**told(prompt), betas=["context-1m-2025-08-07"])
    found = await api.messages.create(**told(prompt))
    assert made.content[0].to_dict() == found.content[0].to_dict()
    assert len(it.upstream.calls) == 1


async def test_stop_sequences_reach_the_model_and_come_back(
    it: Stand, api: anthropic.AsyncAnthropic, prompt: str
) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    body = {"id": "u", "object": "chat.completion", "created": 1, "model": "m"}
    it.upstream.enqueue(Script(body=body | {"choices": [choice | {"stop_reason": "END"}]}))
    for stream in (False, True):
        message = await asked(api, stream=stream, **told(prompt, stop_sequences=["END"]))
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
        assert message.usage.input_tokens == 0
    (call,) = it.upstream.calls
    assert call.body["stop"] == ["END"]


class Answer(BaseModel):
    colour: str


async def test_a_parsed_answer(it: Stand, api: anthropic.AsyncAnthropic, prompt: str) -> None:
    it.upstream.default = Script(pieces=('{"colour": ', '"blue"}'))
    for _ in range(2):
        message = await api.messages.parse(**told(prompt), output_format=Answer)
        assert message.parsed_output == Answer(colour="blue")
    (call,) = it.upstream.calls
    wanted = call.body["response_format"]
    assert (wanted["type"], wanted["json_schema"]["strict"]) == ("json_schema", True)
    assert "colour" in wanted["json_schema"]["schema"]["properties"]


async def test_an_answer_that_is_not_json_though_asked_is_not_stored(it: Stand, prompt: str) -> None:
    schema = {"type": "json_schema", "schema": {"type": "object"}}
    reply = await post(it, told(prompt, output_config={"format": schema}))
    assert reply["x-lamina-cache-reason"] == "invalid_json"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("finish_reason", "stop"), [("length", "max_tokens"), ("content_filter", "refusal"), ("abort", None)]
)
async def test_the_write_gate_holds(
    it: Stand, api: anthropic.AsyncAnthropic, prompt: str, finish_reason: str, stop: str | None, *, stream: bool
) -> None:
    it.upstream.enqueue(Script(finish_reason=finish_reason))
    assert (await asked(api, stream=stream, **told(prompt))).stop_reason == stop
    assert (await asked(api, stream=stream, **told(prompt))).stop_reason == "end_turn"
    assert len(it.upstream.calls) == 2


async def test_a_prewarm_reaches_the_model_and_is_never_stored(it: Stand, prompt: str) -> None:
    for _ in range(2):
        assert (await post(it, told(prompt, max_tokens=0)))["x-lamina-cache"] == "BYPASS"
    assert [call.body["max_tokens"] for call in it.upstream.calls] == [0, 0]


async def test_diagnostics_bypass_the_cache(it: Stand, prompt: str) -> None:
    for _ in range(2):
        reply = await post(it, told(prompt, diagnostics={"previous_message_id": "msg_1"}))
        assert reply["x-lamina-cache"] == "BYPASS"


async def test_thinking_comes_back_and_goes_on(it: Stand, api: anthropic.AsyncAnthropic, prompt: str) -> None:
    message = {"role": "assistant", "content": "Four.", "reasoning_content": "Two and two."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    it.upstream.enqueue(
        Script(body={"id": "u", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
    )
    made = await asked(api, stream=False, **told(prompt))
    assert heard(made) == heard(await asked(api, stream=True, **told(prompt)))
    assert [block.type for block in made.content] == ["thinking", "text"]
    turns: list[Any] = [*told(prompt)["messages"], made.to_param(), {"role": "user", "content": "And?"}]
    await api.messages.create(model="m", max_tokens=50, messages=turns)
    assert it.upstream.calls[1].body["messages"][1] == {
        "role": "assistant",
        "content": "Four.",
        "thinking_blocks": [{"type": "thinking", "thinking": "Two and two.", "signature": ""}],
    }


@pytest.mark.parametrize("version", [OLD, NEW], ids=["old", "new"])
async def test_sampling_is_refused_since_the_new_version(it: Stand, prompt: str, version: Any) -> None:
    reply = await post(it, told(prompt, temperature=1), version)
    if version == NEW:
        assert "temperature" in native(reply, 400, "invalid_request_error")
        assert it.upstream.calls == []
    else:
        assert reply.status == 200
        assert it.upstream.calls[0].body["temperature"] == 1


async def test_a_user_is_the_scope_when_asked(it: Stand, prompt: str) -> None:
    scope = ("x-lamina-cache-scope", "user")
    found = [
        (await post(it, told(prompt, metadata={"user_id": user}), NEW, scope))["x-lamina-cache"]
        for user in ("ann", "bob", "ann")
    ]
    assert found == ["MISS", "MISS", "HIT"]
    assert it.upstream.calls[0].body["user"] == "ann"
    assert (await post(it, told(prompt), NEW, scope)).status == 400


async def test_every_block_reaches_the_model_without_marks_of_the_other_cache(it: Stand, prompt: str) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    marked = told(prompt, **mark, system=[{"type": "text", "text": "s", **mark}], tools=[TOOLS[0] | mark])
    marked["messages"] = [{"role": "user", "content": [{"type": "text", "text": prompt, **mark}]}]
    plain = told(prompt, system="s", tools=TOOLS[:1])
    assert (await post(it, marked))["x-lamina-cache"] == "MISS"
    assert (await post(it, plain))["x-lamina-cache"] == "HIT"
    assert b"cache_control" not in it.upstream.calls[0].raw


async def test_both_kinds_of_models_come_from_one_path(it: Stand, api: anthropic.AsyncAnthropic) -> None:
    page = await api.models.list(limit=2)
    first = [model.id for model in page.data]
    assert len(first) == 2
    assert page.has_more
    every = [model async for model in api.models.list(limit=2)]
    names = [model.id for model in every]
    assert names == sorted(names)
    assert {"m", "alias", "a/b"} <= set(names)
    assert names == [entry["id"] for entry in (await fetch(it, "/v1/models")).json["data"]]
    assert all(model.type == "model" and model.lifecycle == "active" for model in every)
    before = await api.models.list(limit=2, before_id=names[3])
    assert ([model.id for model in before.data], before.has_more) == (names[1:3], True)
    assert [model.id for model in (await api.models.list(after_id=names[-1])).data] == []
    assert (await api.models.list(lifecycle=["retired"])).data == []
    one = await api.models.retrieve("a/b")
    assert (one.id, one.display_name, one.created_at.year >= 2026) == ("a/b", "a/b", True)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "after_id=x", "after_id=m&before_id=m"])
async def test_a_bad_page_is_400(it: Stand, query: str) -> None:
    native(await fetch(it, f"/v1/models?{query}", NEW), 400, "invalid_request_error")


async def test_an_openai_client_gets_the_other_list(it: Stand) -> None:
    assert (await ask(it, b"", path="/v1/models")).json["error"].keys() == {"message", "type", "param", "code"}
    assert (await fetch(it, "/v1/models")).json["object"] == "list"
