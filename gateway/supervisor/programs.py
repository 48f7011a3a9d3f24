"""The programs of one embedded set, as command lines."""

import sys
from dataclasses import dataclass
from pathlib import Path

from engine.errors import EngineError
from engine.packaged import packaged_model
from engine.revision import model_revision
from gateway.home import Home
from gateway.settings import SemanticSettings, Settings, child_environment
from gateway.supervisor.child import Program
from gateway.supervisor.embedded_redis import find_redis_server, redis_config
from gateway.supervisor.errors import StartError
from gateway.supervisor.open_home import write_private
from gateway.supervisor.restart import Restarts
from gateway.telemetry.metrics import forget_worker

_SPOILT_AFTER_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Modules:
    """What the children run; tests put their own here.

    Attributes:
        app: `module:function` that makes the gateway's ASGI app from settings.
        engine, semantic: run with `python -m`.
    """

    app: str = "gateway.app:create_app"
    engine: str = "engine"
    semantic: str = "semantic"


def model_path(settings: Settings) -> Path:
    """The model the embedded engine loads.

    Raises:
        StartError: it is not there.
    """
    chosen = settings.engine.model
    if chosen is None:
        try:
            return packaged_model()
        except EngineError as error:
            raise StartError(str(error)) from None
    path = chosen.expanduser().absolute()
    if not path.exists():
        raise StartError(f"model {path} does not exist; set LAMINA_ENGINE__MODEL to a GGUF file or a folder")
    return path


def with_revision(settings: Settings, model: Path) -> Settings:
    """The settings with the revision of the model that the embedded engine loads, unless they name one.

    Raises:
        StartError: the model cannot be read.
    """
    engine = settings.engine
    if engine.revision is not None:
        return settings
    try:
        revision = model_revision(model, (engine.temperature, engine.top_p))
    except EngineError as error:
        raise StartError(str(error)) from None
    return settings.model_copy(update={"engine": engine.model_copy(update={"revision": revision})})


def redis_program(settings: Settings, home: Home) -> Program | None:
    """The embedded Redis, or None when this machine has no redis-server."""
    server = find_redis_server()
    if server is None:
        return None
    config = home.run / "redis.conf"
    write_private(config, redis_config(home.root, home.redis_socket, settings.redis.max_memory_mb))
    snapshot = home.root / "redis.rdb"

    def set_spoilt_snapshot_aside(past: Restarts) -> None:
        if past.failures == _SPOILT_AFTER_FAILURES and snapshot.exists():
            snapshot.rename(snapshot.with_suffix(".spoilt"))

    return Program(
        "redis",
        (str(server), str(config)),
        child_environment({}),
        stale=(home.redis_socket,),
        before_restart=set_spoilt_snapshot_aside,
    )


def engine_program(settings: Settings, home: Home, model: Path, module: str) -> Program:
    """The embedded engine on its Unix socket."""
    engine = settings.engine
    options = {
        "--model": model,
        "--name": engine.name,
        "--socket": home.engine_socket,
        "--threads": engine.threads,
        "--block-size": engine.block_size,
        "--kv-tokens": engine.kv_tokens if engine.kv_memory_mb is None else None,
        "--kv-memory-mb": engine.kv_memory_mb,
        "--kv-dtype": engine.kv_dtype,
        "--host-kv-mb": engine.host_kv_mb,
        "--prefix-cache": "on" if engine.prefix_cache else "off",
        "--retention": engine.retention,
        "--max-running": engine.max_running,
        "--max-waiting": engine.max_waiting,
        "--tenant-waiting": engine.tenant_waiting,
        "--step-tokens": engine.step_tokens,
        "--prefill-tokens": engine.prefill_tokens,
        "--long-prefill": engine.long_prefill,
        "--runner": engine.runner,
        "--min-cache-tokens": engine.min_cache_tokens,
        "--temperature": engine.temperature,
        "--top-p": engine.top_p,
    }
    flags = [str(part) for name, value in options.items() if value is not None for part in (name, value)]
    argv = (sys.executable, "-P", "-m", module, *flags)
    return Program("engine", argv, child_environment(_BOUNDED_SPIN), stale=(home.engine_socket,))


_BOUNDED_SPIN = {"GOMP_SPINCOUNT": "3000"}
"""Threads that wait for ever in a spin take the cores that HTTP and Redis share: steps of seconds were seen."""


def semantic_program(settings: Settings, home: Home, module: str) -> Program:
    """The embedded semantic service on its Unix socket, which is private to us and needs no token."""
    semantic = settings.semantic
    database_url = settings.database_url.get_secret_value() if settings.database_url else ""
    write_private(home.semantic_database, database_url)
    encryption = settings.encryption
    keys = encryption.master_key if encryption.enabled else None
    if keys is not None:
        write_private(home.semantic_keys, keys.get_secret_value())
    options = {
        "--socket": home.semantic_socket,
        "--database-url-file": home.semantic_database,
        "--master-key-file": None if keys is None else home.semantic_keys,
        "--home": home.semantic,
        "--model": semantic.model,
        "--verifier": semantic.verifier,
        "--threads": semantic.threads,
    }
    flags = [str(part) for name, value in options.items() if value is not None for part in (name, value)]
    argv = (sys.executable, "-P", "-m", module, *flags)
    return Program("semantic", argv, child_environment(_BOUNDED_SPIN), stale=(home.semantic_socket,))


def check_semantic_models(semantic: SemanticSettings) -> None:
    """Passes models that are there, or that may be a hub's: a relative name that is no folder here.

    Raises:
        StartError: one is named as a place on this machine and is no folder.
    """
    named = {"MODEL": semantic.model, "VERIFIER": semantic.verifier}
    for name, place in named.items():
        if place is None or place.is_dir() or (name == "MODEL" and place.parts[0] not in {"/", "~", ".", ".."}):
            continue
        raise StartError(
            f"{place} is not a folder; set LAMINA_SEMANTIC__{name} to one with a model, or leave it out"
        )


def worker_program(number: int, home: Home, listener_fd: int, app: str) -> Program:
    """One gateway worker on the shared listener."""
    python = (sys.executable, "-P", "-m", "gateway.worker")
    argv = (*python, "--fd", str(listener_fd), "--settings", str(home.resolved_settings), "--app", app)
    return Program(
        f"worker-{number}",
        argv,
        child_environment({"PROMETHEUS_MULTIPROC_DIR": str(home.metrics)}),
        fds=(listener_fd,),
        after_exit=lambda pid: forget_worker(home.metrics, pid),
    )
