"""Which versions stand on which, and what a change takes with it: everything above it, and nothing beside it.

A version names what it depends on: `kb@7` is that version, `kb` whichever of its versions is live. An entry
depends on the versions that its request names, and on those whose text, tool or model it was made with.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Self

from policies.fingerprints import UNREGISTERED, Known, Template

KINDS = ("prompt", "tools", "knowledge_base", "policy", "model", "adapter")
MAX_DEPENDENCIES = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,127}")

What = Literal["register", "retire", "content"]


class DependencyRefused(ValueError):  # noqa: N818  (a state)
    """The graph would make no sense; `reason` is `invalid`, `unknown`, `cycle` or `taken`."""

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Ref:
    """A name, in one version or, when that is empty, in whichever are live."""

    name: str
    version: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `name` or `name@version`.

        Raises:
            DependencyRefused: invalid.
        """
        name, at, version = text.partition("@")
        if not _NAME.fullmatch(name):
            raise DependencyRefused("invalid", f"{text[:80]!r} is no name: 1 to 64 of A-Z a-z 0-9 . _ : -")
        if at and not _VERSION.fullmatch(version):
            raise DependencyRefused("invalid", f"{text[:80]!r} is no version: 1 to 128 of A-Z a-z 0-9 . _ : + -")
        return cls(name, version)

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name


