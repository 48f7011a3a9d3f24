"""The tables of the ledger; part of the same metadata as `tables.py`."""

from sqlalchemy import BigInteger, Column, Double, PrimaryKeyConstraint, String, Table, Text

from gateway.db.tables import METADATA
from policies.ledger import FIGURES

LEDGER = Table(
    "ledger",
    METADATA,
    Column("day", String(10), nullable=False),
    Column("tenant_id", String(32), nullable=False),
    Column("route", Text, nullable=False),
    Column("provider", String(64), nullable=False),
    Column("model", Text, nullable=False),
    Column("layer", String(16), nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in FIGURES),
    PrimaryKeyConstraint("day", "tenant_id", "route", "provider", "model", "layer"),
)

LEDGER_FLUSHES = Table(
    "ledger_flushes",
    METADATA,
    Column("worker", String(32), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
    PrimaryKeyConstraint("worker"),
)
