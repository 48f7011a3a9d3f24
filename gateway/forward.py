"""Asking the model: the primary target, then its fallbacks; a whole answer is judged, stored, then landed."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec
import structlog

from gateway.asked import Audit
from gateway.changes import Changes, Refreshed
from gateway.errors import ApiError, StoreUnavailable, UpstreamError
from gateway.flights import Flight, Landing
from gateway.guards import GuardDecision, Guards, subject_of
from gateway.job import Job
from gateway.layers.entry import Entry, EntryError, Sealer, answer_of, choices_of
from gateway.layers.exact import ExactLayer
from gateway.layers.row_writer import RowWriter
from gateway.layers.salts import Salts
from gateway.ledger import Called
from gateway.protocols.assemble import Assembler
from gateway.protocols.shape import ProtocolError
from gateway.providers.contract import Provider, ProviderCall
from gateway.refreshes import Refreshes
from gateway.refusals import broken_protocol
from gateway.routes import Route, Target
from gateway.settings import CacheSettings
from gateway.telemetry.metrics import Metrics
from policies.decide import Discard, Store, WriteRules, admit, spread_of
from policies.fingerprints import prints_of, recognised
from policies.freshness import failed_upstream
from policies.keys import CacheKey
from policies.persons import made_for
from policies.request_parts import request_parts
from policies.semantic import is_plain
from policies.types import ChatResponse, Json


class Audits(Protocol):
    """Takes pairs of answers whose difference teaches the error budget."""

    def compare(self, audit: Audit, fresh: ChatResponse) -> None:
        """Queues a comparison; returns at once and never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Outside:
    """What the forwarder needs; built in wiring.

    Attributes:
        rows: where answers are kept to be found by meaning; None where no route asks for that.
        audits: None where nobody learns.
        changes: None where no meaning is compared.
        cache_epoch: see EngineSettings.
        called: told of each call whose answer began, however it ended, and of what was asked; returns at once.
        dead: whether a hard purge has named an entry since its model was asked.
    """

    providers: Mapping[str, Provider]
    exact: ExactLayer
    sealer: Sealer
    guards: Guards
    rows: RowWriter | None
    audits: Audits | None
    secret: bytes
    cache: CacheSettings
    metrics: Metrics
    log: structlog.typing.FilteringBoundLogger
    now_s: Callable[[], float]
    cache_epoch: str = "0"
    called: Callable[[Called, Json], None] = lambda _call, _body: None
    dead: Callable[[Entry], bool] = lambda _: False
    changes: Changes | None = None


