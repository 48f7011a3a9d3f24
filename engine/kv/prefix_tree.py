"""The cached prefixes of one tenant: full blocks by digest, and each one's continuations in token order."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from engine.kv.contract import NULL_BLOCK
from engine.kv.digests import TOKEN_BYTES

NEIGHBOURS = 4
"""How far to each side of the best place a usable continuation is looked for."""


class Node:
    """A full block of tokens behind a prefix, cached in at least one KV group.

    Attributes:
        digest: names the node and all before it.
        parent_digest: the tree's root digest for the first block.
        parent: the node before it; None for the first block, or when it is cached no more.
        tokens: packed.
        depth: index of the block in its prefix.
        blocks: its block per KV group, NULL_BLOCK where it has none.
        children: cached continuations, ascending by their packed tokens.
        below: how many children have a block, per KV group.
        uses: look-ups that found it, its computation not counted; one that was cached before goes on counting, and
            that it was asked for again counts too.
        hits: look-ups that found it since it was computed.
        level: retention level, the most important of its users'.
        pins: bit g is set while a breakpoint protects its block in group g.
        ttl_s, expires_s: of that protection; 0 for none.
        lapsed: whether a protection ended unused.
        swapped: whether a swapped-out sequence will want it back.
    """

    __slots__ = (
        "below",
        "blocks",
        "children",
        "depth",
        "digest",
        "expires_s",
        "hits",
        "lapsed",
        "level",
        "parent",
        "parent_digest",
        "pins",
        "swapped",
        "tokens",
        "tree",
        "ttl_s",
        "uses",
    )

    def __init__(self, tree: "PrefixTree", parent: "Node | None", parent_digest: bytes, tokens: bytes) -> None:
        self.tree = tree
        self.parent = parent
        self.parent_digest = parent_digest
        self.tokens = tokens
        self.digest = b""
        self.depth = 0
        self.blocks = [NULL_BLOCK] * tree.num_groups
        self.below = [0] * tree.num_groups
        self.children: list[Node] = []
        self.uses = 0
        self.hits = 0
        self.level = 0
        self.pins = 0
        self.ttl_s = 0.0
        self.expires_s = 0.0
        self.lapsed = False
        self.swapped = False


def _tokens(node: Node) -> bytes:
    return node.tokens


class PrefixTree:
    """Every cached node of one salt. Two trees share nothing, so neither can a look-up find another's.

    Attributes:
        nodes: by digest.
        first: nodes at the start of a prompt, ascending by their packed tokens.
        torn: nodes further on whose prefix is cached no more.
        holders: sequences that may add nodes.
    """

    def __init__(self, salt: str, root: bytes, num_groups: int) -> None:
        self.salt = salt
        self.root = root
        self.num_groups = num_groups
        self.nodes: dict[bytes, Node] = {}
        self.first: list[Node] = []
        self.torn: dict[Node, None] = {}
        self.holders = 0

    def add(self, digest: bytes, parent_digest: bytes, tokens: bytes, depth: int) -> Node:
        """Put a node in; the digest must be free. The caller attaches its blocks."""
        parent = self.nodes.get(parent_digest)
        node = Node(self, parent, parent_digest, tokens)
        node.digest, node.depth = digest, depth
        self.nodes[digest] = node
        if parent is not None:
            insort(parent.children, node, key=_tokens)
        elif depth == 0:
            insort(self.first, node, key=_tokens)
        else:
            self.torn[node] = None
        return node

    def remove(self, node: Node) -> None:
        """Take out a node without blocks; its children stay, without a parent."""
        del self.nodes[node.digest]
        siblings = self.first if node.parent is None else node.parent.children
        if node.parent is not None or node.depth == 0:
            at = bisect_left(siblings, node.tokens, key=_tokens)
            while siblings[at] is not node:
                at += 1
            del siblings[at]
        self.torn.pop(node, None)
        for child in node.children:
            child.parent = None
            self.torn[child] = None
        node.parent = None
        node.children = []

    def continuations(self, node: Node | None) -> list[Node]:
        """Return the children of a node, or the first blocks."""
        return self.first if node is None else node.children

    def closest(self, node: Node | None, tokens: bytes) -> Iterator[tuple[Node, int]]:
        """Go through the continuations that share most with packed tokens, with how many tokens they share.

        In sorted order the longest common start is beside the place where the tokens would stand.
        """
        siblings = self.continuations(node)
        at = bisect_left(siblings, tokens, key=_tokens)
        nearby = siblings[max(0, at - NEIGHBOURS) : at + NEIGHBOURS]
        shared = [(common_tokens(sibling.tokens, tokens), sibling) for sibling in nearby]
        shared.sort(key=lambda pair: pair[0], reverse=True)
        return ((sibling, count) for count, sibling in shared)


def common_tokens(left: bytes, right: bytes) -> int:
    """Count the tokens two packed texts start with alike."""
    low, high = 0, min(len(left), len(right)) // TOKEN_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if left[: middle * TOKEN_BYTES] == right[: middle * TOKEN_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
