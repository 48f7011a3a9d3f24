"""The graph of versions: a change takes what stands on it, all of it, and nothing else."""

import functools
import itertools
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.dependencies import Affected, Change, DependencyRefused, Graph, Ref, Version, affected, check, cycle
from policies.fingerprints import UNREGISTERED
from policies.purges import Made, Purge, PurgeIndex

NAMES = ("a", "b", "c", "d", "e")
NUMBERS = ("1", "2", "3")
PRINTS = ("01", "02", "03")
MODELS = ("m", "n")


def version(name: str, number: str = "1", *on: str, **fields: object) -> Version:
    return Version(name, number, "prompt", tuple(Ref.parse(text) for text in on), **fields)  # type: ignore[arg-type]


def took(graph: Graph, *changes: Change) -> set[str]:
    return {str(one.ref) for one in affected(graph, *changes).versions}


def changed(ref: str) -> Change:
    return Change("content", Ref.parse(ref))


CHAIN = Graph([version("kb"), version("tool"), version("help", "1", "kb", "tool"), version("page", "1", "help")])


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        (changed("kb@1"), {"kb@1", "help@1", "page@1"}),
        (changed("help@1"), {"help@1", "page@1"}),
        (changed("page@1"), {"page@1"}),
        (Change("register", Ref("kb", "2")), {"kb@1", "help@1", "page@1"}),
        (Change("register", Ref("kb", "2"), beside=True), {"help@1", "page@1"}),
        (Change("register", Ref("new", "1")), set()),
        (Change("retire", Ref("tool", "1")), {"tool@1", "help@1", "page@1"}),
        (Change("retire", Ref("tool", "9")), set()),
    ],
    ids=lambda part: str(sorted(part) if isinstance(part, set) else part),
)
def test_a_change_takes_what_stands_on_it(change: Change, taken: set[str]) -> None:
    assert took(CHAIN, change) == taken


def test_a_pinned_version_stays_when_another_one_changes() -> None:
    graph = Graph([version("kb", "1"), version("kb", "2"), version("old", "1", "kb@1"), version("new", "1", "kb")])
    assert took(graph, changed("kb@2")) == {"kb@2", "new@1"}
    assert took(graph, changed("kb@1")) == {"kb@1", "old@1", "new@1"}


def test_a_retired_version_is_in_nobodys_answer_any_more() -> None:
    graph = Graph(
        [
            version("kb"),
            version("help", "1", "kb", retired=True),
            version("help", "2"),
            version("page", "1", "help"),
        ]
    )
    assert took(graph, changed("kb@1")) == {"kb@1", "help@1"}


