"""`Cache-Status` is a structured field with the parameters of RFC 9211, whatever was decided."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.cache_status import CACHE_NAME, Word, of_forward, of_hit, with_outcome
from policies.decide import Bypass, Hit, Miss, Stale

TOKEN = r"[A-Za-z*][!#$%&'*+\-.^_`|~A-Za-z0-9:/]*"
MEMBER = re.compile(rf"({TOKEN})((?:; *[a-z*][a-z0-9_\-.*]*(?:=[^;]+)?)*)")
PARAMETER = re.compile(r"; *([a-z*][a-z0-9_\-.*]*)(?:=([^;]+))?")
FORWARD_REASONS = {"bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"}


def parse(value: str) -> dict[str, str | int | bool]:
    """One member of an RFC 9651 list: its name, then parameters, each of the type that RFC 9211 §2 gives it."""
    member = MEMBER.fullmatch(value)
    assert member is not None, value
    assert member[1] == CACHE_NAME
    found: dict[str, str | int | bool] = {}
    for name, raw in PARAMETER.findall(member[2]):
        assert name not in found
        if raw == "":
            found[name] = True
        elif re.fullmatch(r"-?[0-9]{1,15}", raw):
            found[name] = int(raw)
        else:
            assert re.fullmatch(TOKEN, raw), raw
            found[name] = raw
    types: dict[str, type] = {"hit": bool, "fwd": str, "fwd-status": int, "ttl": int, "stored": bool}
    types |= {"collapsed": bool, "detail": str}
    for name, kind in found.items():
        assert type(kind) is types[name], name
    assert ("hit" in found) != ("fwd" in found)
    assert found.get("fwd", "miss") in FORWARD_REASONS
    return found


MISS_REASONS = [
    "absent", "request", "store_unavailable", "corrupt", "observe", "clock", "purged", "max_age", "min_fresh",
    "soft_purged", "expired",
]  # fmt: skip
BYPASS_REASONS = ["off", "live_data", "transfer", "diagnostics", "prewarm", "request"]


@given(st.floats(0, 1e9), st.floats(-1e9, 1e9), st.sampled_from(["exact", "semantic"]))
def test_hits(age_s: float, ttl_s: float, layer: str) -> None:
    status = of_hit(Hit(age_s, abs(ttl_s)), layer)
    assert (status.word, parse(status.value)) == ("HIT", {"hit": True, "ttl": int(abs(ttl_s)), "detail": layer})
    for reason in ("max_stale", "soft_purged"):
        stale = of_hit(Stale(age_s, -abs(ttl_s), reason), layer)
        expected = {"hit": True, "ttl": -int(abs(ttl_s)), "detail": f"{layer}-{reason}"}
        assert (stale.word, parse(stale.value)) == ("STALE", expected)


@pytest.mark.parametrize(
    ("reason", "word", "fwd"),
    [
        ("absent", "MISS", "uri-miss"),
        ("request", "REFRESH", "request"),
        ("expired", "MISS", "stale"),
        ("max_age", "MISS", "stale"),
        ("min_fresh", "MISS", "stale"),
        ("soft_purged", "MISS", "stale"),
        ("purged", "MISS", "miss"),
        ("corrupt", "MISS", "miss"),
        ("clock", "MISS", "miss"),
        ("observe", "MISS", "miss"),
        ("store_unavailable", "MISS", "miss"),
    ],
)
def test_misses(reason: str, word: str, fwd: str) -> None:
    status = of_forward(Miss(reason))
    found = parse(status.value)
    assert (status.word, found["fwd"]) == (word, fwd)
    assert found.get("detail", reason) == reason


@pytest.mark.parametrize("reason", BYPASS_REASONS)
def test_bypasses(reason: str) -> None:
    status = of_forward(Bypass(reason))
    assert status.word == ("OFF" if reason == "off" else "BYPASS")
    assert parse(status.value) == {"fwd": "bypass", "detail": reason}


@pytest.mark.parametrize("decision", [*map(Miss, MISS_REASONS), *map(Bypass, BYPASS_REASONS)])
@pytest.mark.parametrize("stored", [None, False, True])
@pytest.mark.parametrize("collapsed", [False, True])
def test_what_the_answer_adds(decision: Miss | Bypass, stored: bool | None, collapsed: bool) -> None:
    status = of_forward(decision)
    assert status.word in get_args(Word)
    found = parse(with_outcome(status, 200, stored=stored, collapsed=collapsed))
    assert found.pop("fwd-status") == 200
    assert found.pop("stored", False) is bool(stored)
    assert found.pop("collapsed", False) is collapsed
    assert found == parse(status.value)
