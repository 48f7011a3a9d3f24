"""POST /v1/feedback: what a user says of an answer."""

import msgspec

from gateway.errors import ApiError
from gateway.feedback import Feedback
from gateway.http.asgi import JSON, Receive, Scope, Send, read_body, send_whole
from gateway.http.edge import bearer_digest, new_id
from gateway.http.reply import cors, id_headers
from gateway.pipeline import Pipeline
from policies.strict_json import StrictJsonError, loads

_MAX_BYTES = 16 << 10
_RECEIVE_S = 10.0
_FIELDS = {"id", "verdict", "note"}


class FeedbackSurface:
    """Takes {"id": …, "verdict": "wrong" or "right", "note": …}; the note is nobody's to keep and is dropped."""

    def __init__(self, pipeline: Pipeline, feedback: Feedback) -> None:
        self._pipeline = pipeline
        self._feedback = feedback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers with what was done.

        Raises:
            ApiError: 400, 401, 404 or 503.
        """
        headers = scope["headers"]
        digest = bearer_digest(headers)
        await self._pipeline.recognise(digest)
        raw = await read_body(receive, headers, _MAX_BYTES, _RECEIVE_S)
        id_, verdict = _read(raw)
        principal = await self._pipeline.authenticate(digest)
        done = await self._feedback.take(principal, digest, id_, verdict)
        origin = next((value for name, value in headers if name == b"origin"), None)
        start = [JSON, *id_headers(new_id("req_")), *cors(origin)]
        await send_whole(send, 200, start, msgspec.json.encode(done))


def _read(raw: bytes) -> tuple[str, str]:
    try:
        body = loads(raw)
    except StrictJsonError as error:
        raise ApiError(400, f"Bad request body: {error}.", code="invalid_json") from None
    unknown = sorted(body.keys() - _FIELDS)
    if unknown:
        raise ApiError(400, f"There is no field {unknown[0][:80]!r} in feedback.", code="unknown_field")
    id_, verdict = body.get("id"), body.get("verdict")
    if not isinstance(id_, str) or not id_:
        raise ApiError(400, "Say which answer: `id` is its X-Lamina-Cache-Id.", code="missing_id", param="id")
    if verdict not in ("wrong", "right"):
        raise ApiError(400, "`verdict` is `wrong` or `right`.", code="bad_verdict", param="verdict")
    return id_, verdict
