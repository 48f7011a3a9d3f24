"""The composition root: everything is built and closed here, by hand, from settings."""

import asyncio
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from gateway.changes import Changes
from gateway.clock import Clock
from gateway.coalescing import Coalescer
from gateway.db import Database, PurgeRepository, SemanticRows, TenantRepository, VersionRepository
from gateway.errors import DatabaseUnavailable, StoreUnavailable
from gateway.flights import Flights
from gateway.forward import Forwarder, Outside
from gateway.guards import Guards, open_guards
from gateway.home import with_home_services
from gateway.http.asgi import Endpoint
from gateway.http.chat import ChatSurface
from gateway.http.feedback import FeedbackSurface
from gateway.http.models import Models
from gateway.http.ops import Health
from gateway.http.router import ANY, Router
from gateway.invalidation.replica import Replicas
from gateway.layers.entry import Entry, Sealer
from gateway.layers.exact import auth_key, purge_key
from gateway.layers.parts import Parts
from gateway.layers.salts import Salts
from gateway.ledger import LedgerParts
from gateway.limits import Limiter
from gateway.pipeline import Pipeline, Rooms
from gateway.protocols import DIALECTS
from gateway.protocols.dialect import Dialect
from gateway.providers import open_provider
from gateway.providers.guarded import GuardedProvider
from gateway.redis_link import RedisLink, RedisTarget
from gateway.routes import ENGINE, Routes
from gateway.settings import ProviderSettings, Settings
from gateway.telemetry.logs import LinesOfATurn, make_logger
from gateway.telemetry.metrics import Metrics
from gateway.wiring.admin import Office, admin_surface
from gateway.wiring.clock import watch_clock
from gateway.wiring.coalescing import open_coalescing
from gateway.wiring.encryption import open_encryption
from gateway.wiring.feedback import open_feedback
from gateway.wiring.learning import Learning, open_changes, open_learning
from gateway.wiring.ledger import open_ledger
from gateway.wiring.meaning import Meaning, open_layers, open_meaning, semantic_link
from gateway.wiring.pages import checks, metrics_page, readiness
from gateway.wiring.traces import Tracing, open_tracing
from gateway.wiring.watch import breakers, faults_of_redis, watch_for_ever

_POLL_S = 1.0


@dataclass(slots=True)
class Gateway:
    """A gateway that runs; `close` it once."""

    router: Router
    settings: Settings
    link: RedisLink
    database: Database
    replicas: Replicas
    forwarder: Forwarder
    coalescer: Coalescer
    changes: Changes | None
    guards: Guards
    meaning: Meaning | None
    learning: Learning | None
    ledger: LedgerParts
    providers: dict[str, GuardedProvider]
    metrics: Metrics
    log: structlog.typing.FilteringBoundLogger
    background: set[asyncio.Task[None]]
    lines: LinesOfATurn
    tracing: Tracing

    async def close(self) -> None:
        """Stops background work, then closes what was opened, innermost last."""
        for task in self.background:
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)
        await self.forwarder.close()
        await self.coalescer.close()
        if self.changes is not None:
            await self.changes.close()
        if self.learning is not None:
            await self.learning.close()
        if self.meaning is not None:
            await self.meaning.close()
        self.guards.close()
        for provider in self.providers.values():
            await provider.close()
        await self.ledger.close()
        await self.link.close()
        await self.database.close()
        await self.tracing.close()
        self.metrics.flush()
        self.lines.drain()


