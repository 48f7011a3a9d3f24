"""Tools and structured output over a real socket, by the official SDK, from a model that is told what to say."""

import json
from pathlib import Path

import openai
import pydantic
import pytest

from tests.engine import tiny
from tests.engine.fakes import ScriptedRunner, script
from tests.engine.serving import NAME, Served, serving

CALLS = (
    "Let me look.\n"
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich", "days": [1, 2]}}\n</tool_call>\n'
    '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
)
HERMES_TEMPLATE = """
{%- if tools %}{{ '<|im_start|>system\n<tools>' }}
{%- for tool in tools %}{{ '\n' }}{{ tool | tojson }}{% endfor %}
{{- '\n</tools> answer with <tool_call>{"name": NAME, "arguments": {}}</tool_call><|im_end|>\n' }}{% endif %}
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>' + (call.function | tojson) + '</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}"""
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "It's <hot>?",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 8}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}


def call(**fields: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "hello"}]
    return {"model": NAME, "messages": messages, "temperature": 0, "max_tokens": 300} | fields


def tool_folder(path: Path) -> Path:
    """A tiny model whose template knows tools, and room for them."""
    folder = tiny.write_folder(path)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": HERMES_TEMPLATE}))
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tool_folder(tmp_path_factory.mktemp("tools") / "model")
    config = tiny.small_config(kv_tokens=4096)
    with serving(folder, ScriptedRunner(300, script(CALLS)), config) as running:
        yield running


async def test_calls_come_with_ids_and_their_own_finish_reason(served: Served) -> None:
    async with served.sdk() as client:
        answer = await client.chat.completions.create(**call(tools=[WEATHER, CLOCK]))
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("Let me look.", "tool_calls")
    weather, clock = choice.message.tool_calls or []
    assert (weather.function.name, json.loads(weather.function.arguments)) == (
        "weather",
        {"city": "Zürich", "days": [1, 2]},
    )
    assert (clock.type, clock.function.name, clock.function.arguments) == ("function", "clock", "{}")
    assert weather.id.startswith("call_")
    assert weather.id != clock.id


async def test_calls_stream_to_the_same_answer(served: Served) -> None:
    fields = call(tools=[WEATHER, CLOCK], n=2)
    parts = 0
    async with served.sdk() as client, client.chat.completions.stream(**fields) as stream:
        async for event in stream:
            parts += event.type == "tool_calls.function.arguments.delta"
        answer = await stream.get_final_completion()
    assert parts > 10, "arguments arrive piece by piece"
    for choice in answer.choices:
        assert (choice.message.content, choice.finish_reason) == ("Let me look.", "tool_calls")
        found = [(one.function.name, one.function.arguments) for one in choice.message.tool_calls or []]
        assert found == [("weather", '{"city": "Zürich", "days": [1, 2]}'), ("clock", "{}")]
    ids = [one.id for choice in answer.choices for one in choice.message.tool_calls or []]
    assert len(set(ids)) == 4


async def test_one_call_where_one_is_allowed(served: Served) -> None:
    async with served.sdk() as client:
        answer = await client.chat.completions.create(**call(tools=[WEATHER, CLOCK], parallel_tool_calls=False))
    assert [one.function.name for one in answer.choices[0].message.tool_calls or []] == ["weather"]


async def test_a_model_that_may_not_call_only_talks(served: Served) -> None:
    async with served.sdk() as client:
        for fields in ({"tools": [WEATHER], "tool_choice": "none"}, {}):
            answer = await client.chat.completions.create(**call(**fields))
            assert (answer.choices[0].message.content, answer.choices[0].message.tool_calls) == (CALLS, None)
            assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
async def test_a_call_that_must_come_comes_and_follows_its_schema(served: Served, choice: object) -> None:
    """The script would say "Let me look" first, and give an argument that the schema does not know."""
    async with served.sdk() as client:
        answer = await client.chat.completions.create(**call(tools=[WEATHER], tool_choice=choice))
    called = answer.choices[0].message.tool_calls or []
    assert called
    for one in called:
        assert one.function.name == "weather"
        assert set(json.loads(one.function.arguments)) == {"city"}
    assert answer.choices[0].message.content is None


