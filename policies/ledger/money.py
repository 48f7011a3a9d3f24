"""Money as whole picodollars, so that sums are exact: a dollar per million tokens is a million of them a token."""

from decimal import Decimal, InvalidOperation

PICO = 10**12
"""Picodollars in a dollar."""

_PER_TOKEN = 10**6
_MOST_USD_PER_MTOK = 10_000


def pico_per_token(usd_per_mtok: str | Decimal) -> int:
    """A list price, dollars per million tokens, as picodollars per token.

    Raises:
        ValueError: no number, negative, absurd, or finer than a millionth of a dollar.
    """
    try:
        pico = Decimal(usd_per_mtok) * _PER_TOKEN
    except InvalidOperation:
        raise ValueError(f"{usd_per_mtok!r} is no price") from None
    if not pico.is_finite() or pico != pico.to_integral_value():
        raise ValueError(f"a price has at most 6 decimals, {usd_per_mtok} has more")
    if not 0 <= pico <= _MOST_USD_PER_MTOK * _PER_TOKEN:
        raise ValueError(f"a price is between 0 and {_MOST_USD_PER_MTOK} dollars per million tokens")
    return int(pico)


def usd(pico: int) -> str:
    """Dollars as an exact decimal number, without an exponent and without idle zeros."""
    whole, rest = divmod(abs(pico), PICO)
    decimals = f"{rest:012d}".rstrip("0")
    return f"{'-' if pico < 0 else ''}{whole}{'.' if decimals else ''}{decimals}"
