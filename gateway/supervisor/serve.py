"""`lamina serve`: from settings to a running set, and back to nothing."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

from pydantic import SecretStr

from gateway.home import Home, with_home_services
from gateway.settings import Settings, dump_resolved
from gateway.supervisor.banner import banner
from gateway.supervisor.checks import check
from gateway.supervisor.child import Program
from gateway.supervisor.embedded_set import EmbeddedSet, SetPrograms
from gateway.supervisor.first_key import first_key
from gateway.supervisor.listener import bind, url_of
from gateway.supervisor.open_home import admin_key, held_home, master_keys, master_secret, write_private
from gateway.supervisor.programs import (
    Modules,
    check_semantic_models,
    engine_program,
    model_path,
    redis_program,
    semantic_program,
    with_revision,
    worker_program,
)
from gateway.telemetry.logs import make_logger

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(settings: Settings, modules: Modules | None = None) -> int:
    """Runs a set until it is told to stop; returns the exit status.

    A first SIGTERM, SIGINT or SIGHUP drains, a second one ends everything at once.

    Args:
        settings: as given by the operator; embedded services fill what they leave open.
        modules: what the children run.

    Raises:
        LaminaError: the set cannot start; one line for the operator.
    """
    modules = modules or Modules()
    placed = with_home_services(settings)
    check(placed)
    home = Home(placed.home)
    own_engine = settings.engine_url is None and settings.engine.enabled
    model = model_path(settings) if own_engine else None
    placed = with_revision(placed, model) if model else placed
    if _has_own_semantic(settings, placed):
        check_semantic_models(placed.semantic)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(bind(settings.host, settings.port))
        stack.enter_context(held_home(home))
        resolved = _with_secrets(settings, placed, home).model_copy(update={"port": listener.getsockname()[1]})
        write_private(home.resolved_settings, dump_resolved(resolved))
        programs = SetPrograms(
            redis=redis_program(resolved, home) if settings.redis_url is None else None,
            engine=engine_program(resolved, home, model, modules.engine) if model else None,
            semantic=_semantic(settings, resolved, home, modules),
            workers=_workers(resolved, home, listener, modules),
        )
        if programs.redis is None and settings.redis_url is None:
            _say("no redis-server here: serving without the exact layer")
        return asyncio.run(_run(resolved, programs, listener))


def _with_secrets(asked: Settings, placed: Settings, home: Home) -> Settings:
    """The settings with the secrets that the home keeps, where no others are given.

    A database that runs elsewhere may have other gateways; so its master key is the operator's to give.
    """
    secret = placed.secret or SecretStr(master_secret(home))
    admin = placed.admin_key or SecretStr(admin_key(home))
    encryption = placed.encryption
    if encryption.enabled and encryption.master_key is None and asked.database_url is None:
        encryption = encryption.model_copy(update={"master_key": SecretStr(master_keys(home))})
    return placed.model_copy(update={"secret": secret, "admin_key": admin, "encryption": encryption})


def _semantic(asked: Settings, resolved: Settings, home: Home, modules: Modules) -> Program | None:
    """The semantic service, where some route compares meaning and no other one is named."""
    return semantic_program(resolved, home, modules.semantic) if _has_own_semantic(asked, resolved) else None


def _has_own_semantic(asked: Settings, placed: Settings) -> bool:
    return asked.semantic_url is None and placed.semantic_url is not None


def _workers(settings: Settings, home: Home, listener: socket.socket, modules: Modules) -> list[Program]:
    count = settings.workers
    return [worker_program(number, home, listener.fileno(), modules.app) for number in range(1, count + 1)]


async def _run(settings: Settings, programs: SetPrograms, listener: socket.socket) -> int:
    key = await first_key(settings)
    new_key = key if settings.bootstrap_key is None else None
    if new_key is not None:
        _say(f"Your first API key, shown only now: {new_key}")
    logger = make_logger(settings.log_level, os.getpid())
    processes = EmbeddedSet(programs, listener, settings.limits.drain_s, logger)
    stopping = _stop_on_signals(processes)
    url = url_of(listener)
    ready_text = banner(settings, url, new_key, Path.cwd())
    life = asyncio.create_task(_live(processes, url, settings.engine.name, ready_text))
    told_to_stop = asyncio.create_task(stopping.wait())
    await asyncio.wait({life, told_to_stop}, return_when=asyncio.FIRST_COMPLETED)
    told_to_stop.cancel()
    if life.done():
        await processes.stop()
        life.result()
        _say("error: the gateway's workers keep failing; their output is above")
        return 1
    life.cancel()
    _say("stopping: answering what is in flight, then ending")
    await processes.stop()
    return 1 if processes.killed else 0


async def _live(processes: EmbeddedSet, url: str, model: str, ready_text: str) -> None:
    """Returns only when the set is hopeless."""
    await processes.start()
    if not await processes.until_ready():
        return
    if processes.has_engine:
        _say(f"The gateway answers at {url}; the model {model} is loading ...")
        if not await processes.until_engine_ready():
            _say(f"warning: the engine keeps failing; serving without {model}. Its output is above")
    _say(ready_text)
    await asyncio.Event().wait()


def _stop_on_signals(processes: EmbeddedSet) -> asyncio.Event:
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            processes.kill()
        stopping.set()

    loop = asyncio.get_running_loop()
    for sent in _STOP_SIGNALS:
        if sent is not signal.SIGHUP or signal.getsignal(sent) is not signal.SIG_IGN:  # as nohup wants it
            loop.add_signal_handler(sent, stop)
    return stopping


def _say(text: str) -> None:
    """Tells the operator; on standard error, so that standard output is nothing but JSON events."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
