"""The usual semantic cache: whatever is nearest answers from a fixed similarity on. For comparison.

It is given our partitions, so that it never mixes tenants, prompts, parameters or histories; only how it decides
is the usual. It knows no guards.
"""

from collections.abc import Sequence

import numpy as np

from gateway.replay.prepare import Prepared
from gateway.replay.shelf import Shelf, missed
from policies.decide import Life
from policies.replay import Line, Outcome

_BLOCK = 128


class Nearness:
    """Cosines between each line's question and all before it in its partition, computed in blocks.

    Args:
        prepared: the whole log.
        vectors: fp32 [lines, dimensions], length 1, of each line's last turn; rows of lines without are unused.
    """

    def __init__(self, prepared: Sequence[Prepared], vectors: np.ndarray) -> None:
        self._vectors = vectors
        self.rank: dict[int, int] = {}
        self.members: dict[bytes, list[int]] = {}
        self._blocks: dict[bytes, tuple[int, np.ndarray]] = {}
        for one in prepared:
            if one.unguarded_place is not None:
                mates = self.members.setdefault(one.unguarded_place.partition, [])
                self.rank[one.at] = len(mates)
                mates.append(one.at)

    def before(self, at: int, partition: bytes) -> np.ndarray:
        """Cosines with the members of the partition that precede this line; fp32 [rank]."""
        rank = self.rank[at]
        first, block = self._blocks.get(partition, (-_BLOCK, np.empty((0, 0), np.float32)))
        if not first <= rank < first + len(block):
            first = rank
            mates = self.members[partition]
            asked = self._vectors[mates[first : first + _BLOCK]]
            block = asked @ self._vectors[mates[: first + _BLOCK]].T
            self._blocks[partition] = (first, block)
        cosines: np.ndarray = block[rank - first, :rank]
        return cosines


class PlainThreshold:
    """Exact, then the nearest stored question from a cosine on. Meets Policy.

    Args:
        lines: the whole log.
        nearness: shared with other thresholds.
        least: cosine from which the nearest answers.
    """

    family = "plain threshold"

    def __init__(self, lines: Sequence[Line], nearness: Nearness, least: float) -> None:
        self.name = f"threshold {least:.2f}"
        self._shelf = Shelf(lines)
        self._nearness = nearness
        self._least = least
        self._until: dict[bytes, np.ndarray] = {}

    def ask(self, asked: Prepared) -> Outcome:
        """See Policy."""
        found = self._shelf.find(asked)
        if found is not None:
            return found
        place = asked.unguarded_place
        if place is not None and asked.read:
            nearest = self._nearest(asked, place.partition)
            if nearest is not None:
                return self._shelf.hit("semantic", nearest, asked)
        if asked.unguarded_ttl_s is not None:
            self._shelf.put(asked, asked.at, Life(asked.line.t_s, asked.unguarded_ttl_s))
            if place is not None:
                rank = self._nearness.rank[asked.at]
                self._lives(place.partition)[rank] = asked.line.t_s + asked.unguarded_ttl_s
        return missed(asked, "semantic_unsure" if place is not None else "absent")

    def _nearest(self, asked: Prepared, partition: bytes) -> int | None:
        cosines = self._nearness.before(asked.at, partition)
        if not cosines.size:
            return None
        lives = self._lives(partition)[: cosines.size]
        stored = np.where(lives > asked.line.t_s, cosines, -2.0)
        best = int(stored.argmax())
        return self._nearness.members[partition][best] if stored[best] >= self._least else None

    def _lives(self, partition: bytes) -> np.ndarray:
        lives = self._until.get(partition)
        if lives is None:
            lives = self._until[partition] = np.full(len(self._nearness.members[partition]), -1.0)
        return lives
