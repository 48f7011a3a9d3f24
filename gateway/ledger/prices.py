"""The price table of a set: its own prices, then the list prices."""

from pathlib import Path

from gateway.settings import Settings
from policies import ledger as policies_ledger
from policies.ledger import PriceTable, read_price_rows

PRICES = Path(policies_ledger.__file__).parent / "data" / "prices.json"


def price_table(settings: Settings) -> PriceTable:
    """The prices of the settings, then the list prices."""
    own = [price.row(model) for model, price in settings.ledger.prices.items()]
    return PriceTable([*own, *read_price_rows(PRICES.read_bytes())])


def engines_of(settings: Settings) -> frozenset[str]:
    """Names of providers whose prefix cache is one's own."""
    named = {name for name, provider in settings.providers.items() if provider.kind == "engine"}
    return frozenset(named | {"engine"})
