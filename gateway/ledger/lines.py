"""What the ledger is told: of each request that was answered, and of each call to a model. No text of either."""

from msgspec import Struct

from policies.ledger import Price, Split, Worth
from policies.types import Json


class Answered(Struct, frozen=True):
    """A request that was answered, well or not.

    Attributes:
        surface: the endpoint's name, as in logs.
        route: name of the route; `-` when none was found.
        provider, model: who answered, or would have been asked; `model` is the provider's name for it.
        source: as in logs: exact, semantic, flight, model or none.
        cache, reason: the word and the reason told to the client.
        usage: as the client saw it.
        took_s: how long the model took when it gave a stored answer.
    """

    request_id: str
    tenant_id: str
    surface: str
    route: str
    provider: str
    model: str
    source: str
    cache: str
    reason: str
    status: int
    stream: bool
    usage: Json | None
    latency_s: float
    ttft_s: float | None
    took_s: float


class Called(Struct, frozen=True):
    """A call to a model whose answer began.

    Attributes:
        route: name of the route.
        label: name of the model's own route, for metrics.
        usage: as the model's server told it; None when it did not, as when the call broke off.
        took_s: how long it took.
    """

    tenant_id: str
    route: str
    provider: str
    model: str
    label: str
    usage: Json | None
    took_s: float


class FeedLine(Struct, frozen=True):
    """One request in the feed, as it waits to be written."""

    at_s: float
    answered: Answered
    layer: str
    worth: Worth | None
    price: Price | None

    @property
    def split(self) -> Split | None:
        """Tokens of the answer; None where nobody told them."""
        return None if self.worth is None else self.worth.split
