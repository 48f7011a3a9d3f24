"""Logs: only listed fields, no long text, one JSON object a line."""

import json
import sys

import pytest

from gateway.telemetry.logs import FIELDS, make_logger, only_known_fields


def lines(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_an_event_is_one_json_line_with_level_time_and_worker(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    make_logger("info", 7).info("request", status=200)
    sys.stdout.flush()
    (event,) = lines(capfdbinary.readouterr().out.decode())
    assert event["event"] == "request"
    assert event["worker"] == 7
    assert event["level"] == "info"
    assert str(event["timestamp"]).endswith("Z")


def test_what_is_not_listed_never_reaches_the_log(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    make_logger("info", 7).warning("x", prompt="CANARY", body={"a": "CANARY"}, authorization="CANARY")
    sys.stdout.flush()
    out = capfdbinary.readouterr().out
    assert b"CANARY" not in out
    assert lines(out.decode())[0]["dropped_fields"] == 3


def test_lower_levels_are_silent(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    make_logger("warning", 7).info("request")
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b""


def test_long_values_are_cut() -> None:
    assert len(only_known_fields({"error": "x" * 10_000})["error"]) < 400


@pytest.mark.parametrize("name", ["prompt", "messages", "content", "authorization", "key", "body", "answer"])
def test_nothing_that_could_hold_text_of_a_user_is_listed(name: str) -> None:
    assert name not in FIELDS
