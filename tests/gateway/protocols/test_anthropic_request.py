"""Anthropic requests in neutral form: what means the same is the same body, the rest names its place."""

from typing import Any

import pytest

from gateway.errors import ApiError
from gateway.protocols.anthropic_request import NEW_VERSION, OLD_VERSION, SAMPLING, read_request
from gateway.protocols.openai_chat import read_request as read_openai
from policies.keys import canonical_request

OLD = ((b"anthropic-version", OLD_VERSION.encode()),)
NEW = ((b"anthropic-version", NEW_VERSION.encode()),)
PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"at":"sky","deep":[1,2.5]}'},
}
USE = {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": "sky", "deep": [1, 2.5]}}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def asked(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": list(messages) or [user("Hi")], **fields}


def neutral(body: dict[str, Any], headers: Any = OLD) -> dict[str, Any]:
    return read_request(body, headers).body


EQUAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text": (asked(), {"messages": [user("Hi")], "max_tokens": 9}),
    "the newer name of the limit": (asked(), {"messages": [user("Hi")], "max_completion_tokens": 9}),
    "one block": (asked(user([text("Hi", cache_control={"type": "ephemeral"})])), {"messages": [user("Hi")]}),
    "blocks": (
        asked(user([text("a"), text("b", citations=None)])),
        {"messages": [user([text("a"), text("b")])]},
    ),
    "system": (
        asked(system="Be kind."),
        {"messages": [{"role": "system", "content": "Be kind."}, user("Hi")]},
    ),
    "system blocks": (
        asked(system=[text("Be kind.", cache_control={"type": "ephemeral", "ttl": "1h"})]),
        {"messages": [{"role": "system", "content": "Be kind."}, user("Hi")]},
    ),
    "a system turn": (
        asked(user("Hi"), {"role": "system", "content": "Be brief."}),
        {"messages": [user("Hi"), {"role": "system", "content": "Be brief."}]},
    ),
    "no system": (asked(system=[]), {"messages": [user("Hi")]}),
    "turns": (
        asked(user("Hi"), {"role": "assistant", "content": [text("Ho")]}, user("Hu")),
        {"messages": [user("Hi"), {"role": "assistant", "content": "Ho"}, user("Hu")]},
    ),
    "images": (
        asked(user([{"type": "image", "source": PNG}, {"type": "image", "source": {"type": "url", "url": "u"}}])),
        {
            "messages": [
                user(
                    [
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                        {"type": "image_url", "image_url": {"url": "u"}},
                    ]
                )
            ]
        },
    ),
    "a tool round": (
        asked(
            user("Hi"),
            {"role": "assistant", "content": [text("Let me look."), USE | {"caller": {"type": "direct"}}]},
            user(
                [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "blue", "is_error": False},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": [text("a"), text("b")]},
                    {"type": "tool_result", "tool_use_id": "call_3"},
                    text("And now?"),
                ]
            ),
        ),
        {
            "messages": [
                user("Hi"),
                {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "call_1", "content": "blue"},
                {"role": "tool", "tool_call_id": "call_2", "content": [text("a"), text("b")]},
                {"role": "tool", "tool_call_id": "call_3", "content": ""},
                user("And now?"),
            ]
        },
    ),
    "a call alone": (
        asked(user("Hi"), {"role": "assistant", "content": [USE]}),
        {"messages": [user("Hi"), {"role": "assistant", "content": None, "tool_calls": [CALL]}]},
    ),
    "tools": (
        asked(
            tools=[{"name": "look", "description": "d", "input_schema": SCHEMA, "type": "custom", "strict": True}],
            tool_choice={"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        ),
        {
            "messages": [user("Hi")],
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "look", "description": "d", "parameters": SCHEMA, "strict": True},
                }
            ],
            "tool_choice": {"type": "function", "function": {"name": "look"}},
            "parallel_tool_calls": False,
        },
    ),
    "any tool": (asked(tool_choice={"type": "any"}), {"messages": [user("Hi")], "tool_choice": "required"}),
    "auto tool": (
        asked(tool_choice={"type": "auto", "disable_parallel_tool_use": False}),
        {"messages": [user("Hi")], "tool_choice": "auto"},
    ),
    "no tool": (asked(tool_choice={"type": "none"}), {"messages": [user("Hi")], "tool_choice": "none"}),
    "stops": (asked(stop_sequences=["END"]), {"messages": [user("Hi")], "stop": ["END"]}),
    "no stops": (asked(stop_sequences=[]), {"messages": [user("Hi")]}),
    "sampling": (
        asked(temperature=1, top_p=0.5, top_k=3),
        {"messages": [user("Hi")], "temperature": 1.0, "top_p": 0.5, "top_k": 3},
    ),
    "who asks": (
        asked(metadata={"user_id": "u1"}, service_tier="auto", cache_control={"type": "ephemeral"}),
        {"messages": [user("Hi")], "user": "another"},
    ),
    "format and effort": (
        asked(output_config={"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"}),
        {
            "messages": [user("Hi")],
            "reasoning_effort": "low",
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "structured_output", "schema": SCHEMA, "strict": True},
            },
        },
    ),
    "unknown": (asked(unheard_of=[None, "ß"]), {"messages": [user("Hi")], "unheard_of": [None, "ß"]}),
    "nulls": (
        asked(system=None, tools=None, tool_choice=None, stop_sequences=None, container=None, output_config=None),
        {"messages": [user("Hi")]},
    ),
}


