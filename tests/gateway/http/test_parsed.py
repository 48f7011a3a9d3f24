"""Parsed bodies: the same bytes under the same headers, within a bound on all of them together."""

import pytest

from gateway.http import parsed
from gateway.http.parsed import Parsed, ParsedBodies
from policies.types import ChatRequest

HOT = Parsed({}, ChatRequest("m", {}))


def test_a_body_is_known_by_its_bytes_and_the_headers_read_with_it() -> None:
    bodies = ParsedBodies()
    bodies.put((b"{}", b"2023-06-01"), HOT)
    assert bodies.get((b"{}", b"2023-06-01")) is HOT
    for other in ((b"{}",), (b"{}", b"2026-10-21"), (b"{} ", b"2023-06-01"), (b"{}2023-06-01",)):
        assert bodies.get(other) is None


@pytest.mark.parametrize(
    "named", [(b"x" * (1 << 20),), (b"{}", b"2023-06-01", b"x" * (1 << 20))], ids=["body", "header"]
)
def test_what_is_large_is_not_remembered(named: tuple[bytes, ...]) -> None:
    bodies = ParsedBodies()
    bodies.put(named, HOT)
    assert bodies.get(named) is None


def test_all_together_stay_within_the_bound_and_the_oldest_goes_first() -> None:
    bodies = ParsedBodies()
    names = [b"%04d" % at + b"x" * 15996 for at in range(1000)]
    for name in names:
        bodies.put((name,), HOT)
        bodies.put((name,), HOT)
    kept = [name for name in names if bodies.get((name,)) is not None]
    assert kept == names[-(parsed._MAX_BYTES // 16000) :]


def test_there_are_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsed, "_MAX_BODIES", 2)
    bodies = ParsedBodies()
    for name in (b"1", b"2", b"3"):
        bodies.put((name,), HOT)
    assert [bodies.get((name,)) for name in (b"1", b"2", b"3")] == [None, HOT, HOT]
