"""The trees of cached prefixes in outline: what is shared, how long, how often; never the tokens themselves."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.kv.prefix_tree import Node, PrefixTree

MOST_BLOCKS = 20_000
"""Blocks looked at for one outline, some ten milliseconds of the engine's thread."""


@dataclass(frozen=True, slots=True)
class Run:
    """Cached blocks of one tenant in a row, up to where prompts part or their cached prefix ends.

    Attributes:
        number, parent: its place among the runs of its tenant, and that of the run it continues; None for a start.
        start: tokens before it.
        tokens: in it.
        uses: look-ups that found its first block.
        saved_tokens: tokens that these look-ups had not to compute, over all its blocks.
        continuations: runs that continue it, told here or not.
        pinned_tokens: of its tokens those that a breakpoint protects.
    """

    number: int
    parent: int | None
    start: int
    tokens: int
    uses: int
    saved_tokens: int
    continuations: int
    pinned_tokens: int


@dataclass(frozen=True, slots=True)
class TenantOutline:
    """What is cached for one salt: `blocks` in all, and `runs`, each after the one it continues."""

    salt: str
    blocks: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """The trees that hold most, the largest first.

    Attributes:
        block_size: tokens per block.
        tenants: how many trees there are, told here or not.
    """

    block_size: int
    tenants: int
    told: tuple[TenantOutline, ...]


def outline(trees: Mapping[str, PrefixTree], block_size: int, most_tenants: int, most_runs: int) -> Outline:
    """Tells the runs that were found most often, over all tenants, each after the one it continues.

    Args:
        trees: by salt.
        block_size: tokens per block.
        most_tenants: of the trees, the largest are told.
        most_runs: over all of these.
    """
    largest = heapq.nlargest(most_tenants, trees.values(), key=lambda tree: len(tree.nodes))
    runs: dict[str, list[Run]] = {tree.salt: [] for tree in largest}
    for salt, run in _runs(largest, block_size, most_runs):
        runs[salt].append(run)
    told = tuple(TenantOutline(tree.salt, len(tree.nodes), tuple(runs[tree.salt])) for tree in largest)
    return Outline(block_size, len(trees), told)


def _runs(trees: Iterable[PrefixTree], block_size: int, most: int) -> Iterator[tuple[str, Run]]:
    """Best first: what was found most often, wherever it hangs."""
    waiting: list[tuple[int, int, Node, int | None]] = []
    counts: dict[str, int] = {}
    pushed, left = 0, MOST_BLOCKS

    def push(nodes: list[Node], parent: int | None) -> None:
        nonlocal pushed
        for node in heapq.nlargest(most, nodes, key=_uses):
            heapq.heappush(waiting, (-node.uses, pushed, node, parent))
            pushed += 1

    for tree in trees:
        push(tree.first, None)
    for _ in range(most):
        if not waiting or left <= 0:
            return
        _, _, first, parent = heapq.heappop(waiting)
        nodes = _row(first, left)
        left -= len(nodes)
        salt, last = first.tree.salt, nodes[-1]
        number = counts[salt] = counts.get(salt, -1) + 1
        yield (
            salt,
            Run(
                number=number,
                parent=parent,
                start=first.depth * block_size,
                tokens=len(nodes) * block_size,
                uses=first.uses,
                saved_tokens=sum(node.uses for node in nodes) * block_size,
                continuations=len(last.children),
                pinned_tokens=sum(bool(node.pins) for node in nodes) * block_size,
            ),
        )
        push(last.children, number)


def _row(first: Node, most: int) -> list[Node]:
    """A node and what follows it while nothing else does."""
    nodes = [first]
    while len(nodes[-1].children) == 1 and len(nodes) < most:
        nodes.append(nodes[-1].children[0])
    return nodes


def _uses(node: Node) -> int:
    return node.uses
