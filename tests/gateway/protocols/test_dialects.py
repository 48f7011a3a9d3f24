"""What every protocol in DIALECTS must keep; a new one is tested by being listed there."""

import importlib
from typing import Any

import orjson
import pytest

from gateway.errors import ApiError
from gateway.protocols import DIALECTS
from gateway.protocols.assemble import Assembler
from gateway.protocols.dialect import Dialect
from gateway.protocols.render import render_chunks
from gateway.protocols.sse import SseParser
from policies.keys import canonical_request
from policies.types import ChatResponse, Choice

USAGE = {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}
PIECES = ("Grü", "ße 🌍", "\n\ndata: [DONE]\n\n", "!")
HEAD = {"id": "up-1", "object": "chat.completion.chunk", "created": 5, "model": "up-model"}
ERROR = {"error": {"message": "It broke.", "type": "server_error", "param": None, "code": "x"}}
LEAST = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}


def _dialect(spec: str) -> Dialect:
    module, _, name = spec.partition(":")
    made: Dialect = getattr(importlib.import_module(module), name)()
    return made


@pytest.fixture(params=[spec for _, spec in DIALECTS.values()], ids=[name for name, _ in DIALECTS.values()])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return _dialect(request.param)


def answer(message: dict[str, Any] | None = None, finish_reason: str | None = "stop") -> ChatResponse:
    said = message or {"role": "assistant", "content": "".join(PIECES), "refusal": None}
    choice = Choice(0, said, finish_reason, pieces=() if message else tuple(map(len, PIECES)))
    return ChatResponse("up-1", 5, "up-model", (choice,), USAGE)


def events(raw: bytes) -> list[tuple[str, bytes]]:
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in raw
    assert all(line.partition(b":")[0] in (b"", b"event", b"data") for line in raw.split(b"\n"))
    parser = SseParser()
    found = [(event.name, event.data) for event in parser.feed(raw)]
    assert parser.finish() is None, "the last event is not closed by a blank line"
    return found


def test_paths_and_names_are_of_one_dialect_each() -> None:
    assert all(path.startswith("/v1/") for path in DIALECTS)
    assert len({name for name, _ in DIALECTS.values()}) == len(DIALECTS)


def test_the_same_question_is_the_same_key_in_all() -> None:
    keys = {canonical_request(_dialect(spec).read(dict(LEAST), (), 1).body) for _, spec in DIALECTS.values()}
    assert len(keys) == 1


@pytest.mark.parametrize("stream", [None, False, True])
def test_the_least_request_is_understood(dialect: Dialect, stream: bool | None) -> None:
    body = LEAST | ({} if stream is None else {"stream": stream})
    before = orjson.dumps(body)
    request = dialect.read(body, (), 1)
    assert (request.model, request.stream) == ("m", bool(stream))
    assert not request.body.keys() & {"model", "stream", "stream_options"}
    assert orjson.dumps(body) == before, "the body was changed"


@pytest.mark.parametrize(
    "body",
    [None, 1, "x", [], {}, LEAST | {"model": 7}, LEAST | {"messages": "x"}, LEAST | {"stream": 1}],
    ids=lambda body: str(body)[:30],
)
def test_a_body_out_of_shape_is_400(dialect: Dialect, body: Any) -> None:
    with pytest.raises(ApiError) as caught:
        dialect.read(body, (), 1)
    assert caught.value.status == 400


@pytest.mark.parametrize("name", ["api_base", "base_url", "endpoint", "api_key", "extra_headers"])
def test_no_request_says_where_the_model_is(dialect: Dialect, name: str) -> None:
    with pytest.raises(ApiError):
        dialect.read(LEAST | {name: "x"}, (), 1)


def test_controls_of_the_cache_do_not_reach_the_model(dialect: Dialect) -> None:
    controls = {"cache": {"no-cache": True}, "tensorzero::cache_options": {"enabled": "on"}}
    assert dialect.read(LEAST | controls, (), 1).body == dialect.read(LEAST, (), 1).body


