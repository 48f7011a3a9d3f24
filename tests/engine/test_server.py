"""Addresses: bound, refused in one line, and left clean."""

import socket
from pathlib import Path

import pytest

from engine.config import Address
from engine.errors import EngineError
from engine.server import listening


def test_a_unix_socket_is_private_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "e.sock"
    with listening(Address(path, "", 0)):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_a_free_tcp_port_is_bound() -> None:
    with listening(Address(None, "127.0.0.1", 0)) as listener, socket.socket() as client:
        client.connect(listener.getsockname())


def test_an_address_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "e.sock"
    with listening(Address(path, "", 0)):
        with pytest.raises(EngineError, match="in use"), listening(Address(path, "", 0)):
            pass
        assert path.exists()
    with (
        listening(Address(None, "127.0.0.1", 0)) as first,
        pytest.raises(EngineError, match="in use"),
        listening(Address(None, *first.getsockname())),
    ):
        pass


def test_a_socket_nobody_listens_on_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "e.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with listening(Address(path, "", 0)), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_file_in_the_way_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "e.sock"
    path.write_text("precious")
    with pytest.raises(EngineError, match="in use"), listening(Address(path, "", 0)):
        pass
    assert path.read_text() == "precious"


@pytest.mark.parametrize("path", ["/nowhere/e.sock", "/" + "x" * 200])
def test_an_impossible_path_is_one_line(path: str) -> None:
    with pytest.raises(EngineError, match="cannot listen on /"), listening(Address(Path(path), "", 0)):
        pass


def test_an_impossible_port_is_refused() -> None:
    with pytest.raises(EngineError, match="port must be"):
        Address(None, "127.0.0.1", 65536)
