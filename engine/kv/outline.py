"""The trees of cached prefixes in outline: what is shared, how long, how often; neither tokens nor salts."""

import hashlib
import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from engine.kv.prefix_tree import Node, PrefixTree

MOST_BLOCKS = 20_000
"""Blocks gone through for one outline, some milliseconds of the engine's thread."""
_NAME_CHARS = 32


@dataclass(frozen=True, slots=True)
class Run:
    """Cached blocks in a row, up to where prompts part or their cached prefix ends.

    Attributes:
        number, parent: its place among the runs of its tree, and that of the run it continues; None where it
            continues none that is cached.
        start: tokens before it in the prompt.
        tokens: in it.
        hits: look-ups that found its first block since that was computed.
        saved_tokens: tokens that look-ups did not have to compute, over all its blocks.
        continuations: runs that continue it, told here or not.
        pinned_tokens: of its tokens those that a breakpoint protects.
    """

    number: int
    parent: int | None
    start: int
    tokens: int
    hits: int
    saved_tokens: int
    continuations: int
    pinned_tokens: int


@dataclass(frozen=True, slots=True)
class TreeOutline:
    """What is cached for one salt.

    Attributes:
        name: a digest of the salt, by which who knows the salt knows the tree.
        blocks: in all.
        runs: each after the one that it continues.
    """

    name: str
    blocks: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """The trees that hold most, the largest first.

    Attributes:
        block_size: tokens per block.
        trees: how many there are, told here or not.
        complete: whether everything is told.
    """

    block_size: int
    trees: int
    complete: bool
    told: tuple[TreeOutline, ...]


def tree_name(salt: str) -> str:
    """Return what an outline calls the tree of a salt: 32 hexadecimal characters of its SHA-256."""
    return hashlib.sha256(salt.encode()).hexdigest()[:_NAME_CHARS]


def outline(trees: Mapping[str, PrefixTree], block_size: int, most_trees: int, most_runs: int) -> Outline:
    """Tell the runs that were found most often, over all trees, each after the one it continues.

    Args:
        trees: by salt.
        block_size: tokens per block.
        most_trees: the largest are told.
        most_runs: over all of these.
    """
    filled = [tree for tree in trees.values() if tree.nodes]
    largest = heapq.nlargest(most_trees, filled, key=lambda tree: len(tree.nodes))
    walk = _Walk(block_size, most_runs)
    for tree in largest:
        walk.push([*tree.first, *tree.torn], None)
    walk.go()
    told = tuple(
        TreeOutline(tree_name(tree.salt), len(tree.nodes), tuple(walk.runs[tree.salt])) for tree in largest
    )
    blocks = sum(run.tokens for one in told for run in one.runs) // block_size
    complete = len(told) == len(filled) and blocks == sum(one.blocks for one in told)
    return Outline(block_size, len(filled), complete, told)


class _Walk:
    """Goes through runs best first: what was found most often, wherever it hangs.

    Attributes:
        runs: by salt.
    """

    def __init__(self, block_size: int, most: int) -> None:
        self.runs: dict[str, list[Run]] = {}
        self._block_size = block_size
        self._most = most
        self._waiting: list[tuple[int, int, Node, int | None]] = []
        self._pushed = 0

    def push(self, nodes: list[Node], parent: int | None) -> None:
        """Have the runs that begin here wait their turn."""
        for node in heapq.nlargest(self._most, nodes, key=_hits):
            self.runs.setdefault(node.tree.salt, [])
            heapq.heappush(self._waiting, (-node.hits, self._pushed, node, parent))
            self._pushed += 1

    def go(self) -> None:
        """Tell as many runs, of as many blocks, as may be told."""
        left = MOST_BLOCKS
        for _ in range(self._most):
            if not self._waiting or left <= 0:
                return
            _, _, first, parent = heapq.heappop(self._waiting)
            nodes = _row(first, left)
            left -= len(nodes)
            runs = self.runs[first.tree.salt]
            runs.append(self._run(nodes, len(runs), parent))
            self.push(nodes[-1].children, runs[-1].number)

    def _run(self, nodes: list[Node], number: int, parent: int | None) -> Run:
        size = self._block_size
        return Run(
            number=number,
            parent=parent,
            start=nodes[0].depth * size,
            tokens=len(nodes) * size,
            hits=nodes[0].hits,
            saved_tokens=sum(node.hits for node in nodes) * size,
            continuations=len(nodes[-1].children),
            pinned_tokens=sum(bool(node.pins) for node in nodes) * size,
        )


def _row(first: Node, most: int) -> list[Node]:
    """A node and what follows it while nothing else does."""
    nodes = [first]
    while len(nodes[-1].children) == 1 and len(nodes) < most:
        nodes.append(nodes[-1].children[0])
    return nodes


def _hits(node: Node) -> int:
    return node.hits
