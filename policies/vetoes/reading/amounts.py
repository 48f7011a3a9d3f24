"""Amounts: figures and number words with their unit, brought to one scale."""

from collections.abc import Sequence

from policies.vetoes.facts import Amount
from policies.vetoes.lexicon import Lexicon
from policies.vetoes.reading.tokens import Token

_CURRENCY = {"$": "usd", "€": "eur", "£": "gbp", "¥": "jpy", "₹": "inr"}
_PARTS = {"third": 1 / 3, "thirds": 1 / 3, "fifth": 0.2, "fifths": 0.2, "sixths": 1 / 6, "eighth": 0.125,
          "eighths": 0.125, "tenth": 0.1, "tenths": 0.1, "quarters": 0.25, "sevenths": 1 / 7}  # fmt: skip
_PER_HOUR = (["per", "hour"], ["an", "hour"], ["a", "hour"])
_FILLERS = frozenset({"and", "a"})
_ARTICLES = frozenset({"a", "an"})
_HUNDRED, _THOUSAND = 100, 1000
_SOFT = 2


def amount(row: Sequence[Token], at: int, lexicon: Lexicon) -> tuple[Amount, int] | None:
    """The amount that begins at a token and the index behind it; None when none begins there."""
    currency = ""
    start = at
    if row[at].kind == "money":
        currency = _CURRENCY[row[at].text[0]]
        at += 1
    if at >= len(row):
        return None
    read = _figure(row, at) or _worded(row, at, lexicon)
    if read is None:
        return None
    value, at, plain = read
    value, at = _parts(row, at, *_scaled(row, at, value, lexicon))
    dimension, factor, at = _unit(row, at, lexicon, currency)
    if not plain and not dimension and value == 1:
        return None
    if dimension and [part.text for part in row[at : at + 3]] == ["and", "a", "half"]:
        value, at = value + 0.5, at + 3
    in_words = row[start].kind == "word"
    soft = value == 1 or (in_words and not dimension and value <= _SOFT)
    return (dimension, round(value * factor, 6), value, soft), at


def _parts(row: Sequence[Token], before: int, value: float, at: int) -> tuple[float, int]:
    """`one third`, `two fifths`, `1/3s`: the value times what an ordinal behind it stands for."""
    if at == before and at < len(row) and row[at].text in _PARTS:
        return round(value * _PARTS[row[at].text], 6), at + 1
    return value, at


def _figure(row: Sequence[Token], at: int) -> tuple[float, int, bool] | None:
    token = row[at]
    if token.kind == "number":
        return _value(token.text), at + 1, True
    if token.kind == "fraction":
        top, _, bottom = token.text.partition("/")
        behind = (
            at + 1 + (at + 1 < len(row) and row[at + 1].glued and row[at + 1].text in {"s", "rd", "th", "rds"})
        )
        return (round(float(top) / float(bottom), 6), behind, True) if float(bottom) else None
    return None


def _value(text: str) -> float:
    """The value of a figure; a comma before two last digits is a decimal point."""
    whole, comma, rest = text.rpartition(",")
    if comma and len(rest) == 2 and "," not in whole:  # noqa: PLR2004
        return float(f"{whole}.{rest}")
    return float(text.replace(",", ""))


def _worded(row: Sequence[Token], at: int, lexicon: Lexicon) -> tuple[float, int, bool] | None:
    """A number in words: `two`, `twenty five`, `three hundred and ten`, `two and a half`, `a dozen`."""
    numbers, size = lexicon.numbers, len(row)
    first = row[at].text
    article = first in _ARTICLES
    value = 1.0 if article else numbers.get(first)
    if value is None or (article and not _number_follows(row, at + 1, lexicon)):
        return None
    total, current, at, joined = 0.0, value, at + 1, False
    while at < size:
        word = row[at].text
        step = numbers.get(word)
        if step is None:
            if word in _FILLERS and at + 1 < size and _joins(row, at, lexicon):
                at, joined = at + 1, True
                continue
            break
        if step >= _THOUSAND:
            total, current = total + current * step, 0.0
        elif step == _HUNDRED:
            current *= step
        elif 0 < step < 1:
            current = current + step if joined else current * step
        elif _completes(current, step):
            current += step
        else:
            break
        at += 1
    return total + current, at, not article


