"""Strict JSON: one text, one meaning, or a refusal that quotes nothing of the text."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.strict_json import MAX_DEPTH, MAX_INTEGER, StrictJsonError, loads

INTEGERS = st.integers(-MAX_INTEGER, MAX_INTEGER)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=25,
)


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: 1, 1.0 and true are three values, and so are 0.0 and -0.0."""
    return type(left) is type(right) and orjson.dumps(left) == orjson.dumps(right)


@given(VALUES)
def test_what_a_strict_writer_writes_is_read_as_it_was(value: Any) -> None:
    read = loads(orjson.dumps(value))
    assert read == value
    assert same(read, value)


@given(VALUES)
def test_what_is_read_is_what_is_forwarded(value: Any) -> None:
    once = orjson.dumps(loads(orjson.dumps(value, option=orjson.OPT_INDENT_2)))
    assert orjson.dumps(loads(once)) == once


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused_and_never_anything_else(raw: bytes) -> None:
    try:
        value = loads(raw)
    except StrictJsonError:
        return
    assert orjson.loads(raw) == value


@given(st.text('[]{}":,\\ 0aueE+-.ntf', max_size=200))
def test_texts_that_look_like_json_are_judged_as_a_second_parser_does(text: str) -> None:
    try:
        value = loads(text.encode())
    except StrictJsonError:
        return
    assert orjson.loads(text) == value


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"null", None),
        (b" \t\r\n[1 ,\n2]\t ", [1, 2]),
        (b'{"":0}', {"": 0}),
        (b'{"a":{"a":{"a":1}}}', {"a": {"a": {"a": 1}}}),
        (b'[{"a":1},{"a":2}]', [{"a": 1}, {"a": 2}]),
        (b'{"a":1,"A":2}', {"a": 1, "A": 2}),
        ('{"é":1,"e\u0301":2}'.encode(), {"é": 1, "e\u0301": 2}),
        (b'"\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\"\\\\"', 'é😀/\b\f\n\r\t"\\'),
        (b'"a\\u0000b"', "a\x00b"),
        ('"\u2028\u2029\u007f\ufeff"'.encode(), "\u2028\u2029\x7f\ufeff"),
        ('"\U0010ffff\uffff"'.encode(), "\U0010ffff\uffff"),
        (b"9007199254740992", 2**53),
        (b"-9007199254740992", -(2**53)),
        (b"1E+2", 100.0),
        (b"1e-400", 0.0),
        (b"-0.0", -0.0),
        (b"0.1e1", 1.0),
        (b"123456789012345678901234567890.0", 123456789012345678901234567890.0),
        (b"1e308", 1e308),
        (b'"NaN Infinity 1e400 \\\\ud800"', "NaN Infinity 1e400 \\ud800"),
        (b'"[[[[{{{{"', "[[[[{{{{"),
        (b'"\\\\"', "\\"),
    ],
)
def test_accepted(raw: bytes, value: Any) -> None:
    assert same(loads(raw), value)