@dataclass(frozen=True, slots=True)
class Version:
    """A registered version.

    Attributes:
        kind: one of KINDS; the same for all versions of a name.
        prints: digests (hex) of the texts and tools by which requests carry it; see policies.fingerprints.
        models: names of the models that are it.
        templates: texts with placeholders by which requests carry it, as segments.
        content: what else it is: a digest, a date, a snapshot's number.
        retired: whether it was replaced or given up.
        shared: whether it is registered for every tenant.
    """

    name: str
    version: str
    kind: str
    depends_on: tuple[Ref, ...] = ()
    prints: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    templates: tuple[tuple[str, ...], ...] = ()
    content: str = ""
    retired: bool = False
    shared: bool = False

    @property
    def ref(self) -> Ref:
        """Its name in its version."""
        return Ref(self.name, self.version)

    def same_content(self, other: "Version") -> bool:
        """Whether both are made of the same."""
        return _made_of(self) == _made_of(other)


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to a version.

    Attributes:
        what: `register`: it is new, or live again; `retire`; `content`: it is another thing under the same name.
        beside: of a registration, whether the versions that are live stay so.
    """

    what: What
    ref: Ref
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Affected:
    """What a change takes.

    Attributes:
        versions: those whose entries go: what is changed, and what stands on it.
        scopes: (kind, value) of the purges that take them.
    """

    versions: tuple[Version, ...]
    scopes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Registration:
    """What a registration comes to.

    Attributes:
        outcome: `registered` for a new version; `changed` when it is made of other things than before; `live` when
            it was retired, or is now the only live one; `linked` when it depends on others; else `unchanged`.
        after: the graph with it.
    """

    outcome: str
    changes: tuple[Change, ...]
    after: "Graph"


class Graph:
    """The versions of one tenant and those of all."""

    def __init__(self, versions: Iterable[Version]) -> None:
        self.versions: dict[Ref, Version] = {one.ref: one for one in versions}
        self._by_name: dict[str, list[Version]] = {}
        for one in self.versions.values():
            self._by_name.setdefault(one.name, []).append(one)

    def of(self, name: str) -> tuple[Version, ...]:
        """Every version of a name."""
        return tuple(self._by_name.get(name, ()))

    def live(self, name: str) -> tuple[Version, ...]:
        """The versions of a name that are not retired."""
        return tuple(one for one in self._by_name.get(name, ()) if not one.retired)

    def with_version(self, added: Version, *, beside: bool) -> "Graph":
        """The graph after a registration; the others of the name are retired unless they stay beside it."""
        kept = (
            _retired(one) if one.name == added.name and not beside else one
            for ref, one in self.versions.items()
            if ref != added.ref
        )
        return Graph((*kept, added))

    def known(self) -> Known:
        """What a worker needs of it."""
        templates = tuple(
            Template(one.name, one.version, segments, one.retired)
            for one in self.versions.values()
            for segments in one.templates
        )
        names = {name: frozenset(one.version for one in of) for name, of in self._by_name.items()}
        return Known(names, templates)

    def standing_on(self, one: Version) -> Iterator[Version]:
        """What a version depends on, directly."""
        for ref in one.depends_on:
            if ref.version:
                if ref in self.versions:
                    yield self.versions[ref]
            else:
                yield from self.live(ref.name)


def registration(graph: Graph, added: Version, *, beside: bool) -> Registration:
    """What happens when a version is registered, perhaps again.

    Raises:
        DependencyRefused: see `check`.
    """
    before = graph.versions.get(added.ref)
    after = graph.with_version(added, beside=beside)
    check(after, added)
    changes: list[Change] = []
    outcome = "unchanged" if before is not None and set(before.depends_on) == set(added.depends_on) else "linked"
    replaces = not beside and any(one.ref != added.ref for one in graph.live(added.name))
    if before is None or before.retired or replaces:
        changes.append(Change("register", added.ref, beside))
        outcome = "registered" if before is None else "live"
    if before is not None and not before.same_content(added):
        changes.append(Change("content", added.ref))
        outcome = "changed"
    return Registration(outcome, tuple(changes), after)


def check(graph: Graph, added: Version) -> None:
    """Accepts a version for a graph that has it and, unless they stay, has the others of its name retired.

    Raises:
        DependencyRefused: something is not registered, is of another kind, or would stand on itself.
    """
    if added.kind not in KINDS:
        raise DependencyRefused("invalid", f"a kind is {', '.join(KINDS)}")
    if len(added.depends_on) > MAX_DEPENDENCIES:
        raise DependencyRefused("invalid", f"at most {MAX_DEPENDENCIES} dependencies")
    for other in graph.of(added.name):
        if other.kind != added.kind:
            raise DependencyRefused("taken", f"{added.name} is registered as {other.kind}")
    for ref in added.depends_on:
        if ref not in graph.versions and not graph.of(ref.name):
            raise DependencyRefused("unknown", f"{ref} is not registered; register it first")
        if ref.version and ref not in graph.versions:
            raise DependencyRefused("unknown", f"{ref.name} has no version {ref.version}")
    path = cycle(graph, added)
    if path:
        raise DependencyRefused("cycle", "it would depend on itself: " + " -> ".join(str(ref) for ref in path))


def cycle(graph: Graph, start: Version) -> tuple[Ref, ...]:
    """The shortest way from a version back to itself along what it depends on; empty when there is none."""
    came_from: dict[Ref, Ref] = {}
    edge = [start]
    while edge:
        further: list[Version] = []
        for one in edge:
            for below in graph.standing_on(one):
                if below.ref == start.ref:
                    return (*_path(came_from, start.ref, one.ref), start.ref)
                if below.ref not in came_from:
                    came_from[below.ref] = one.ref
                    further.append(below)
        edge = further
    return ()


def affected(graph: Graph, *changes: Change) -> Affected:
    """What goes with changes made at once: the versions they replace or alter, and all that stand on them.

    Whatever depends on a name in any version goes with each change of a version that is live: it may have been
    made with that one.

    Args:
        graph: before the changes.
        changes: what happens.
    """
    found: dict[Ref, Version] = {}
    names: set[str] = set()
    for change in changes:
        versions, whichever = _seeds(graph, change)
        found.update(versions)
        names.update(whichever)
    while True:
        more = [
            one
            for ref, one in graph.versions.items()
            if ref not in found and any(on in found if on.version else on.name in names for on in one.depends_on)
        ]
        if not more:
            break
        found.update((one.ref, one) for one in more)
        names.update(one.name for one in more if not one.retired)
    return Affected(tuple(found.values()), tuple(dict.fromkeys(_scopes(graph, found.values(), names))))


def _seeds(graph: Graph, change: Change) -> tuple[dict[Ref, Version], set[str]]:
    """The versions that a change is about, and the names of which one that may be in use has changed."""
    one = graph.versions.get(change.ref)
    if change.what == "register":
        others = () if change.beside else graph.live(change.ref.name)
        return {other.ref: other for other in others if other is not one}, {change.ref.name}
    if one is None:
        return {}, set()
    return {one.ref: one}, set() if one.retired else {one.name}


def _scopes(graph: Graph, versions: Iterable[Version], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in sorted(names):
        known = graph.of(name)
        yield ("version", f"{name}={UNREGISTERED}") if known else ("versions", f"{name}=*")
    for one in versions:
        yield "version", f"{one.name}={one.version}"
        for kind, value in _carriers(one):
            # what a retired version shares with a live one of its name is the live one's: older entries went when
            # it was retired
            heirs = graph.live(one.name) if one.retired else ()
            if not any((kind, value) in _carriers(heir) for heir in heirs):
                yield kind, value


def _carriers(one: Version) -> list[tuple[str, str]]:
    return [("print", value) for value in one.prints] + [("model", value) for value in one.models]


def _made_of(one: Version) -> tuple[object, ...]:
    return set(one.prints), set(one.models), set(one.templates), one.content


def _retired(one: Version) -> Version:
    if one.retired:
        return one
    parts = (one.depends_on, one.prints, one.models, one.templates, one.content)
    return Version(one.name, one.version, one.kind, *parts, retired=True, shared=one.shared)


def _path(came_from: dict[Ref, Ref], start: Ref, end: Ref) -> list[Ref]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]
