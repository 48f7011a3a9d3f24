"""The longest cached prefix of a sequence: pure questions to the books, nothing is held or moved."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.kv.chain import Chain
from engine.kv.contract import NULL_BLOCK, Holder
from engine.kv.prefix_tree import Node, PrefixTree

MIN_COPY_TOKENS = 4
"""A part of a block is copied when it saves at least so many tokens."""

InHost = Callable[[int, int], bool]
"""Whether the host has block `index` of the prefix for KV group `group`: (group, index)."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A sequence as a look-up sees it.

    Attributes:
        num_tokens: tokens to be in the blocks before the next one can be chosen.
        unit: 1, or a hit counts in whole multiples of so many tokens and blocks behind it are left alone.
    """

    chain: Chain
    num_tokens: int
    unit: int
    block_size: int

    @classmethod
    def of(cls, sequence: Holder, chain: Chain, block_size: int) -> "Prompt":
        """Read a sequence."""
        tokens = len(sequence.prompt_ids) + len(sequence.output_ids)
        return cls(chain, tokens, sequence.hit_unit, block_size)

    def usable(self, tokens: int) -> int:
        """How many of the first `tokens`, all cached, need not be computed: never the last token of all."""
        return max(0, min(tokens, self.num_tokens - 1)) // self.unit * self.unit


@dataclass(frozen=True, slots=True)
class Match:
    """What a look-up found.

    Attributes:
        nodes: of the first blocks, in order; None where no block of it is needed from the device.
        first: per KV group, the first block that a query behind the hit can see.
        from_host: blocks to bring back, (group, index).
        tail: a node whose first `tail_tokens` tokens go on where the blocks end, to be copied.
        computed: tokens that need not be computed.
        in_place: tokens whose keys and values will be in the table; those from `computed` on are computed again.
    """

    nodes: list[Node | None] = field(default_factory=list)
    first: tuple[int, ...] = ()
    from_host: tuple[tuple[int, int], ...] = ()
    tail: Node | None = None
    tail_tokens: int = 0
    computed: int = 0
    in_place: int = 0


def first_visible(position: int, window: int | None, block_size: int) -> int:
    """Return the first block that a query at `position` looks into."""
    return 0 if window is None else max(0, position - window + 1) // block_size


def find(
    prompt: Prompt,
    tree: PrefixTree | None,
    windows: Sequence[int | None],
    in_host: InHost | None = None,
    *,
    open_in_host: bool = False,
) -> Match:
    """Find the most blocks such that every KV group has all that the next query can see of them.

    Args:
        prompt: whose prefix.
        tree: the tenant's, None if it has none.
        windows: per KV group, None for all tokens.
        in_host: asks for blocks the device lacks; None leaves the host out.
        open_in_host: whether the host has the open block up to the last token but one, in every group.
    """
    if tree is None and in_host is None:
        return Match(first=(0,) * len(windows))
    nodes, runs = _scan(prompt, tree, windows, in_host)
    blocks = _usable_blocks(prompt, windows, runs, len(nodes))
    in_place, stop = blocks * prompt.block_size, prompt.num_tokens - 1
    whole = stop // prompt.block_size
    open_in_host = open_in_host and in_place < stop and len(nodes) >= whole
    if open_in_host and _sees_all(prompt, windows, runs, whole, stop):
        blocks, in_place = whole, stop
    else:
        open_in_host = False
    computed = prompt.usable(in_place)
    first = tuple(min(blocks, first_visible(computed, window, prompt.block_size)) for window in windows)
    missing = [
        (group, index)
        for group, start in enumerate(first)
        for index in range(start, blocks)
        if in_host is not None and not _on_device(nodes[index], group)
    ]
    if open_in_host:
        missing += [(group, blocks) for group in range(len(windows))]
    return Match(nodes[:blocks], first, tuple(missing), computed=computed, in_place=in_place)


def with_tail(prompt: Prompt, tree: PrefixTree, match: Match) -> Match:
    """Add the longest part of a further block that is cached in every KV group, if it saves enough."""
    blocks = len(match.nodes)
    parent = match.nodes[-1] if blocks else None
    start = match.in_place
    if match.from_host or (blocks and parent is None) or start + MIN_COPY_TOKENS > prompt.num_tokens - 1:
        return match
    wanted = prompt.chain.span(start, min(start + prompt.block_size, prompt.num_tokens - 1))
    for node, tokens in tree.closest(parent, wanted):
        computed = prompt.usable(start + tokens)
        if computed < match.computed + MIN_COPY_TOKENS:
            return match
        if NULL_BLOCK not in node.blocks:
            return Match(match.nodes, match.first, (), node, tokens, computed, start + tokens)
    return match


def _on_device(node: Node | None, group: int) -> bool:
    return node is not None and node.blocks[group] != NULL_BLOCK


def _scan(
    prompt: Prompt, tree: PrefixTree | None, windows: Sequence[int | None], in_host: InHost | None
) -> tuple[list[Node | None], list[list[int]]]:
    """Go along the prefix as far as the groups without window reach.

    Returns:
        the nodes, and per group with a window how many blocks up to each one are there without a gap.
    """
    chain, get = prompt.chain, {} if tree is None else tree.nodes
    windowed = [group for group, window in enumerate(windows) if window is not None]
    chained = [group for group, window in enumerate(windows) if window is None]
    nodes: list[Node | None] = []
    runs: list[list[int]] = [[] for _ in windows]
    parent = chain.root
    for index in range(prompt.num_tokens // prompt.block_size):
        digest = chain.digest(index)
        node = get.get(digest)
        if node is not None and (node.parent_digest != parent or node.tokens != chain.tokens(index)):
            node = None
        for group in chained:
            if not _on_device(node, group) and (in_host is None or not in_host(group, index)):
                return nodes, runs
        for group in windowed:
            there = _on_device(node, group) or (in_host is not None and in_host(group, index))
            runs[group].append((runs[group][-1] if index else 0) + 1 if there else 0)
        nodes.append(node)
        parent = digest
    return nodes, runs


def _usable_blocks(prompt: Prompt, windows: Sequence[int | None], runs: list[list[int]], reach: int) -> int:
    for blocks in range(reach, 0, -1):
        in_place = blocks * prompt.block_size
        if prompt.unit > 1 and prompt.usable(in_place) < in_place:
            continue
        if _sees_all(prompt, windows, runs, blocks, in_place):
            return blocks
    return 0


def _sees_all(
    prompt: Prompt, windows: Sequence[int | None], runs: list[list[int]], blocks: int, in_place: int
) -> bool:
    """Whether the first query behind `in_place` tokens has all blocks it looks into, of the first `blocks`."""
    position = prompt.usable(in_place)
    return all(
        window is None
        or blocks == 0
        or run[blocks - 1] >= blocks - first_visible(position, window, prompt.block_size)
        for run, window in zip(runs, windows, strict=True)
    )
