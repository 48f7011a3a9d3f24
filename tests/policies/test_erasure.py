"""A person is found by digest as by id, and a proof says no more than what was seen."""

from policies.erasure import Report, StoreProof, merged
from policies.purge_scopes import Made, person
from policies.purges import Purge, PurgeIndex


def test_a_purge_by_digest_takes_what_a_purge_by_id_takes() -> None:
    made = Made("00", ("m",), whose=(person("user", "u1"),))
    other = Made("00", ("m",), whose=(person("user", "u2"),))
    for value in ("u1", f"#{person('user', 'u1').hex()}"):
        index = PurgeIndex()
        index.fold([Purge(1, "user", value, "hard")], 1)
        assert (index.verdict(made, 0), index.verdict(other, 0), index.verdict(made, 1)) == ("hard", None, None)
        assert index.prefix_epoch == 1


def test_an_id_that_looks_like_a_digest_is_purged_as_both() -> None:
    value = f"#{'a' * 32}"
    index = PurgeIndex()
    index.fold([Purge(1, "user", value, "hard")], 1)
    for whose in (person("user", value), bytes.fromhex("a" * 32)):
        assert index.verdict(Made("00", ("m",), whose=(whose,)), 0) == "hard"


def report(*stores: StoreProof) -> Report:
    return Report("E1", "user", "T1", "admin", 1.0, 2.0, 3, 4, announced=True, keys_destroyed=(), stores=stores)


def test_an_erasure_is_complete_when_every_store_was_seen_clean() -> None:
    clean, unseen = StoreProof("redis", 5, 2, 2, 0), StoreProof("index", 0, 0, 0, None, "away")
    assert report(clean).complete
    assert report(clean).told()["complete"] is True
    assert "person" not in report(clean).told(), "a guessed id could be held against a digest"
    for stores in ((), (clean, unseen), (clean, StoreProof("rows", 1, 1, 0, 1))):
        assert not report(*stores).complete


def test_goes_at_a_store_are_told_as_one() -> None:
    failed = StoreProof("redis", 0, 0, 0, None, "it did not answer")
    rounds = [failed, StoreProof("redis", 9, 3, 2, 1, "n"), StoreProof("redis", 7, 1, 1, 0)]
    assert merged("redis", rounds) == StoreProof("redis", 9, 4, 3, 0, "n")
    assert merged("redis", [failed]).note == "it did not answer"
