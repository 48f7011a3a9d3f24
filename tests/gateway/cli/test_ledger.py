"""`lamina ledger` and `lamina break-even`, as an operator meets them."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from gateway.db import Batch, Database, LedgerRepository, TenantRepository
from policies.ledger import Key, Price, Split, Sums, add_answer, add_call, answer_line, call_line, worth_of
from tests.gateway.cli.conftest import Lamina

PRICE = Price(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000)
SPLIT = Split(1_000, 0, 0, 0, 50_000, 2_000, 0, 100)


def day_of_traffic(home: Path, tenant: str) -> None:
    """A call, its answer, three hits, and a call to a model that nobody has a price of."""

    async def work() -> None:
        database = Database.open(f"sqlite:///{home}/lamina.db", deadline_s=20)
        tenant_id = (await TenantRepository(database).find(tenant)).tenant_id
        sums: Sums = {}
        today = int(time.time() // 86_400)
        key = Key(today, tenant_id, "m", "up", "claude-sonnet-4-5", "model")
        add_call(sums, key, call_line(SPLIT, PRICE, call_us=900_000))
        add_answer(sums, key, answer_line("model", 200, worth_of(SPLIT, PRICE), 901_000, 0))
        for _ in range(3):
            line = answer_line("exact", 200, worth_of(SPLIT, PRICE), 500, 899_500)
            add_answer(sums, key._replace(layer="exact"), line)
        unpriced = key._replace(provider="engine", model="smollm2")
        add_call(sums, unpriced, call_line(Split(10, 32, 0, 0, 0, 0, 0, 5), None, call_us=5))
        await LedgerRepository(database).add(Batch("w", 1, sums), time.time())
        await database.close()

    asyncio.run(work())


@pytest.fixture
def filled(lamina: Lamina, home: Path) -> Lamina:
    assert lamina("tenants", "create", "acme").status == 0
    assert lamina("tenants", "create", "other").status == 0
    day_of_traffic(home, "acme")
    return lamina


def test_sums_by_layer_and_by_what_is_asked(filled: Lamina) -> None:
    shown = filled("ledger", "--by", "model")
    assert shown.status == 0
    for part in ("4 requests (0 ended badly)", "exact", "provider_read", "claude-sonnet-4-5", "smollm2"):
        assert part in shown.out
    data = json.loads(filled("ledger", "--by", "model", "--by", "layer", "--json").out)
    assert data["totals"]["cost_usd"] == "0.027"
    assert data["totals"]["saved_usd"] == "0.1938"
    assert data["totals"]["unpriced"] == 1
    assert data["unpriced_models"] == ["smollm2"]
    groups = {(one["group"]["model"], one["group"]["layer"]): one["totals"] for one in data["groups"]}
    assert groups["claude-sonnet-4-5", "exact"]["requests"] == 3
    assert groups["smollm2", "model"]["cost_usd"] is None
    layers = {line["layer"]: line for line in data["layers"]}
    assert (layers["prefix_device"]["tokens"], layers["provider_read"]["tokens"]) == (32, 50_000)


def test_one_tenants_and_nobodys(filled: Lamina) -> None:
    assert json.loads(filled("ledger", "--tenant", "acme", "--json").out)["totals"]["requests"] == 4
    nothing = json.loads(filled("ledger", "--tenant", "other", "--json").out)
    assert nothing["totals"]["requests"] == 0
    assert nothing["totals"]["cost_usd"] == "0"
    assert filled("ledger", "--tenant", "other", "--by", "day").status == 0
    missing = filled("ledger", "--tenant", "nobody")
    assert missing.status == 1
    assert "lamina tenants list" in missing.err


def test_what_caches_did_and_which_lever_pays(filled: Lamina) -> None:
    caches = json.loads(filled("ledger", "--show", "caches", "--json").out)["caches"]
    use = {line["provider"]: line for line in caches}
    assert (use["up"]["use"]["reads"], use["up"]["owner"]) == (50_000, "provider")
    assert use["up"]["use"]["write_share"] == pytest.approx(2_000 / 52_000)
    assert use["up"]["most_write_share"] == pytest.approx(0.7826, abs=1e-4)
    assert (use["engine"]["use"]["reads"], use["engine"]["owner"]) == (32, "engine")
    assert "pays below 78.3 %" in filled("ledger", "--show", "caches").out
    levers = json.loads(filled("ledger", "--show", "levers", "--json").out)["levers"]
    assert [lever["name"] for lever in levers[:2]] == ["provider prompt cache and prompt layout", "exact"]
    assert "unknown" in filled("ledger", "--show", "levers").out


def test_break_even_of_the_worked_example(lamina: Lamina) -> None:
    told = lamina("break-even", "--model", "claude-sonnet-4-5", "--tokens", "50000", "--questions", "1000")
    assert told.status == 0
    assert "89.9 % less" in told.out
    data = json.loads(
        lamina(
            "break-even", "--model", "claude-sonnet-4-5", "--tokens", "50000", "--questions", "1000", "--json"
        ).out
    )
    hour = data["lives"]["5m"]["an_hour"]["evenly"]
    assert (hour["with_usd"], hour["without_usd"]) == ("15.1725", "150")
    assert data["source"].startswith("https://")
    unknown = lamina("break-even", "--model", "nobody-knows", "--tokens", "5")
    assert (unknown.status, unknown.err.count("\n")) == (1, 1)
    assert "ledger.prices" in unknown.err


def test_prices_of_the_settings_come_first(lamina: Lamina, monkeypatch: pytest.MonkeyPatch) -> None:
    prices = {"llama-*": {"input": "1", "output": "2", "cache_read": 0.5}}
    monkeypatch.setenv("LAMINA_LEDGER__PRICES", json.dumps(prices))
    told = json.loads(lamina("break-even", "--model", "meta/llama-3", "--tokens", "1000000", "--json").out)
    assert (told["lives"]["5m"]["fresh_usd"], told["lives"]["5m"]["read_usd"]) == ("1", "0.5")
    monkeypatch.setenv("LAMINA_LEDGER__PRICES", json.dumps({"llama": {"input": "-1", "output": "2"}}))
    refused = lamina("break-even", "--model", "llama", "--tokens", "5")
    assert refused.status == 1
    assert "ledger" in refused.err
