"""docs/cache-control.md names every control, header and reason that the code has, and none that it has not."""

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

from gateway import exact_walk, forward, pipeline
from gateway.http.reply import _VENDOR_WORDS, EXPOSED
from policies import control_headers, controls, decide, freshness, gate
from policies.cache_status import Word

PAGE = (Path(__file__).parents[3] / "docs" / "cache-control.md").read_text("utf-8")
NOT_OURS_YET = {"request-id"}  # exposed to browsers for other surfaces


def section(title: str) -> str:
    """The text under a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table's rows, without its head."""
    blocks = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in row.split("|")[1:-1]] for row in block.splitlines()[2:]] for block in blocks
    ]


def named(cells: list[str]) -> set[str]:
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def first_column(table: list[list[str]]) -> set[str]:
    return set.union(*(named(row[:1]) for row in table))


def texts(node: Any) -> set[str]:
    """Every string that stands in a piece of code."""
    return {
        part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }


def given_to(module: ModuleType, *decisions: str) -> set[str]:
    """The reasons that a module gives to these decisions."""
    calls = (node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Call))
    return set().union(
        *(texts(call) for call in calls if isinstance(call.func, ast.Name) and call.func.id in decisions)
    )


def returned_by(module: ModuleType) -> set[str]:
    """The strings that a module's functions return."""
    returns = (node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Return))
    return set().union(*(outcomes(node.value) for node in returns))


def outcomes(value: ast.expr | None) -> set[str]:
    """What an expression may come to, as far as it is spelled out."""
    if isinstance(value, ast.IfExp):
        return outcomes(value.body) | outcomes(value.orelse)
    return {value.value} if isinstance(value, ast.Constant) and isinstance(value.value, str) else set()


def test_every_request_header_is_documented() -> None:
    table, _ = tables(section("What a request may ask"))
    documented = {name.partition(":")[0].lower() for row in table for name in named(row[1:])}
    assert documented == {name.decode() for name in control_headers.HEADERS}


def test_every_directive_is_documented() -> None:
    table, _ = tables(section("What a request may ask"))
    said = {name for row in table for name in named(row[1:]) if name.startswith("Cache-Control:")}
    documented = {part.partition("=")[0].strip() for text in said for part in text.partition(":")[2].split(",")}
    function = ast.parse(inspect.getsource(control_headers._cache_control))
    read = {text for text in texts(function) if re.fullmatch(r"[a-z]+(-[a-z]+)+", text)}
    assert documented == read | control_headers._SECONDS.keys()


def test_every_body_field_is_documented() -> None:
    _, table = tables(section("What a request may ask"))
    documented = {name for row in table for name in named(row[1:])}
    function = texts(ast.parse(inspect.getsource(controls._body_controls)))
    assert {part for name in documented for part in name.split(".")} <= function
    fields = {"no-cache", "no-store", "namespace", "ttl", "s-maxage", "s-max-age", "max_age_s", "enabled"}
    assert {name.split(".")[1] for name in documented} == fields


@pytest.mark.parametrize("mode", [mode for mode, meaning in control_headers._MODES.items() if meaning == "off"])
def test_the_modes_that_do_something_are_documented(mode: str) -> None:
    assert f"`x-lamina-cache-mode: {mode}`" in section("What a request may ask")


def test_every_response_header_is_documented() -> None:
    table, _ = tables(section("What an answer says"))
    documented = {name.lower() for name in first_column(table)}
    mirrors = {name.decode() for name, _ in _VENDOR_WORDS.values()}
    exposed = {name.strip().lower() for name in EXPOSED.split(",")} - NOT_OURS_YET
    assert documented == exposed | mirrors | {"cache-control", "x-accel-buffering"}


def test_every_word_is_documented() -> None:
    _, table = tables(section("What an answer says"))
    assert first_column(table) == set(get_args(Word))


def test_every_reason_to_ask_the_model_is_documented() -> None:
    (table,) = tables(section("Why the model was asked"))
    live = {reason for _, reason in decide._LIVE_FIELDS}
    given = [given_to(module, "Bypass", "Miss") for module in (decide, pipeline, exact_walk)]
    assert first_column(table) == set().union(*given) | live | {"semantic_…"}


def test_every_reason_to_be_stale_is_documented() -> None:
    (table,) = tables(section("Why an answer is stale"))
    assert first_column(table) == given_to(decide, "Stale") | given_to(freshness, "_stale")


def test_every_reason_not_to_store_is_documented() -> None:
    (table,) = tables(section("Why an answer was not stored"))
    passed_on = {"length", "content_filter"}
    assert passed_on <= texts(ast.parse(inspect.getsource(gate)))
    reasons = given_to(decide, "Discard") | given_to(forward, "Discard") | returned_by(gate) | {"guard"}
    assert first_column(table) == reasons | passed_on


def test_every_setting_it_names_exists() -> None:
    settings = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text("utf-8")
    for name in re.findall(r"`(cache\.[a-z_]+)(?: =[^`]*)?`", PAGE.replace(section("What a request may ask"), "")):
        assert f"`{name}`" in settings
