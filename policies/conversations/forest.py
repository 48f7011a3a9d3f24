"""A small forest of decision trees over named signals, read from JSON; what it weighs was learnt elsewhere."""

import math
from collections.abc import Mapping

import msgspec


class Tree(msgspec.Struct, frozen=True, array_like=True):
    """A decision tree by node: a negative signal marks a leaf.

    Attributes:
        signal: which signal a node asks for.
        most: the value up to which the way goes left.
        left, right: the next nodes.
        value: what a leaf adds to the log odds.
    """

    signal: tuple[int, ...]
    most: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[float, ...]

    def add(self, signals: tuple[float, ...]) -> float:
        """What the tree adds to the log odds."""
        node = 0
        while self.signal[node] >= 0:
            node = self.left[node] if signals[self.signal[node]] <= self.most[node] else self.right[node]
        return self.value[node]


class Weights(msgspec.Struct, frozen=True):
    """What was learnt.

    Attributes:
        names: of the signals, in the trees' order.
        prior: log odds without any signal.
        trees: the forest.
        slope, offset: of the calibration, over the forest's log odds.
        alone: probability of an equal answer where both last turns are the same and stand alone.
        courteous: the same where only courtesies differ.
    """

    names: tuple[str, ...]
    prior: float
    trees: tuple[Tree, ...]
    slope: float
    offset: float
    alone: float
    courteous: float

    def __post_init__(self) -> None:
        """Refuse trees that would leave the signals or never end.

        Raises:
            ValueError: a node points outside its tree or backwards, or asks for an unknown signal.
        """
        for tree in self.trees:
            size = len(tree.signal)
            if not size or {len(tree.most), len(tree.left), len(tree.right), len(tree.value)} != {size}:
                raise ValueError("a tree's columns differ in length")
            for node, signal in enumerate(tree.signal):
                ways = (tree.left[node], tree.right[node])
                ahead = node < min(ways) and max(ways) < size
                if signal >= len(self.names) or (signal >= 0 and not ahead):
                    raise ValueError("a tree points outside itself, or backwards")

    def log_odds(self, signals: Mapping[str, float]) -> float:
        """The forest's log odds, before the calibration.

        Raises:
            KeyError: a signal is missing.
        """
        row = tuple(signals[name] for name in self.names)
        return self.prior + sum(tree.add(row) for tree in self.trees)

    def probability(self, signals: Mapping[str, float]) -> float:
        """The calibrated probability, 0 to 1."""
        odds = self.offset + self.slope * self.log_odds(signals)
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, odds))))


def read_weights(text: bytes) -> Weights:
    """The weights of a JSON text.

    Raises:
        ValueError: it does not hold weights.
    """
    return msgspec.json.decode(text, type=Weights)
