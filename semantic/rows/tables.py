"""The columns of the gateway's tables that the service reads, and the one table it writes.

The gateway's migrations make them. A row's number never returns; `changed` is the number of the change that the
row is the state after, and numbers become visible in their order.
"""

from sqlalchemy import BigInteger, Column, Double, LargeBinary, MetaData, PrimaryKeyConstraint, String, Table, Text

_METADATA = MetaData()

COUNTERS = Table(
    "counters",
    _METADATA,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger),
)
"""`semantic`: the last change; `semantic_pruned`: deletions up to here are no longer told."""

ROWS = Table(
    "semantic_rows",
    _METADATA,
    Column("row", BigInteger, primary_key=True),
    Column("tenant_id", String(32)),
    Column("family", LargeBinary(32)),
    Column("partition", LargeBinary(32)),
    Column("question", LargeBinary),
    Column("created_at", Double),
    Column("state", String(16)),
    Column("changed", BigInteger),
)

DATA_KEYS = Table(
    "data_keys",
    _METADATA,
    Column("id", String(32), primary_key=True),
    Column("tenant_id", String(32)),
    Column("wrapped", LargeBinary),
    Column("master_id", String(16)),
)
"""`wrapped` is null once a key is destroyed."""

DELETIONS = Table(
    "semantic_deletions",
    _METADATA,
    Column("changed", BigInteger, primary_key=True),
    Column("row", BigInteger),
)

VECTORS = Table(
    "semantic_vectors",
    _METADATA,
    Column("row", BigInteger),
    Column("models", Text),
    Column("vector", LargeBinary),
    PrimaryKeyConstraint("row", "models"),
)
