"""Purges: the folded log judges as a reading of the whole log would, in any order, and never goes backwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.purge_scopes import LATE_S, members_value, number_of, person
from policies.purges import PURGE_KINDS, Front, Made, Purge, PurgeIndex, PurgeMode

NAMES = st.sampled_from(["a", "b", "c", ""])
KEYS = st.sampled_from(["00", "01", "02"])
TIMES = st.sampled_from([10.0, 20.0, 30.0, 31.0, 35.0, 36.0])
PAIRS = st.tuples(st.sampled_from(["kb", "prompt"]), st.sampled_from(["1", "2", "v2.1", "10", "2.0", "x", "*"]))
WIDE = st.tuples(st.sampled_from(["kb", "prompt"]), st.sampled_from(["=*", "<2", "<v2.1", "<11", "<0.5"]))
MEMBERS = st.lists(KEYS, unique=True).map(tuple)
VALUES = {
    "all": st.just(""),
    "tag": NAMES,
    "key": KEYS,
    "model": NAMES,
    "user": NAMES,
    "session": NAMES,
    "route": NAMES,
    "version": PAIRS.map("=".join),
    "versions": WIDE.map("".join),
    "age": TIMES.map(str),
    "meaning": MEMBERS.map(lambda members: members_value(bytes.fromhex(key) for key in members)),
    "print": KEYS,
}
WHOSE = st.tuples(st.sampled_from(["user", "session"]), st.sampled_from(["a", "b", "c"]))
MODES: st.SearchStrategy[PurgeMode] = st.sampled_from(["hard", "soft"])


@st.composite
def rows(draw: st.DrawFn) -> tuple[str, str, PurgeMode, tuple[str, ...], float]:
    kind, mode = draw(st.sampled_from(PURGE_KINDS)), draw(MODES)
    if kind != "meaning":
        return kind, draw(VALUES[kind]), mode, (), 0.0
    members = draw(MEMBERS)
    return kind, members_value(bytes.fromhex(key) for key in members), mode, members, draw(TIMES)


LOGS = st.lists(rows(), max_size=12).map(
    lambda drawn: [Purge(seq, *row) for seq, row in enumerate(drawn, start=1)]
)
MADES = st.builds(
    Made,
    st.sampled_from(["00", "01"]),
    st.lists(NAMES, min_size=1, max_size=2).map(tuple),
    st.lists(WHOSE.map(lambda who: person(*who)), max_size=2).map(tuple),
    st.lists(NAMES, max_size=2).map(tuple),
    st.lists(PAIRS, max_size=2).map(tuple),
    st.sampled_from(["", "", "02"]),
    NAMES,
    TIMES,
    st.lists(KEYS.map(bytes.fromhex), max_size=2).map(tuple),
)


def _below(made: Made, value: str) -> bool:
    name, below, bound = value.rpartition("<")
    if not below:
        return value.removesuffix("=*") in dict(made.versions)
    numbers = [number_of(version) for named, version in made.versions if named == name]
    return any(number is not None and number < (number_of(bound) or ()) for number in numbers)


def names(purge: Purge, made: Made) -> bool:
    """Whether a purge names something the entry is made of, written as one would say it."""
    match purge.kind:
        case "age":
            return made.created_s < float(purge.value)
        case "versions":
            return _below(made, purge.value)
        case "meaning":
            late = made.created_s > purge.at_s - LATE_S
            return late or made.key_hex in purge.members or made.source_hex in purge.members
    named: dict[str, tuple[object, ...]] = {
        "all": ("",),
        "tag": made.tags,
        "key": (made.key_hex, *([made.source_hex] if made.source_hex else [])),
        "model": made.models,
        "route": (made.route,) if made.route else made.models,
        "version": tuple(f"{name}={value}" for name, value in made.versions),
        "print": tuple(one.hex() for one in made.prints),
    }
    if purge.kind in ("user", "session"):
        return person(purge.kind, purge.value) in made.whose
    return purge.value in named[purge.kind]


KEYSET = ("00", "01", "02")


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


NAMED = {
    "all": ("", "x"),
    "tag": ("t", "tx"),
    "key": ("00", "01"),
    "model": ("m", "mx"),
    "user": ("u", "s"),
    "session": ("s", "u"),
    "route": ("r", "m"),
    "version": ("kb=1", "kb=2"),
    "versions": ("kb=*", "k=*"),
    "age": ("50.5", "50.0"),
    "meaning": (members_value([b"\0"]), members_value([b"\1"])),
    "print": ("aa", "ab"),
}
"""Of each kind a value that names what the entry below is made of, and one that does not."""


@pytest.mark.parametrize("kind", PURGE_KINDS)
@pytest.mark.parametrize("mode", ["hard", "soft"])
def test_each_kind_names_its_own(kind: str, mode: PurgeMode) -> None:
    whose = person("user", "u"), person("session", "s")
    made = Made("00", ("m", "x"), whose, ("t",), (("kb", "1"),), "", "r", 50.0, (b"\xaa",))
    value, other = NAMED[kind]
    assert folded([Purge(1, kind, value, mode, ("00",), 99.0)]).verdict(made, 0) == mode
    assert folded([Purge(1, kind, other, mode, ("01",), 99.0)]).verdict(made, 0) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("planet", "abc"),
        ("age", "soon"),
        ("versions", "kb<x"),
        ("versions", "kb"),
        ("meaning", "2:aa"),
        ("print", "x"),
    ],
)
def test_what_a_newer_version_wrote_purges_everything(kind: str, value: str) -> None:
    assert folded([Purge(1, kind, value, "hard", ("01",))]).verdict(Made("00", ("m",)), 0) == "hard"


@pytest.mark.parametrize(
    ("version", "below", "taken"),
    [
        *[("1", "2", True), ("2", "2", False), ("2.0", "2", False), ("1.9", "1.10", True), ("1.10", "1.9", False)],
        *[("v3", "4", True), ("3", "v4", True), ("3.1", "3.0.9", False), ("draft", "4", False), ("", "4", False)],
        *[("-1", "4", False), ("1e3", "4", False), ("1" * 16, "4", False), ("007", "8", True)],
    ],
)
def test_versions_below_a_number(version: str, below: str, *, taken: bool) -> None:
    made = Made("00", ("m",), versions=(("kb", version),))
    assert folded([Purge(1, "versions", f"kb<{below}", "hard")]).verdict(made, 0) == ("hard" if taken else None)


def test_what_was_made_while_a_purge_by_meaning_looked_goes_with_it() -> None:
    index = folded([Purge(1, "meaning", members_value([]), "hard", (), 100.0)])
    assert index.verdict(Made("00", ("m",), created_s=101.0), 0) == "hard", "its model was called before the purge"
    assert index.verdict(Made("00", ("m",), created_s=101.0), 1) is None
    assert index.verdict(Made("00", ("m",), created_s=100.0 - LATE_S), 0) is None


def test_an_entry_of_before_routes_were_kept_answers_to_its_names() -> None:
    index = folded([Purge(1, "route", "r", "hard")])
    assert index.verdict(Made("00", ("up/m", "r")), 0) == "hard"
    assert index.verdict(Made("00", ("up/m", "r"), route="s"), 0) is None


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=12), st.integers(0, 10), st.integers(-1, 10)
)
def test_a_front_covers_what_any_of_its_bounds_does(
    bounds: list[tuple[int, int]], as_of: int, height: int
) -> None:
    front = Front()
    for seq, bound in bounds:
        front.add(seq, bound)
    assert front.covers(as_of, height) == any(seq > as_of and bound > height for seq, bound in bounds)
    assert list(front.seqs) == sorted(set(front.seqs))
    assert len(front.seqs) <= len({bound for _, bound in bounds}), "each bound is kept once"


def test_a_later_soft_purge_does_not_soften_a_hard_one() -> None:
    log = [Purge(1, "all", "", "hard"), Purge(2, "all", "", "soft")]
    made = Made("00", ("m",))
    assert folded(log).verdict(made, 0) == "hard"
    assert folded(log).verdict(made, 1) == "soft"


def test_an_entry_of_no_user_is_not_of_the_empty_user() -> None:
    assert folded([Purge(1, "user", "", "hard")]).verdict(Made("00", ("m",)), 0) is None


STRENGTH = {None: 0, "soft": 1, "hard": 2}


@given(LOGS, MADES, st.integers(0, 13), st.integers(2, 6))
def test_a_bounded_index_purges_more_never_less(log: list[Purge], made: Made, as_of: int, max_scopes: int) -> None:
    index = PurgeIndex(max_scopes=max_scopes)
    for row in log:
        index.fold([row], row.seq)
        assert len(index) <= max_scopes + 1 + len(KEYSET)
    assert STRENGTH[index.verdict(made, as_of)] >= STRENGTH[read_whole(log, made, as_of)]


def test_the_latest_scopes_are_still_told_apart_when_old_ones_are_forgotten() -> None:
    index = PurgeIndex(max_scopes=10)
    for seq in range(1, 1001):
        index.fold([Purge(seq, "tag", f"t{seq}", "hard")], seq)
    assert len(index) <= 11
    assert index.verdict(Made("00", ("m",), tags=("t1000",)), 999) == "hard"
    assert index.verdict(Made("00", ("m",), tags=("other",)), 999) is None
    assert index.verdict(Made("00", ("m",), tags=("other",)), 5) == "hard"


@given(LOGS)
def test_the_prefix_epoch_is_the_latest_hard_purge_of_everything_or_of_a_person(log: list[Purge]) -> None:
    ends = [purge.seq for purge in log if purge.mode == "hard" and purge.kind in ("all", "user", "session")]
    index = folded(log)
    assert index.prefix_epoch == max(ends, default=0)
    index.fold(log[: len(log) // 2], len(log) // 2)
    assert index.prefix_epoch == max(ends, default=0), "it never falls"
