"""Which block caches what: trees of prefixes over the blocks of every KV group, references and protections."""

import heapq
from collections import Counter
from collections.abc import Iterable

from engine.errors import OutOfBlocks
from engine.kv.block_lists import NO_BLOCK
from engine.kv.block_pool import BlockPool
from engine.kv.contract import NULL_BLOCK, KvGroup
from engine.kv.digests import block_digest, tenant_root
from engine.kv.evictable import Evictable, EvictionCause
from engine.kv.ghosts import Ghost, Ghosts
from engine.kv.moves import Label, Moves
from engine.kv.prefix_tree import Node, PrefixTree
from engine.kv.retention import NO_TRACE, Session, Trace
from engine.kv.wishes import Retention

GHOSTS_PER_BLOCK = 4
STALE_PINS = 1024


class GroupBooks:
    """The blocks of one KV group.

    Attributes:
        chained: whether a block is of use only behind all blocks before it (no window).
        most_pinned: blocks that breakpoints may protect.
    """

    def __init__(self, group: KvGroup, pool: BlockPool, evictable: Evictable, most_pinned: int) -> None:
        self.window = group.window
        self.chained = group.window is None
        self.pool = pool
        self.evictable = evictable
        self.most_pinned = most_pinned

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds, cached or not."""
        return self.pool.num_free + self.evictable.count


class CachedBlocks:
    """References, owners, eviction and pins; knows no sequence.

    A block is free (in the pool's stack), evictable (cached, held by nobody) or held. A held block may be cached
    too. A cached block leaves the books through `_forget` alone.

    Attributes:
        root: what every tenant's digests start from.
        digest: names a block of packed tokens behind a parent.
        evictions: cached blocks given up, by cause.
        pins_refused: protections not granted because the pinned share was used up.
    """

    def __init__(
        self,
        groups: tuple[KvGroup, ...],
        num_blocks: tuple[int, ...],
        root: bytes,
        retention: Retention,
        moves: Moves,
    ) -> None:
        self.root = root
        self.digest = block_digest
        self._drop_expired = retention.drop_expired
        self._moves = moves
        self.books = [
            GroupBooks(
                group,
                BlockPool(count),
                Evictable(at, count, retention.policy, retention.tenant_floor),
                int(count * retention.pinned_share),
            )
            for at, (group, count) in enumerate(zip(groups, num_blocks, strict=True))
        ]
        self.trees: dict[str, PrefixTree] = {}
        self.ghosts = Ghosts(GHOSTS_PER_BLOCK * max(num_blocks))
        self.evictions: Counter[EvictionCause] = Counter()
        self.pins_refused = 0
        self._expiries: list[tuple[float, int, Node]] = []
        self._pushed = 0

    def tree(self, salt: str) -> PrefixTree:
        """Return the tenant's tree, a new one if there is none; a new one is remembered once it has a holder."""
        return self.trees.get(salt) or PrefixTree(salt, tenant_root(self.root, salt), len(self.books))

    def open(self, tree: PrefixTree) -> None:
        """Note one more sequence that may publish into a tree."""
        self.trees[tree.salt] = tree
        tree.holders += 1

    def close(self, tree: PrefixTree) -> None:
        """Note one sequence less; a tree without nodes and holders is forgotten."""
        tree.holders -= 1
        self._close_if_empty(tree)

    def take(self, group: int, tree: PrefixTree) -> int:
        """Return a block with one reference, giving up a cached one if none is free.

        Raises:
            OutOfBlocks: every block is held.
        """
        books = self.books[group]
        if books.pool.num_free:
            return books.pool.take()
        block, cause = books.evictable.evict(tree)
        if block == NO_BLOCK:
            raise OutOfBlocks(f"every block of KV group {group} is held")
        node = _owner(books.evictable, block)
        if books.chained and node.below[group]:
            node, block = self._leaf_instead(books.evictable, group, node, block)
        self._save(group, block, node)
        self._forget(node, group, cause, books.evictable.policy(node).trace(block))
        self._close_if_empty(node.tree)
        books.pool.reclaim(block)
        return block

    def hold(self, group: int, block: int) -> None:
        """Add a reference to a block that is cached or held."""
        books = self.books[group]
        if books.evictable.holds(block):
            books.evictable.remove(block)
            books.pool.reclaim(block)
        else:
            books.pool.share(block)

    def drop(self, group: int, block: int, session: Session, *, at_end: bool = False) -> None:
        """Take a reference away; with the last one the block becomes evictable if it is cached, or free."""
        books = self.books[group]
        if books.pool.let_go(block):
            return
        node = books.evictable.owners[block]
        if node is None:
            books.pool.put_back(block)
        elif books.chained and node.depth and (node.parent is None or node.parent.blocks[group] == NULL_BLOCK):
            self._forget_orphans(node, group)
            books.pool.put_back(block)
        else:
            books.evictable.policy(node).released(block, node.uses, at_end=at_end, session=session)
            books.evictable.add(block, node)

    def attach(self, node: Node, group: int, block: int) -> None:
        """Say that a held block holds the node's keys and values."""
        node.blocks[group] = block
        self.books[group].evictable.owners[block] = node
        if node.parent is not None:
            node.parent.below[group] += 1

    def found(self, node: Node, now_s: float) -> None:
        """Count a look-up that found a node, before its blocks are held; prolong its protection."""
        node.uses += 1
        node.hits += 1
        for group, block in enumerate(node.blocks):
            evictable = self.books[group].evictable
            if block != NULL_BLOCK and evictable.holds(block):
                policy = evictable.policy(node)
                policy.reused(policy.trace(block))
        if node.pins and node.expires_s > now_s:
            node.expires_s = max(node.expires_s, now_s + node.ttl_s)

    def pin(self, node: Node, groups: int, ttl_s: float, now_s: float) -> None:
        """Protect the held blocks of a node in the groups whose bits are set, as far as the pinned share goes."""
        for group, (books, block) in enumerate(zip(self.books, node.blocks, strict=True)):
            bit = groups & 1 << group & ~node.pins
            if bit and block != NULL_BLOCK:
                if books.evictable.pinned >= books.most_pinned:
                    self.pins_refused += 1
                else:
                    books.evictable.pinned += 1
                    node.pins |= bit
        if node.pins:
            if node.ttl_s == 0:
                self._push(now_s + ttl_s, node)
            node.ttl_s = max(node.ttl_s, ttl_s)
            node.expires_s = max(node.expires_s, now_s + ttl_s)

    def expire(self, now_s: float) -> None:
        """End the protections whose time is over."""
        while self._expiries and self._expiries[0][0] <= now_s:
            node = heapq.heappop(self._expiries)[2]
            if node.ttl_s and node.expires_s > now_s:
                self._push(node.expires_s, node)
            elif node.ttl_s:
                self._lapse(node)
                if self._drop_expired:
                    self._forget_subtree(node, "expired")
                    self._close_if_empty(node.tree)

    def purge(self, salt: str) -> int:
        """Forget every node of a tenant; blocks that are held go on without a name.

        Returns:
            how many blocks were forgotten.
        """
        tree = self.trees.get(salt)
        if tree is None:
            return 0
        before = self.evictions["purge"]
        for node in list(tree.nodes.values()):
            self._forget_everywhere(node, "purge")
        self._close_if_empty(tree)
        return self.evictions["purge"] - before

    def is_shared(self, group: int, block: int) -> bool:
        """Whether a held block may not be written: somebody else holds it too, or it is cached."""
        books = self.books[group]
        return books.pool.references(block) > 1 or books.evictable.owners[block] is not None

    def mark_swapped(self, tables: Iterable[Iterable[int]]) -> None:
        """Let the host keep the cached blocks of these tables when they are given up, whatever it admits else."""
        for books, table in zip(self.books, tables, strict=True):
            for block in table:
                node = None if block == NULL_BLOCK else books.evictable.owners[block]
                if node is not None:
                    node.swapped = True

    def discard(self, nodes: Iterable[Node]) -> None:
        """Forget nodes that cannot be trusted, and all that hangs from them."""
        for node in nodes:
            self._forget_on_host(node)
            if node.tree.nodes.get(node.digest) is node:
                self._forget_subtree(node, "discard")

    def _save(self, group: int, block: int, node: Node) -> None:
        host = self._moves.host
        must_vanish = self._drop_expired and node.ttl_s > 0
        if host is not None and not must_vanish and (node.swapped or node.uses >= host.min_uses):
            self._moves.save(group, block, node.digest, Label(node.tree.salt, node.parent_digest, node.tokens))

    def _leaf_instead(self, evictable: Evictable, group: int, node: Node, block: int) -> tuple[Node, int]:
        leaf = node
        while leaf.below[group]:
            deeper = next((child for child in leaf.children if evictable.holds_node(child)), None)
            if deeper is None:
                break
            leaf = deeper
        if leaf is node:
            return node, block
        evictable.add(block, node, oldest=True)
        evictable.remove(leaf.blocks[group])
        return leaf, leaf.blocks[group]

    def _forget(self, node: Node, group: int, cause: EvictionCause, trace: Trace) -> None:
        evictable = self.books[group].evictable
        evictable.owners[node.blocks[group]] = None
        node.blocks[group] = NULL_BLOCK
        if node.parent is not None:
            node.parent.below[group] -= 1
        if node.pins >> group & 1:
            node.pins &= ~(1 << group)
            evictable.pinned -= 1
        self.evictions[cause] += 1
        if all(block == NULL_BLOCK for block in node.blocks):
            node.ttl_s = 0.0
            node.tree.remove(node)
            if cause not in ("purge", "orphan", "discard"):
                expired = cause == "expired" or node.lapsed
                self.ghosts.remember(node.digest, Ghost("expired" if expired else "evicted", node.uses, trace))

    def _forget_orphans(self, node: Node, group: int) -> None:
        """Forget a node behind which nothing is cached, and what is evictable behind it."""
        books, lost = self.books[group], [node]
        for ancestor in lost:
            lost += [child for child in ancestor.children if books.evictable.holds_node(child)]
        for orphan in reversed(lost):
            block = orphan.blocks[group]
            if orphan is not node:
                books.evictable.remove(block)
                books.pool.put_back(block)
            self._forget(orphan, group, "orphan", NO_TRACE)

    def _forget_everywhere(self, node: Node, cause: EvictionCause) -> None:
        for group, block in enumerate(node.blocks):
            if block == NULL_BLOCK:
                continue
            books = self.books[group]
            evictable = books.evictable.holds(block)
            if evictable:
                books.evictable.remove(block)
            self._forget(node, group, cause, NO_TRACE)
            if evictable:
                books.pool.put_back(block)

    def _forget_subtree(self, node: Node, cause: EvictionCause) -> None:
        order = [node]
        for ancestor in order:
            order += ancestor.children
        for lost in reversed(order):
            self._forget_on_host(lost)
            self._forget_everywhere(lost, cause)

    def _forget_on_host(self, node: Node) -> None:
        if self._moves.host is not None:
            for group in range(len(self.books)):
                self._moves.forget_block(group, node.digest)

    def _lapse(self, node: Node) -> None:
        pins, node.pins, node.ttl_s, node.lapsed = node.pins, 0, 0.0, True
        for group, books in enumerate(self.books):
            if pins >> group & 1:
                books.evictable.pinned -= 1
                block = node.blocks[group]
                if books.evictable.holds(block):
                    books.evictable.remove(block)
                    books.evictable.add(block, node, oldest=True)

    def _push(self, expires_s: float, node: Node) -> None:
        self._pushed += 1
        heapq.heappush(self._expiries, (expires_s, self._pushed, node))
        if len(self._expiries) > STALE_PINS + 2 * sum(books.evictable.pinned for books in self.books):
            self._expiries = [entry for entry in self._expiries if entry[2].ttl_s or entry[2] is node]
            heapq.heapify(self._expiries)

    def _close_if_empty(self, tree: PrefixTree) -> None:
        if tree.holders == 0 and not tree.nodes and self.trees.get(tree.salt) is tree:
            del self.trees[tree.salt]
            for books in self.books:
                books.evictable.close(tree)


def _owner(evictable: Evictable, block: int) -> Node:
    node = evictable.owners[block]
    if node is None:
        raise AssertionError(f"block {block} is evictable but cached for nobody")
    return node
