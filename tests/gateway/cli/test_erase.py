"""`lamina erase` and `lamina encryption`: they ask first, refuse what makes no sense, and say what is missing."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.encryption import encryption
from gateway.cli.erase import erase
from gateway.cli.gateway_client import GatewayUnreachable
from gateway.errors import SettingsError

ADMIN = "lam_admin_" + "a" * 40


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a set."""
    monkeypatch.setenv("LAMINA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAMINA_ADMIN_KEY", ADMIN)
    monkeypatch.setenv("LAMINA_CONFIG", "/dev/null")
    return tmp_path / "home"


def test_nothing_is_erased_without_a_yes() -> None:
    for words in (["--tenant", "acme"], ["--tenant", "acme", "--user", "u1"]):
        done = CliRunner().invoke(erase, words, input="n\n")
        assert done.exit_code == 1
        assert "for good?" in done.output
        assert "u1" not in done.output


def test_without_a_gateway_it_says_so() -> None:
    done = CliRunner().invoke(erase, ["--tenant", "acme", "--yes", "--url", "http://127.0.0.1:1"])
    assert isinstance(done.exception, GatewayUnreachable)


def test_rotation_wants_a_key_and_options_that_go_together() -> None:
    done = CliRunner().invoke(encryption, ["rotate"])
    assert isinstance(done.exception, SettingsError)
    assert CliRunner().invoke(encryption, ["rotate", "--tenant", "acme"]).exit_code == 2


def test_the_status_says_that_nothing_is_encrypted() -> None:
    done = CliRunner().invoke(encryption, ["status", "--json"])
    assert done.exit_code == 0
    assert '"encrypts": false' in done.output
    told = CliRunner().invoke(encryption, ["status"])
    assert "nothing is encrypted" in told.output


def test_a_short_master_key_is_one_line(home: Path) -> None:
    home.mkdir()
    (home / "master_key").write_text("tiny-secret\n")
    done = CliRunner().invoke(encryption, ["status"])
    assert isinstance(done.exception, SettingsError)
    assert "32 characters" in str(done.exception)
    assert "tiny-secret" not in str(done.exception)
