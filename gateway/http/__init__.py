"""The edge: raw ASGI routes; nothing validates with pydantic before a hit is decided."""