REFUSED: list[bytes] = [
    # nothing, or nothing that ends
    b"", b" ", b"\n", b"[", b"{", b'"', b'"a', b"[1", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b"[1,", b'"\\',
    b"tru",
    # structure
    b"]", b"}", b"[}", b"{]", b"[1}", b'{"a":1]', b"[,]", b"[1,]", b"[,1]", b"[1,,2]", b"[1 2]", b"[1:2]", b"[]]",
    b"{}}", b"[] []", b"{} {}", b"1 2", b'"a" "b"', b"[]x", b"{,}", b'{"a":1,}', b'{,"a":1}', b'{"a"}', b'{"a" 1}',
    b'{"a":}', b"{:1}", b'{"a"::1}', b'{"a":1 "b":2}', b'{"a":1,,"b":2}', b'{"a",1}', b'["a":1]', b"[(1)]",
    # names and words
    b"{a:1}", b"{1:1}", b"{null:1}", b"{true:1}", b"{[]:1}", b"{'a':1}", b"['a']", b"True", b"FALSE", b"Null",
    b"None", b"nul", b"nulll", b"undefined", b"truefalse", b"[true false]", b"yes", b"a", b"\xc3\xa9",
    # numbers
    b"+1", b"01", b"-01", b"00", b"-", b"--1", b"1.", b"-1.", b".5", b"-.5", b"1.e1", b"1e", b"1e+", b"1E-",
    b"1e1.5",
    b"0x1F", b"0b1", b"0o7", b"1_000", b"1,000", b"1 000", b"1f", b"1n", b"1e1e1", b"1.2.3", b"- 1", b"1-2", b"0e",
    "\u0661".encode(), "\uff11".encode(), b"1\xc2\xa0", b"NaN", b"[NaN]", b"-NaN", b"nan", b"Infinity",
    b"[Infinity]",
    b"-Infinity", b"+Infinity", b"inf", b"1e400", b"-1e400", b"1e309", b"[1.8e308]", b"9007199254740993",
    b"-9007199254740993", b"18446744073709551616", b"1" + b"0" * 300,
    # strings
    b'"\x00"', b'"\x1f"', b'"a\nb"', b'"a\tb"', b'"\\x41"', b'"\\a"', b'"\\0"', b'"\\\'"', b'"\\u"', b'"\\u1"',
    b'"\\u12"', b'"\\u123"', b'"\\u123g"', b'"\\U00000041"', b'"\\ u0041"', b'"\\\xc3\xa9"', b'"\\u-123"',
    b'"\\u+041"',
    b'"\\u 041"', b'"\\u00_1"', b'"a" + "b"', b"`a`",
    # halves of surrogate pairs
    b'"\\ud800"', b'"\\udc00"', b'"\\udc00\\ud800"', b'"\\ud800\\ud800"', b'"a\\ud83dz"', b'"\\uD83D\\u0041"',
    b'{"\\ud800":1}', b'[[{"a":["\\udfff"]}]]', b'{"a":{"\\udbff":1}}',
    # names given twice
    b'{"a":1,"a":1}', b'{"a":1,"a":2}', b'{"a":1,"b":2,"a":3}', b'[{"a":[{"b":1,"b":2}]}]', b'{"a":1,"\\u0061":2}',
    b'{"\\u00e9":1,"\xc3\xa9":2}', b'{"":1,"":2}', b'{"\\/":1,"/":2}', b'{"a":{},"a":{}}',
    b'{"\\ud83d\\ude00":1,"\xf0\x9f\x98\x80":2}',
    # bytes
    b"\xef\xbb\xbf{}", b"\xef\xbb\xbf", b"\xfe\xff\x00{\x00}", b"\xff\xfe{\x00}\x00", b"\x00", b"{}\x00",
    b"\x00{}",
    b'"\xff"', b'"\xc0\x80"', b'"\xc0\xaf"', b'"\xe0\x80\xaf"', b'"\xed\xa0\x80"', b'"\xed\xbf\xbf"',
    b'"\xf4\x90\x80\x80"',
    b'"\xc3"', b'"\xe2\x82"', b'"\x80"', b'"\xf8\x88\x80\x80\x80"', b"[\xe5]", b"\xc2\x85{}", b"\xc2\xa0{}",
    b"\x0c{}",
    b"\x0b[]", b"\xe2\x80\xa8[]", b"\xe2\x81\xa0[]", b"[\x0c]",
    # comments and other dialects
    b"//a\n{}", b"/**/{}", b"{}//a", b"{}/*a*/", b"#a\n{}", b'{"a":/*b*/1}', b")]}',\n{}", b"<a/>", b"a=1",
    b"{}\n{}",
]  # fmt: skip


@pytest.mark.parametrize("raw", REFUSED)
def test_refused(raw: bytes) -> None:
    with pytest.raises(StrictJsonError):
        loads(raw)


@pytest.mark.parametrize("raw", REFUSED)
def test_refused_as_deep_as_a_body_has_it(raw: bytes) -> None:
    with pytest.raises(StrictJsonError):
        loads(b'{"messages":[{"role":"user","content":' + raw + b"}]}") if raw.strip(b" \n") else loads(b'{"a":}')


def test_the_table_is_as_large_as_promised() -> None:
    assert len(REFUSED) == len(set(REFUSED)) >= 60


@pytest.mark.parametrize(
    "raw", [b'{"secret-name":1,"secret-name":2}', b'["secret-name\\ud800"]', b"[secret-name]"]
)
def test_no_message_quotes_the_text(raw: bytes) -> None:
    with pytest.raises(StrictJsonError) as caught:
        loads(raw)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@given(st.text("abcdefghij", min_size=8), st.sampled_from(REFUSED))
