"""What a wire protocol over the neutral chat must be able to do; pure. DIALECTS lists those we speak.

Contract test: tests/gateway/protocols/test_dialects.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from policies.types import ChatRequest, ChatResponse, Json

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Names in lower case, values as they came."""


class Events(Protocol):
    """One answer as a stream of events, in the protocol's own order; holds state for one answer."""

    def chunks(self, batch: Sequence[Json]) -> bytes:
        """The events of neutral chunks as they come; may be empty."""
        ...

    def replay(self, response: ChatResponse) -> bytes:
        """The events of a whole answer, cut where it was cut when it first came."""
        ...

    def failed(self, status: int, body: Mapping[str, Any], request_id: str) -> bytes:
        """The event that ends a stream which cannot go on; `body` is a neutral error body."""
        ...

    def end(self) -> bytes:
        """What closes a stream that is whole."""
        ...


class Dialect(Protocol):
    """One protocol's requests, answers and errors.

    Attributes:
        id_prefix: of the ids of answers.
        keeps_stream_ids: whether a model's stream may go out under the id that its server gave it; else every
            stream gets one of ours, for the upstream's own would look foreign.
        read_with: names of the headers that `read` looks at, besides the body.
    """

    id_prefix: str
    keeps_stream_ids: bool
    read_with: tuple[bytes, ...]

    def read(self, body: Any, headers: RawHeaders, max_n: int) -> ChatRequest:
        """The neutral request of a strictly parsed body.

        Args:
            body: any JSON value.
            headers: for protocols that say their version in one.
            max_n: largest number of answers allowed.

        Raises:
            ApiError: 400 that names the field.
        """
        ...

    def whole(self, response: ChatResponse, answer_id: str, created: int, model: str) -> bytes:
        """A whole answer as its body."""
        ...

    def events(self, answer_id: str | None, created: int, *, model: str, include_usage: bool) -> Events:
        """A stream; under this id, or under the upstream's own when None."""
        ...

    def error(self, status: int, body: Mapping[str, Any], request_id: str) -> bytes:
        """A neutral error body (OpenAI's shape) in the protocol's own shape."""
        ...
