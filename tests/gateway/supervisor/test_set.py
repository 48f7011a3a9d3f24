"""Whole sets: they start, children that die come back, and they end in order. Real processes, real Redis."""

import json
import os
import re
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.running_set import RunningSet, alive

pytestmark = pytest.mark.slow
MakeSet = Callable[..., RunningSet]


def _redis(running: RunningSet, *words: str) -> bytes:
    line = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(running.home / "run" / "redis.sock"))
        connection.sendall(f"*{len(words)}\r\n{line}".encode())
        return connection.recv(4096)


def test_a_fresh_set_is_private_ready_and_shows_its_key_once(make_set: MakeSet) -> None:
    running = make_set().start()
    private = ("", "secret", "admin_key", "run/settings.json")
    modes = {name: stat.S_IMODE((running.home / name).stat().st_mode) for name in private}
    assert modes == {"": 0o700, "secret": 0o600, "admin_key": 0o600, "run/settings.json": 0o600}
    assert json.loads((running.home / "run/settings.json").read_text("utf-8"))["engine"]["revision"]
    assert running.get("/secret") == "True"
    assert running.output.count("Your first API key, shown only now: lam_") == 1
    assert running.stop() == 0
    assert "API key" not in make_set().start().output


def test_killed_children_are_started_again(make_set: MakeSet) -> None:
    running = make_set().start()
    before = running.children()
    assert before.keys() == {"redis", "engine", "worker"}
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    running.wait_for(lambda: running.children().keys() == before.keys(), within_s=10)
    running.wait_for(lambda: _redis_answers(running), within_s=10)
    after = running.children()
    assert not set(after.values()) & set(before.values())
    assert running.get("/healthz") == str(after["worker"])
    assert running.stop() == 0


def _redis_answers(running: RunningSet) -> bool:
    try:
        return _redis(running, "PING") == b"+PONG\r\n"
    except OSError:
        return False


def test_sigterm_answers_what_is_in_flight_and_ends_with_0(make_set: MakeSet) -> None:
    running = make_set(LAMINA_LIMITS__DRAIN_S="10").start()
    answers: list[str] = []
    client = threading.Thread(target=lambda: answers.append(running.get("/slow/1.5")))
    client.start()
    time.sleep(0.5)
    running.send(signal.SIGTERM)
    running.wait_for(running.refuses_connections, within_s=1)
    assert running.wait(within_s=8) == 0
    client.join()
    assert len(answers) == 1


def test_draining_is_bounded(make_set: MakeSet) -> None:
    running = make_set(LAMINA_LIMITS__DRAIN_S="0.5").start()
    with socket.create_connection(("127.0.0.1", running.port)) as client:
        client.sendall(b"GET /slow/60 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.3)
        running.send(signal.SIGTERM)
        assert running.wait(within_s=8) == 0


def test_a_second_signal_ends_everything_at_once(make_set: MakeSet) -> None:
    running = make_set().start()
    children = running.children()
    with socket.create_connection(("127.0.0.1", running.port)) as client:
        client.sendall(b"GET /slow/60 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.3)
        running.send(signal.SIGINT)
        time.sleep(0.3)
        running.send(signal.SIGINT)
        assert running.wait(within_s=3) == 1
    assert not any(alive(pid) for pid in children.values())


def test_a_killed_supervisor_leaves_no_children(make_set: MakeSet) -> None:
    running = make_set().start()
    children = running.children()
    assert children.keys() == {"redis", "engine", "worker"}
    running.send(signal.SIGKILL)
    running.wait(within_s=3)
    running.wait_for(lambda: not any(alive(pid) for pid in children.values()), within_s=3)
    assert make_set().start().stop() == 0


def test_the_cache_survives_a_restart(make_set: MakeSet) -> None:
    running = make_set().start()
    _redis(running, "SET", "k", "v", "EX", "100")
    assert running.stop() == 0
    running = make_set().start()
    assert _redis(running, "GET", "k") == b"$1\r\nv\r\n"


def test_a_spoilt_snapshot_is_set_aside(make_set: MakeSet) -> None:
    running = make_set()
    running.home.mkdir(mode=0o700)
    (running.home / "redis.rdb").write_bytes(b"REDIS0009 and then nonsense")
    running.start()
    running.wait_for(lambda: _redis_answers(running), within_s=10)
    assert (running.home / "redis.spoilt").exists()


def test_a_redis_that_never_starts_stops_nothing(make_set: MakeSet, tmp_path: Path) -> None:
    fake = tmp_path / "redis-server"
    fake.write_text("#!/bin/sh\nexit 1\n", "utf-8")
    fake.chmod(0o755)
    running = make_set(PATH=f"{tmp_path}:{os.environ['PATH']}").start()
    assert running.get("/healthz")
    assert "serving without redis" in running.output
    assert running.stop() == 0


def test_two_sets_run_side_by_side(make_set: MakeSet) -> None:
    one, two = make_set("one").launch(), make_set("two").start()
    one.wait_for(lambda: "Lamina is ready" in one.output)
    assert one.port != two.port
    assert re.search(r"Dashboard: http://\S+/admin/ui, with the key in \S+/admin_key", one.output)
    assert one.get("/healthz") != two.get("/healthz")
    assert (one.stop(), two.stop()) == (0, 0)


def test_several_workers_share_the_port(make_set: MakeSet) -> None:
    running = make_set(LAMINA_WORKERS="2", LAMINA_ENGINE__ENABLED="false").start()
    first = running.get("/healthz")
    running.wait_for(lambda: running.get("/healthz") != first, within_s=20)
    assert running.stop() == 0


def test_a_home_with_a_long_path_works(make_set: MakeSet) -> None:
    running = make_set("h" * 120).start()
    assert _redis_link(running).is_symlink()
    assert running.stop() == 0
    assert not running.output.count("Traceback")


def _redis_link(running: RunningSet) -> Path:
    config = (running.home / "run" / "redis.conf").read_text("utf-8")
    return Path(config.partition('unixsocket "')[2].partition('"')[0]).parent


def test_workers_that_keep_failing_end_the_set(make_set: MakeSet) -> None:
    running = make_set(app="tests.gateway.supervisor.stub_app:broken_app").launch()
    assert running.wait(within_s=30) == 1
    assert "workers keep failing" in running.output
    assert "broken on purpose" in running.output


def test_an_engine_that_keeps_failing_is_served_without(make_set: MakeSet) -> None:
    running = make_set(engine="tests.gateway.supervisor.no_such_engine").start()
    assert "the engine keeps failing" in running.output
    assert running.get("/healthz")
    assert running.stop() == 0
