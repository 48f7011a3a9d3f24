"""Why a hit ends where it does."""

from engine.kv.ghosts import Ghosts
from engine.kv.lookup import Match, Prompt
from engine.kv.prefix_tree import PrefixTree
from engine.kv.wishes import Miss

MIN_AGREEMENT = 4
"""Tokens a first block must share with a cached one before it counts as the same prompt gone another way."""


def explain(
    prompt: Prompt, tree: PrefixTree | None, match: Match, ghosts: Ghosts
) -> tuple[Miss | None, int | None]:
    """Return the reason, and where the first differing token is if that is the reason.

    "salt" is not found here: only the first block's sightings tell it, for a prompt that would be "cold".
    """
    blocks, size = len(match.nodes), prompt.block_size
    if (blocks + 1) * size > prompt.num_tokens:
        return ("short", None) if blocks == 0 and match.computed == 0 else (None, None)
    ghost = ghosts.get(prompt.chain.digest(blocks))
    if ghost is not None:
        return ghost.cause, None
    parent = match.nodes[-1] if blocks else None
    if tree is not None and (parent is not None or blocks == 0):
        closest = next(tree.closest(parent, prompt.chain.tokens(blocks)), None)
        if closest is not None and closest[1] == size:
            # Cached, but not where every group sees it, or not up to a whole unit.
            return ("evicted" if prompt.unit == 1 else None), None
        if closest is not None and closest[1] >= (0 if blocks else min(MIN_AGREEMENT, size - 1)):
            return "differs", blocks * size + closest[1]
    return "cold", None
