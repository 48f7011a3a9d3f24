import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.sse import DONE, SseError, SseEvent, SseParser, error_event, event_bytes

_LINE_ENDS = st.sampled_from(["\n", "\r", "\r\n"])
_LINES = st.one_of(
    st.sampled_from(
        ["", "data", "data:", "data: ", "data:  two", "event: ping", ": comment", "id: 1", "retry: 5"]
    ),
    st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=("Cs",)), max_size=12).map(
        "data: {}".format
    ),
    st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=("Cs",)), max_size=12),
)
_STREAMS = st.lists(st.tuples(_LINES, _LINE_ENDS).map("".join), max_size=30).map(
    lambda lines: "".join(lines).encode()
)


def _parse(stream: bytes, cuts: list[int] | None = None) -> tuple[list[SseEvent], SseEvent | None]:
    parser = SseParser()
    places = [0, *sorted({cut % (len(stream) + 1) for cut in cuts or []}), len(stream)]
    events = [event for start, end in itertools.pairwise(places) for event in parser.feed(stream[start:end])]
    return events, parser.finish()


def _reference(stream: str) -> list[SseEvent]:
    """The algorithm of the standard, one line at a time."""
    events, data, name = [], [], ""
    text = stream.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for line in text.split("\n")[:-1]:
        if not line:
            if data:
                events.append(SseEvent("\n".join(data).encode(), name))
            data, name = [], ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return events


@given(_STREAMS, st.lists(st.integers(0, 1000), max_size=8), st.booleans())
def test_any_split_gives_the_events_of_the_standard(stream: bytes, cuts: list[int], bom: bool) -> None:
    stream = b"\xef\xbb\xbf" + stream if bom else stream
    whole = _parse(stream)
    assert _parse(stream, cuts) == whole
    assert _parse(stream, list(range(len(stream)))) == whole
    assert whole[0] == _reference(stream.decode())


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9)), min_size=1, max_size=9), st.integers(1, 9)
)
def test_what_is_encoded_is_parsed_back(objects: list[dict[str, str]], step: int) -> None:
    stream = b"".join(map(event_bytes, objects)) + DONE
    events, rest = _parse(stream, list(range(0, len(stream), step)))
    assert [json.loads(event.data) for event in events[:-1]] == objects
    assert events[-1].data == b"[DONE]"
    assert rest is None


def test_multibyte_characters_survive_every_cut() -> None:
    stream = 'data: {"a":"é🎈漢"}\r\n\r\n'.encode()
    events, _ = _parse(stream, list(range(len(stream))))
    assert json.loads(events[0].data) == {"a": "é🎈漢"}


def test_names_and_many_data_lines() -> None:
    events, _ = _parse(b"event: error\ndata: a\ndata:b\n\ndata: c\n\n")
    assert events == [SseEvent(b"a\nb", "error"), SseEvent(b"c")]


def test_name_without_data_is_no_event_and_does_not_leak() -> None:
    assert _parse(b"event: ping\n\ndata: a\n\n") == ([SseEvent(b"a")], None)


def test_end_without_blank_line_is_told_apart() -> None:
    assert _parse(b"data: a\n\ndata: [DONE]\n") == ([SseEvent(b"a")], SseEvent(b"[DONE]"))
    assert _parse(b"data: a\n\ndata: [DONE]") == ([SseEvent(b"a")], SseEvent(b"[DONE]"))
    assert _parse(b"data: a\n\n: bye") == ([SseEvent(b"a")], None)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_line_without_end_is_refused(step: int) -> None:
    parser = SseParser(max_line_bytes=64)
    with pytest.raises(SseError):
        _feed(parser, b"x" * step, 100)


def _feed(parser: SseParser, chunk: bytes, times: int) -> None:
    for _ in range(times):
        parser.feed(chunk)


def test_a_long_line_in_one_read_is_refused() -> None:
    with pytest.raises(SseError):
        SseParser(max_line_bytes=64).feed(b"data: " + b"x" * 64 + b"\n\n")


def test_an_event_of_endless_lines_is_refused() -> None:
    parser = SseParser(max_line_bytes=64, max_event_bytes=256)
    with pytest.raises(SseError):
        _feed(parser, b"data: 0123456789\n", 100)


def test_error_event_is_what_the_sdk_reads() -> None:
    body = {"error": {"message": "cut", "type": "server_error", "param": None, "code": None}}
    events, _ = _parse(error_event(body))
    assert json.loads(events[0].data) == body
    assert events[0].name == ""
