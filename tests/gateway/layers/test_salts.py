"""Salts: one per tenant and epoch, the same in every worker, foreign to every other."""

import pytest

from gateway.layers import salts
from gateway.layers.salts import Salts

SECRET = b"s" * 40


def test_a_salt_depends_on_secret_tenant_and_both_epochs() -> None:
    one = Salts(SECRET, "0")
    others = {
        one.of("a", 0),
        one.of("a", 1),
        one.of("b", 0),
        Salts(SECRET, "1").of("a", 0),
        Salts(b"t" * 40, "0").of("a", 0),
    }
    assert len(others) == 5
    assert all(len(salt) == 32 and int(salt, 16) >= 0 for salt in others)


def test_another_worker_of_the_set_derives_the_same() -> None:
    assert Salts(SECRET, "0").of("a", 3) == Salts(SECRET, "0").of("a", 3)


def test_what_is_remembered_is_bounded_and_of_the_latest_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(salts, "_MAX_SALTS", 2)
    kept = Salts(SECRET, "0")
    first = kept.of("a", 0)
    assert kept.of("a", 1) != first
    assert kept.of("a", 1) == Salts(SECRET, "0").of("a", 1)
    for tenant in "bcd":
        kept.of(tenant, 0)
    assert len(kept._known) <= 2
    assert kept.of("a", 0) == first
