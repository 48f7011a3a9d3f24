"""One model call: what is asked, of whom, and where the answer may be kept."""

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.asked import Asked, Audit
from gateway.routes import Route
from policies.controls import Controls
from policies.fingerprints import NOTHING_KNOWN, Known
from policies.keys import CacheKey
from policies.questions import Place
from policies.types import ChatResponse


class Shelf(Protocol):
    """Writes an entry, unless the lease of its call was lost."""

    @property
    def held(self) -> bool:
        """Whether this worker may believe that it holds the lease."""
        ...

    def write(self, tenant_id: str, digest_hex: str, value: bytes, keep_s: float) -> "asyncio.Future[Any] | None":
        """See ExactLayer.write; the reply is 0 when nothing was written, since the lease was lost."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """One model call.

    Attributes:
        key: where the answer may be stored; None stores nothing.
        as_of: the tenant's purge sequence before the call.
        prefix_epoch: the tenant's, see PurgeIndex.
        place: where the question may be compared by meaning; None stores no row.
        audit: what the answer is to be compared with, or None.
        known: the tenant's registered versions, as of `as_of`.
        before: the stored answer whose place this one takes, or None.
        shelf: where the answer is written as long as this worker holds the call's lease; None where it has none.
    """

    asked: Asked
    tenant_id: str
    route: Route
    key: CacheKey | None
    controls: Controls
    as_of: int
    prefix_epoch: int = 0
    place: Place | None = None
    audit: Audit | None = None
    shelf: Shelf | None = None
    before: ChatResponse | None = None
    known: Known = NOTHING_KNOWN
