"""docs/ledger.md says what the code does: its example, its table, its layers."""

import re
import subprocess
import sys

from policies.ledger import FIGURES, PriceTable, read_price_rows
from policies.ledger.break_even import LIVES_S, break_even
from policies.ledger.report import by_layer
from tests.servers.running_set import ROOT

TIMES = "\N{MULTIPLICATION SIGN}"
TEXT = (ROOT / "docs" / "ledger.md").read_text("utf-8")
TABLE = PriceTable(read_price_rows((ROOT / "policies" / "ledger" / "data" / "prices.json").read_bytes()))


def test_the_worked_example_prints_what_it_says() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    said = [line.partition("  # ")[2] for line in code.splitlines() if "  # " in line]
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == said


def test_the_table_of_writes_is_the_prices_own() -> None:
    price = TABLE.of("claude-sonnet-4-5")
    assert price is not None
    for name, life in (("5 minutes", "5m"), ("1 hour", "1h")):
        found = break_even(price, 1_000, LIVES_S[life])
        write, read = found.write_pico / found.fresh_pico, found.read_pico / found.fresh_pico
        share = f"{found.most_write_share:.1%}".replace("%", " %")
        assert f"| {name} | {write:g} {TIMES} | {read:g} {TIMES} | {found.reads_to_pay} | {share}" in TEXT


def test_every_layer_is_explained() -> None:
    nothing = {"model": dict.fromkeys(FIGURES, 0)}
    for line in by_layer(nothing):
        assert f"`{line.layer}`" in TEXT