async def build(settings: Settings, clock: Clock | None = None) -> Gateway:
    """Builds a gateway on the running loop; opens no connection, so that nothing absent can stop it.

    Args:
        settings: all of them.
        clock: the worker's; one that begins now when absent.

    Raises:
        SettingsError: a URL or provider kind is bad.
    """
    settings = with_home_services(settings)
    clock = clock or Clock.start()
    now_s = clock.now_s
    tracing = open_tracing(settings.traces)
    metrics = tracing.metrics(asyncio.get_running_loop().call_later)
    lines = LinesOfATurn(asyncio.get_running_loop().call_soon, sys.stdout.buffer)
    log = make_logger(settings.log_level, os.getpid(), lines)
    background: set[asyncio.Task[None]] = set()
    link = _link(settings, faults_of_redis(metrics, log))
    database = Database.open(_secret(settings.database_url), deadline_s=settings.database_deadline_ms / 1000)
    encryption = open_encryption(settings, database, lambda reason: metrics.fault("encryption", reason), now_s)
    data_keys = None if encryption is None else encryption.data_keys
    raiser = _raiser(link, background)
    sources = (TenantRepository(database), PurgeRepository(database))
    replicas = Replicas(*sources, raiser, data_keys=data_keys, versions=VersionRepository(database))
    secret = _secret(settings.secret).encode() or os.urandom(32)
    routes = Routes(settings)
    providers = _providers(settings)
    guards = open_guards(settings.guards, metrics)
    keyring = None if encryption is None else encryption.keyring
    sealer = Sealer(secret, keyring, clock, read_plain=settings.encryption.read_plain)

    def dead(entry: Entry) -> bool:
        return replicas.purged(entry.tenant_id, entry.made(), entry.as_of)

    parts = Parts(settings, link, semantic_link(settings, metrics), SemanticRows(database), sealer, metrics, dead)
    layers = open_layers(parts)
    learning = open_learning(settings, parts.semantic, database, (metrics, log), now_s)
    meaning = open_meaning(parts, layers, guards, None if learning is None else learning.budget, now_s)
    ledger = open_ledger(settings, database, link, metrics, now_s)
    changes = open_changes(settings, parts.semantic, database, link, (metrics, log), now_s)
    outside = Outside(
        tracing.providers(providers),
        layers.exact,
        sealer,
        guards,
        None if meaning is None else meaning.writer,
        None if learning is None else learning.audits,
        secret,
        settings.cache,
        metrics,
        log,
        now_s,
        settings.engine.cache_epoch,
        ledger.called,
        dead,
        changes,
    )
    forwarder = Forwarder(outside)
    flights = Flights(metrics.flying, lambda: metrics.flight("alone"))
    coalescer = open_coalescing(settings, link, forwarder, (sealer, secret, guards.policy_version), metrics, now_s)
    rooms = Rooms(
        replicas,
        layers.exact,
        sealer,
        routes,
        flights,
        coalescer,
        forwarder,
        guards,
        Limiter(link, now_s),
        None if meaning is None else meaning.walk,
        metrics,
        settings.cache,
        now_s,
    )
    pipeline = Pipeline(rooms)
    models = Models(pipeline, routes, int(now_s()))
    requests = tracing.request_log(settings.log_level, lines)
    endpoints: dict[str, tuple[str, Endpoint]] = {
        path: (
            "POST",
            tracing.endpoint(
                path,
                ChatSurface(
                    name,
                    _dialect(spec),
                    pipeline,
                    limits=settings.limits,
                    metrics=metrics,
                    log=requests,
                    ledger=ledger.ledger,
                ),
            ),
        )
        for path, (name, spec) in DIALECTS.items()
    }
    asked = checks(settings, link, replicas, None if meaning is None else meaning.link)
    endpoints |= {
        "/v1/models": ("GET", models),
        "/v1/models/": ("GET", models),
        "/healthz": ("GET", Health()),
        "/readyz": ("GET", readiness(asked)),
        "/metrics": ("GET", metrics_page(settings, metrics)),
    }
    stores = (replicas, database, parts, layers.exact, None if learning is None else learning.budget)
    feedback = open_feedback(stores, now_s)
    endpoints["/v1/feedback"] = ("POST", FeedbackSurface(pipeline, feedback))
    office = Office(
        parts,
        database,
        replicas,
        layers,
        routes,
        guards,
        meaning,
        ledger,
        feedback,
        Salts(secret, settings.engine.cache_epoch),
        asked,
        now_s,
    )
    endpoints["/admin/"] = (ANY, admin_surface(office, pipeline, requests))
    router = Router(endpoints, metrics, log)
    opened = breakers(link, None if meaning is None else meaning.link, providers)
    loops = {
        "poll-database": _poll(replicas, metrics, log),
        "watch-clock": watch_clock(clock, metrics, log),
        "renew-leases": rooms.limiter.renew(),
        "watch-parts": watch_for_ever(asked, opened, metrics),
        "sweep-rows": None if meaning is None else meaning.sweep(),
        "poll-budget": None if learning is None else learning.poll(),
    }
    background.update(_started(loops))
    background.update(ledger.tasks())
    return Gateway(
        router,
        settings,
        link,
        database,
        replicas,
        forwarder,
        coalescer,
        changes,
        guards,
        meaning,
        learning,
        ledger,
        providers,
        metrics,
        log,
        background,
        lines,
        tracing,
    )


