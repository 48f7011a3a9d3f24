"""Purges: the folded log judges as a reading of the whole log would, in any order, and never goes backwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.purges import PURGE_KINDS, Made, Purge, PurgeIndex, PurgeMode

NAMES = st.sampled_from(["a", "b", "c", ""])
PAIRS = st.tuples(st.sampled_from(["kb", "prompt"]), st.sampled_from(["1", "2"]))
VALUES = {
    "all": st.just(""),
    "tag": NAMES,
    "key": st.sampled_from(["00", "01"]),
    "model": NAMES,
    "user": NAMES,
    "version": PAIRS.map(lambda pair: f"{pair[0]}={pair[1]}"),
}
SCOPES = st.sampled_from(PURGE_KINDS).flatmap(lambda kind: VALUES[kind].map(lambda value: (kind, value)))
MODES: st.SearchStrategy[PurgeMode] = st.sampled_from(["hard", "soft"])
LOGS = st.lists(st.tuples(SCOPES, MODES), max_size=12).map(
    lambda rows: [Purge(seq, kind, value, mode) for seq, ((kind, value), mode) in enumerate(rows, start=1)]
)
MADES = st.builds(
    Made,
    st.sampled_from(["00", "01"]),
    st.lists(NAMES, min_size=1, max_size=2).map(tuple),
    NAMES,
    st.lists(NAMES, max_size=2).map(tuple),
    st.lists(PAIRS, max_size=2).map(tuple),
)


def names(purge: Purge, made: Made) -> bool:
    """Whether a purge names something the entry is made of, written as one would say it."""
    named: dict[str, tuple[str, ...]] = {
        "all": ("",),
        "tag": made.tags,
        "key": (made.key_hex,),
        "model": made.models,
        "user": (made.user,) if made.user else (),
        "version": tuple(f"{name}={value}" for name, value in made.versions),
    }
    return purge.value in named[purge.kind]


def read_whole(log: list[Purge], made: Made, as_of: int) -> PurgeMode | None:
    modes = {purge.mode for purge in log if purge.seq > as_of and names(purge, made)}
    return "hard" if "hard" in modes else "soft" if modes else None


def folded(log: list[Purge]) -> PurgeIndex:
    index = PurgeIndex()
    index.fold(log, len(log))
    return index


@given(LOGS, MADES, st.integers(0, 13))
def test_the_verdict_is_that_of_the_whole_log(log: list[Purge], made: Made, as_of: int) -> None:
    assert folded(log).verdict(made, as_of) == read_whole(log, made, as_of)


@given(LOGS, MADES, st.integers(0, 13), st.data())
def test_order_repetition_and_batches_do_not_matter(
    log: list[Purge], made: Made, as_of: int, data: st.DataObject
) -> None:
    index = PurgeIndex()
    rows = data.draw(
        st.permutations(log + data.draw(st.lists(st.sampled_from(log), max_size=5) if log else st.just([])))
    )
    cut = data.draw(st.integers(0, len(rows)))
    for batch in (rows[:cut], rows[cut:], rows[:2]):
        index.fold(batch, len(log))
    assert index.seq == len(log)
    assert index.verdict(made, as_of) == read_whole(log, made, as_of)


@given(st.lists(st.tuples(LOGS, st.integers(0, 20)), max_size=5))
def test_the_sequence_never_falls(batches: list[tuple[list[Purge], int]]) -> None:
    index = PurgeIndex(seq=3)
    for rows, head in batches:
        before = index.seq
        index.fold(rows, head)
        assert index.seq == max(before, head)


@given(LOGS, MADES, st.integers(0, 5))
def test_an_entry_made_after_the_last_purge_is_alive(log: list[Purge], made: Made, ahead: int) -> None:
    assert folded(log).verdict(made, len(log) + ahead) is None


@given(LOGS, MADES, st.integers(0, 12), st.integers(0, 12))
def test_a_verdict_only_gets_worse(log: list[Purge], made: Made, as_of: int, cut: int) -> None:
    rank = {None: 0, "soft": 1, "hard": 2}
    index, earlier = PurgeIndex(), 0
    for batch in (log[:cut], log[cut:]):
        index.fold(batch, max((purge.seq for purge in batch), default=0))
        now = rank[index.verdict(made, as_of)]
        assert now >= earlier
        earlier = now


@given(MADES)
def test_an_empty_log_judges_nothing(made: Made) -> None:
    index = PurgeIndex(seq=7)
    assert index.verdict(made, 0) is None


@pytest.mark.parametrize("kind", PURGE_KINDS)
@pytest.mark.parametrize("mode", ["hard", "soft"])
def test_each_kind_names_its_own(kind: str, mode: PurgeMode) -> None:
    made = Made("00", ("m",), "u", ("t",), (("kb", "1"),))
    value = {"all": "", "tag": "t", "key": "00", "model": "m", "user": "u", "version": "kb=1"}[kind]
    assert folded([Purge(1, kind, value, mode)]).verdict(made, 0) == mode
    assert folded([Purge(1, kind, value + "x", mode)]).verdict(made, 0) is None


def test_a_later_soft_purge_does_not_soften_a_hard_one() -> None:
    log = [Purge(1, "all", "", "hard"), Purge(2, "all", "", "soft")]
    made = Made("00", ("m",))
    assert folded(log).verdict(made, 0) == "hard"
    assert folded(log).verdict(made, 1) == "soft"


def test_an_entry_of_no_user_is_not_of_the_empty_user() -> None:
    assert folded([Purge(1, "user", "", "hard")]).verdict(Made("00", ("m",)), 0) is None


def test_a_kind_of_a_newer_version_purges_everything() -> None:
    index = folded([Purge(1, "session", "abc", "hard")])
    assert index.verdict(Made("00", ("m",)), 0) == "hard"


STRENGTH = {None: 0, "soft": 1, "hard": 2}


@given(LOGS, MADES, st.integers(0, 13), st.integers(2, 6))
def test_a_bounded_index_purges_more_never_less(log: list[Purge], made: Made, as_of: int, max_scopes: int) -> None:
    index = PurgeIndex(max_scopes=max_scopes)
    for row in log:
        index.fold([row], row.seq)
        assert len(index._latest) <= max_scopes + 1
    assert STRENGTH[index.verdict(made, as_of)] >= STRENGTH[read_whole(log, made, as_of)]


def test_the_latest_scopes_are_still_told_apart_when_old_ones_are_forgotten() -> None:
    index = PurgeIndex(max_scopes=10)
    for seq in range(1, 1001):
        index.fold([Purge(seq, "tag", f"t{seq}", "hard")], seq)
    assert len(index._latest) <= 11
    assert index.verdict(Made("00", ("m",), tags=("t1000",)), 999) == "hard"
    assert index.verdict(Made("00", ("m",), tags=("other",)), 999) is None
    assert index.verdict(Made("00", ("m",), tags=("other",)), 5) == "hard"


@given(LOGS)
def test_the_prefix_epoch_is_the_latest_hard_purge_of_everything_or_of_a_person(log: list[Purge]) -> None:
    ends = [purge.seq for purge in log if purge.mode == "hard" and purge.kind in ("all", "user")]
    index = folded(log)
    assert index.prefix_epoch == max(ends, default=0)
    index.fold(log[: len(log) // 2], len(log) // 2)
    assert index.prefix_epoch == max(ends, default=0), "it never falls"
