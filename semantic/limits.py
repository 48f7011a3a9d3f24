"""How much one request may ask for; beyond is an error that names the limit."""

import math

from policies.nomination import Ask, Near, Pairs, Settle, Texts
from semantic.errors import RequestError

MOST_TEXTS = 256
MOST_PAIRS = 64
MOST_CANDIDATES = 32
MOST_NEAR = 10_000
MOST_TURNS = 200
MOST_SETTLED = 1_000_000
_DIGEST_BYTES = 32


def check_ask(ask: Ask) -> None:
    """Refuses a look-up that is too large or names no partition."""
    _within("limit", ask.limit, MOST_CANDIDATES)
    _within("turns", len(ask.question.turns), MOST_TURNS)
    for name, digest in (("partition", ask.partition), ("family", ask.family)):
        if len(digest) != _DIGEST_BYTES:
            raise RequestError(400, f"{name} has {len(digest)} bytes, expected {_DIGEST_BYTES}")


def check_texts(asked: Texts) -> None:
    """Refuses too many texts."""
    _within("texts", len(asked.texts), MOST_TEXTS)


def check_pairs(asked: Pairs) -> None:
    """Refuses too many pairs, or pairs of an unknown kind."""
    _within("pairs", len(asked.pairs), MOST_PAIRS)
    if asked.kind not in {"questions", "answers"}:
        raise RequestError(400, f"kind {asked.kind!r} is neither questions nor answers")


def check_near(asked: Near) -> None:
    """Refuses a search that asks for too much, or for nothing."""
    _within("limit", asked.limit, MOST_NEAR)
    if not math.isfinite(asked.similarity) or not -1 <= asked.similarity <= 1:
        raise RequestError(400, "similarity must be from -1 to 1")


def check_settle(asked: Settle) -> None:
    """Refuses too many rows."""
    if len(asked.rows) > MOST_SETTLED:
        raise RequestError(400, f"rows: {len(asked.rows)} are more than {MOST_SETTLED}")


def _within(name: str, count: int, most: int) -> None:
    if not 1 <= count <= most:
        raise RequestError(400, f"{name}: {count} is not within 1 and {most}")
