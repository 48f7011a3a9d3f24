import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.answers import same_answer

SAME = [
    ("Paris.", "paris"),
    ("**Paris**", "Paris"),
    ("42", "The answer is 42."),
    ("1,000", "1000"),
    ("Yes.", "Yes, it is."),
    ('{"a": 1, "b": [true, null]}', '{"b": [true, null], "a": 1.0}'),
    ('{"city": "Paris"}', '{"city": "paris "}'),
]
OTHER = [
    ("42", "43"),
    ("The answer is 42.", "The answer is 24."),
    ("Yes", "No"),
    ("Yes, because it was so in the old days and nobody ever changed it since.", "No, it is not."),
    ('{"a": 1}', '{"a": 2}'),
    ('{"a": 1}', '{"b": 1}'),
    ('{"a": true}', '{"a": 1}'),
    ('{"city": "Paris"}', '{"city": "Rome"}'),
    ("[1, 2]", "[1, 2, 3]"),
]
UNKNOWN = [
    ("Paris", "The capital of France"),
    ("5 km", "5 miles"),
    ("Go to settings and choose security, then password, and follow the steps there.", "Open the menu."),
    ('{"why": "because it rains so often"}', '{"why": "since there is a lot of rain"}'),
    ("Yes, since the first of them came.", "Yes, and nobody knows why."),
]


@pytest.mark.parametrize(("stored", "fresh"), SAME)
def test_same(stored: str, fresh: str) -> None:
    assert same_answer(stored, fresh) is True
    assert same_answer(fresh, stored) is True


@pytest.mark.parametrize(("stored", "fresh"), OTHER)
def test_different(stored: str, fresh: str) -> None:
    assert same_answer(stored, fresh) is False
    assert same_answer(fresh, stored) is False


@pytest.mark.parametrize(("stored", "fresh"), UNKNOWN)
def test_only_meaning_can_tell(stored: str, fresh: str) -> None:
    assert same_answer(stored, fresh) is None
    assert same_answer(fresh, stored) is None


@given(st.text(), st.text())
def test_any_two_texts(stored: str, fresh: str) -> None:
    assert same_answer(stored, stored) is True
    assert same_answer(stored, fresh) is same_answer(fresh, stored)
