"""The ledger: what each request cost and saved, by layer; whole numbers that add up in any order; pure."""

from policies.ledger.lines import LAYERS, SAVING, Worth, answer_line, call_line, worth_of
from policies.ledger.money import PICO, pico_per_token, usd
from policies.ledger.prices import Price, PriceRow, PriceTable, cost, read_price_rows, worth
from policies.ledger.sums import ANSWERED, CALLED, FIGURES, Key, Sums, Tally, add_answer, add_call, merge, named
from policies.ledger.usage import Split, split

__all__ = [
    "ANSWERED",
    "CALLED",
    "FIGURES",
    "LAYERS",
    "PICO",
    "SAVING",
    "Key",
    "Price",
    "PriceRow",
    "PriceTable",
    "Split",
    "Sums",
    "Tally",
    "Worth",
    "add_answer",
    "add_call",
    "answer_line",
    "call_line",
    "cost",
    "merge",
    "named",
    "pico_per_token",
    "read_price_rows",
    "split",
    "usd",
    "worth",
    "worth_of",
]
