"""What the engine tells of its cached prefixes, in outline."""

import hashlib
from typing import Annotated

import msgspec

from gateway.providers.scrape import scrape

_DEADLINE_S = 5.0
"""It answers between two steps, and a step may be a long prefill."""
_NAME_CHARS = 32

Count = Annotated[int, msgspec.Meta(ge=0)]


class Run(msgspec.Struct, frozen=True):
    """Cached tokens in a row; see engine.kv.outline."""

    number: Count
    parent: Count | None
    start: Count
    tokens: Count
    hits: Count
    saved_tokens: Count
    continuations: Count
    pinned_tokens: Count


class TreeOutline(msgspec.Struct, frozen=True):
    """What is cached under one salt: `blocks` in all, and some runs of them, each after the one it continues."""

    name: str
    blocks: Count
    runs: tuple[Run, ...]


class Prefixes(msgspec.Struct, frozen=True):
    """The trees of cached prefixes.

    Attributes:
        block_size: tokens per block.
        trees: how many there are; `told` may hold fewer.
        complete: whether everything is told.
    """

    block_size: Count
    trees: Count
    complete: bool
    told: tuple[TreeOutline, ...]


def tree_name(salt: str) -> str:
    """What the engine calls the tree of a salt, which it tells nobody."""
    return hashlib.sha256(salt.encode()).hexdigest()[:_NAME_CHARS]


async def cached_prefixes(base_url: str) -> Prefixes:
    """Asks the engine.

    Raises:
        UpstreamError: it does not answer, or does not tell.
        ValueError: it tells something else.
    """
    try:
        return msgspec.json.decode(await scrape(base_url, "/cache/prefixes", _DEADLINE_S), type=Prefixes)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
