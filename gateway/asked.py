"""One request on its way through the gateway."""

from typing import Any

import msgspec

from policies.budget import Explore
from policies.controls import Controls
from policies.keys import CacheKey
from policies.nomination import Candidate
from policies.types import ChatRequest, ChatResponse


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


class Audit(msgspec.Struct, frozen=True):
    """A stored answer that the model's is to be compared with, since the error budget asks for it.

    Attributes:
        route: name of the route.
        candidate: as the service nominated it.
        models: fingerprint under which it did.
        decision: why the model is asked, and how the draw was made.
        stored: the answer that would have been served.
    """

    tenant_id: str
    route: str
    candidate: Candidate
    models: str
    decision: Explore
    stored: ChatResponse
