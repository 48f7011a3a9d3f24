"""One request on its way through the gateway."""

from typing import Any

import msgspec

from policies.controls import Controls
from policies.keys import CacheKey
from policies.types import ChatRequest


class Asked(msgspec.Struct, frozen=True):
    """What the edge hands to the pipeline.

    Attributes:
        key_digest: SHA-256 of the API key the request came with.
        request_id: ours, not the client's.
        keys: the request's key per namespace; the pipeline looks here first, and adds what it makes.
    """

    key_digest: bytes
    request: ChatRequest
    controls: Controls
    request_id: str
    keys: dict[tuple[Any, ...], CacheKey]
