import copy
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from gateway.protocols.assemble import (
    Assembler,
    ProtocolError,
    parse_completion,
    render_chunks,
    render_completion,
)
from policies.types import ChatResponse, Choice, Json

_USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "total_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 0},
}

_text = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)
_token = st.fixed_dictionaries(
    {"token": _text, "logprob": st.floats(-9, 0), "bytes": st.none(), "top_logprobs": st.just([])}
)
_calls = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.text("abc", min_size=1, max_size=4).map("call_{}".format),
            "type": st.just("function"),
            "function": st.fixed_dictionaries({"name": st.sampled_from(["look", "find"]), "arguments": _text}),
        }
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def _choices(draw: st.DrawFn, index: int) -> Choice:
    content = draw(st.none() | _text)
    cuts = draw(st.lists(st.integers(0, 20), max_size=4))
    bounds = sorted({0, len(content or ""), *(cut for cut in cuts if cut < len(content or ""))})
    pieces = tuple(end - start for start, end in itertools.pairwise(bounds))
    message = {"role": "assistant", "content": content, "refusal": draw(st.none() | _text)}
    message |= draw(st.fixed_dictionaries({}, optional={"reasoning_content": _text, "annotations": st.just([])}))
    message |= draw(st.fixed_dictionaries({}, optional={"tool_calls": _calls, "function_call": st.none()}))
    tokens = st.none() | st.lists(_token, max_size=6)
    return Choice(
        index=index,
        message=message,
        finish_reason=draw(st.sampled_from(["stop", "length", "tool_calls", None])),
        logprobs=draw(st.none() | st.fixed_dictionaries({"content": tokens, "refusal": tokens})),
        pieces=pieces if len(pieces) > 1 else (),
        extra=draw(st.fixed_dictionaries({}, optional={"stop_reason": st.integers() | st.none()})),
    )


@st.composite
def _responses(draw: st.DrawFn) -> ChatResponse:
    return ChatResponse(
        id="chatcmpl-1",
        created=7,
        model="m",
        choices=tuple(draw(_choices(index)) for index in range(draw(st.integers(1, 3)))),
        usage=draw(st.none() | st.just(_USAGE)),
        extra=draw(
            st.fixed_dictionaries(
                {},
                optional={"system_fingerprint": st.none() | _text, "service_tier": st.just("default"), "x": _text},
            )
        ),
    )


def _assemble(chunks: list[Json]) -> ChatResponse:
    assembler = Assembler()
    for chunk in chunks:
        assembler.add(chunk)
    return assembler.finish()


def _chunk(*choices: Json, **more: object) -> Json:
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": list(choices),
        **more,
    }


def _delta(
    index: int = 0, /, finish_reason: str | None = None, logprobs: Json | None = None, **delta: object
) -> Json:
    return {"index": index, "delta": delta, "finish_reason": finish_reason, "logprobs": logprobs}


@settings(max_examples=60)
@given(_responses())
def test_chunks_assemble_to_the_answer_they_were_cut_from(response: ChatResponse) -> None:
    before = copy.deepcopy(response)
    chunks = render_chunks(response, "chatcmpl-1", 7, "m", include_usage=True)
    assert _assemble(copy.deepcopy(chunks)) == response
    assert response == before


@settings(max_examples=60)
@given(_responses())
def test_whole_answers_survive_the_wire(response: ChatResponse) -> None:
    parsed = parse_completion(render_completion(response, "chatcmpl-1", 7, "m"))
    flat = tuple(Choice(c.index, c.message, c.finish_reason, c.logprobs, (), c.extra) for c in response.choices)
    assert parsed == ChatResponse("chatcmpl-1", 7, "m", flat, response.usage, response.extra)


@settings(max_examples=25)
@given(_responses())
def test_the_official_accumulator_takes_our_chunks(response: ChatResponse) -> None:
    state = ChatCompletionStreamState()
    for chunk in render_chunks(response, "chatcmpl-1", 7, "m", include_usage=True):
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    snapshot = state.current_completion_snapshot
    for choice, seen in zip(response.choices, snapshot.choices, strict=True):
        assert seen.message.role == "assistant"
        assert seen.message.content == choice.message["content"]
        assert seen.message.refusal == choice.message["refusal"]
        assert seen.finish_reason == choice.finish_reason
        calls = [call.to_dict() for call in seen.message.tool_calls or []]
        assert [{**c, "function": _plain(c)} for c in map(_unindexed, calls)] == choice.message.get(
            "tool_calls", []
        )
        for name in ("content", "refusal"):
            tokens = getattr(seen.logprobs, name, None) or []
            assert [token.to_dict() for token in tokens] == ((choice.logprobs or {}).get(name) or [])
    assert (snapshot.usage and snapshot.usage.to_dict()) == response.usage


