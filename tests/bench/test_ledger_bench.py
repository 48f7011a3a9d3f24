"""The ledger agrees with clients, upstream and metrics over a real set; the bench itself asks 10,000 times."""

import json
import subprocess
import sys

import pytest

from bench.ledger.load import plan
from bench.ledger.upstream import usage_of
from policies.ledger import split
from tests.servers.running_set import ROOT


def test_the_plan_holds_every_kind_of_request() -> None:
    asks = plan(3_000, ["a", "b"], 1)
    assert len(asks) == 3_000
    kinds = {ask.text.partition(" ")[0] for ask in asks}
    assert kinds == {"plain", "silent", "error", "cut", "slow"}
    assert (
        {ask.anthropic for ask in asks}
        == {ask.stream for ask in asks}
        == {ask.store for ask in asks}
        == {True, False}
    )
    assert any(ask.leaves for ask in asks)
    assert {ask.tenant for ask in asks} == {"a", "b", "nobody"}


def test_usages_are_of_every_form_and_the_same_each_time() -> None:
    parts = [split(usage_of(number), engine=False) for number in range(200)]
    assert all(one is not None for one in parts)
    assert any(one.read and one.written for one in parts if one is not None)
    assert any(not one.read and not one.written for one in parts if one is not None)
    assert usage_of(7) == usage_of(7)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_ledger_agrees_with_everybody() -> None:
    command = [sys.executable, "-m", "bench.ledger", "--requests", "600", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=380, check=False)
    report = json.loads(done.stdout)
    assert report["differences"] == []
    assert done.returncode == 0
    assert {"exact", "coalesced", "model", "none"} <= report["layers"].keys()
