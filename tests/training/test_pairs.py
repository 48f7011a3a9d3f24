"""Families: what was written for Lamina is whole, and pairs made of it are labelled as they must be."""

import random

from training.pairs import FAMILIES, pairs_of, read_families, repeat_sloppily


def test_every_family_has_wordings_and_traps_and_none_is_in_both() -> None:
    families = read_families(FAMILIES, random.Random(0))
    assert len(families) > 1000
    for family in families:
        trapped = {form for _, forms in family.traps for form in forms}
        assert len(family.same) >= 2
        assert trapped
        assert not trapped & set(family.same)


def test_pairs_are_labelled_by_where_they_come_from() -> None:
    families = read_families(FAMILIES, random.Random(0))[:20]
    for family in families:
        same = set(family.same) | {family.noisy[text] for text in family.same}
        for pair in pairs_of(family, families, random.Random(1), 30):
            if pair.kind == "wording" and pair.a in same:
                assert pair.b in same
            if not pair.same and pair.kind not in ("far", "other_trap"):
                assert (pair.a in same) != (pair.b in same)


def test_a_seed_gives_the_same_sample_again() -> None:
    families = read_families(FAMILIES, random.Random(0))[:5]
    first, second = (pairs_of(families[0], families, random.Random(7), 9) for _ in range(2))
    assert first == second


def test_a_sloppy_repeat_keeps_most_of_the_words() -> None:
    rng = random.Random(3)
    text = "How do I change the delivery address of my order?"
    for _ in range(200):
        words = set(repeat_sloppily(text, rng).lower().rstrip("?!. ").split())
        assert len(words & set(text.lower().rstrip("?").split())) >= 8
