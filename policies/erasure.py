"""The proof of an erasure: what was looked at, found and removed, signed so that nobody can make one up."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

FORMAT = 2


@dataclass(frozen=True, slots=True)
class StoreProof:
    """What was done in one store.

    Attributes:
        looked_at: how many things were looked at.
        found, removed: of those, what had to go, and what went.
        left: what a second look found after it; 0 in a store that is clean, None where one could not look.
        note: what an operator has to know, or do.
    """

    store: str
    looked_at: int
    found: int
    removed: int
    left: int | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What an erasure did, without anybody's words or names, or a digest that tells whether a guess was right.

    Attributes:
        scope: `tenant` or `user`.
        auth_seq, purge_seq: the tenant's sequences from which on nothing older is served.
        announced: whether every worker was told at once; else each followed when it next read the database.
        keys_destroyed: ids of the data keys that can be opened no more.
    """

    erasure_id: str
    scope: str
    tenant_id: str
    actor: str
    begun_at: float
    ended_at: float
    auth_seq: int
    purge_seq: int
    announced: bool
    keys_destroyed: tuple[str, ...]
    stores: tuple[StoreProof, ...] = field(default=())

    @property
    def complete(self) -> bool:
        """Whether the second look found every store clean."""
        return bool(self.stores) and all(store.left == 0 for store in self.stores)

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"format": FORMAT, **asdict(self), "complete": self.complete}


def merged(store: str, rounds: Sequence[StoreProof]) -> StoreProof:
    """Several goes at one store as one; the last look counts."""
    notes = dict.fromkeys(one.note for one in rounds if one.note and (one.left is not None or one is rounds[-1]))
    return StoreProof(
        store,
        max(one.looked_at for one in rounds),
        sum(one.found for one in rounds),
        sum(one.removed for one in rounds),
        rounds[-1].left,
        "; ".join(notes),
    )


def signature(key: bytes, report: Mapping[str, Any]) -> str:
    """HMAC-SHA256 of the report as JSON with sorted keys, hexadecimal."""
    return hmac.digest(key, orjson.dumps(report, option=orjson.OPT_SORT_KEYS), hashlib.sha256).hex()


def is_signed(key: bytes, report: Mapping[str, Any], signed: str) -> bool:
    """Whether a report is what was signed."""
    return hmac.compare_digest(signature(key, report).encode(), signed.encode("utf-8", "replace"))