def _unindexed(call: Json) -> Json:
    return {name: value for name, value in call.items() if name != "index"}


def _plain(call: Json) -> Json:
    return {name: call["function"][name] for name in ("name", "arguments")}


@settings(max_examples=60)
@given(_responses())
def test_the_wire_rules_of_a_stream(response: ChatResponse) -> None:
    chunks = render_chunks(response, "i", 9, "n", include_usage=True)
    assert {(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks} == {("i", 9, "n")}
    assert all(chunk["usage"] is None for chunk in chunks if chunk["choices"])
    parts = [choice for chunk in chunks for choice in chunk["choices"]]
    order = list(dict.fromkeys(part["index"] for part in parts))
    assert order == sorted(order)
    for choice in response.choices:
        mine = [part for part in parts if part["index"] == choice.index]
        assert [bool(part["delta"].get("role")) for part in mine] == [True] + [False] * (len(mine) - 1)
        finishes = [part for part in mine if part["finish_reason"]]
        assert len(finishes) == (choice.finish_reason is not None)
        assert all(part is mine[-1] and part["delta"] == {} for part in finishes)
        ids = [call["id"] for part in mine for call in part["delta"].get("tool_calls", []) if "id" in call]
        assert ids == [call["id"] for call in choice.message.get("tool_calls", [])]
    assert (chunks[-1]["choices"] == []) == (response.usage is not None)


def test_no_usage_unless_asked_for() -> None:
    response = ChatResponse("c", 1, "m", (Choice(0, {"role": "assistant", "content": "hi"}, "stop"),), _USAGE)
    assert all("usage" not in chunk for chunk in render_chunks(response, "c", 1, "m", include_usage=False))


def test_pieces_are_replayed_as_they_came() -> None:
    response = _assemble(
        [
            _chunk(_delta(role="assistant", content="")),
            *(_chunk(_delta(content=piece)) for piece in ("Hé", "llo ", "🎈")),
            _chunk(_delta(finish_reason="stop")),
            _chunk(usage=_USAGE),
        ]
    )
    assert response.choices[0].pieces == (2, 4, 1)
    deltas = [
        c["choices"][0]["delta"].get("content") for c in render_chunks(response, "c", 1, "m", include_usage=False)
    ]
    assert deltas == ["", "Hé", "llo ", "🎈", None]


def test_a_rendered_answer_passes_the_strict_model() -> None:
    response = _assemble([_chunk(_delta(role="assistant", content="hi")), _chunk(_delta(finish_reason="stop"))])
    body = render_completion(response, "chatcmpl-9", 2, "m")
    ChatCompletion.model_validate(body, strict=True)
    assert body["choices"][0]["logprobs"] is None
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "hi", "refusal": None}
    assert "usage" not in body


def test_interleaved_choices_and_empty_choices() -> None:
    response = _assemble(
        [
            _chunk(prompt_filter_results=[1]),
            _chunk(_delta(0, role="assistant", content="a"), _delta(1, role="assistant", content="x")),
            _chunk(usage=_USAGE),
            _chunk(_delta(1, content="y", finish_reason="length")),
            _chunk(_delta(0, content="b")),
            _chunk(_delta(0, finish_reason="stop"), system_fingerprint="fp"),
        ]
    )
    assert [(c.message["content"], c.finish_reason) for c in response.choices] == [
        ("ab", "stop"),
        ("xy", "length"),
    ]
    assert response.usage == _USAGE
    assert response.extra == {"prompt_filter_results": [1], "system_fingerprint": "fp"}


def _call(
    index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: str | None = None
) -> Json:
    call = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
    return {key: value for key, value in call.items() if value is not None}


