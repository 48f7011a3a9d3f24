"""Secrets in files: `NAME_FILE` beside every masked setting, refused where it is unclear what is meant."""

from pathlib import Path

import pytest

from gateway.errors import SettingsError
from gateway.settings import child_environment, load_settings

SECRET = "s" * 40


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n", "utf-8")
    return str(path)


def revealed(value: object) -> str:
    return str(value.get_secret_value()) if hasattr(value, "get_secret_value") else ""


def test_a_secret_is_read_from_its_file(secret: str) -> None:
    settings = load_settings({"LAMINA_SECRET_FILE": secret, "LAMINA_SEMANTIC__TOKEN_FILE": secret})
    assert revealed(settings.secret) == revealed(settings.semantic.token) == SECRET


@pytest.mark.parametrize(
    ("name", "url"), [("DATABASE_URL", "postgresql://u:p@h/d"), ("REDIS_URL", "redis://u:p@h")]
)
def test_so_is_a_url_that_may_hold_a_password(name: str, url: str, tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text(url, "utf-8")
    settings = load_settings({f"{name}_FILE": str(path)})
    assert revealed(getattr(settings, name.lower())) == url
    assert url not in repr(settings)


def test_a_providers_key_too_under_its_setting_or_its_own_variable(secret: str) -> None:
    base = {"LAMINA_PROVIDERS__UP__BASE_URL": "http://h/v1"}
    named = load_settings({**base, "LAMINA_PROVIDERS__UP__API_KEY_FILE": secret})
    own = load_settings({**base, "LAMINA_PROVIDERS__UP__API_KEY_ENV": "UP_KEY", "UP_KEY_FILE": secret})
    assert revealed(named.providers["up"].api_key) == revealed(own.providers["up"].api_key) == SECRET


def test_both_at_once_are_refused(secret: str) -> None:
    with pytest.raises(SettingsError, match="LAMINA_SECRET and LAMINA_SECRET_FILE are both set"):
        load_settings({"LAMINA_SECRET_FILE": secret, "LAMINA_SECRET": SECRET})


@pytest.mark.parametrize(
    ("text", "told"), [(None, "No such file"), (b" \n", "is empty"), (b"\xff\xfe", "is not text")]
)
def test_a_file_that_holds_no_secret_is_named(text: bytes | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(SettingsError, match=f"^LAMINA_SECRET_FILE: .*{told}"):
        load_settings({"LAMINA_SECRET_FILE": str(path)})


def test_what_is_no_secret_has_no_file(secret: str) -> None:
    with pytest.raises(SettingsError, match="unknown setting LAMINA_PORT_FILE"):
        load_settings({"LAMINA_PORT_FILE": secret})


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load_settings({"LAMINA_SECRET_FILE": "", "DATABASE_URL_FILE": ""}).secret is None


def test_a_child_does_not_learn_where_they_are(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL_FILE", secret)
    monkeypatch.setenv("LAMINA_SECRET_FILE", secret)
    assert not {"DATABASE_URL_FILE", "LAMINA_SECRET_FILE"} & child_environment({}).keys()


@pytest.mark.parametrize("url", ["ftp://h", "http://u:p@h/v1/traces", "collector:4318", "http:///v1"])
def test_an_address_of_a_collector_is_checked(url: str) -> None:
    with pytest.raises(SettingsError, match=r"traces.endpoint|LAMINA_TRACES__ENDPOINT"):
        load_settings({"LAMINA_TRACES__ENDPOINT": url})
