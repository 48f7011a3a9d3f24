"""One request to the administrator's routes, as the surface and the routes share it."""

from dataclasses import dataclass
from typing import ClassVar

from gateway.http.admin.caller import Caller
from gateway.http.admin.once import Once


@dataclass(slots=True)
class AdminAsk:
    """What is known of a request before it is routed, and what its log event shall say.

    Attributes:
        caller: whom Access let in.
        body: the decoded body, strictly parsed JSON or empty.
        once: what an `Idempotency-Key` is kept by.
        route: name of the route, once known.
        reason: code of the error, once there is one.
    """

    IN_SCOPE: ClassVar[str] = "lamina.ask"

    caller: Caller
    body: bytes
    once: Once
    route: str = "admin"
    reason: str = "-"
