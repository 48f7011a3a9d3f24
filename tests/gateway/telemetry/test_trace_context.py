"""W3C Trace Context: what is a parent and what is not, by the Recommendation's own rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.telemetry.trace_context import Parent, read_parent, traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


def read(*values: str, state: str | None = None) -> Parent | None:
    headers = [(b"traceparent", value.encode()) for value in values]
    if state is not None:
        headers.append((b"tracestate", state.encode()))
    return read_parent(headers)


def test_a_parent_is_read() -> None:
    assert read(GOOD, state="vendor=1") == Parent(int(TRACE, 16), int(SPAN, 16), sampled=True, state="vendor=1")


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("ff", True)])
def test_only_the_last_bit_says_that_it_is_recorded(flags: str, sampled: bool) -> None:
    parent = read(f"00-{TRACE}-{SPAN}-{flags}")
    assert parent is not None
    assert parent.sampled is sampled


@pytest.mark.parametrize(
    "value",
    [
        "",
        GOOD.upper(),
        GOOD[:-1],
        f"{GOOD}-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"{GOOD},{GOOD}",
    ],
)
def test_what_is_not_valid_is_no_parent(value: str) -> None:
    assert read(value, state="vendor=1") is None


def test_two_parents_are_none() -> None:
    assert read(GOOD, GOOD) is None


def test_a_later_version_may_say_more() -> None:
    assert read(f"01-{TRACE}-{SPAN}-01-more") is not None
    assert read(f"01-{TRACE}-{SPAN}-01x") is None


@pytest.mark.parametrize("state", ["", "a=\x00", "a" * 513])
def test_a_state_that_cannot_be_sent_on_is_dropped(state: str) -> None:
    parent = read(GOOD, state=state)
    assert parent is not None
    assert parent.state == ""


@given(
    trace_id=st.integers(1, 2**128 - 1),
    span_id=st.integers(1, 2**64 - 1),
    sampled=st.booleans(),
)
def test_what_is_written_is_read_again(trace_id: int, span_id: int, sampled: bool) -> None:
    assert read(traceparent(trace_id, span_id, sampled=sampled)) == Parent(trace_id, span_id, sampled)


@given(st.binary(max_size=80))
def test_nothing_breaks_it(value: bytes) -> None:
    read_parent([(b"traceparent", value), (b"tracestate", value)])
