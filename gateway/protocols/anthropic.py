"""Anthropic's Messages protocol over the neutral chat."""

from collections.abc import Mapping
from typing import Any

import orjson

from gateway.protocols.anthropic_answer import render_message
from gateway.protocols.anthropic_errors import error_bytes
from gateway.protocols.anthropic_events import MessageEvents
from gateway.protocols.anthropic_request import read_request
from gateway.protocols.dialect import RawHeaders
from policies.types import ChatRequest, ChatResponse


class AnthropicMessages:
    """The Messages protocol, versions 2023-06-01 and 2026-10-21. Meets Dialect."""

    id_prefix = "msg_"
    keeps_stream_ids = False
    read_with = (b"anthropic-version",)

    def read(self, body: Any, headers: RawHeaders, max_n: int) -> ChatRequest:
        """See Dialect; this protocol has one answer."""
        del max_n
        return read_request(body, headers)

    def whole(self, response: ChatResponse, answer_id: str, created: int, model: str) -> bytes:
        """See Dialect; this protocol tells no time."""
        del created
        return orjson.dumps(render_message(response, answer_id, response.model or model))

    def events(self, answer_id: str | None, created: int, *, model: str, include_usage: bool) -> MessageEvents:
        """See Dialect; this protocol always tells the usage."""
        del created, include_usage
        return MessageEvents(answer_id or self.id_prefix, model)

    def error(self, status: int, body: Mapping[str, Any], request_id: str) -> bytes:
        """See Dialect."""
        return error_bytes(status, body, request_id)
