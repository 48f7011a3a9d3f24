"""`lamina stack init`: the first key once, nothing the second time, and one line where it cannot work."""

import json
import re
from pathlib import Path

import pytest

from tests.gateway.cli.conftest import Lamina

KEY = re.compile(r"lam_[\w-]{40,}")


@pytest.fixture
def database(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file that names a database, as a mounted secret does."""
    path = home.parent / "database_url"
    path.write_text(f"sqlite:///{home.parent / 'stack.db'}\n", "utf-8")
    monkeypatch.setenv("DATABASE_URL_FILE", str(path))
    return str(path)


def test_the_first_key_is_shown_once(lamina: Lamina, database: str) -> None:
    first, second = lamina("stack", "init", "--url", "http://here:1"), lamina("stack", "init")
    assert first.status == second.status == 0
    (key,) = set(KEY.findall(first.out))
    assert "curl -i http://here:1/v1/chat/completions" in first.out
    assert f"Bearer {key}" in first.out
    assert not KEY.search(second.out + second.err)
    assert "keys exist already" in second.out


def test_for_scripts_it_is_one_object(lamina: Lamina, database: str) -> None:
    assert KEY.fullmatch(json.loads(lamina("stack", "init", "--json").out)["key"])
    assert json.loads(lamina("stack", "init", "--json").out) == {"key": None}


def test_a_key_that_the_operator_chose_is_not_repeated(
    lamina: Lamina, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_BOOTSTRAP_KEY", "lam_chosen_by_the_operator_0123456789")
    assert "lam_chosen" not in lamina("stack", "init").out


def test_without_a_database_it_says_what_is_missing(lamina: Lamina) -> None:
    ran = lamina("stack", "init")
    assert ran.status == 1
    assert ran.err.startswith("error: lamina stack init: set DATABASE_URL, or DATABASE_URL_FILE")


def test_a_database_that_stays_away_is_one_line(lamina: Lamina, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:hidden@127.0.0.1:9/d")
    ran = lamina("stack", "init", "--within", "0.1")
    assert ran.status == 1
    assert ran.err.startswith("error: the database does not answer")
    assert "hidden" not in ran.err
