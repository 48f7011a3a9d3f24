"""Marks as token positions: what is before one never depends on what comes after it."""

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.breakpoints import marked_chars, token_breakpoints
from engine.errors import RequestError
from engine.kv.wishes import Breakpoint
from engine.protocol.prompt_cache import Mark, Where

TEMPLATES = {
    "plain": (
        "{% if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}</tools>{% endif %}"
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
        "<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>{% endfor %}</end>{% endfor %}"
        "<assistant>"
    ),
    "trimming": "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</end>{% endfor %}<assistant>",
    "first twice": "{{ messages[0].content }}|{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
    "quoting": "{% for m in messages %}{{ m.content | tojson }},{% endfor %}",
    "users only": "{% for m in messages if m.role == 'user' %}<u>{{ m.content }}</u>{% endfor %}",
    "named tools": (
        "{% for t in tools or [] %}{{ t.function.name }}: {{ t.function.description }};{% endfor %}"
        "{{ messages[-1].content }}"
    ),
}

Messages = Sequence[Mapping[str, Any]]


def renderer(name: str) -> Any:
    environment = jinja2.Environment(autoescape=False)  # noqa: S701  (a prompt is no web page)
    template = environment.from_string(TEMPLATES[name])

    def render(messages: Messages, tools: Messages) -> str:
        return template.render(messages=messages, tools=tools)

    return render


def before(name: str, messages: Messages, mark: Mark, tools: Messages = ()) -> str | None:
    """The prompt up to a mark."""
    render = renderer(name)
    text = render(messages, tools)
    chars = marked_chars(text, render, messages, tools, mark)
    return None if chars is None else text[:chars]


SYSTEM = {"role": "system", "content": "Be kind."}
USER = {"role": "user", "content": "Hi there"}
CALLS = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"function": {"name": "f", "arguments": {"a": 1}}},
        {"function": {"name": "g", "arguments": "{"}},
    ],
}
TOOLS = [{"type": "function", "function": {"name": name, "description": f"{name} it"}} for name in ("f", "g")]


@pytest.mark.parametrize(
    ("template", "mark", "expected"),
    [
        ("plain", Mark(Where.TEXT, 0, 8, 300), "<system>Be kind."),
        ("plain", Mark(Where.TEXT, 1, 2, 300), "<system>Be kind.</end><user>Hi"),
        ("plain", Mark(Where.TEXT, 1, 0, 300), "<system>Be kind.</end><user>"),
        ("trimming", Mark(Where.TEXT, 1, 8, 300), "<system>Be kind.</end><user>Hi there"),
        ("first twice", Mark(Where.TEXT, 0, 8, 300), "Be kind."),
        ("quoting", Mark(Where.TEXT, 0, 8, 300), '"Be kind.'),
        ("users only", Mark(Where.TEXT, 0, 8, 300), None),
        ("users only", Mark(Where.TEXT, 1, 8, 300), "<u>Hi there"),
    ],
)
def test_a_mark_in_a_text(template: str, mark: Mark, expected: str | None) -> None:
    assert before(template, [SYSTEM, USER], mark) == expected


def test_marks_on_calls_and_tools() -> None:
    call = before("plain", [USER, CALLS, USER], Mark(Where.CALL, 1, 0, 300))
    assert call == '<user>Hi there</end><assistant><call>f {"a": 1'
    broken = before("plain", [USER, CALLS, USER], Mark(Where.CALL, 1, 1, 300))
    assert broken is not None
    assert broken.endswith('<call>g "{')
    tool = before("plain", [USER], Mark(Where.TOOL, 0, 0, 300), TOOLS)
    assert tool is not None
    assert tool.startswith("<tools>")
    assert "f it" in tool
    assert "g it" not in tool
    described = before("named tools", [USER], Mark(Where.TOOL, 0, 0, 300), TOOLS)
    assert described == "f: f it"


@pytest.mark.parametrize(
    "mark", [Mark(Where.CALL, 0, 0, 300), Mark(Where.TOOL, 0, 0, 300), Mark(Where.CALL, 1, 5, 300)]
)
def test_a_mark_on_what_is_not_shown_counts_for_nothing(mark: Mark) -> None:
    assert before("plain", [USER, CALLS], mark) is None


def test_a_template_that_refuses_the_second_rendering_costs_only_the_mark() -> None:
    def render(messages: Messages, tools: Messages) -> str:
        if len(messages[0]["content"]) > 5:
            raise RequestError(400, "too long")
        return str(messages[0]["content"])

    assert marked_chars("Hi", render, [{"role": "user", "content": "Hi"}], [], Mark(Where.TEXT, 0, 2, 300)) is None


WORDS = st.text(st.sampled_from('ab <>|\n"é\uf8f7🌍'), max_size=12)


@given(
    st.sampled_from(sorted(TEMPLATES)),
    st.lists(WORDS, min_size=1, max_size=4),
    st.data(),
)
def test_another_ending_behind_the_mark_never_changes_what_is_before_it(
    template: str, texts: list[str], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(texts) - 1))
    inner = data.draw(st.integers(0, len(texts[index])))
    messages = [{"role": "user", "content": text} for text in texts]
    kept = before(template, messages, Mark(Where.TEXT, index, inner, 300))
    if kept is None or template in ("first twice", "named tools"):
        return
    render = renderer(template)
    changed = [*messages[:index], {"role": "user", "content": texts[index][:inner] + "\uf8f7zz"}]
    assert render(changed, ()).startswith(kept.rstrip(" \n") if template == "trimming" else kept)


def test_tokens_that_reach_over_a_mark_are_left_out_and_the_longest_life_wins() -> None:
    ends = [2, 4, 4, 7, 9]
    assert token_breakpoints(ends, [(7, 300), (8, 3600), (9, 300), (3, 300), (1, 300)], 1) == (
        Breakpoint(1, 300),
        Breakpoint(4, 3600),
        Breakpoint(5, 300),
    )
    assert token_breakpoints(ends, [(3, 300), (9, 300)], 4) == (Breakpoint(5, 300),)
    assert token_breakpoints([], [(0, 300)], 1) == ()