def test_a_text_that_stayed_is_the_live_versions() -> None:
    old = version("help", "1", "kb", prints=("01", "02"), retired=True)
    graph = Graph([version("kb"), old, version("help", "2", prints=("01",))])
    assert ("print", "02") in affected(graph, changed("kb@1")).scopes
    assert ("print", "01") not in affected(graph, changed("kb@1")).scopes


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        (version("a", "1", "a"), "cycle"),
        (version("kb", "2", "page"), "cycle"),
        (version("kb", "2", "nobody"), "unknown"),
        (version("kb", "2", "tool@7"), "unknown"),
        (Version("kb", "2", "model"), "taken"),
        (Version("x", "1", "thing"), "invalid"),
        (version("x", "1", *(["kb"] * 65)), "invalid"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(added: Version, reason: str) -> None:
    with pytest.raises(DependencyRefused) as refused:
        check(CHAIN.with_version(added, beside=False), added)
    assert refused.value.reason == reason


def test_the_way_back_is_shown() -> None:
    added = version("kb", "2", "page")
    with pytest.raises(DependencyRefused, match="kb@2 -> page@1 -> help@1 -> kb@2"):
        check(CHAIN.with_version(added, beside=False), added)


@pytest.mark.parametrize("text", ["", "@1", "a@", "a@1@2", "a b", "a=1", "a" * 65, "a@" + "1" * 129, "*", "ä"])
def test_odd_names_are_refused(text: str) -> None:
    with pytest.raises(DependencyRefused):
        Ref.parse(text)


REFS = st.builds(Ref, st.sampled_from(NAMES), st.sampled_from(["", "", *NUMBERS]))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph, cycles and missing ends included."""
    refs = draw(
        st.lists(st.builds(Ref, st.sampled_from(NAMES), st.sampled_from(NUMBERS)), unique=True, max_size=9)
    )
    return Graph(
        Version(
            ref.name,
            ref.version,
            "prompt",
            tuple(draw(st.lists(REFS, max_size=3))),
            tuple(draw(st.lists(st.sampled_from(PRINTS), max_size=2, unique=True))),
            tuple(draw(st.lists(st.sampled_from(MODELS), max_size=1))),
            retired=draw(st.booleans()),
        )
        for ref in refs
    )


CHANGES = st.builds(
    Change,
    st.sampled_from(["register", "retire", "content"]),
    st.builds(Ref, st.sampled_from(NAMES), st.sampled_from(NUMBERS)),
    st.booleans(),
)


def stands_on(
    graph: Graph, one: Version, ends: Callable[[Version, Ref], bool], seen: frozenset[Ref] = frozenset()
) -> bool:
    """Whether some way along what a version depends on ends where it should, written as one would say it."""
    for on in one.depends_on:
        if ends(one, on):
            return True
        below = [graph.versions[on]] if on in graph.versions else [] if on.version else graph.live(on.name)
        if any(other.ref not in seen and stands_on(graph, other, ends, seen | {other.ref}) for other in below):
            return True
    return False


def is_about(graph: Graph, change: Change) -> tuple[set[Ref], bool]:
    """What a change replaces or alters, and whether what depends on the name in any version goes too."""
    one = graph.versions.get(change.ref)
    if change.what == "register":
        others = {other.ref for other in graph.live(change.ref.name) if other.ref != change.ref}
        return (set() if change.beside else others), True
    return (set(), False) if one is None else ({one.ref}, not one.retired)


def expected(graph: Graph, change: Change) -> set[Ref]:
    itself, by_name = is_about(graph, change)

    def ends(_: Version, on: Ref) -> bool:
        return on in itself if on.version else by_name and on.name == change.ref.name

    return itself | {ref for ref, one in graph.versions.items() if stands_on(graph, one, ends)}


@given(graphs(), CHANGES)
def test_what_goes_is_the_closure(graph: Graph, change: Change) -> None:
    assert {one.ref for one in affected(graph, change).versions} == expected(graph, change)


@given(graphs(), CHANGES, CHANGES)
def test_changes_at_once_take_what_each_takes(graph: Graph, one: Change, other: Change) -> None:
    both = took(graph, one, other)
    assert both == took(graph, one) | took(graph, other)


MADES = st.builds(
    Made,
    st.just("00"),
    st.lists(st.sampled_from([*MODELS, "unregistered"]), min_size=1, max_size=2).map(tuple),
    versions=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from([*NUMBERS, UNREGISTERED])), max_size=2
    ).map(tuple),
    prints=st.lists(st.sampled_from([*PRINTS, "ff"]).map(bytes.fromhex), max_size=2).map(tuple),
)


def holders(graph: Graph, carries: Callable[[Version], bool]) -> Iterable[Version]:
    """Whose a text or model is: every live version's that has it, and a retired one's without a live heir."""
    for name in NAMES:
        carriers = [one for one in graph.of(name) if carries(one)]
        alive = [one for one in carriers if not one.retired]
        yield from alive or carriers


def made_with(graph: Graph, made: Made) -> set[Ref]:
    """The versions that an entry depends on."""
    found = {Ref(*pair) for pair in made.versions if Ref(*pair) in graph.versions}
    for digest in made.prints:
        found |= {one.ref for one in holders(graph, functools.partial(_carries, "prints", digest.hex()))}
    for model in made.models:
        found |= {one.ref for one in holders(graph, functools.partial(_carries, "models", model))}
    return found


def _carries(what: str, value: str, one: Version) -> bool:
    return value in getattr(one, what)


def is_hit(graph: Graph, change: Change, made: Made) -> bool:
    """Whether a change concerns an entry, from what it depends on alone."""
    _, by_name = is_about(graph, change)
    gone = expected(graph, change)
    if made_with(graph, made) & gone:
        return True
    unsure = {name for name, number in made.versions if number == UNREGISTERED}
    of_name = {change.ref.name} if by_name else set()
    for name in unsure:
        if any(not one.retired and one.ref in gone for one in graph.of(name)):
            return True
        if name in of_name and graph.of(name):
            return True
    first = change.what == "register" and not graph.of(change.ref.name)
    return first and change.ref.name in dict(made.versions)


def verdict(taken: Affected, made: Made) -> bool:
    index = PurgeIndex()
    index.fold([Purge(1, kind, value, "hard") for kind, value in taken.scopes], 1)
    return index.verdict(made, 0) == "hard"


@given(graphs(), CHANGES, MADES)
def test_an_entry_goes_when_it_is_concerned_and_only_then(graph: Graph, change: Change, made: Made) -> None:
    assert verdict(affected(graph, change), made) == is_hit(graph, change, made)


def _ends_at(graph: Graph, end: Version, _: Version, on: Ref) -> bool:
    return on == end.ref or (not on.version and end in graph.live(on.name))


@given(graphs())
def test_a_cycle_is_found_when_there_is_one(graph: Graph) -> None:
    for one in graph.versions.values():
        path = cycle(graph, one)
        back = stands_on(graph, one, functools.partial(_ends_at, graph, one))
        assert bool(path) == back
        if path:
            assert path[0] == path[-1] == one.ref
            for above, below in itertools.pairwise(path):
                assert graph.versions[below] in list(graph.standing_on(graph.versions[above]))
