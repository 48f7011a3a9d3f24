"""Wire formats to and from the neutral types; pure."""

DIALECTS: dict[str, tuple[str, str]] = {
    "/v1/chat/completions": ("chat", "gateway.protocols.openai_chat:OpenAIChat"),
    "/v1/messages": ("messages", "gateway.protocols.anthropic:AnthropicMessages"),
}
"""Path → the route's name in logs and metrics, and the dialect as lazy "module:Class"."""
