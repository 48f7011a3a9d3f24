"""Every invariant of the KV cache, stated and proved against the live sequences; for tests and doubt."""

from collections import Counter
from collections.abc import Mapping, Sequence

from engine.kv.cached_blocks import CachedBlocks, GroupBooks
from engine.kv.chain import Chain
from engine.kv.contract import NULL_BLOCK, Holder
from engine.kv.digests import tenant_root
from engine.kv.holding import Holding
from engine.kv.lookup import first_visible
from engine.kv.moves import Moves
from engine.kv.prefix_tree import Node, PrefixTree


def check_books(
    cached: CachedBlocks,
    moves: Moves,
    holdings: Mapping[int, Holding],
    sequences: Sequence[Holder],
    block_size: int,
) -> None:
    """Prove all of it.

    Raises:
        AssertionError: naming the first invariant that does not hold.
    """
    _same({one.seq_id for one in sequences}, set(holdings), "sequences that hold blocks")
    for group, books in enumerate(cached.books):
        _check_references(group, books, moves, sequences)
        _check_evictable(group, books)
        _check_owners(group, books, cached)
    for tree in cached.trees.values():
        _check_tree(tree, cached, holdings)
    for sequence in sequences:
        _check_sequence(sequence, holdings[sequence.seq_id], cached, block_size)
    if len(cached.ghosts) > cached.ghosts.capacity:
        raise AssertionError("more digests are remembered than allowed")
    if moves.host is not None:
        moves.host.check()


def _check_references(group: int, books: GroupBooks, moves: Moves, sequences: Sequence[Holder]) -> None:
    """A block has one reference per table entry and per copy in flight that reads it."""
    held = Counter(block for one in sequences for block in one.tables[group] if block != NULL_BLOCK)
    held.update(copy.source for copy in moves.copies if copy.group == group)
    references = {block: books.pool.references(block) for block in range(books.pool.num_blocks)}
    _same({block: held[block] for block in references}, references, f"references of group {group}")


def _check_evictable(group: int, books: GroupBooks) -> None:
    """Each block is in exactly one of three places: free, evictable, held; and only cached ones are evictable."""
    free = books.pool.free_blocks()
    if len(set(free)) != len(free):
        raise AssertionError(f"a block of group {group} is in the free list twice")
    evictable = {block for block in range(books.pool.num_blocks) if books.evictable.holds(block)}
    idle = {block for block in range(books.pool.num_blocks) if books.pool.references(block) == 0}
    _same(set(free) | evictable, idle, f"blocks of group {group} that nobody holds")
    if evictable & set(free):
        raise AssertionError(f"a block of group {group} is free and evictable")
    _same(len(evictable), books.evictable.count, f"evictable blocks of group {group}")
    cached = {block for block, node in enumerate(books.evictable.owners) if node is not None}
    if not evictable <= cached or cached & set(free):
        raise AssertionError(f"a block of group {group} is evictable without being cached, or cached and free")
    pinned = sum(node is not None and bool(node.pins >> group & 1) for node in books.evictable.owners)
    _same(pinned, books.evictable.pinned, f"pinned blocks of group {group}")
    if pinned > books.most_pinned:
        raise AssertionError(f"more blocks of group {group} are pinned than allowed")


def _check_owners(group: int, books: GroupBooks, cached: CachedBlocks) -> None:
    """A block is cached for the node that has it, and behind a prefix that is cached, if it is held by nobody."""
    for block, node in enumerate(books.evictable.owners):
        if node is None:
            continue
        if node.blocks[group] != block or cached.trees[node.tree.salt].nodes.get(node.digest) is not node:
            raise AssertionError(f"block {block} of group {group} and its node do not know each other")
        orphan = node.depth and (node.parent is None or node.parent.blocks[group] == NULL_BLOCK)
        if books.chained and orphan and books.evictable.holds(block):
            raise AssertionError(f"block {block} of group {group} is cached behind nothing")


def _check_tree(tree: PrefixTree, cached: CachedBlocks, holdings: Mapping[int, Holding]) -> None:
    """A node's name is the digest of what it holds; parents know their children, in order."""
    _same(tree.root, tenant_root(cached.root, tree.salt), "root of a tenant")
    _same(tree.holders, sum(one.tree is tree for one in holdings.values()), f"holders of tenant {tree.salt!r}")
    for digest, node in tree.nodes.items():
        if node.digest != digest or cached.digest(node.parent_digest, node.tokens) != digest:
            raise AssertionError("a node is filed under another's digest")
        if all(block == NULL_BLOCK for block in node.blocks):
            raise AssertionError("a node has no block in any group")
        if (node.parent is not None and node.parent.digest != node.parent_digest) or node.tree is not tree:
            raise AssertionError("a node hangs from another's prefix")
        if node.depth == 0 and node.parent_digest != tree.root:
            raise AssertionError("a first block does not start at its tenant's root")
        _check_children(node)
        if node not in tree.continuations(node.parent) and (node.parent is not None or node.depth == 0):
            raise AssertionError("a parent does not know its child")


def _check_children(node: Node) -> None:
    tokens = [child.tokens for child in node.children]
    if tokens != sorted(set(tokens)) or any(child.parent is not node for child in node.children):
        raise AssertionError("children are out of order, doubled or another's")
    for group, below in enumerate(node.below):
        _same(sum(child.blocks[group] != NULL_BLOCK for child in node.children), below, "children with a block")


def _check_sequence(sequence: Holder, holding: Holding, cached: CachedBlocks, block_size: int) -> None:
    """What is published is confirmed and right; what may be written is private; what can be seen is there."""
    written = max(sequence.num_computed, sequence.write_from)
    num_tokens = len(sequence.prompt_ids) + len(sequence.output_ids)
    chain = Chain(holding.tree.root, block_size, cached.digest)
    chain.cover(sequence, num_tokens)
    lengths = {len(table) for table in sequence.tables}
    if len(lengths) != 1 or lengths.pop() * block_size < written:
        raise AssertionError(f"the tables of sequence {sequence.seq_id} differ in length or are too short")
    for group, (books, table) in enumerate(zip(cached.books, sequence.tables, strict=True)):
        first = first_visible(sequence.num_computed, books.window, block_size)
        if NULL_BLOCK in table[first:]:
            raise AssertionError(f"sequence {sequence.seq_id} lacks a block of group {group} that it sees")
        for index, block in enumerate(table):
            if block != NULL_BLOCK:
                full = (index + 1) * block_size <= written
                _check_published(books.evictable.owners[block], chain, index if full else None)
                open_shared = holding.open_shared and index == written // block_size
                if not full and not open_shared and cached.is_shared(group, block):
                    raise AssertionError(f"sequence {sequence.seq_id} would write into shared block {block}")


def _check_published(node: Node | None, chain: Chain, index: int | None) -> None:
    """Only full blocks are published, and as what they hold; `index` is None for an open block."""
    if node is not None and index is not None and chain.digest(index) != node.digest:
        raise AssertionError(f"block {index} of a sequence is published as something else")


def _same(expected: object, found: object, what: str) -> None:
    if expected != found:
        raise AssertionError(f"{what}: {found} instead of {expected}")
