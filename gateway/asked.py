"""One request on its way through the gateway."""

from dataclasses import dataclass

from policies.controls import Controls
from policies.types import ChatRequest


@dataclass(frozen=True, slots=True)
class Asked:
    """What the edge hands to the pipeline.

    Attributes:
        key_digest: SHA-256 of the API key the request came with.
        request_id: ours, not the client's.
    """

    key_digest: bytes
    request: ChatRequest
    controls: Controls
    request_id: str
