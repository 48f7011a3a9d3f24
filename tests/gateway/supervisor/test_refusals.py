"""What stops a set before anything has been started: one clear line and status 1."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.errors import SettingsError
from gateway.home import Home, with_home_services
from gateway.settings import Settings
from gateway.supervisor.checks import check
from gateway.supervisor.errors import StartError
from gateway.supervisor.open_home import admin_key, held_home, master_secret
from tests.servers.running_set import RunningSet

MakeSet = Callable[..., RunningSet]


def _complaint(running: RunningSet) -> str:
    assert running.launch().wait() == 1
    assert "Traceback" not in running.output
    return running.output.strip()


@pytest.mark.slow
def test_a_port_in_use(make_set: MakeSet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        expected = f"error: port {port} on 127.0.0.1 is in use; set LAMINA_PORT to another one"
        assert _complaint(make_set(LAMINA_PORT=str(port))) == expected


@pytest.mark.slow
def test_an_address_of_another_machine(make_set: MakeSet) -> None:
    assert _complaint(make_set(LAMINA_HOST="192.0.2.1")).startswith("error: cannot listen on 192.0.2.1")


@pytest.mark.slow
def test_a_bad_setting(make_set: MakeSet) -> None:
    assert _complaint(make_set(LAMINA_WORKERS="none")).startswith("error: bad setting LAMINA_WORKERS: ")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"redis_url": "http://:hunter2@host"}, "redis_url: give redis://"),
        ({"providers": {"p": {"kind": "x", "base_url": "http://h"}}}, "provider 'p': unknown kind 'x'"),
        ({"engine": {"enabled": False}, "models": [{"name": "m", "provider": "engine"}]}, "the engine is off"),
    ],
)
def test_settings_that_would_stop_every_worker(tree: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check(with_home_services(Settings.model_validate(tree)))
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_settings_that_work_pass() -> None:
    check(with_home_services(Settings()))


@pytest.mark.slow
def test_a_missing_model(make_set: MakeSet) -> None:
    running = make_set(LAMINA_ENGINE__MODEL="/nowhere/model.gguf")
    assert _complaint(running).startswith("error: model /nowhere/model.gguf does not exist")
    assert not running.home.exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MODEL", "VERIFIER"])
def test_a_missing_model_of_the_semantic_service(make_set: MakeSet, name: str) -> None:
    running = make_set(LAMINA_CACHE__MODE="semantic", **{f"LAMINA_SEMANTIC__{name}": "/nowhere/model"})
    said = f"error: /nowhere/model is not a folder; set LAMINA_SEMANTIC__{name}"
    assert _complaint(running).startswith(said)
    assert not running.home.exists()


@pytest.mark.slow
def test_a_home_in_use(make_set: MakeSet) -> None:
    first = make_set().start()
    complaint = _complaint(RunningSet(first.home, {"LAMINA_ENGINE__ENABLED": "false"}))
    assert f"is in use by another set (pid {first.pid})" in complaint


@pytest.mark.slow
def test_a_database_that_does_not_answer(make_set: MakeSet) -> None:
    running = make_set(DATABASE_URL="postgresql://lamina:hunter2@127.0.0.1:1/lamina")
    complaint = _complaint(running)
    assert complaint.startswith("error: the database does not answer")
    assert "hunter2" not in complaint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_home_of_someone_else(tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir(mode=0o700)
    os.chown(root, 65534, 65534)
    with pytest.raises(StartError, match="belongs to user id 65534"), held_home(Home(root)):
        pass


def test_a_home_that_is_open_and_holds_other_things(tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir()
    root.chmod(0o755)
    (root / "thesis.tex").touch()
    with pytest.raises(StartError, match=r"not Lamina's"), held_home(Home(root)):
        pass
    assert root.stat().st_mode & 0o777 == 0o755


def test_an_empty_open_home_is_closed(tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir()
    root.chmod(0o755)
    with held_home(Home(root)):
        assert root.stat().st_mode & 0o777 == 0o700


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(StartError, match="cannot use home"), held_home(Home(tmp_path / "home")):
        pass


def test_a_home_is_free_again_afterwards(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with held_home(home), pytest.raises(StartError, match=f"pid {os.getpid()}"), held_home(home):
        pass
    with held_home(home):
        pass


def test_the_administrators_key_is_made_once_and_private(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert admin_key(home) == admin_key(home)
    assert len(admin_key(home)) >= 64
    assert home.admin_key.stat().st_mode & 0o777 == 0o600
    home.admin_key.write_text("short", "utf-8")
    with pytest.raises(StartError, match="admin_key holds no key"):
        admin_key(home)


def test_the_secret_is_made_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert master_secret(home) == master_secret(home)
    assert len(master_secret(home)) >= 32
    home.secret.write_text("", "utf-8")
    with pytest.raises(StartError, match="is empty"):
        master_secret(home)
