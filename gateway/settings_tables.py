"""The tables of `lamina.toml`; `gateway.settings` puts them into one tree."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from gateway.settings_cache import Frozen, Mode
from policies.guardrails import GUARDRAILS
from policies.guardrails.types import Action
from policies.semantic import LEAST_CHANCE

MarkForm = Literal["drop", "cache_control", "breakpoint"]


class GuardSettings(Frozen):
    """What may be stored, and for whom; docs/guardrails.md says what each guard finds.

    Attributes:
        enabled: false switches all guards off.
        off: names of guards that are not asked.
        actions: what becomes of an answer a guard speaks against, by guard, where it shall not be the guard's own:
            `refuse`, `private` (stored only under a user, session or conversation scope), `exact_only` or
            `short_life`.
        deadline_ms: processor time that all guards together may take; then nothing is stored.
        wait_ms: longest wait for guards on a thread; then nothing is stored.
        inline_chars: texts longer than this are judged on a thread.
        max_chars: a request and answer with more text than this is not stored.
        max_semantic_chars: a last turn longer than this is never compared by meaning.
        short_life_s: longest life of an answer that depends on when it was asked for.
        public_contacts: mail addresses, their domains, telephone and account numbers, and network addresses that
            are nobody's secret, such as your own support line.
    """

    enabled: bool = True
    off: tuple[str, ...] = ()
    actions: Mapping[str, Action] = Field(default_factory=dict)
    deadline_ms: Annotated[int, Field(ge=1, le=1000)] = 50
    wait_ms: Annotated[int, Field(ge=1, le=10_000)] = 250
    inline_chars: Annotated[int, Field(ge=0)] = 4_000
    max_chars: Annotated[int, Field(ge=1_000, le=4_000_000)] = 200_000
    max_semantic_chars: Annotated[int, Field(ge=1)] = 4_000
    short_life_s: Annotated[float, Field(ge=0)] = 60.0
    public_contacts: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_guards(self) -> Self:
        for name in (*self.off, *self.actions):
            if name not in GUARDRAILS:
                raise ValueError(f"there is no guard {name[:40]!r}; there are {', '.join(GUARDRAILS)}")
        return self


class RedisSettings(Frozen):
    """Deadlines of the exact layer's store and the size of an embedded one.

    Attributes:
        deadline_ms: longest wait for Redis in a request; then the answer counts as a miss.
        breaker_failures: failures in a row after which Redis is not asked for a while.
        breaker_retry_ms: how long a while is.
        max_memory_mb: what the embedded Redis holds before it evicts the least recently used entries.
    """

    deadline_ms: Annotated[int, Field(ge=1, le=1000)] = 100
    breaker_failures: Annotated[int, Field(ge=1, le=5)] = 3
    breaker_retry_ms: Annotated[int, Field(ge=50)] = 500
    max_memory_mb: Annotated[int, Field(ge=16)] = 256


class SemanticSettings(Frozen):
    """The layer that answers by meaning, for routes in mode `semantic`; those in mode `observe` only count.

    Attributes:
        enabled: false starts no embedded service.
        deadline_ms: longest wait for service and rows in a request; then the answer counts as a miss.
        breaker_failures: failures in a row after which the service is not asked for a while.
        breaker_retry_ms: how often it is then asked whether it is back.
        token: sent to a service over TCP as a bearer token; a Unix socket needs none.
        limit: most candidates looked at in one request.
        max_wrong: the error budget: largest share of requests of a tenant and route that may get a wrong answer.
        rule: `learned` decides by the error budget; `fixed` serves from `min_probability` on and learns nothing.
        audit_share: share of would-be hits that also go to the model, so that answers can be compared.
        min_probability: least probability of the same answer at which an entry is served before the budget has
            learnt more.
        min_conversation_probability: the same for an entry whose earlier turns are others, compared as a whole.
        label_half_life_s: after this time what was learnt from a comparison counts half.
        feedback_similarity: least cosine at which a row goes out of service with one that was reported wrong.
        conversations: whether whole conversations are compared, or only questions asked after the same turns.
        model: folder of the embedded service's embedder; the packaged one when absent.
        verifier: folder of its verifier; the packaged one when absent.
        threads: of the embedded service; two when absent.
        max_rows: most rows a tenant may keep; the oldest go first.
        max_waiting: rows that may wait to be written, per worker; more are dropped and counted.
        sweep_s: how often rows that can serve no more are removed.
    """

    enabled: bool = True
    deadline_ms: Annotated[int, Field(ge=1, le=5000)] = 150
    breaker_failures: Annotated[int, Field(ge=1, le=5)] = 3
    breaker_retry_ms: Annotated[int, Field(ge=50)] = 500
    token: SecretStr | None = None
    limit: Annotated[int, Field(ge=1, le=16)] = 4
    max_wrong: Annotated[float, Field(gt=0, lt=1)] = 0.01
    rule: Literal["learned", "fixed"] = "learned"
    audit_share: Annotated[float, Field(ge=0, le=1)] = 0.02
    min_probability: Annotated[float, Field(ge=0, le=1)] = LEAST_CHANCE.turn
    min_conversation_probability: Annotated[float, Field(ge=0, le=1)] = LEAST_CHANCE.conversation
    label_half_life_s: Annotated[float, Field(ge=3600)] = 30 * 24 * 3600
    feedback_similarity: Annotated[float, Field(gt=0, le=1)] = 0.93
    conversations: bool = True
    model: Path | None = None
    verifier: Path | None = None
    threads: Annotated[int, Field(ge=1)] | None = None
    max_rows: Annotated[int, Field(ge=1)] = 100_000
    max_waiting: Annotated[int, Field(ge=1)] = 1024
    sweep_s: Annotated[float, Field(gt=0)] = 60.0


class LimitSettings(Frozen):
    """Bounds on what a client may send and how long things may take.

    Attributes:
        body_bytes: largest request body.
        receive_s: longest time a client may take to send its request.
        drain_s: how long requests in flight may take to end when the set stops.
        max_n: largest `n`, answers asked for in one request.
    """

    body_bytes: Annotated[int, Field(ge=1024)] = 32 << 20
    receive_s: Annotated[float, Field(gt=0)] = 10.0
    drain_s: Annotated[float, Field(gt=0)] = 20.0
    max_n: Annotated[int, Field(ge=1)] = 128


class EngineSettings(Frozen):
    """The embedded engine.

    Attributes:
        enabled: false starts no engine.
        model: a GGUF file or a safetensors folder; the packaged SmolLM2 when absent.
        name: the model's name on the API.
        revision: part of every key of the engine's models, so that no model answers for another under its name;
            made from the model's files and the two defaults below when absent, where the engine is embedded.
        threads: torch threads; the number of cores when absent.
        block_size: tokens in a KV block; 16 when absent, on a GPU 32.
        kv_tokens: tokens the KV pool holds, over all sequences; 16384 when absent, on a GPU what its memory holds.
        kv_memory_mb: memory of the KV pool in MiB; when given, it says how many tokens that is.
        kv_dtype: how keys and values are kept: `fp32`, `fp16`, `bf16`, `int8` or `fp8`; `fp32` when absent, on a
            GPU `bf16`.
        host_kv_mb: host memory for KV blocks that the pool gives up, in MiB; 0 for none.
        prefix_cache: whether a prompt may use what an earlier one of the same tenant left in the pool.
        retention: which cached prefixes stay when memory is short: `lru`, or `hit-density`, by hits expected of a
            block.
        max_running: sequences decoded in one step; 16 when absent, on a GPU 256.
        max_waiting: answers queued before 429; 256 when absent, on a GPU 1024.
        tenant_waiting: of those, what one tenant may queue; three quarters when absent.
        step_tokens: most prompt tokens computed in a step in which no sequence decodes; 512 when absent, on a GPU
            8192.
        prefill_tokens: most prompt tokens computed in a step beside sequences that decode; less makes answers come
            more evenly, more makes prompts start sooner; 128 when absent, on a GPU 2048.
        long_prefill: tokens of one prompt in a step, as long as others want their share of it; 64 when absent, on
            a GPU 2048.
        runner: what computes steps: `native`, `torch`, or `auto` for the fastest that works here.
        cache_epoch: part of every tenant's salt; another value empties the prefix cache for all of them at once.
        min_cache_tokens: shortest marked prefix that is kept longer than others; shorter marks are let pass.
        temperature: of requests that name none; absent: 0.2 for the packaged model, else 1.
        top_p: of requests that name none; absent: 0.9 for the packaged model, else 1.
    """

    enabled: bool = True
    model: Path | None = None
    name: str = "smollm2"
    revision: str | None = None
    threads: Annotated[int, Field(ge=1)] | None = None
    block_size: Annotated[int, Field(ge=1)] | None = None
    kv_tokens: Annotated[int, Field(ge=256)] | None = None
    kv_memory_mb: Annotated[int, Field(ge=1)] | None = None
    kv_dtype: Literal["fp32", "fp16", "bf16", "int8", "fp8"] | None = None
    host_kv_mb: Annotated[int, Field(ge=0)] = 0
    prefix_cache: bool = True
    retention: Literal["lru", "hit-density"] = "hit-density"
    max_running: Annotated[int, Field(ge=1)] | None = None
    max_waiting: Annotated[int, Field(ge=1)] | None = None
    tenant_waiting: Annotated[int, Field(ge=1)] | None = None
    step_tokens: Annotated[int, Field(ge=1)] | None = None
    prefill_tokens: Annotated[int, Field(ge=1)] | None = None
    long_prefill: Annotated[int, Field(ge=1)] | None = None
    runner: Literal["auto", "native", "torch"] = "auto"
    cache_epoch: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "0"
    min_cache_tokens: Annotated[int, Field(ge=1)] = 64
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None


class TraceSettings(Frozen):
    """OpenTelemetry traces, one span per layer; off, and without any cost, unless `endpoint` is set.

    Attributes:
        endpoint: OTLP/HTTP address of a collector, such as `http://collector:4318/v1/traces`; absent: no traces.
        headers: sent with each batch; kept out of repr, as they may hold credentials.
        share: of the requests that bring no `traceparent`, those that are traced; one that brings it has decided.
        service_name: what the traces call this gateway.
        max_waiting: spans that may wait to be sent, per worker; more are dropped and counted.
        timeout_s: longest time a batch may take to be sent; then it is dropped and counted.
    """

    endpoint: str | None = None
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    share: Annotated[float, Field(ge=0, le=1)] = 1.0
    service_name: str = "lamina"
    max_waiting: Annotated[int, Field(ge=1)] = 2048
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "http://none")
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
            raise ValueError("give http://host:4318/v1/traces or https://…, and credentials as headers")
        return url


class ProviderSettings(Frozen):
    """One upstream that speaks the OpenAI protocol.

    Attributes:
        kind: a name in the PROVIDERS table.
        base_url: up to and including `/v1`; `unix:///path.sock` for a Unix socket.
        api_key: sent as a bearer token.
        api_key_env: names an environment variable to take the key from.
        connect_timeout_s: to open a connection.
        read_timeout_s: longest silence between two reads.
        max_connections: open at once, per worker.
        ca_file: PEM file of the authorities that are trusted for `https://`, in place of the system's.
        cert_file: PEM file of a certificate that is shown to a provider which asks for one.
        key_file: PEM file of its key, without a passphrase; absent where `cert_file` holds both.
        proxy: `http://user:password@host:port` of a proxy to go through; HTTPS_PROXY and its like are not read.
        cache_marks: what becomes of an Anthropic request's `cache_control`: left out (drop), sent on parts and
            tools under that name (cache_control: OpenRouter, LiteLLM), or on parts as OpenAI's
            `prompt_cache_breakpoint` (breakpoint); the engine always takes it.
        headers: sent with each request; kept out of repr, as they may hold credentials.
    """

    kind: str = "openai"
    base_url: str
    api_key: SecretStr | None = None
    api_key_env: str | None = None
    connect_timeout_s: Annotated[float, Field(gt=0)] = 5.0
    read_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    max_connections: Annotated[int, Field(ge=1)] = 512
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    proxy: SecretStr | None = None
    cache_marks: MarkForm = "drop"
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)

    @field_validator("base_url")
    @classmethod
    def _holds_no_secret(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https", "unix"}:
            raise ValueError("give http://host/v1, https://host/v1 or unix:///path.sock")
        if "@" in parts.netloc:
            raise ValueError("give credentials as api_key or headers, not inside the URL")
        return url

    @field_validator("proxy")
    @classmethod
    def _is_a_proxy(cls, proxy: SecretStr | None) -> SecretStr | None:
        parts = urlsplit(proxy.get_secret_value() if proxy else "http://none")
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or not _is_port(parts):
            raise ValueError("give http://host:port or http://user:password@host:port")
        return proxy

    @model_validator(mode="after")
    def _encrypts_where_files_say_so(self) -> Self:
        if (self.ca_file or self.cert_file or self.key_file) and not self.base_url.startswith("https://"):
            raise ValueError("ca_file, cert_file and key_file are for https://; base_url has another scheme")
        if self.proxy and self.base_url.startswith("unix:"):
            raise ValueError("no proxy leads to a Unix socket")
        return self


class ModelSettings(Frozen):
    """One route: a model name clients ask for and who answers it.

    Attributes:
        name: the effective model's name; `*` takes every name that nothing else takes.
        provider: a key of `providers`, or `engine`.
        upstream_model: the name sent upstream; `name` when absent.
        aliases: other names for the same route; they share its entries.
        fallback: model names tried in order when the provider fails before its first byte.
        mode: overrides `cache.mode`.
        ttl_s: overrides `cache.ttl_s`.
        ttl_class: a name in `cache.ttl_classes`, whose life its entries have; `ttl_s` overrides that.
        max_wrong: overrides `semantic.max_wrong`.
        versions: parts of the key, such as a prompt-template version; a bump makes old entries unreachable.
    """

    name: str
    provider: str
    upstream_model: str | None = None
    aliases: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    mode: Mode | None = None
    ttl_s: Annotated[int, Field(ge=1)] | None = None
    ttl_class: str | None = None
    max_wrong: Annotated[float, Field(gt=0, lt=1)] | None = None
    versions: Mapping[str, str] = Field(default_factory=dict)


def _is_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False