@pytest.mark.parametrize(
    "deltas",
    [
        [_call(0, "c0", "f", ""), _call(1, "c1", "g", ""), _call(1, None, None, "{}"), _call(0, None, None, "[]")],
        [_call(0, "c0", "f", "["), _call(0, "c0", "f", "]"), _call(1, "c1", "g", "{}")],
        [_call(None, "c0", "f", "["), _call(None, None, None, "]"), _call(None, "c1", "g", "{}")],
        [
            _call(None, "c0", "f", "["),
            _call(None, "c1", "g", "{"),
            _call(None, "c0", None, "]"),
            _call(1, None, None, "}"),
        ],
    ],
)
def test_tool_calls_merge_by_index_or_id(deltas: list[Json]) -> None:
    response = _assemble([_chunk(_delta(tool_calls=[delta])) for delta in deltas])
    assert response.choices[0].message["tool_calls"] == [
        {"id": "c0", "function": {"name": "f", "arguments": "[]"}},
        {"id": "c1", "function": {"name": "g", "arguments": "{}"}},
    ]


def test_an_ambiguous_tool_delta_is_refused() -> None:
    assembler = Assembler()
    assembler.add(_chunk(_delta(tool_calls=[_call(0, "c0", "f", ""), _call(1, "c1", "g", "")])))
    with pytest.raises(ProtocolError):
        assembler.add(_chunk(_delta(tool_calls=[_call(None, None, None, "}")])))


def test_other_deltas_merge_by_their_kind() -> None:
    response = _assemble(
        [
            _chunk(_delta(role="assistant", reasoning="I ", audio={"id": "a", "data": "QQ", "transcript": "x"})),
            _chunk(_delta(role="assistant", reasoning="see", audio={"data": "==", "expires_at": 5})),
            _chunk(_delta(annotations=[1], function_call={"name": "f", "arguments": "{"}, mood="calm")),
            _chunk(_delta(annotations=[2], function_call={"arguments": "}"}, mood="glad")),
            _chunk(_delta(logprobs={"content": [1], "refusal": None}, content="a")),
            _chunk(_delta(logprobs={"content": [2], "refusal": [3]}, content="b")),
        ]
    )
    assert response.choices[0].message == {
        "role": "assistant",
        "content": "ab",
        "refusal": None,
        "reasoning": "I see",
        "audio": {"id": "a", "data": "QQ==", "transcript": "x", "expires_at": 5},
        "annotations": [1, 2],
        "function_call": {"name": "f", "arguments": "{}"},
        "mood": "glad",
    }
    assert response.choices[0].logprobs == {"content": [1, 2], "refusal": [3]}


def test_adding_does_not_change_or_keep_the_chunk() -> None:
    chunk = _chunk(_delta(annotations=[1], logprobs={"content": [1]}), usage={"total_tokens": 1})
    before = copy.deepcopy(chunk)
    assembler = Assembler()
    assembler.add(chunk)
    assembler.add(_chunk(_delta(annotations=[2], logprobs={"content": [2]})))
    assembler.finish()
    assert chunk == before


@pytest.mark.parametrize(
    "chunk",
    [
        None,
        [],
        "x",
        {},
        {"choices": None},
        {"choices": {}},
        {"choices": [1]},
        {"choices": [{}]},
        {"choices": [{"index": True, "delta": {}}]},
        {"choices": [{"index": -1, "delta": {}}]},
        {"choices": [{"index": 0, "delta": []}]},
        {"choices": [{"index": 0, "delta": {"content": 5}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": {}}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [7]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": {}}}]}}]},
        {"choices": [], "error": {"message": "no"}},
        {"choices": [], "usage": 5},
        {"choices": [], "prompt_usage": "5"},
    ],
)
def test_what_is_no_chunk_is_refused(chunk: Any) -> None:
    assembler = Assembler()
    with pytest.raises(ProtocolError):
        assembler.add(chunk)


@pytest.mark.parametrize("chunks", [[], [_chunk()], [_chunk(_delta(1, content="x"))]])
def test_a_stream_without_its_choices_is_no_answer(chunks: list[Json]) -> None:
    with pytest.raises(ProtocolError):
        _assemble(chunks)


_GOOD = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"error": {"message": "no"}},
        {"error": "no", "choices": [_GOOD]},
        {"choices": []},
        {"choices": "x"},
        {"choices": [_GOOD, _GOOD]},
        {"choices": [{**_GOOD, "index": None}]},
        {"choices": [{**_GOOD, "message": None}]},
        {"choices": [{**_GOOD, "message": {"content": 5}}]},
        {"choices": [{**_GOOD, "message": {"content": None, "tool_calls": {"0": 1}}}]},
    ],
)
def test_what_is_no_answer_is_refused(body: Any) -> None:
    with pytest.raises(ProtocolError):
        parse_completion(body)


def test_a_null_error_is_none() -> None:
    assert parse_completion({"choices": [_GOOD], "error": None}).choices[0].message["content"] == "hi"
