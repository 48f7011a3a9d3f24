"""The table `[cache]` of `lamina.toml`, and what all tables are."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Mode = Literal["off", "observe", "exact", "semantic"]


class Frozen(BaseModel):
    """A value that refuses names it does not know and never shows its input in an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class TtlClass(Frozen):
    """A life that routes and requests can name.

    Attributes:
        ttl_s: life of its entries; at most `cache.max_ttl_s`.
        jitter: by how much of it at most a life is shortened, so that entries made together do not end together;
            the same for a key each time.
    """

    ttl_s: Annotated[int, Field(ge=1)]
    jitter: Annotated[float, Field(ge=0, le=0.5)] = 0.1


class CacheSettings(Frozen):
    """What may be cached, and for how long.

    Attributes:
        mode: off, observe (look up and count, serve nothing), exact, or semantic (exact, then by meaning); a model
            may set its own.
        ttl_s: life of an entry that names none.
        ttl_jitter: by how much of it at most a life of no class is shortened; the same for a key each time.
        ttl_classes: lives by name, which a model's `ttl_class` or a request's `x-lamina-cache-class` chooses.
        max_ttl_s: longest life a request may ask for.
        stale_s: how long past its life an entry is kept, for clients that accept stale answers.
        stale_while_revalidate_s: how long past its life an entry is served while one refresh flies behind.
        stale_if_error_s: how long past its life an entry is served when the model fails before its first byte.
        early_refresh_beta: how eagerly entries that are asked for often are refreshed just before their end, so
            that nobody waits at it; 0 switches that off.
        max_entry_bytes: larger answers are not stored.
        coalescing: who shares one model call when the same is asked at the same time: `off` for nobody, `worker`
            for requests that meet in one worker, `everywhere` for all workers and replicas on one Redis.
        coalescing_lease_ms: a worker that asks the model for others and is not heard of for this long is replaced.
        coalescing_deadline_ms: longest wait of a miss for Redis to say who asks the model.
        coalescing_bytes: larger answers are not relayed to other workers, which then ask for themselves.
        honour_no_cache: whether a client's `Cache-Control: no-cache` skips the read.
        honoured_controls: false ignores every cache control a request carries.
        ignored_fields: body fields left out of the key besides the built-in list.
        versions: parts of every key, such as a prompt-template version; a bump makes old entries unreachable.
    """

    mode: Mode = "exact"
    ttl_s: Annotated[int, Field(ge=1)] = 24 * 3600
    ttl_jitter: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    ttl_classes: Mapping[str, TtlClass] = Field(default_factory=dict)
    max_ttl_s: Annotated[int, Field(ge=1)] = 30 * 24 * 3600
    stale_s: Annotated[int, Field(ge=0)] = 0
    stale_while_revalidate_s: Annotated[int, Field(ge=0)] = 0
    stale_if_error_s: Annotated[int, Field(ge=0)] = 0
    early_refresh_beta: Annotated[float, Field(ge=0, le=100)] = 1.0
    max_entry_bytes: Annotated[int, Field(ge=1024)] = 1 << 20
    coalescing: Literal["off", "worker", "everywhere"] = "everywhere"
    coalescing_lease_ms: Annotated[int, Field(ge=100, le=60_000)] = 1000
    coalescing_deadline_ms: Annotated[int, Field(ge=1, le=1000)] = 50
    coalescing_bytes: Annotated[int, Field(ge=1024)] = 8 << 20
    honour_no_cache: bool = True
    honoured_controls: bool = True
    ignored_fields: tuple[str, ...] = ()
    versions: Mapping[str, str] = Field(default_factory=dict)

    @cached_property
    def lives(self) -> Mapping[str, tuple[float, float]]:
        """Life and jitter by name of a class."""
        return {name: (float(one.ttl_s), one.jitter) for name, one in self.ttl_classes.items()}

    @property
    def kept_s(self) -> int:
        """How long past its life an entry is kept, for whatever purpose."""
        return max(self.stale_s, self.stale_while_revalidate_s, self.stale_if_error_s)
