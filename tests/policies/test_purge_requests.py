"""Purges as asked for: read into rows of the log, or refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.purge_requests import ASKED_KINDS, PurgeRefused, Scope, groups_header, read_scope
from policies.purge_scopes import PURGE_KINDS, Purge, named

NOW_S = 1_796_000_000.0
ID = "ab" * 32


@pytest.mark.parametrize(
    ("kind", "value", "scope"),
    [
        ("tenant", "", Scope("all", "")),
        ("all", "", Scope("all", "")),
        ("entry", ID.upper(), Scope("key", ID)),
        ("key", ID, Scope("key", ID)),
        ("tag", "prices, new", Scope("tag", "prices, new")),
        ("user", "u@example.org", Scope("user", "u@example.org")),
        ("session", "s", Scope("session", "s")),
        ("model", "up/m", Scope("model", "up/m")),
        ("route", "m", Scope("route", "m")),
        ("version", "kb=7", Scope("version", "kb=7")),
        ("version", "kb=a=b<2", Scope("version", "kb=a=b<2")),
        ("version", "kb=*", Scope("versions", "kb=*")),
        ("version", "kb<7", Scope("versions", "kb<7")),
        ("version", "kb<v1.10", Scope("versions", "kb<v1.10")),
        ("age", "30d", Scope("age", f"{NOW_S - 30 * 86400:.3f}")),
        ("age", "90S", Scope("age", f"{NOW_S - 90:.3f}")),
        ("age", "2026-11-30T08:00:00Z", Scope("age", "1796025600.000")),
        ("age", "2026-11-30T08:00:00+02:00", Scope("age", "1796018400.000")),
    ],
)
def test_what_is_asked_is_what_the_log_says(kind: str, value: str, scope: Scope) -> None:
    now_s = NOW_S + 86400
    expected = scope if kind != "age" or "T" in value else Scope("age", f"{float(scope.value) + 86400:.3f}")
    assert read_scope(kind, value, now_s) == expected
    assert scope.kind in PURGE_KINDS


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        ("tenant", "x", "value"),
        ("entry", "", "value"),
        ("entry", "ab", "value"),
        ("tag", "", "value"),
        ("version", "kb", "value"),
        ("version", "=7", "value"),
        ("version", "kb=", "value"),
        ("version", "kb<", "value"),
        ("version", "kb<next", "value"),
        ("version", "<7", "value"),
        ("age", "soon", "value"),
        ("age", "7", "value"),
        ("age", "2026-11-30T08:00:00", "value"),
        ("age", "2036-11-30T08:00:00Z", "value"),
        ("meaning", "refunds", "kind"),
        ("planet", "x", "kind"),
    ],
)
def test_what_could_match_nothing_is_refused(kind: str, value: str, field: str) -> None:
    with pytest.raises(PurgeRefused) as refused:
        read_scope(kind, value, NOW_S)
    assert refused.value.field == field


@given(st.sampled_from(ASKED_KINDS), st.text(max_size=12) | st.sampled_from(["kb<7", "k=*", "3d", ID]))
def test_whatever_is_let_through_is_understood_by_the_index(kind: str, value: str) -> None:
    try:
        scope = read_scope(kind, value, NOW_S)
    except PurgeRefused:
        return
    told = named(Purge(1, scope.kind, scope.value, "hard"))
    assert scope.kind == "all" or told != named(Purge(1, "all", "", "hard"))


def test_the_field_lists_the_tags() -> None:
    scopes = [
        Scope("tag", 'say "hi"'),
        Scope("key", ID),
        Scope("tag", "a\\b"),
        Scope("tag", "über"),
        Scope("tag", 'say "hi"'),
    ]
    assert groups_header(scopes) == '"say \\"hi\\"", "a\\\\b"'
    assert groups_header([Scope("all", "")]) == ""
