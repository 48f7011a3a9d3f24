"""The embedded engine: an OpenAI server that keeps tenants apart by a salt and takes marks of prompt caching."""

from typing import Any

from gateway.errors import UpstreamError
from gateway.providers.contract import ChunkStream, Completed, ProviderCall
from gateway.providers.marks import with_marks
from gateway.providers.openai import OpenAIProvider


class EngineProvider(OpenAIProvider):
    """The embedded engine: its prefix cache is kept apart by the tenant's salt, whatever the client asks."""

    def fields(self, call: ProviderCall) -> dict[str, Any]:
        """The body with its marks, and the tenant's salt in place of a client's."""
        body = {**with_marks(call.body, call.marks, "cache_control")}
        body.pop("cache_salt", None)
        return body if call.salt is None else {**body, "cache_salt": call.salt}

    def stream_options(self) -> dict[str, Any]:
        """Asks for the prompt's share of the usage on the first chunk too: Anthropic's protocol tells it there."""
        return {"include_usage": True, "include_prompt_usage": True}

    async def complete(self, call: ProviderCall) -> Completed:
        """The whole answer; see Provider."""
        try:
            return await super().complete(call)
        except UpstreamError as error:
            raise _starting(error) from None

    async def stream(self, call: ProviderCall) -> ChunkStream:
        """Begins a stream; see Provider."""
        try:
            return await super().stream(call)
        except UpstreamError as error:
            raise _starting(error) from None


def _starting(error: UpstreamError) -> UpstreamError:
    """An engine that cannot be reached is loading its model or being restarted: clients shall try again."""
    if error.reason != "connect":
        return error
    body = {
        "error": {
            "message": "The embedded engine is loading its model or restarting. Try again shortly.",
            "type": "server_error",
            "param": None,
            "code": "engine_unavailable",
        }
    }
    return UpstreamError("connect", 503, body, {"retry-after": "2"})