async def test_results_go_back_through_the_template(served: Served) -> None:
    async with served.sdk() as client:
        first = await client.chat.completions.create(**call(tools=[WEATHER, CLOCK]))
        message = first.choices[0].message
        results = [{"role": "tool", "tool_call_id": one.id, "content": "warm"} for one in message.tool_calls or []]
        messages = [{"role": "user", "content": "hello"}, message.model_dump(exclude_none=True), *results]
        second = await client.chat.completions.create(**call(messages=messages, tools=[WEATHER, CLOCK]))
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.prompt_tokens > first.usage.prompt_tokens + len(CALLS) / 2


async def test_the_template_sees_tools_as_they_were_written(served: Served) -> None:
    async with served.http() as http:
        fields = {"messages": [{"role": "user", "content": "hello"}], "tools": [WEATHER]}
        ids = (await http.post("/tokenize", json=fields)).json()["tokens"]
        text = (await http.post("/detokenize", json={"tokens": ids})).json()["prompt"]
    assert json.dumps(WEATHER, ensure_ascii=False) in text, "Jinja's own tojson would spell out < and quotes"


async def test_a_template_without_tools_is_a_400(tiny_folder: Path) -> None:
    with serving(tiny_folder, ScriptedRunner(300, script("hi"))) as running:
        async with running.sdk() as client:
            for fields in (
                {"tools": [WEATHER]},
                {"messages": [{"role": "tool", "content": "4", "tool_call_id": "x"}]},
            ):
                with pytest.raises(openai.BadRequestError) as caught:
                    await client.chat.completions.create(**call(**fields, max_tokens=4))
                assert caught.value.code == "unsupported_parameter"
            answer = await client.chat.completions.create(
                **call(tools=[WEATHER], tool_choice="none", max_tokens=4)
            )
            assert answer.choices[0].message.content == "hi"


class Person(pydantic.BaseModel):
    """What the model is asked for."""

    name: str = pydantic.Field(max_length=5)
    tall: bool
    age: int = pydantic.Field(ge=0, le=150)


async def test_the_sdk_parses_what_it_asked_for(served: Served) -> None:
    async with served.sdk() as client:
        answer = await client.chat.completions.parse(**call(response_format=Person, n=2))
    for choice in answer.choices:
        assert isinstance(choice.message.parsed, Person)
        assert choice.finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
async def test_json_is_json(served: Served, stream: bool) -> None:
    async with served.http() as http:
        fields = call(response_format={"type": "json_object"}, max_tokens=60, stream=stream)
        reply = await http.post("/v1/chat/completions", json=fields)
    if stream:
        events = [json.loads(one[6:])["choices"][0] for one in reply.text.split("\n\n")[:-2]]
        text = "".join(event["delta"].get("content") or "" for event in events)
        end = events[-1]["finish_reason"]
    else:
        text = reply.json()["choices"][0]["message"]["content"]
        end = reply.json()["choices"][0]["finish_reason"]
    assert text.startswith("{")
    assert end == "length" or isinstance(json.loads(text), dict)


async def test_a_schema_that_cannot_be_enforced_is_a_400(served: Served) -> None:
    bad = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "nothing"}}}
    async with served.sdk() as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(**call(response_format=bad))
    assert caught.value.param == "response_format.json_schema.schema"


async def test_a_request_may_set_what_the_template_asks_for(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path / "model")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    thinking = tiny.TEMPLATE + "{% if enable_thinking is defined and not enable_thinking %}<nothink>{% endif %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": thinking}))
    with serving(folder, ScriptedRunner(300, script("hi"))) as running:
        async with running.sdk() as client:
            counts = [
                (await client.chat.completions.create(**call(max_tokens=4, extra_body=extra))).usage
                for extra in ({}, {"chat_template_kwargs": {"enable_thinking": False}})
            ]
            unknown = call(max_tokens=4, extra_body={"chat_template_kwargs": {"other": 1}})
            with pytest.raises(openai.BadRequestError) as caught:
                await client.chat.completions.create(**unknown)
    plain, without = [used.prompt_tokens if used else 0 for used in counts]
    assert without - plain == len("<nothink>")
    assert caught.value.param == "chat_template_kwargs"
