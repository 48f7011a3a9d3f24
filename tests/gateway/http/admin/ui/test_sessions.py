"""Cookies that cannot be made up, attempts that are counted, figures as people read them."""

import base64
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.admin.attempts import MOST_FAILURES, WINDOW_S, Attempts, Visitors
from gateway.http.admin.ui import figures
from gateway.http.admin.ui.assets import FOLDER, Assets
from gateway.http.admin.ui.sessions import SESSION_S, Sessions, cookie_header, token_digest

SESSIONS = Sessions(b"s" * 32)
NOW_S = 1_800_000_000.0


def test_a_session_is_opened_until_it_is_over() -> None:
    session = SESSIONS.begin(token_digest("lat_x"), NOW_S)
    value = SESSIONS.sealed(session)
    assert SESSIONS.opened(value, NOW_S) == session
    assert SESSIONS.opened(value, NOW_S + SESSION_S - 1) == session
    assert SESSIONS.opened(value, NOW_S + SESSION_S) is None
    assert Sessions(b"t" * 32).opened(value, NOW_S) is None
    assert "lat_x" not in base64.urlsafe_b64decode(value + "=").decode("latin-1")


@given(st.integers(min_value=0, max_value=120), st.integers(min_value=1, max_value=255))
def test_a_cookie_that_was_changed_is_nobodys(at: int, change: int) -> None:
    value = SESSIONS.sealed(SESSIONS.begin(token_digest("lat_x"), NOW_S))
    raw = bytearray(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    raw[at % len(raw)] ^= change
    assert SESSIONS.opened(base64.urlsafe_b64encode(raw).decode().rstrip("="), NOW_S) is None


@given(st.text(max_size=300))
def test_anything_else_is_nobodys(text: str) -> None:
    assert SESSIONS.opened(text, NOW_S) is None


def test_forms_of_two_sessions_have_different_words() -> None:
    one, other = (SESSIONS.begin(token_digest("lat_x"), NOW_S) for _ in range(2))
    assert SESSIONS.form_word(one) != SESSIONS.form_word(other)
    assert SESSIONS.form_word(one) == SESSIONS.form_word(one)


def test_the_cookie_keeps_to_itself() -> None:
    header = cookie_header("v", max_age_s=60, secure=True)[1].decode()
    assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/admin/ui"} <= set(header.split("; "))
    assert "Secure" not in cookie_header("v", max_age_s=60, secure=False)[1].decode()


def test_attempts_are_bounded_and_forgotten() -> None:
    attempts = Attempts()
    for _ in range(MOST_FAILURES):
        assert attempts.wait_s("a", NOW_S) == 0
        attempts.failed("a", NOW_S)
    assert attempts.wait_s("a", NOW_S + 1) == WINDOW_S - 1
    assert attempts.wait_s("b", NOW_S + 1) == 0
    assert attempts.wait_s("a", NOW_S + WINDOW_S) == 0
    attempts.failed("a", NOW_S + WINDOW_S)
    assert attempts.wait_s("a", NOW_S + WINDOW_S) == 0
    for number in range(10_050):
        attempts.failed(f"{number}", NOW_S)
    assert len(attempts._failed) == 10_000


def visit(peer: str, *forwarded: str) -> dict[str, Any]:
    return {"client": (peer, 1), "headers": [(b"x-forwarded-for", one.encode()) for one in forwarded]}


def test_what_a_client_says_of_itself_gets_it_no_more_than_ten_times_as_many() -> None:
    visitors = Visitors()
    for number in range(MOST_FAILURES * 10):
        said = visit("10.0.0.1", f"10.1.0.{number}")
        assert visitors.wait_s(said, NOW_S) == 0
        visitors.failed(said, NOW_S)
    assert visitors.wait_s(visit("10.0.0.1", "10.2.0.1"), NOW_S) == WINDOW_S
    assert visitors.wait_s(visit("10.0.0.2"), NOW_S) == 0


@pytest.mark.parametrize("lines", [("{0}, 10.9.9.9",), ("{0}", "10.9.9.9")])
def test_the_nearest_proxy_is_believed(lines: tuple[str, ...]) -> None:
    visitors = Visitors()
    for number in range(MOST_FAILURES):
        visitors.failed(visit("proxy", *[one.format(number) for one in lines]), NOW_S)
    assert visitors.wait_s(visit("proxy", "10.9.9.9"), NOW_S) == WINDOW_S
    assert visitors.wait_s(visit("proxy", "10.9.9.8"), NOW_S) == 0


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (figures.count(12345.4), "12,345"),
        (figures.short(999), "999"),
        (figures.short(12_345), "12.3k"),
        (figures.short(4_200_000), "4.2M"),
        (figures.short(None), "–"),  # noqa: RUF001
        (figures.share(0.1234), "12.3 %"),
        (figures.ms(0.4567), "0.457 ms"),
        (figures.ms(12_345), "12.3 s"),
        (figures.ms(1_578.6), "1.58 s"),
        (figures.ms(345.6), "346 ms"),
        (figures.money("0"), "$0.00"),
        (figures.money("1234.5"), "$1,234.50"),
        (figures.money("0.0123"), "$0.0123"),
        (figures.money("-0.0000001"), "-<$0.000001"),
        (figures.money("nonsense"), "–"),  # noqa: RUF001
        (figures.size(3 << 20), "3.0 MiB"),
        (figures.when(0), "1970-01-01 00:00:00"),
        (figures.duration(7_200), "2 h"),
        (figures.slug('"><b>'), "b"),
    ],
)
def test_figures_are_told_shortly(told: str, expected: str) -> None:
    assert told == expected


def test_vendored_files_are_those_that_are_named() -> None:
    folder = FOLDER / "vendor"
    named = (folder / "VENDORED.txt").read_text()
    for file in folder.iterdir():
        if file.suffix in {".js", ".css"}:
            assert hashlib.sha256(file.read_bytes()).hexdigest() in named
    assert {"LICENSE-htmx.txt", "LICENSE-uPlot.txt"} <= {file.name for file in folder.iterdir()}


def test_a_file_is_served_under_a_name_that_changes_with_it() -> None:
    one, other = Assets({"a.css": b"1"}), Assets({"a.css": b"2"})
    assert one.url("a.css") != other.url("a.css")
    assert one.get(other.url("a.css")) is None
    found = one.get(one.url("a.css"))
    assert found is not None
    assert found[1] == b"1"
    assert one.get("/admin/ui/assets/../sessions.py") is None
