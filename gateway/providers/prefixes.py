"""What the engine tells of its cached prefixes, in outline."""

from typing import Annotated

import msgspec

from gateway.providers.scrape import scrape

Count = Annotated[int, msgspec.Meta(ge=0)]


class Run(msgspec.Struct, frozen=True):
    """Cached tokens of one tenant in a row; see engine.kv.outline."""

    number: Count
    parent: Count | None
    start: Count
    tokens: Count
    uses: Count
    saved_tokens: Count
    continuations: Count
    pinned_tokens: Count


class SaltOutline(msgspec.Struct, frozen=True):
    """What is cached under one salt: `blocks` in all, and some runs of them, each after the one it continues."""

    salt: str
    blocks: Count
    runs: tuple[Run, ...]


class Prefixes(msgspec.Struct, frozen=True):
    """The trees of cached prefixes.

    Attributes:
        block_size: tokens per block.
        tenants: how many trees there are; `told` may hold fewer.
    """

    block_size: Count
    tenants: Count
    told: tuple[SaltOutline, ...]


async def cached_prefixes(base_url: str) -> Prefixes:
    """Asks the engine.

    Raises:
        UpstreamError: it does not answer, or does not tell.
        ValueError: it tells something else.
    """
    try:
        return msgspec.json.decode(await scrape(base_url, "/cache/prefixes"), type=Prefixes)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
