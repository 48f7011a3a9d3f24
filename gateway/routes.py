"""Routes: which provider answers a model name, under which name, and how it may be cached."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from gateway.settings import Mode, ModelSettings, Settings
from policies.controls import Controls
from policies.keys import CacheKey, KeySpace, Namespace, canonical_request, merge_versions
from policies.types import Json

ENGINE = "engine"
_ANY = "*"
_REVISION = "engine.revision"
"""The version that stands for the files behind the engine's name."""


@dataclass(frozen=True)
class Target:
    """One model at one provider; `label` names it in metrics and headers."""

    provider: str
    upstream_model: str
    label: str

    @cached_property
    def effective_model(self) -> str:
        """What a key and a purge call the model: provider and the provider's own name for it."""
        return f"{self.provider}/{self.upstream_model}"


@dataclass(frozen=True, slots=True)
class Route:
    """What a model name resolves to.

    Attributes:
        name: the route's own name, the same for all its aliases.
        targets: the primary, then its fallbacks in order.
        mode, ttl_s, versions: as the settings say, defaults filled in.
        jitter: by how much of it at most a life is shortened.
        aliases: its other names.
    """

    name: str
    targets: tuple[Target, ...]
    mode: Mode
    ttl_s: int
    versions: tuple[tuple[str, str], ...]
    aliases: tuple[str, ...] = ()
    jitter: float = 0.0

    @property
    def primary(self) -> Target:
        """The target whose answers may be stored."""
        return self.targets[0]

    def under(self, modes: Mapping[str, str]) -> "Route":
        """The route as an operator has it served now: in the mode set for its name, when one is."""
        mode = modes.get(self.name)
        return self if mode is None or mode == self.mode else replace(self, mode=cast("Mode", mode))

    def namespace(self, tenant_id: str, controls: Controls) -> Namespace:
        """Where the keys of a tenant's requests to this route lie."""
        whose = (controls.scope, controls.partition, self.versions, controls.versions)
        return Namespace(tenant_id, "chat", self.primary.effective_model, *whose)

    def key(self, tenant_id: str, controls: Controls, body: Json, ignored: Iterable[str]) -> CacheKey:
        """The exact key of a request, made anew.

        Args:
            tenant_id: who asks.
            controls: what the request asks of the cache; a key of the caller's own replaces the body.
            body: the neutral request.
            ignored: as for `canonical_request`.
        """
        space = KeySpace(self.namespace(tenant_id, controls))
        if controls.caller_key is not None:
            return space.of_caller(controls.caller_key)
        return space.of_request(canonical_request(body, ignored))


class Routes:
    """The route table; built once, read by every request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models = {model.name: model for model in _models(settings)}
        self._routes: dict[str, Route] = {}
        for model in self._models.values():
            if model.name != _ANY:
                route = self._route(model, model.name)
                self._routes.update(dict.fromkeys((model.name, *model.aliases), route))
        self._any = self._models.get(_ANY)

    def resolve(self, name: str) -> Route | None:
        """The route of a model name or alias; None when nothing takes it."""
        route = self._routes.get(name)
        if route is None and self._any is not None:
            return self._route(self._any, name)
        return route

    def all(self) -> list[Route]:
        """Every route once, in the order of the settings; a wildcard last, under its own name."""
        found = {route.name: route for route in self._routes.values()}
        if self._any is not None:
            found[_ANY] = self._route(self._any, _ANY)
        return list(found.values())

    def names(self) -> Iterator[tuple[str, str]]:
        """Every (name, provider) that can be asked for, aliases included; a wildcard has no names to list."""
        for name, route in self._routes.items():
            yield name, route.primary.provider

    def _route(self, model: ModelSettings, name: str) -> Route:
        cache = self._settings.cache
        named = None if model.ttl_class is None else cache.ttl_classes[model.ttl_class]
        return Route(
            name=model.name,
            targets=(self._target(model, name), *(self._target(self._models[n], n) for n in model.fallback)),
            mode=model.mode or cache.mode,
            ttl_s=model.ttl_s or (cache.ttl_s if named is None else named.ttl_s),
            jitter=cache.ttl_jitter if named is None or model.ttl_s is not None else named.jitter,
            versions=merge_versions(cache.versions, model.versions, self._revision(model)),
            aliases=model.aliases,
        )

    def _revision(self, model: ModelSettings) -> dict[str, str]:
        revision = self._settings.engine.revision
        return {} if revision is None or model.provider != ENGINE else {_REVISION: revision}

    def _target(self, model: ModelSettings, name: str) -> Target:
        return Target(model.provider, model.upstream_model or name, model.name)


def _models(settings: Settings) -> list[ModelSettings]:
    """The configured models, and the engine's own when it runs and no model took its name."""
    models = list(settings.models)
    taken = {name for model in models for name in (model.name, *model.aliases)}
    if settings.engine_url is not None and settings.engine.name not in taken:
        models.append(ModelSettings(name=settings.engine.name, provider=ENGINE))
    return models
