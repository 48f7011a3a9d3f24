"""The composition root: everything is built and closed here, by hand, from settings."""

from gateway.wiring.build import Gateway, build

__all__ = ["Gateway", "build"]