def test_headers_of_no_version_change_nothing(dialect: Dialect) -> None:
    noise = [(b"anthropic-beta", b"x"), (b"openai-organization", b"x"), (b"x-api-key", b"x"), (b"accept", b"x")]
    assert dialect.read(LEAST, noise, 1) == dialect.read(LEAST, (), 1)


def test_unknown_fields_are_kept(dialect: Dialect) -> None:
    assert dialect.read(LEAST | {"unheard_of": [1, None]}, (), 1).body["unheard_of"] == [1, None]


def test_a_whole_answer_has_the_id_and_the_words(dialect: Dialect) -> None:
    body = orjson.loads(dialect.whole(answer(), "mine-1", 9, "m"))
    assert (body["id"], body["model"]) == ("mine-1", "up-model")
    assert "".join(PIECES) in texts(body)


def texts(value: Any) -> list[str]:
    """Every text in a value, in order."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in texts(item)]


def spoken(found: list[tuple[str, bytes]]) -> list[str]:
    """The pieces of the answer in a stream."""
    objects = [orjson.loads(data) for _, data in found if data != b"[DONE]"]
    return [text for value in objects for text in texts(value) if text in PIECES]


def test_a_replay_is_cut_where_the_answer_was(dialect: Dialect) -> None:
    stream = dialect.events("mine-1", 9, model="m", include_usage=True)
    found = events(stream.replay(answer()) + stream.end())
    assert spoken(found) == list(PIECES)
    assert any(b"mine-1" in data for _, data in found)
    assert not any(b"up-1" in data for _, data in found)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_a_live_stream_is_the_replay(dialect: Dialect, batch: int) -> None:
    chunks = render_chunks(answer(), "up-1", 5, "up-model", include_usage=True)
    live = dialect.events("mine-1", 9, model="m", include_usage=True)
    raw = b"".join(live.chunks(chunks[at : at + batch]) for at in range(0, len(chunks), batch)) + live.end()
    assert spoken(events(raw)) == list(PIECES)
    assert b"up-1" not in raw


def test_a_stream_of_no_chunks_is_still_one(dialect: Dialect) -> None:
    stream = dialect.events("mine-1", 9, model="m", include_usage=True)
    assert events(stream.chunks([]) + stream.end())


def test_chunks_without_choices_are_legal(dialect: Dialect) -> None:
    stream = dialect.events("mine-1", 9, model="m", include_usage=True)
    bare = [{**HEAD, "choices": []}, {**HEAD, "choices": [], "usage": USAGE}]
    assert events(stream.chunks(bare) + stream.end())


def test_a_failure_tells_its_message_and_is_no_end(dialect: Dialect) -> None:
    stream = dialect.events("mine-1", 9, model="m", include_usage=True)
    ((name, data),) = events(stream.failed(502, ERROR, "req_1"))
    assert "It broke." in texts(orjson.loads(data))
    whole = dialect.events("mine-1", 9, model="m", include_usage=True)
    assert (name, data) != events(whole.end())[-1]


def test_an_error_tells_its_message(dialect: Dialect) -> None:
    body = orjson.loads(dialect.error(502, ERROR, "req_1"))
    assert body["error"]["message"] == "It broke."
    assert body["error"]["type"]


@pytest.mark.parametrize("finish_reason", ["stop", "length", "content_filter", "tool_calls", "odd", None])
def test_no_end_of_an_answer_breaks_it(dialect: Dialect, finish_reason: str | None) -> None:
    message = {"role": "assistant", "content": None, "refusal": None}
    response = answer(message, finish_reason)
    assert orjson.loads(dialect.whole(response, "mine-1", 9, "m"))
    stream = dialect.events("mine-1", 9, model="m", include_usage=False)
    assert events(stream.replay(response) + stream.end())
    assembled = Assembler()
    chunks = render_chunks(response, "up-1", 5, "up-model", include_usage=True)
    for chunk in chunks:
        assembled.add(chunk)
    live = dialect.events("mine-1", 9, model="m", include_usage=False)
    assert events(live.chunks(chunks) + live.end())
    assert orjson.loads(dialect.whole(assembled.finish(), "mine-1", 9, "m"))
