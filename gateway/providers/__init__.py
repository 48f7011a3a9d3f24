"""Providers: who answers when no layer does. A new one is a file here and a line in PROVIDERS."""

import time
from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

from gateway.errors import SettingsError
from gateway.providers.contract import Provider
from gateway.providers.guarded import GuardedProvider
from gateway.settings import ProviderSettings
from policies.breaker import Breaker

PROVIDERS = {
    "openai": "gateway.providers.openai:OpenAIProvider",
    "engine": "gateway.providers.engine:EngineProvider",
}
"""Kind to "module:Class"; the class has `from_settings(name, settings)`."""

_BREAKER_FAILURES = 5
_BREAKER_RETRY_S = 1.0


class ProviderClass(Protocol):
    """A class that the table names."""

    def from_settings(self, name: str, settings: ProviderSettings) -> Provider:
        """Makes one; connects to nothing, so that an upstream that is down stops nothing."""
        ...


def load_provider(kind: str) -> ProviderClass:
    """Imports the class of a kind.

    Raises:
        SettingsError: no such kind.
    """
    if kind not in PROVIDERS:
        raise SettingsError(f"unknown provider kind {kind!r}: known are {', '.join(sorted(PROVIDERS))}")
    module, _, name = PROVIDERS[kind].partition(":")
    return cast("ProviderClass", getattr(import_module(module), name))


def open_provider(
    name: str, settings: ProviderSettings, clock: Callable[[], float] = time.monotonic
) -> GuardedProvider:
    """The provider of these settings behind its own circuit breaker.

    Raises:
        SettingsError: unknown kind, or an address that is none.
    """
    provider = load_provider(settings.kind).from_settings(name, settings)
    return GuardedProvider(provider, Breaker(_BREAKER_FAILURES, _BREAKER_RETRY_S), clock)
