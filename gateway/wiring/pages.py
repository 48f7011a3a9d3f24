"""The pages that tell how the parts are: readiness and metrics."""

from collections.abc import Mapping

from gateway.errors import DatabaseUnavailable, StoreUnavailable, UpstreamError
from gateway.http.ops import Check, Exposition, MetricsPage, Readiness
from gateway.invalidation.replica import Replicas
from gateway.providers.scrape import scrape
from gateway.redis_link import RedisLink
from gateway.semantic_link import SemanticLink
from gateway.settings import Settings
from gateway.telemetry.metrics import Metrics


def checks(
    settings: Settings, link: RedisLink, replicas: Replicas, semantic: SemanticLink | None
) -> Mapping[str, Check]:
    """Asks Redis and database, and engine and semantic service where there is one."""

    async def redis() -> bool:
        try:
            await link.call("PING")
        except StoreUnavailable:
            return False
        return True

    async def database() -> bool:
        try:
            await replicas.poll()
        except DatabaseUnavailable:
            return False
        return True

    async def engine() -> bool:
        try:
            await scrape(settings.engine_url or "", "/health")
        except UpstreamError:
            return False
        return True

    asked: dict[str, Check] = {"redis": redis, "database": database}
    if settings.engine_url is not None:
        asked["engine"] = engine
    if semantic is not None:
        asked["semantic"] = semantic.healthy
    return asked


def readiness(asked: Mapping[str, Check]) -> Readiness:
    """The page of these checks; Redis or the database must be there to judge a key."""
    return Readiness(asked, one_of=frozenset({"redis", "database"}))


def metrics_page(settings: Settings, metrics: Metrics) -> MetricsPage:
    """Ours, then those of the engine and of a semantic service on a Unix socket; over TCP it has its own page."""
    semantic_url = settings.semantic_url or ""
    parts = {"engine": settings.engine_url, "semantic": semantic_url if semantic_url.startswith("unix:") else None}
    return MetricsPage(metrics, [_scraped(part, url, metrics) for part, url in parts.items() if url is not None])


def _scraped(part: str, url: str, metrics: Metrics) -> Exposition:
    async def page() -> bytes:
        try:
            return await scrape(url, "/metrics")
        except UpstreamError:
            metrics.fault(part, "metrics")
            return b""

    return page
