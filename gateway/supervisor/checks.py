"""What would stop every worker is found before anything starts."""

from gateway.errors import SettingsError
from gateway.providers import PROVIDERS
from gateway.providers.trust import open_tls
from gateway.redis_link import RedisTarget
from gateway.settings import Settings


def check(settings: Settings) -> None:
    """Looks at what only makes sense together, and at the files of TLS; asks no other machine.

    Args:
        settings: with the embedded services' addresses filled in.

    Raises:
        SettingsError: a Redis URL is none, a provider's kind is unknown, a file of TLS is not what it should
            be, or a model needs an engine that is off.
    """
    if settings.redis_url is not None:
        RedisTarget.parse(settings.redis_url.get_secret_value()).open_tls()
    for name, provider in settings.providers.items():
        if provider.kind not in PROVIDERS:
            kinds = ", ".join(sorted(PROVIDERS))
            raise SettingsError(f"provider {name!r}: unknown kind {provider.kind!r}; known are {kinds}")
        open_tls(name, provider)
    for model in settings.models:
        if model.provider == "engine" and settings.engine_url is None:
            raise SettingsError(f"model {model.name!r}: the engine is off; set engine.enabled or ENGINE_URL")