def test_no_refusal_quotes_a_member_of_the_text(word: str, raw: bytes) -> None:
    with pytest.raises(StrictJsonError) as caught:
        loads(b'{"' + word.encode() + b'":[' + raw + b",]}")
    assert word not in str(caught.value)


def nested(opening: bytes, closing: bytes, depth: int) -> bytes:
    return opening * depth + b"0" + closing * depth


@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
def test_depth_64_is_read_and_65_is_refused(pair: tuple[bytes, bytes]) -> None:
    per_pair = pair[0].count(b"[") + pair[0].count(b"{")
    loads(nested(*pair, MAX_DEPTH // per_pair))
    with pytest.raises(StrictJsonError, match="deeper than 64"):
        loads(b"[" + nested(*pair, MAX_DEPTH // per_pair) + b"]")


def test_brackets_beside_each_other_or_in_strings_are_not_depth() -> None:
    assert len(loads(b"[" + b",".join([b"[[]]"] * 1000) + b"]")) == 1000
    text = "[{" * 100 + '"\\' + "]}"
    assert loads(orjson.dumps({text: [text, {"a": text}]})) == {text: [text, {"a": text}]}
    inside = b"[" * 62 + orjson.dumps([text]) + b"]" * 62
    loads(b"[" + inside + b"]")
    with pytest.raises(StrictJsonError, match="deeper than 64"):
        loads(b"[[" + inside + b"]]")


@given(st.integers(1, 90), st.text('[]{}"\\', max_size=40))
def test_depth_is_counted_whatever_stands_in_strings(depth: int, text: str) -> None:
    raw = b"[" * depth + orjson.dumps(text) + b"]" * depth
    if depth <= MAX_DEPTH:
        loads(raw)
    else:
        with pytest.raises(StrictJsonError, match="deeper than 64"):
            loads(raw)


@pytest.mark.parametrize("digits", [17, 18, 400, 4299, 4300, 4301, 1_000_000])
@pytest.mark.parametrize("shape", ["{}", "-{}", "{}.0", "0.{}", "1e{}", "[{}]"])
def test_numbers_of_any_length_are_read_or_refused(digits: int, shape: str) -> None:
    raw = shape.format("9" * digits).encode()
    try:
        value = loads(raw)
    except StrictJsonError:
        return
    assert isinstance(value, float)
    assert len(raw) <= 402


FLOODS: dict[str, Callable[[], bytes]] = {
    "open lists": lambda: b"[" * 10_000_000,
    "open objects": lambda: b'{"a":' * 500_000,
    "deep and closed": lambda: b"[" * 1_000_000 + b"]" * 1_000_000,
    "an open string of escaped quotes": lambda: b"[" * 70 + b'"' + b'\\"' * 1_000_000,
    "an open string of escapes": lambda: b"[" * 70 + b'"' + b"\\\\" * 1_000_000,
    "closing lists": lambda: b"]" * 2_000_000,
    "quotes": lambda: b"[" * 70 + b'"' * 2_000_000,
    "one list of pairs": lambda: b"[" + b"[]" * 1_000_000,
    "towers that end too early": lambda: b"[" + (b"[" * 63 + b"]" * 63) * 20_000,
}


@pytest.mark.parametrize("name", FLOODS)
def test_megabytes_meant_to_hurt_are_refused_at_once(name: str) -> None:
    raw = FLOODS[name]()
    began = time.perf_counter()
    with pytest.raises(StrictJsonError):
        loads(raw)
    assert time.perf_counter() - began < 1


def test_ten_megabytes_of_brackets_take_bounded_memory() -> None:
    script = (
        "import resource\n"
        "from policies.strict_json import StrictJsonError, loads\n"
        "raw = b'[' * 10_000_000\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    loads(raw)\nexcept StrictJsonError:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert int(done.stdout) < 100 * 1024  # kilobytes: some copies of the text, no tree


def test_too_many_values_are_refused_at_once_and_commas_in_text_do_not_count() -> None:
    many = b"[" + b"[]," * 5_000_000 + b"[]]"
    begun = time.perf_counter()
    with pytest.raises(StrictJsonError, match="more than 200000 values"):
        loads(many)
    assert time.perf_counter() - begun < 2
    assert loads(b'["' + b"," * 300_000 + b'"]') == ["," * 300_000]
    assert len(loads(b"[" + b"1," * 199_999 + b"1]")) == 200_000
