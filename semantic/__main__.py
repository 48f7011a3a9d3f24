"""`python -m semantic`: serve nominations, embeddings and verdicts over the rows of one database."""

import argparse
import gc
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from semantic.app import App
from semantic.errors import SemanticError
from semantic.metrics import Metrics
from semantic.options import Options, read_master_keys, read_token
from semantic.server import listening, serve
from semantic.wiring import Service, load_models

_DEFAULTS = Options()
_MOST_THREADS = 2
_SWITCH_INTERVAL_S = 0.0005
"""How long one thread may keep the others from running Python; the judge's threads wait for each other."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server; 0 after a clean stop, 2 when a model, an option or the address is bad."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        options = _options(given)
        metrics = Metrics()
        app = App(Service(options, load_models(options, metrics), metrics), options.token)
        # What was loaded lives as long as the process: the collector need not walk it again.
        gc.collect()
        gc.freeze()
        with listening(options) as listener:
            serve(app, listener, options.drain_s)
    except SemanticError as error:
        sys.stderr.write(f"semantic: {error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m semantic", description="Compare questions by meaning.")
    add = parser.add_argument
    add("--socket", type=Path, help="listen on this Unix socket")
    add("--host", default=_DEFAULTS.host, help="listen here when no --socket is given")
    add("--port", type=int, default=_DEFAULTS.port, help="listen here when no --socket is given")
    add("--database-url", help="the gateway's database; without one there is no index")
    add("--database-url-file", type=Path, help="the same, in a file: it may hold a password")
    add("--master-key-file", type=Path, help="the gateway's encryption.master_key, where it encrypts")
    add("--home", type=Path, help="folder for snapshots of the index")
    add("--model", help="embedder: a folder or a hub name (default: the packaged all-MiniLM-L6-v2)")
    add("--embedder", default=_DEFAULTS.embedder, help="kind of embedder: auto, onnx or sentence")
    add("--verifier", type=Path, help="folder of the verifier (default: the packaged one)")
    add("--threads", type=int, help="threads that compute in each model (default: 2, where there are two cores)")
    add("--token-file", type=Path, help="requests must carry the token in this file as a bearer")
    add("--cache-mib", type=int, default=_DEFAULTS.cache_mib, help="for vectors of texts asked for")
    add("--questions-mib", type=int, default=_DEFAULTS.questions_mib, help="for questions of stored rows")
    add("--snapshot-seconds", type=float, default=_DEFAULTS.snapshot_s, help="between snapshots")
    add("--drain", type=float, default=_DEFAULTS.drain_s, help="seconds to finish open requests after SIGTERM")
    return parser


def _threads() -> int:
    return min(_MOST_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


def _options(given: argparse.Namespace) -> Options:
    return Options(
        socket=given.socket,
        host=given.host,
        port=given.port,
        database_url=read_token(given.database_url_file) if given.database_url_file else given.database_url,
        master_keys=read_master_keys(given.master_key_file) if given.master_key_file else None,
        home=given.home,
        model=given.model,
        embedder=given.embedder,
        verifier=given.verifier,
        threads=given.threads if given.threads is not None else _threads(),
        token=read_token(given.token_file) if given.token_file else None,
        cache_mib=given.cache_mib,
        questions_mib=given.questions_mib,
        snapshot_s=given.snapshot_seconds,
        drain_s=given.drain,
    ).checked()


if __name__ == "__main__":
    sys.exit(main())