@pytest.mark.parametrize(("anthropic", "openai"), EQUAL.values(), ids=EQUAL)
def test_what_means_the_same_is_the_same_entry(anthropic: dict[str, Any], openai: dict[str, Any]) -> None:
    limit = {} if openai.keys() & {"max_tokens", "max_completion_tokens"} else {"max_tokens": 9}
    other = read_openai({"model": "m", **limit, **openai}, 1)
    assert canonical_request(neutral(anthropic)) == canonical_request(other.body)


DIFFERENT = {
    "a block's border": [asked(user([text("ab")])), asked(user([text("a"), text("b")]))],
    "a failed tool": [
        asked(user([{"type": "tool_result", "tool_use_id": "1", "content": "x", "is_error": failed}]))
        for failed in (False, True)
    ],
    "thinking": [
        asked(user("x"), {"role": "assistant", "content": [{**thought, "signature": "s"}, text("y")]})
        for thought in ({"type": "thinking", "thinking": "a"}, {"type": "thinking", "thinking": "b"})
    ],
    "signature": [
        asked(user("x"), {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": s}]})
        for s in "st"
    ],
    "order of results and text": [
        asked(user([text("x"), {"type": "tool_result", "tool_use_id": "1"}])),
        asked(user([{"type": "tool_result", "tool_use_id": "1"}, text("x")])),
    ],
    "system or user": [asked(system="x"), asked(user("x"), user("Hi"))],
    "image": [asked(user([{"type": "image", "source": PNG | {"data": data}}])) for data in ("aGk=", "aGo=")],
    "limit": [asked(), asked(max_tokens=10)],
    "thinking budget": [asked(thinking={"type": "enabled", "budget_tokens": tokens}) for tokens in (1024, 2048)],
    "speed": [asked(), asked(speed="fast")],
}


@pytest.mark.parametrize("bodies", DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_is_another_entry(bodies: list[dict[str, Any]]) -> None:
    one, other = (canonical_request(neutral(body)) for body in bodies)
    assert one != other


def test_thinking_of_earlier_turns_goes_on_byte_for_byte() -> None:
    thoughts = [
        {"type": "thinking", "thinking": " hm \n", "signature": "Eq+/=="},
        {"type": "redacted_thinking", "data": "EmwK+/=="},
    ]
    turn = {"role": "assistant", "content": [*thoughts, text("y")]}
    assert neutral(asked(user("x"), turn))["messages"][1] == {
        "role": "assistant",
        "content": "y",
        "thinking_blocks": thoughts,
    }


def test_a_failed_tool_says_so_in_its_text() -> None:
    failed = {"type": "tool_result", "tool_use_id": "1", "is_error": True}
    said = [
        neutral(asked(user([failed | more])))["messages"][0]["content"]
        for more in ({"content": "no"}, {}, {"content": [text("a"), text("b")]})
    ]
    assert said == ["Error: no", "Error: ", [text("Error: "), text("a"), text("b")]]


def test_the_user_is_told_to_the_model_and_not_keyed() -> None:
    body = neutral(asked(metadata={"user_id": "u1", "team": "t"}))
    assert (body["user"], body["metadata"]) == ("u1", {"team": "t"})
    assert canonical_request(body) == canonical_request(neutral(asked()))


@pytest.mark.parametrize("name", SAMPLING)
def test_sampling_is_of_the_old_version_only(name: str) -> None:
    body = asked(**{name: 1})
    assert neutral(body, ())[name] == neutral(body, OLD)[name] == 1
    with pytest.raises(ApiError) as caught:
        neutral(body, NEW)
    assert (caught.value.status, caught.value.param) == (400, name)


def test_citations_in_a_user_turn_are_of_the_old_version_only() -> None:
    cited = [text("x", citations=[{"type": "page_location"}])]
    assert neutral(asked(user(cited)), OLD)["messages"][0]["content"] == cited
    with pytest.raises(ApiError, match=r"messages\[0\]\.content\[0\]\.citations"):
        neutral(asked(user(cited)), NEW)
    assert neutral(asked(user("x"), {"role": "assistant", "content": cited}), NEW)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ApiError, match="anthropic-version '2031-01-01' is not known"):
        neutral(asked(), ((b"anthropic-version", b"2031-01-01"),))


BAD: dict[str, tuple[Any, str | None]] = {
    "no object": ([], None),
    "no model": ({"max_tokens": 1, "messages": [user("x")]}, "model"),
    "no limit": ({"model": "m", "messages": [user("x")]}, "max_tokens"),
    "limit": (asked(max_tokens=-1), "max_tokens"),
    "limit is a flag": (asked(max_tokens=True), "max_tokens"),
    "limit is real": (asked(max_tokens=1.0), "max_tokens"),
    "no messages": ({"model": "m", "max_tokens": 1}, "messages"),
    "empty messages": ({"model": "m", "max_tokens": 1, "messages": []}, "messages"),
    "message": (asked("x"), "messages[0]"),  # type: ignore[arg-type]
    "role": (asked({"role": "tool", "content": "x"}), "messages[0]"),
    "role is a list": (asked({"role": [], "content": "x"}), "messages[0]"),
    "content": (asked(user(7)), "messages[0].content"),
    "no content": (asked({"role": "user"}), "messages[0].content"),
    "empty content": (asked(user([])), "messages[0].content"),
    "block": (asked(user(["x"])), "messages[0].content[0]"),
    "block without type": (asked(user([{}])), "messages[0].content[0]"),
    "text": (asked(user([{"type": "text"}])), "messages[0].content[0].text"),
    "document": (asked(user([{"type": "document", "source": {}}])), "messages[0].content[0].type"),
    "server tool": (asked(user([{"type": "server_tool_use"}])), "messages[0].content[0].type"),
    "thinking of a user": (asked(user([{"type": "thinking"}])), "messages[0].content[0].type"),
    "unsigned": (
        asked({"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}),
        "messages[0].content[0].signature",
    ),
    "image source": (asked(user([{"type": "image"}])), "messages[0].content[0].source"),
    "image file": (
        asked(user([{"type": "image", "source": {"type": "file", "file_id": "f"}}])),
        "messages[0].content[0].source",
    ),
    "image data": (
        asked(user([{"type": "image", "source": {"type": "base64", "media_type": "image/png"}}])),
        "messages[0].content[0].source.data",
    ),
    "call input": (
        asked({"role": "assistant", "content": [USE | {"input": "{}"}]}),
        "messages[0].content[0].input",
    ),
    "call name": (asked({"role": "assistant", "content": [USE | {"name": 1}]}), "messages[0].content[0].name"),
    "result id": (asked(user([{"type": "tool_result"}])), "messages[0].content[0].tool_use_id"),
    "result flag": (
        asked(user([{"type": "tool_result", "tool_use_id": "1", "is_error": "no"}])),
        "messages[0].content[0].is_error",
    ),
    "result part": (
        asked(user([{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "document"}]}])),
        "messages[0].content[0].content[0].type",
    ),
    "result with a role": (
        asked(user([{"type": "tool_result", "tool_use_id": "1", "role": "system"}])),
        "messages[0].content[0].role",
    ),
    "message with calls": (
        asked({"role": "assistant", "content": [USE], "tool_calls": []}),
        "messages[0].tool_calls",
    ),
    "system": (asked(system=7), "system"),
    "system image": (asked(system=[{"type": "image", "source": PNG}]), "system[0].type"),
    "stops": (asked(stop_sequences="END"), "stop_sequences"),
    "stop": (asked(stop_sequences=[1]), "stop_sequences"),
    "tools": (asked(tools={}), "tools"),
    "tool": (asked(tools=["look"]), "tools[0]"),
    "tool name": (asked(tools=[{"input_schema": {}}]), "tools[0].name"),
    "tool schema": (asked(tools=[{"name": "look"}]), "tools[0].input_schema"),
    "server's tool": (asked(tools=[{"type": "web_search_20250305", "name": "web_search"}]), "tools[0].type"),
    "choice": (asked(tool_choice="auto"), "tool_choice"),
    "choice type": (asked(tool_choice={"type": []}), "tool_choice"),
    "choice name": (asked(tool_choice={"type": "tool"}), "tool_choice.name"),
    "choice field": (asked(tool_choice={"type": "auto", "name": "look"}), "tool_choice.name"),
    "choice flag": (
        asked(tool_choice={"type": "auto", "disable_parallel_tool_use": 1}),
        "tool_choice.disable_parallel_tool_use",
    ),
    "metadata": (asked(metadata=[]), "metadata"),
    "user": (asked(metadata={"user_id": 7}), "metadata.user_id"),
    "output": (asked(output_config="low"), "output_config"),
    "format": (asked(output_config={"format": {"type": "text"}}), "output_config.format"),
    "format schema": (asked(output_config={"format": {"type": "json_schema"}}), "output_config.format.schema"),
    "container": (asked(container="c"), "container"),
    "servers": (asked(mcp_servers=[{"type": "url"}]), "mcp_servers"),
    "residence": (asked(inference_geo="eu"), "inference_geo"),
    "twice": (asked(stop_sequences=["a"], stop="b"), "stop"),
    "n": (asked(n=2), "n"),
    "stream": (asked(stream="yes"), "stream"),
    "route": (asked(api_base="http://127.0.0.1"), "api_base"),
}


@pytest.mark.parametrize(("body", "param"), BAD.values(), ids=BAD)
def test_a_request_out_of_shape_names_the_place(body: Any, param: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        read_request(body, OLD)
    assert (caught.value.status, caught.value.param) == (400, param)
    assert param is None or param in caught.value.message