def _completes(current: float, step: float) -> bool:
    """Whether `step` goes on with the number: `twenty` `five`, `three hundred` `ten`, `thousand` `five`."""
    if current == 0:
        return True
    if current < _HUNDRED:
        return current >= 20 and current % 10 == 0 and step < 10  # noqa: PLR2004
    rest = current % _HUNDRED
    return step < _HUNDRED if rest == 0 else rest >= 20 and rest % 10 == 0 and step < 10  # noqa: PLR2004


def _number_follows(row: Sequence[Token], at: int, lexicon: Lexicon) -> bool:
    """An article counts as one only before a unit, a dozen, a hundred, a half."""
    if at >= len(row):
        return False
    word = row[at].text
    value = lexicon.numbers.get(word)
    return (value is not None and (value >= 12 or 0 < value < 1)) or word in lexicon.units  # noqa: PLR2004


def _joins(row: Sequence[Token], at: int, lexicon: Lexicon) -> bool:
    """`and` or `a` inside a number: `two hundred and ten`, `two and a half`, `half a dozen`."""
    rest = [token.text for token in row[at : at + 3]]
    values = [lexicon.numbers.get(word) for word in rest]
    if rest[0] == "and":
        fraction = values[1] if rest[1] != "a" or len(values) < 3 else values[2]  # noqa: PLR2004
        if fraction is not None and 0 < fraction < 1:
            return True
        return values[1] is not None and at > 0 and row[at - 1].text in {"hundred", "thousand", "million"}
    return values[1] is not None and (0 < (values[1] or 0) < 1 or (values[1] or 0) >= 12)  # noqa: PLR2004


def _scaled(row: Sequence[Token], at: int, value: float, lexicon: Lexicon) -> tuple[float, int]:
    """The value times `k`, `million` or a half that follows a figure."""
    if at >= len(row):
        return value, at
    token = row[at]
    if token.kind == "word":
        if token.glued and token.text in {"k", "bn", "mn"}:
            return value * {"k": 1e3, "bn": 1e9, "mn": 1e6}[token.text], at + 1
        step = lexicon.numbers.get(token.text)
        if step is not None and step >= 1000:  # noqa: PLR2004
            return value * step, at + 1
        words = tuple(part.text for part in row[at : at + 3])
        if words == ("and", "a", "half"):
            return value + 0.5, at + 3
    return value, at


def _unit(row: Sequence[Token], at: int, lexicon: Lexicon, currency: str) -> tuple[str, float, int]:
    """Dimension, factor and the index behind the unit that stands here, perhaps behind `of a`."""
    if at >= len(row):
        return currency, 1.0, at
    token = row[at]
    if token.kind == "percent":
        return "percent", 0.01, at + 1
    if token.glued and token.text == "s":
        return currency, 1.0, at + 1
    place = at
    while place < len(row) and row[place].text in {"a", "an", "of", "the"}:
        place += 1
    if place == len(row) or (place > at and currency):
        return currency, 1.0, at
    word = row[place].text.removesuffix("'s")
    unit = lexicon.units.get(word)
    if unit is None or (len(word) == 1 and row[place - 1].kind != "number"):
        return currency, 1.0, at
    if currency and unit[0] not in _CURRENCY.values():
        return currency, 1.0, at
    if unit[0] == "length" and place + 1 < len(row) and row[place + 1].text == "h":
        return "speed", unit[1] / 1609.344, place + 2
    if unit[0] == "length" and [part.text for part in row[place + 1 : place + 3]] in _PER_HOUR:
        return "speed", unit[1] / 1609.344, place + 3
    return unit[0], unit[1], place + 1
