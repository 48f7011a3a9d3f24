"""Whether two answers to one question say the same, as far as that can be told without a model.

Short answers, numbers, yes and no, and JSON are judged here; prose that is worded otherwise is nobody's but a
verifier's to judge.
"""

import re
import unicodedata

import orjson

_SHORT_WORDS = 12
_BARE_WORDS = 3
_SPACES = re.compile(r"\s+")
_MARKS = re.compile(r"[*_`#>]+")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?![\w])")
_WORD = re.compile(r"\w+")
_POLAR = {"yes": True, "no": False, "true": True, "false": False, "correct": True, "incorrect": False}
_EDGES = " .,;:!?\"'()[]"


def same_answer(stored: str, fresh: str) -> bool | None:
    """Whether the answers say the same; None when only their meaning can tell.

    Equal means equal but for case, spaces, marks of emphasis and punctuation at the ends.
    """
    one, other = _plain(stored), _plain(fresh)
    if one == other:
        return True
    structured = _same_json(stored, fresh)
    if structured is not None:
        return structured
    polar = _polarity(one), _polarity(other)
    if None not in polar and polar[0] != polar[1]:
        return False
    if _is_short(one) and _is_short(other):
        return _same_short(one, other)
    return None


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    return _SPACES.sub(" ", _MARKS.sub("", text)).strip(_EDGES)


def _is_short(text: str) -> bool:
    return len(_WORD.findall(text)) <= _SHORT_WORDS


def _same_short(one: str, other: str) -> bool | None:
    numbers = _numbers(one), _numbers(other)
    if numbers[0] != numbers[1]:
        return False if numbers[0] and numbers[1] else None
    if numbers[0] and min(_words_beside(one), _words_beside(other)) == 0:
        return True
    polar = _polarity(one), _polarity(other)
    if None not in polar and min(len(_WORD.findall(one)), len(_WORD.findall(other))) <= 1:
        return True
    return None


def _numbers(text: str) -> list[float]:
    """The numbers in a text, sorted; thousands may be set apart by commas."""
    return sorted(float(found.replace(",", "")) for found in _NUMBER.findall(text))


def _words_beside(text: str) -> int:
    return len(_WORD.findall(_NUMBER.sub(" ", text)))


def _polarity(text: str) -> bool | None:
    """What an answer begins with, when that is yes or no."""
    first = _WORD.match(text)
    return _POLAR.get(first.group()) if first is not None else None


def _same_json(stored: str, fresh: str) -> bool | None:
    """Whether two JSON values agree; None when not both are objects or lists, or only wording differs."""
    try:
        one, other = orjson.loads(stored), orjson.loads(fresh)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(one, dict | list) or not isinstance(other, dict | list):
        return None
    return _agree(one, other)


def _agree(one: object, other: object) -> bool | None:
    """True for equal, False for different, None when only texts differ."""
    if isinstance(one, str) and isinstance(other, str):
        return True if _plain(one) == _plain(other) else _texts_agree(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return False
        return _all_agree([_agree(one[name], other[name]) for name in one])
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return False
        return _all_agree([_agree(left, right) for left, right in zip(one, other, strict=True)])
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return one == other


def _texts_agree(one: str, other: str) -> bool | None:
    """Values of a word or three are names, and names that differ are different; longer ones are prose."""
    short = max(len(_WORD.findall(one)), len(_WORD.findall(other))) <= _BARE_WORDS
    return False if short or _numbers(one) != _numbers(other) else None


def _all_agree(verdicts: list[bool | None]) -> bool | None:
    if False in verdicts:
        return False
    return None if None in verdicts else True
