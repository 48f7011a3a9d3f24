"""Fingerprints: the same instruction or tool is known in whichever form a client sends it, and no other is."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fingerprints import (
    MAX_PLACEHOLDERS,
    NOTHING_KNOWN,
    UNREGISTERED,
    Known,
    Template,
    TextRefused,
    matches,
    parts_text,
    prints_of,
    recognised,
    segments_of,
    text_print,
    tool_print,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}
TEXT = "You help the customers of {{company}}. Today is {{date}}."


def asked(system: object, **fields: object) -> dict[str, object]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "You are a pirate."}]
    return {"messages": messages, **fields}


def test_an_instruction_is_known_in_every_form() -> None:
    expected = {text_print("You are a pirate.")}
    for content in (
        "You are a pirate.",
        "\r\nYou are a pirate. ",
        [{"type": "text", "text": "You are a pirate."}],
    ):
        assert set(prints_of(asked(content))) == expected
        assert set(prints_of({"messages": [{"role": "developer", "content": content}]})) == expected


def test_only_instructions_count() -> None:
    assert prints_of({"messages": [{"role": "user", "content": "You are a pirate."}]}) == ()
    assert prints_of({"messages": "odd", "tools": 7}) == ()
    assert prints_of(asked("")) == ()


def test_an_instruction_in_parts_is_known_by_each_and_as_a_whole() -> None:
    parts = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Today is Monday."}]
    found = prints_of(asked(parts))
    assert found == (text_print("Be kind."), text_print("Today is Monday."), text_print(parts_text(parts)))


def test_a_tool_is_known_in_every_form() -> None:
    anthropics = {"name": "weather", "description": "Tells it.", "input_schema": SCHEMA, "type": "custom"}
    forms = (
        FUNCTION,
        {"type": "function", "function": FUNCTION},
        {"function": dict(reversed(FUNCTION.items())), "cache_control": {"type": "ephemeral"}},
        anthropics | {"cache_control": {"type": "ephemeral"}},
    )
    assert {tool_print(form) for form in forms} == {tool_print(FUNCTION)}
    assert tool_print(FUNCTION | {"description": "Tells all."}) != tool_print(FUNCTION)
    both = prints_of({"messages": [], "tools": [forms[1]], "functions": [FUNCTION]})
    assert both == (tool_print(FUNCTION),)


PIECES = st.lists(st.text("ab", max_size=3), min_size=1, max_size=4)


@given(PIECES, st.text("abc", max_size=12))
def test_a_template_matches_as_a_pattern_would(pieces: list[str], text: str) -> None:
    pattern = ".*".join(re.escape(piece) for piece in pieces)
    assert matches(tuple(pieces), text) == bool(re.fullmatch(pattern, text, re.DOTALL))


def test_a_filled_template_is_recognised() -> None:
    known = Known({"help": frozenset({"1"})}, (Template("help", "1", segments_of(TEXT)),))
    filled = "You help the customers of Acme\nand Sons. Today is 2026-11-30."
    assert recognised(known, asked(filled), ()) == (("help", "1"),)
    assert recognised(known, asked(filled + " Be brief!"), ()) == ()
    assert recognised(known, asked("Hello."), (("kb", "1"),)) == (("kb", "1"),)


def test_the_text_of_a_retired_version_is_its_heirs() -> None:
    segments = segments_of(TEXT)
    filled = asked("You help the customers of Acme. Today is Monday.")
    both = (Template("help", "1", segments, retired=True), Template("help", "2", segments))
    assert recognised(Known({}, both), filled, ()) == (("help", "2"),)
    assert recognised(Known({}, both[:1]), filled, ()) == (("help", "1"),)


def test_a_registered_name_in_an_unknown_version_is_known_as_such() -> None:
    known = Known({"kb": frozenset({"7"})})
    named = (("kb", "8"), ("other", "1"))
    assert recognised(known, {}, named) == (*named, ("kb", UNREGISTERED))
    assert recognised(known, {}, (("kb", "7"),)) == (("kb", "7"),)
    assert recognised(NOTHING_KNOWN, {}, named) is named


@pytest.mark.parametrize(
    "text", ["", " \n", "{{a}}", "Hi {{name}}!", "x{{a}}" * (MAX_PLACEHOLDERS + 1)], ids=lambda text: text[:9]
)
def test_what_would_match_anything_or_nothing_is_refused(text: str) -> None:
    with pytest.raises(TextRefused):
        segments_of(text)


def test_a_hostile_text_costs_no_more_than_its_length() -> None:
    segments = ("", *(["ab"] * 99), "c" * 20)
    text = "a" * 1_000_000 + "c" * 20
    begun = time.perf_counter()
    assert not matches(segments, text)
    assert time.perf_counter() - begun < 0.5
