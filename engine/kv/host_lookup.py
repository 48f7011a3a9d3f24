"""The host's part of a look-up: what it could bring back, and the payloads once that is decided."""

from collections.abc import Mapping, Sequence
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

    return find(prompt, tree, windows, in_host, open_in_host=_open_in_host(prompt, len(windows), host))


def _open_in_host(prompt: Prompt, groups: int, host: HostTier) -> bool:
    stop = prompt.num_tokens - 1
    blocks = stop // prompt.block_size
    start = blocks * prompt.block_size
    if start == stop:
        return False
    parent, tokens = prompt.chain.parent(blocks), prompt.chain.span(start, stop)
    digest = tail_digest(parent, tokens)
    return all(host.find((group, digest), parent, tokens) is not None for group in range(groups))


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