def _started(loops: Mapping[str, Coroutine[Any, Any, None] | None]) -> Iterator[asyncio.Task[None]]:
    """A task for each that is not None, by its name."""
    for name, work in loops.items():
        if work is not None:
            yield asyncio.create_task(work, name=name)


def _dialect(spec: str) -> Dialect:
    module, _, name = spec.partition(":")
    dialect: Dialect = getattr(importlib.import_module(module), name)()
    return dialect


def _link(settings: Settings, on_fault: Callable[[str], None]) -> RedisLink:
    redis = settings.redis
    return RedisLink(
        RedisTarget.parse(_secret(settings.redis_url)),
        deadline_s=redis.deadline_ms / 1000,
        failures=redis.breaker_failures,
        retry_s=redis.breaker_retry_ms / 1000,
        on_fault=on_fault,
    )


def _raiser(link: RedisLink, background: set[asyncio.Task[None]]) -> Callable[[str, int, int], None]:
    async def work(tenant_id: str, auth_seq: int, purge_seq: int) -> None:
        with contextlib.suppress(StoreUnavailable):  # counted by the link; the next read repairs it
            await link.raise_to({auth_key(tenant_id): max(auth_seq, 0), purge_key(tenant_id): purge_seq})

    def raise_behind(tenant_id: str, auth_seq: int, purge_seq: int) -> None:
        task = asyncio.create_task(work(tenant_id, auth_seq, purge_seq), name="raise-sequences")
        background.add(task)
        task.add_done_callback(background.discard)

    return raise_behind


async def _poll(replicas: Replicas, metrics: Metrics, log: structlog.typing.FilteringBoundLogger) -> None:
    """Bounds how long a change goes unseen that was committed but could not be announced."""
    down = False
    while True:
        await asyncio.sleep(_POLL_S)
        try:
            await replicas.poll()
        except DatabaseUnavailable:
            metrics.fault("db", "unavailable")
            if not down:
                log.warning("database_unavailable", part="db")
            down = True
        except Exception as error:  # noqa: BLE001  (recorded; without the poll, changes would go unseen for ever)
            metrics.fault("poll", type(error).__name__)
            log.error("fault", part="poll", error=type(error).__name__)  # noqa: TRY400  (a trace may quote a row)
        else:
            if down:
                log.info("database_back", part="db")
            down = False


def _providers(settings: Settings) -> dict[str, GuardedProvider]:
    providers = {name: open_provider(name, provider) for name, provider in settings.providers.items()}
    if settings.engine_url is not None and ENGINE not in providers:
        engine = ProviderSettings(kind=ENGINE, base_url=_engine_base(settings.engine_url))
        providers[ENGINE] = open_provider(ENGINE, engine)
    return providers


def _engine_base(url: str) -> str:
    if url.startswith("unix:") or url.rstrip("/").endswith("/v1"):
        return url
    return url.rstrip("/") + "/v1"


def _secret(value: object) -> str:
    reveal = getattr(value, "get_secret_value", None)
    return str(reveal()) if reveal is not None else ""
