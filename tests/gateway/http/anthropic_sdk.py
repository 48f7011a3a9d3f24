"""The official Anthropic SDK over a test gateway, and what both protocols say of one answer."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anthropic

from tests.gateway.http.wire import Pair, Reply, ask
from tests.gateway.stand import KEY, Stand

MESSAGES = "/v1/messages"
OLD, NEW = ("anthropic-version", "2023-06-01"), ("anthropic-version", "2026-10-21")


@contextlib.asynccontextmanager
async def claude(it: Stand, key: str = KEY, **options: Any) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """The async client, no retries."""
    async with anthropic.AsyncAnthropic(api_key=key, base_url=it.url, max_retries=0, **options) as client:
        yield client


def told(text: str, **fields: Any) -> dict[str, Any]:
    """A Messages body with one user message."""
    return {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": text}], **fields}


async def post(it: Stand, body: Any, *headers: Pair, key: str | None = KEY, path: str = MESSAGES) -> Reply:
    """One raw request."""
    return await ask(it, body, *(headers or (NEW,)), key=key, path=path)


def native(reply: Reply, status: int, kind: str) -> str:
    """Checks that the reply is Anthropic's own error; returns its message."""
    assert reply.status == status, reply.body
    assert reply["content-type"] == "application/json"
    assert reply.json == {
        "type": "error",
        "error": {"type": kind, "message": reply.json["error"]["message"]},
        "request_id": reply["request-id"],
    }
    assert reply["request-id"] == reply["x-request-id"]
    assert reply["request-id"].startswith("req_")
    message: str = reply.json["error"]["message"]
    assert message
    return message
