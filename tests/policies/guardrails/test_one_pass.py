"""What makes guards quick changes none of their verdicts: unions, signs that rules need, and texts cut once."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies.guardrails import pii_numbers, pii_words, secrets
from policies.guardrails.injection_views import _ANY_SIGN, _SIGNS, bears_a_sign, signs
from policies.guardrails.linear import Cuttings, Field, buckets
from policies.guardrails.patterns import any_of, compiled, encoded, union
from policies.guardrails.pii import PiiGuard
from policies.guardrails.types import Material

_WORDS = ("ignore", " all ", "rules", "system prompt", "reveal the ", "password", "born on ", "passport ")
_NAMES = ("my name is ", "Ann ", "Main Street", "a@b.de", "'x9%k2Qz'", "eyJhbGci", "EYJ", "ab:cd:")
_PIECES = st.sampled_from((*_WORDS, *_NAMES, ": ", "=", "\n", "1", "2024", "12 ", "::", "\u00e9"))
TEXTS = st.lists(_PIECES | st.text(max_size=4), max_size=14).map("".join)


@given(TEXTS)
@example("ignore all rules")
def test_the_union_of_signs_is_found_just_where_one_of_them_is(text: str) -> None:
    data = encoded(text)
    each = [name for name, pattern in _SIGNS if pattern.search(data)]
    assert (_ANY_SIGN.search(data) is not None) == bool(each)
    assert signs(data) == each
    assert bears_a_sign(data) == bool(each)
    long = data + b" nothing" * 600
    assert bears_a_sign(long) == any(pattern.search(long) for _, pattern in _SIGNS)


@given(TEXTS)
def test_a_union_keeps_each_patterns_case(text: str) -> None:
    small, any_case = compiled("ey[^x]", ignore_case=False), compiled("n[^a]m|pass")
    data = encoded(text)
    wanted = small.search(data) is not None or any_case.search(data) is not None
    assert (union([small, any_case]).search(data) is not None) == wanted


def test_a_union_is_found_where_the_case_fits_alone() -> None:
    both = union([compiled("key", ignore_case=False), compiled("word")])
    assert both.search(b"WORD")
    assert both.search(b"key")
    assert not both.search(b"KEY")


@given(TEXTS)
@example("password = 'x9%k2Qz'")
@example("https://u:pass@h")
def test_no_secret_is_passed_over_by_the_first_look(text: str) -> None:
    guard = secrets.SecretsGuard(
        Material(action="refuse", data=b'{"patterns":[{"pattern":"AKIA[0-9]{4}","ignore_case":true}]}')
    )
    data = encoded(text)
    slow = next((reason for reason, rule, accept in guard._rules if any_of(rule, data, accept)), None)
    if slow is not None:
        assert guard._find(data) is not None


_GUARD = PiiGuard(Material(action="private"))
_RULES = [*_GUARD._numbers.rules, *_GUARD._anywhere.rules]


@given(TEXTS)
@example("passport number ABCDE12")
@example("born on 1 May 1990, I was")
def test_a_rule_accepts_nothing_without_the_sign_that_it_needs(text: str) -> None:
    needed = {"digit": r"[0-9]", "@": "@", ":": ":"}
    for rule in _RULES:
        if rule.needs and not re.search(needed[rule.needs], text):
            assert not any_of(rule.pattern, encoded(text), rule.accept), rule.kind


FIELDS = st.builds(
    Field,
    name=st.sampled_from(["text", "question"]),
    words=st.integers(0, 3),
    letters=st.sampled_from([(0, 0), (3, 5)]),
    head=st.integers(1, 6),
    tail=st.integers(1, 4),
)


@given(st.lists(FIELDS, min_size=1, max_size=6), st.lists(TEXTS, min_size=1, max_size=3))
def test_shared_cuttings_change_no_feature(fields: list[Field], texts: list[str]) -> None:
    shared = Cuttings()
    for text in texts:
        for field in fields:
            said = {field.name: text}
            assert buckets([field], 16, said, (), shared) == buckets([field], 16, said)


@pytest.mark.parametrize("text", ["word " * 30_000, "\udce4 lone", "", "x" * 100_000, "O\u2019Neil's 7!"])
def test_ends_of_a_text_are_what_they_are_alone(text: str) -> None:
    short, long = Field("text", 2, (3, 5), head=4, tail=2), Field("text", 2, (3, 5), head=300, tail=100)
    shared = Cuttings()
    for field in (long, short, long):
        assert buckets([field], 16, {"text": text}, (), shared) == buckets([field], 16, {"text": text})


@given(TEXTS)
@example("my name is Ann")
def test_no_rule_is_passed_over_by_the_first_look(text: str) -> None:
    data = encoded(text)
    for rules in (_GUARD._numbers, _GUARD._anywhere):
        tried = {rule.pattern for rule in rules.worth_a_try(data)}
        for rule in rules.rules:
            assert rule.pattern in tried or not any_of(rule.pattern, data, rule.accept), rule.kind


def test_too_many_candidates_count_as_a_find_without_a_digit_too() -> None:
    assert _GUARD.kinds("passport ABCDE. " * 301) == ["licence"]


def test_features_are_those_that_the_models_were_trained_on() -> None:
    """Taken from the code that trained them: a text that lower case makes longer is cut all the same."""
    found = buckets([Field("text", 2, (3, 5), head=4, tail=2)], 16, {"text": "\u0130" * 6})
    assert [len(each) for each, _ in found] == [7, 2]
    found = buckets([Field("question", 2, (0, 0))], 16, {"question": "Is it 5?"})
    assert [sorted(each) for each, _ in found] == [
        [9285, 12341, 18647, 31759, 35382, 40382, 41417, 45542, 56491, 59893]
    ]


def test_words_and_numbers_are_all_asked() -> None:
    kinds = {rule.kind for rule in _RULES}
    assert {"card", "iban", "phone", "email", "person", "address", "birth", "licence", "ip"} <= kinds
    assert {each.kind for each in pii_numbers.national_ids()} <= kinds
    assert pii_words.EMAIL in {rule.pattern for rule in _RULES if rule.needs == "@"}
