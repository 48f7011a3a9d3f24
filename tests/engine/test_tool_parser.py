"""Calls are found whatever the token borders, and what is no call is text to the last character."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.protocol.tool_formats import TOOL_FORMATS, ToolFormat, find_format
from engine.protocol.tool_parser import ToolParser

HERMES, LLAMA = TOOL_FORMATS["hermes"], TOOL_FORMATS["llama3_json"]
A = '<tool_call>\n{"name": "a", "arguments": {"x": [1, "}<tool_call>"], "y": {"z": "\\"}"}}}\n</tool_call>'
B = '<tool_call>\n{"name": "b_2", "arguments": {}}\n</tool_call>'
CALL_A = ("a", '{"x": [1, "}<tool_call>"], "y": {"z": "\\"}"}}')
BAD_ESCAPE = r'{"name": "\q", "arguments": {"x": 1}}'
BAD_LINE = '{"name": "a\n", "arguments": {}}'
DEEP = '{"arguments": {"x": ' + "[" * 300 + "]" * 300 + '}, "name": "a"}'


def parse(name: str, pieces: list[str], parallel: bool = True) -> tuple[str, list[tuple[str, str]]]:
    """Content and calls, put together as a client does."""
    parser = ToolParser(TOOL_FORMATS[name], parallel)
    content = ""
    calls: list[tuple[str, str]] = []
    for parsed in [*(parser.push(piece) for piece in pieces), parser.finish()]:
        content += parsed.content
        for part in parsed.calls:
            if part.name is not None:
                assert part.index == len(calls)
                calls.append((part.name, part.arguments))
            else:
                calls[part.index] = (calls[part.index][0], calls[part.index][1] + part.arguments)
    assert parser.num_calls == len(calls)
    return content, calls


CASES = [
    ("hermes", A, "", [CALL_A]),
    ("hermes", f"Let me look.\n{A}\n{B}", "Let me look.", [CALL_A, ("b_2", "{}")]),
    ("hermes", f"{B} done", " done", [("b_2", "{}")]),
    ("hermes", "no call <tool_cal at all\n", "no call <tool_cal at all\n", []),
    ("hermes", "<tool_call>nonsense</tool_call> ok", "<tool_call>nonsense</tool_call> ok", []),
    ("hermes", '<tool_call>{"name": 7}</tool_call>', '<tool_call>{"name": 7}</tool_call>', []),
    ("hermes", '<tool_call>{"arguments": {"x": 1}, "name": "a"}</tool_call>', "", [("a", '{"x":1}')]),
    ("hermes", '<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>', "", [("a", '{"x": 1}')]),
    ("hermes", '<tool_call>{"name": "a"}</tool_call>', "", [("a", "{}")]),
    ("hermes", '<tool_call>\n{"name": "a", "arguments": {"x": ', "", [("a", '{"x": ')]),
    ("hermes", '<tool_call>\n{"name": "a"}', "", [("a", "{}")]),
    ("hermes", '<tool_call>\n{"na', '<tool_call>\n{"na', []),
    ("hermes", f"<tool_call>{BAD_ESCAPE}</tool_call>", f"<tool_call>{BAD_ESCAPE}</tool_call>", []),
    ("hermes", f"<tool_call>{BAD_LINE}</tool_call> ok", f"<tool_call>{BAD_LINE}</tool_call> ok", []),
    ("hermes", f"<tool_call>{DEEP}</tool_call>", f"<tool_call>{DEEP}</tool_call>", []),
    ("hermes", "", "", []),
    ("llama3_json", '{"name": "a", "parameters": {"x": 1}}', "", [("a", '{"x": 1}')]),
    (
        "llama3_json",
        ' {"type": "function", "name": "a", "parameters": {}}; {"name": "b", "parameters": {"y": {}}}',
        "",
        [("a", "{}"), ("b", '{"y": {}}')],
    ),
    ("llama3_json", BAD_ESCAPE, BAD_ESCAPE, []),
    ("llama3_json", "Hello {you}", "Hello {you}", []),
    ("llama3_json", '{"answer": 42}', '{"answer": 42}', []),
    ("llama3_json", '{"name": "Ann", "age": 7}', '{"name": "Ann", "age": 7}', []),
    ("llama3_json", "", "", []),
]


@pytest.mark.parametrize(("name", "text", "content", "calls"), CASES)
def test_calls_and_text_whatever_the_borders(
    name: str, text: str, content: str, calls: list[tuple[str, str]]
) -> None:
    assert parse(name, [text]) == (content, calls)
    assert parse(name, list(text)) == (content, calls)
    for size in (2, 3, 7):
        assert parse(name, [text[start : start + size] for start in range(0, len(text), size)]) == (content, calls)


@given(st.text(alphabet='<tol_cal>/{}"na: \n', max_size=80), st.lists(st.integers(0, 80), max_size=8))
def test_the_borders_never_matter(text: str, places: list[int]) -> None:
    edges = sorted({0, len(text), *(min(place, len(text)) for place in places)})
    pieces = [text[start:end] for start, end in pairwise(edges)]
    for name in TOOL_FORMATS:
        assert parse(name, pieces) == parse(name, [text])


def test_arguments_stream_as_they_come() -> None:
    parser = ToolParser(HERMES, parallel=True)
    assert parser.push('<tool_call>\n{"name": "a", "arg').calls == ()
    (opened,) = parser.push('uments": ').calls or parser.push("{").calls[:1]
    assert (opened.name, opened.arguments) == ("a", "")
    assert [part.arguments for part in parser.push('"x": "lo').calls] == ['"x": "lo']
    assert [part.arguments for part in parser.push('ng"}}\n</tool_call>').calls] == ['ng"}']


def test_without_parallel_calls_the_first_one_counts() -> None:
    assert parse("hermes", [f"{A}\n{B} and more"], parallel=False) == ("", [CALL_A])


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (r"{{- '<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}' }}", HERMES),
        ('{{ \'<tool_call>{"name": "\' + call.name + \'", "arguments": \' }}', HERMES),
        ('message.role == \'ipython\' ... {"name": function name, "parameters": dictionary}', LLAMA),
        ("<tool_call>{{ call.name }}<arg_key>{{ call.arguments }}", None),
        ("<tool_call>\n<function={{ call.name }}>", None),
        ("{{ messages }} {{ tools | tojson }}", None),
    ],
)
def test_the_spelling_is_recognised_by_the_template(source: str, found: ToolFormat | None) -> None:
    assert find_format(source) is found
