"""The host's part of a look-up: what it could bring back, and the payloads once that is decided."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from engine.kv.digests import tail_digest
from engine.kv.host_tier import HostTier
from engine.kv.lookup import Match, Prompt, find
from engine.kv.prefix_tree import PrefixTree

Payloads = Mapping[tuple[int, int], tuple[bytes, bytes]]
"""Digest and payload of what is brought back, by (group, index of the block)."""

NOTHING: Payloads = MappingProxyType({})


def find_with_host(
    prompt: Prompt, tree: PrefixTree | None, windows: Sequence[int | None], host: HostTier
) -> Match:
    """Find the longest prefix in device and host together, the open block of a swapped-out sequence included."""

    def in_host(group: int, index: int) -> bool:
        chain = prompt.chain
        return host.find((group, chain.digest(index)), chain.parent(index), chain.tokens(index)) is not None

    match = find(prompt, tree, windows, in_host)
    blocks, stop = len(match.nodes), prompt.num_tokens - 1
    if not 0 < stop - match.in_place < prompt.block_size:
        return match
    parent, tokens = prompt.chain.parent(blocks), prompt.chain.span(match.in_place, stop)
    digest = tail_digest(parent, tokens)
    if not all(host.find((group, digest), parent, tokens) for group in range(len(windows))):
        return match
    return replace(
        match,
        from_host=(*match.from_host, *((group, blocks) for group in range(len(windows)))),
        computed=prompt.usable(stop),
        in_place=stop,
    )


def fetch(prompt: Prompt, match: Match, host: HostTier) -> Payloads | None:
    """Return every payload the match wants, or None when one of them is corrupt: all or nothing."""
    payloads = {}
    for group, index in match.from_host:
        digest = _digest(prompt, match, index)
        payload = host.fetch((group, digest))
        if payload is None:
            return None
        payloads[group, index] = (digest, payload)
    return payloads


def _digest(prompt: Prompt, match: Match, index: int) -> bytes:
    blocks = len(match.nodes)
    if index < blocks:
        return prompt.chain.digest(index)
    start = blocks * prompt.block_size
    return tail_digest(prompt.chain.parent(blocks), prompt.chain.span(start, match.in_place))
