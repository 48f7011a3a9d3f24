import random

import numpy as np

from training.pairs import Family
from training.strangers import find_strangers, strangers_of


def _family(*same: str) -> Family:
    return Family(same, ())


NEAR, FAR, TWIN = _family("near"), _family("far"), _family("twin")
ASKED = _family("asked", "asked again")
VECTORS = {
    "asked": (1.0, 0.0),
    "asked again": (1.0, 0.0),
    "near": (0.6, 0.8),
    "far": (0.0, 1.0),
    "twin": (0.9, 0.436),
}
OTHERS = [_family(f"filler {number}") for number in range(12)]


def _sentences(texts: list[str]) -> np.ndarray:
    return np.array([VECTORS.get(text, (0.0, -1.0)) for text in texts], np.float32)


def test_strangers_are_near_texts_of_other_families_that_hardly_ask_the_same() -> None:
    strangers = find_strangers([ASKED, NEAR, FAR, TWIN, *OTHERS], _sentences)
    assert strangers["asked"] == ("near",), "neither its own wording, nor what may be equal, nor what is far"
    assert "asked" not in strangers["far"]
    assert strangers["filler 0"] == (), "equal texts of other families may ask the same"


def test_pairs_with_strangers_are_negatives_and_as_many_as_asked() -> None:
    strangers = find_strangers([ASKED, NEAR, FAR, TWIN, *OTHERS], _sentences)
    pairs = strangers_of(ASKED, strangers, random.Random(1), 6)
    assert len(pairs) == 6
    assert all(not pair.same and pair.kind == "stranger" and "near" in (pair.a, pair.b) for pair in pairs)
    assert strangers_of(OTHERS[0], strangers, random.Random(1), 6) == []
