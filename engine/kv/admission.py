"""How a sequence comes to its blocks, and how its full blocks become cached: look up, pin, allocate; publish."""

import sys
from dataclasses import replace
from types import MappingProxyType

from engine.kv.cached_blocks import CachedBlocks
from engine.kv.chain import Chain
from engine.kv.contract import NULL_BLOCK, BlockCopy, Holder, KvGroup
from engine.kv.digests import DIGEST_BYTES
from engine.kv.ghosts import SaltSightings
from engine.kv.holding import Holding, wished_keeps
from engine.kv.host_lookup import NOTHING, Payloads, fetch, find_with_host
from engine.kv.lookup import Match, Prompt, find, with_tail
from engine.kv.misses import explain
from engine.kv.moves import Moves
from engine.kv.prefix_tree import Node
from engine.kv.rates import Rates, worth_restoring
from engine.kv.usage import PrefixCounts
from engine.kv.wishes import PrefixOutcome, Tier

SIGHTINGS = 4096


class Admission:
    """Looks prefixes up and publishes blocks; the books of blocks, moves and counts are the cache's."""

    def __init__(
        self,
        cached: CachedBlocks,
        moves: Moves,
        counts: PrefixCounts,
        groups: tuple[KvGroup, ...],
        block_size: int,
    ) -> None:
        self._cached = cached
        self._moves = moves
        self._counts = counts
        self._groups = groups
        self._windows = tuple(group.window for group in groups)
        self._block_size = block_size
        self._chains: dict[int, Chain] = {}
        self._sightings = SaltSightings(SIGHTINGS)

    def peek(self, sequence: Holder) -> int:
        """Count the tokens a look-up on the device would find now."""
        if not sequence.cache.read:
            return 0
        prompt = self._prompt(sequence)
        return find(prompt, self._cached.trees.get(sequence.cache.salt), self._windows, None).computed

    def admit(self, sequence: Holder, upto: int, rates: Rates, now_s: float) -> Holding | None:
        """Take the blocks of a sequence, its cached prefix first; None when too few are free."""
        prompt = self._prompt(sequence)
        match, payloads = self._match(sequence, prompt, rates)
        if not self._fits(match, upto):
            if match.tail is None:
                return None
            match = self._without_tail(prompt, match)
            if not self._fits(match, upto):
                return None
        tree = self._cached.tree(sequence.cache.salt)
        self._cached.open(tree)
        first_time = sequence.prefix is None
        if first_time:
            sequence.prefix = self._outcome(sequence, prompt, match)
        blocks = len(match.nodes)
        last = match.nodes[-1] if blocks else None
        holding = Holding(
            sequence=sequence,
            chain=prompt.chain,
            tree=tree,
            keeps=wished_keeps(sequence.cache, self._block_size),
            published=min((index for _, index in match.from_host), default=blocks),
            known=blocks,
            known_uses=0 if last is None else last.uses + 1,
            cleared=list(match.first),
        )
        self._pin(holding, match, first_time=first_time, now_s=now_s)
        self._allocate(holding, match, payloads, upto)
        sequence.num_computed, sequence.write_from = match.computed, max(match.in_place, match.computed)
        self._chains.pop(sequence.seq_id, None)
        return holding

    def publish(self, holding: Holding, full: int, now_s: float) -> None:
        """Cache a sequence's first `full` blocks, all computed, as far as they are not yet."""
        if holding.publishes:
            holding.chain.cover(holding.sequence, full * self._block_size)
        for index in range(holding.published, full):
            if holding.publishes:
                self._publish_block(holding, index, now_s)
        holding.published = full

    def forget(self, sequence: Holder) -> None:
        """Drop what is remembered of a sequence that waits."""
        self._chains.pop(sequence.seq_id, None)

    def forget_salt(self, salt: str) -> None:
        """Drop what is remembered of a tenant."""
        self._sightings.forget(salt)

    def _prompt(self, sequence: Holder) -> Prompt:
        chain = self._chains.get(sequence.seq_id)
        if chain is None:
            root = self._cached.tree(sequence.cache.salt).root
            chain = self._chains[sequence.seq_id] = Chain(root, self._block_size, self._cached.digest)
        prompt = Prompt.of(sequence, chain, self._block_size)
        chain.cover(sequence, prompt.num_tokens)
        return prompt

    def _match(self, sequence: Holder, prompt: Prompt, rates: Rates) -> tuple[Match, Payloads]:
        """Find the best prefix; the host's part only where bringing it back beats computing it."""
        if not sequence.cache.read:
            return Match(first=(0,) * len(self._groups)), NOTHING
        tree = self._cached.trees.get(sequence.cache.salt)
        match = find(prompt, tree, self._windows, None)
        if tree is not None:
            match = with_tail(prompt, tree, match)
        host = self._moves.host
        if host is None or not len(host):
            return match, NOTHING
        while True:
            whole = find_with_host(prompt, tree, self._windows, host)
            size = sum(host.block_bytes[group] for group, _ in whole.from_host)
            gained = whole.computed - match.computed
            if gained <= 0 or not worth_restoring(size, gained, rates):
                return match, NOTHING
            payloads = fetch(prompt, whole, host)
            if payloads is not None:
                return whole, payloads

    def _without_tail(self, prompt: Prompt, match: Match) -> Match:
        in_place = len(match.nodes) * self._block_size
        return replace(match, tail=None, tail_tokens=0, computed=prompt.usable(in_place), in_place=in_place)

    def _fits(self, match: Match, upto: int) -> bool:
        blocks = len(match.nodes)
        fresh = self._num_blocks(match, upto) - blocks
        for group, books in enumerate(self._cached.books):
            restored = sum(at == group and index < blocks for at, index in match.from_host)
            hits = blocks - match.first[group] + (match.tail is not None)
            if fresh + restored + hits > books.num_free and fresh + restored > self._spare(match, group):
                return False
        return True

    def _spare(self, match: Match, group: int) -> int:
        """Count the free blocks that are left once the blocks of the hit are held."""
        books = self._cached.books[group]
        hits = [node.blocks[group] for node in match.nodes[match.first[group] :] if node is not None]
        if match.tail is not None:
            hits.append(match.tail.blocks[group])
        return books.num_free - sum(block != NULL_BLOCK and books.evictable.holds(block) for block in hits)

    def _num_blocks(self, match: Match, upto: int) -> int:
        tokens = max(upto, match.computed + 1, match.in_place)
        return -(-tokens // self._block_size)

    def _pin(self, holding: Holding, match: Match, *, first_time: bool, now_s: float) -> None:
        """Hold every block of the hit, so that nothing that follows can give it up."""
        level = _level(holding.sequence)
        for index, node in enumerate(match.nodes):
            if node is None:
                continue
            if first_time:
                self._cached.found(node, now_s)
            for group, first in enumerate(match.first):
                if index >= first and node.blocks[group] != NULL_BLOCK:
                    self._cached.hold(group, node.blocks[group])
            node.level = min(node.level, level)
            node.swapped = False
            self._keep(holding, node, now_s)
        if match.tail is not None:
            for group, block in enumerate(match.tail.blocks):
                self._cached.hold(group, block)

    def _keep(self, holding: Holding, node: Node, now_s: float) -> None:
        if holding.keeps:
            groups, ttl_s = holding.protection(node.depth, self._groups, self._block_size)
            if groups:
                self._cached.pin(node, groups, ttl_s, now_s)

    def _allocate(self, holding: Holding, match: Match, payloads: Payloads, upto: int) -> None:
        count, tables = self._num_blocks(match, upto), []
        for group, first in enumerate(match.first):
            table = [NULL_BLOCK] * first
            for index in range(first, count):
                node = match.nodes[index] if index < len(match.nodes) else None
                block = NULL_BLOCK if node is None else node.blocks[group]
                if block == NULL_BLOCK:
                    block = self._cached.take(group, holding.tree)
                    if (group, index) in payloads:
                        self._moves.restore(group, block, *payloads[group, index])
                table.append(block)
            if match.tail is not None:
                at = len(match.nodes)
                source, tokens = match.tail.blocks[group], match.tail_tokens
                self._moves.copy(BlockCopy(group, source, table[at], tokens))
            tables.append(table)
        holding.sequence.tables = tables

    def _publish_block(self, holding: Holding, index: int, now_s: float) -> None:
        chain, tree = holding.chain, holding.tree
        digest, parent, tokens = chain.digest(index), chain.parent(index), chain.tokens(index)
        node = tree.nodes.get(digest)
        if node is not None and (node.tokens != tokens or node.parent_digest != parent):
            self._counts.collisions += 1
            holding.publishes = False
            return
        if node is None:
            if all(table[index] == NULL_BLOCK for table in holding.sequence.tables):
                return
            if index and parent not in tree.nodes and None in self._windows:
                return
            node = tree.add(digest, parent, tokens, index)
            node.level = _level(holding.sequence)
            self._recall(holding, node)
        fresh = False
        for group, table in enumerate(holding.sequence.tables):
            if node.blocks[group] == NULL_BLOCK and table[index] != NULL_BLOCK:
                self._cached.attach(node, group, table[index])
                fresh = True
        if fresh:
            self._counts.written_tokens += self._block_size
            holding.mine.append(node)
            self._keep(holding, node, now_s)

    def _recall(self, holding: Holding, node: Node) -> None:
        """Recognise a block that was cached once: it has been asked for again."""
        ghost = self._cached.ghosts.take(node.digest)
        if ghost is None:
            return
        node.uses = ghost.uses + 1
        self._cached.books[0].evictable.policy(node).reused(ghost.trace)
        if holding.known == node.depth:
            holding.known, holding.known_uses = node.depth + 1, node.uses

    def _outcome(self, sequence: Holder, prompt: Prompt, match: Match) -> PrefixOutcome:
        if not sequence.cache.read:
            return PrefixOutcome(0)
        tree = self._cached.trees.get(sequence.cache.salt)
        miss, differs_at = explain(prompt, tree, match, self._cached.ghosts)
        if prompt.num_tokens >= self._block_size:
            unsalted = self._cached.digest(bytes(DIGEST_BYTES), prompt.chain.tokens(0))
            other = self._sightings.note(unsalted, sequence.cache.salt)
            if miss == "cold" and not match.nodes and other not in (None, sequence.cache.salt):
                miss = "salt"
        device = min(match.computed, _first_from_host(match) * self._block_size)
        tiers: dict[Tier, int] = {"device": device, "host": match.computed - device}
        found = MappingProxyType({tier: tokens for tier, tokens in tiers.items() if tokens})
        outcome = PrefixOutcome(match.computed, found, miss, differs_at)
        self._counts.looked_up(prompt.num_tokens, outcome)
        return outcome


def _first_from_host(match: Match) -> int:
    """The first block that counts as found on the host; those that nothing looks into count with it."""
    start = min((index for _, index in match.from_host), default=sys.maxsize)
    return 0 if start <= min(match.first) else start


def _level(sequence: Holder) -> int:
    return (sequence.priority > 0) - (sequence.priority < 0)
