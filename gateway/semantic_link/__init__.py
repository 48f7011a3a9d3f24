"""The door to the semantic service: kept connections, a deadline for each call, a breaker."""

from gateway.semantic_link.link import SemanticLink
from gateway.semantic_link.target import SemanticTarget

__all__ = ["SemanticLink", "SemanticTarget"]