class Forwarder:
    """Makes model calls for flights.

    Attributes:
        refreshes: those that nobody waits for.
    """

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._salts = Salts(outside.secret, outside.cache_epoch)
        self.refreshes = Refreshes(outside.metrics, outside.log)

    async def fly(self, flight: Flight, job: Job) -> None:
        """Makes the call, publishes what comes, stores the whole answer if it may, and lands the flight."""
        try:
            flight.land(await self.call(flight, job))
        except (UpstreamError, ApiError) as error:
            flight.fail(error)

    async def call(self, flight: Flight, job: Job) -> Landing:
        """Makes the call, publishes what comes, and stores the whole answer if it may; the flight is yet to land.

        Raises:
            UpstreamError, ApiError: the call failed.
        """
        try:
            return await self._landing(flight, job)
        except UpstreamError:
            raise
        except Exception as error:  # noqa: BLE001  (the edge of a task: recorded, and every passenger is told)
            self._outside.metrics.fault("forward", type(error).__name__)
            self._outside.log.error("fault", part="forward", error=type(error).__name__)  # noqa: TRY400  (a trace may quote a prompt)
            failure = "The gateway failed while it asked the model."
            raise ApiError(500, failure, kind="server_error") from None

    async def _landing(self, flight: Flight, job: Job) -> Landing:
        begun = time.perf_counter()
        response, target = await self._call(flight, job)
        took_s = time.perf_counter() - begun
        decision = self._admit(response, job, fallback=target is not job.route.primary)
        decision, guarded = await self._guarded(response, job, decision)
        landing = Landing(response, self._write(response, job, decision, guarded, took_s))
        if job.audit is not None and self._outside.audits is not None and target is job.route.primary:
            self._outside.audits.compare(job.audit, response)
        return landing

    async def close(self) -> None:
        """Stops what runs behind the scenes."""
        await self.refreshes.close()

    async def _call(self, flight: Flight, job: Job) -> tuple[ChatResponse, Target]:
        targets = job.route.targets
        for position, target in enumerate(targets):
            try:
                return await self._call_target(flight, job, target), target
            except UpstreamError as error:
                last = position == len(targets) - 1
                if last or flight.target is not None or not failed_upstream(error.reason, error.status):
                    raise
                self._outside.metrics.fault("provider", "fallback")
                self._outside.log.warning(
                    "fallback", provider=target.provider, reason=error.reason, status=error.status
                )
        raise AssertionError("a route has targets")

    async def _call_target(self, flight: Flight, job: Job, target: Target) -> ChatResponse:
        provider = self._outside.providers[target.provider]
        call = ProviderCall(
            model=target.upstream_model,
            body=job.asked.request.body,
            request_id=job.asked.request_id,
            salt=self._salts.of(job.tenant_id, job.prefix_epoch),
            marks=job.asked.request.marks,
        )
        begun = time.perf_counter()
        result, usage = "ok", None
        try:
            response = await self._asked(flight, provider, call, target, stream=job.asked.request.stream)
            usage = response.usage
        except UpstreamError as error:
            result = error.reason
            self._tell(target, error)
            raise
        except asyncio.CancelledError:
            result = "cancelled"
            raise
        else:
            return response
        finally:
            took_s = time.perf_counter() - begun
            self._outside.metrics.upstream(target.provider, result, took_s)
            if flight.target is target or result == "cancelled":  # else the model did nothing
                whose = (job.tenant_id, job.route.name, target.provider, target.upstream_model, target.label)
                self._outside.called(Called(*whose, usage, took_s), job.asked.request.body)

    def _tell(self, target: Target, error: UpstreamError) -> None:
        """Says what the operator has to mend, where that is known."""
        if error.advice:
            self._outside.metrics.fault("provider", error.reason)
            self._outside.log.error(
                "provider_fault", provider=target.provider, reason=error.reason, error=error.advice
            )

    async def _asked(
        self, flight: Flight, provider: Provider, call: ProviderCall, target: Target, *, stream: bool
    ) -> ChatResponse:
        if stream:
            return await self._stream(flight, provider, call, target)
        completed = await provider.complete(call)
        flight.begin(target, completed.headers)
        return completed.response

    async def _stream(
        self, flight: Flight, provider: Provider, call: ProviderCall, target: Target
    ) -> ChatResponse:
        stream = await provider.stream(call)
        assembler = Assembler()
        try:
            flight.begin(target, stream.headers)
            async for chunk in stream:
                assembler.add(chunk)
                flight.publish(chunk)
            return assembler.finish()
        except ProtocolError as error:
            raise UpstreamError("protocol", 502, broken_protocol(str(error))) from None
        finally:
            await stream.close()

    def _admit(self, response: ChatResponse, job: Job, *, fallback: bool) -> Store | Discard:
        if job.key is None:
            return Discard("bypass")
        cache, route = self._outside.cache, job.route
        rules = WriteRules(route.ttl_s, cache.max_ttl_s, route.jitter, cache.lives)
        body, spread = job.asked.request.body, spread_of(job.key.digest)
        return admit(response, body, job.controls, rules, fallback=fallback, spread=spread)

    async def _guarded(
        self, response: ChatResponse, job: Job, decision: Store | Discard
    ) -> tuple[Store | Discard, GuardDecision | None]:
        """The decision once the guards have judged the answer, which has left already but for its end."""
        if isinstance(decision, Discard):
            return decision, None
        subject = subject_of(job.asked.request.body, response, scope=job.controls.scope.kind)
        guarded = await self._outside.guards.judge_write(subject)
        if not guarded.exact:
            return Discard(guarded.reasons[0] if guarded.reasons else "guard"), guarded
        cap_s = guarded.ttl_cap_s
        return (decision if cap_s is None else Store(min(decision.ttl_s, cap_s))), guarded

    def _write(
        self,
        response: ChatResponse,
        job: Job,
        decision: Store | Discard,
        guarded: GuardDecision | None,
        took_s: float,
    ) -> Store | Discard:
        """Queues the write before the last byte goes out, so that this worker's next look-up finds it."""
        metrics = self._outside.metrics
        if isinstance(decision, Store) and job.key is not None:
            entry = self._entry(response, job, job.key, decision, took_s)
            sealed = self._sealed(entry)
            if isinstance(sealed, Discard):
                decision = sealed
            else:
                self._keep_row(entry, response, job, guarded)
                self._compare(entry, response, job, guarded)
                keep_s = decision.ttl_s + self._outside.cache.kept_s
                return self._post(job, job.key, sealed, keep_s, decision)
        if isinstance(decision, Discard):
            metrics.write("exact", "refused", decision.reason)
        return decision

    def _compare(self, entry: Entry, response: ChatResponse, job: Job, guarded: GuardDecision | None) -> None:
        """Queues the comparison with the answer whose place this one takes."""
        changes = self._outside.changes
        if changes is None or job.before is None or job.before == response or _lost(job):
            return
        late = replace(job, shelf=None)  # the lease is let go once the answer has landed

        def keep(as_of: int) -> None:
            again = msgspec.structs.replace(entry, as_of=as_of)
            sealed = self._sealed(again)
            if isinstance(sealed, bytes) and job.key is not None:
                self._keep_row(again, response, late, guarded)
                left_s = entry.created_s + entry.ttl_s - self._outside.now_s()
                self._post(late, job.key, sealed, max(0.0, left_s) + self._outside.cache.kept_s, Store(left_s))

        changes.compare(Refreshed(job.before, entry, response, keep))

    def _sealed(self, entry: Entry) -> bytes | Discard:
        """The entry as it may be stored, or why it may not; what was purged meanwhile leaves no bytes behind."""
        if self._outside.dead(entry):
            return Discard("purged")
        try:
            sealed = self._outside.sealer.seal(entry)
        except EntryError as error:
            self._outside.metrics.fault("encryption", error.reason)
            return Discard(error.reason)
        return Discard("size") if len(sealed) > self._outside.cache.max_entry_bytes else sealed

    def _keep_row(self, entry: Entry, response: ChatResponse, job: Job, guarded: GuardDecision | None) -> None:
        """Queues the answer to be found by meaning, where request, guards and form allow it."""
        rows = self._outside.rows
        if rows is None or job.place is None or guarded is None or _lost(job):
            return
        if not guarded.semantic:
            self._outside.metrics.write("semantic", "refused", guarded.reasons[0] if guarded.reasons else "guard")
        elif not is_plain(response):
            self._outside.metrics.write("semantic", "refused", "not_plain")
        else:
            rows.add(self._with_parts(entry, job), job.place, job.route.name)

    def _post(self, job: Job, key: CacheKey, sealed: bytes, keep_s: float, decision: Store) -> Store | Discard:
        metrics = self._outside.metrics
        begun, shelf = time.perf_counter(), job.shelf or self._outside.exact
        try:
            reply = shelf.write(job.tenant_id, key.hex, sealed, keep_s)
        except StoreUnavailable:
            reply = None
        if reply is None:
            metrics.write("exact", "lost", "store_unavailable")
            return Discard("store_unavailable")

        def count(future: "asyncio.Future[Any]") -> None:
            failed = future.cancelled() or future.exception() is not None
            lost = "store_unavailable" if failed else "lease_lost" if future.result() == 0 else ""
            result = "lost" if lost else "stored"
            metrics.write("exact", result, lost or "ok", time.perf_counter() - begun)

        reply.add_done_callback(count)
        return decision

    def _with_parts(self, entry: Entry, job: Job) -> Entry:
        namespace = job.route.namespace(job.tenant_id, job.controls)
        parts = request_parts(job.asked.request.body, namespace, self._outside.cache.ignored_fields)
        return msgspec.structs.replace(entry, parts=parts)

    def _entry(self, response: ChatResponse, job: Job, key: CacheKey, decision: Store, took_s: float) -> Entry:
        scope, body = job.controls.scope, job.asked.request.body
        named = tuple(dict.fromkeys((*job.route.versions, *job.controls.versions)))
        return Entry(
            key=key.digest,
            tenant_id=job.tenant_id,
            created_s=self._outside.now_s(),
            ttl_s=decision.ttl_s,
            as_of=job.as_of,
            models=_model_names(job.route),
            user=scope.id if scope.kind == "user" else "",
            tags=job.controls.tags,
            versions=recognised(job.known, body, named),
            answer=answer_of(response),
            choices=choices_of(response),
            request_id=job.asked.request_id,
            policy=self._outside.guards.policy_version,
            took_s=took_s,
            whose=made_for(job.controls, body),
            route=job.route.name,
            prints=prints_of(body),
        )


def _model_names(route: Route) -> tuple[str, ...]:
    """Every name that a purge may use: the upstream model with and without provider, the route, its aliases."""
    primary = route.primary
    return tuple(dict.fromkeys((primary.effective_model, primary.upstream_model, route.name, *route.aliases)))


def _lost(job: Job) -> bool:
    """Whether the call had a lease and has it no more."""
    return job.shelf is not None and not job.shelf.held
