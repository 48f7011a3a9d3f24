"""Settings: precedence, refusals with a suggestion, masking, and the way to the workers and back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.errors import SettingsError
from gateway.home import Home, with_home_services
from gateway.settings import (
    Settings,
    child_environment,
    dump_resolved,
    load_resolved,
    load_settings,
    settings_from_environment,
)

TOML = """
port = 9000
[cache]
ttl_s = 60
ignored_fields = ["seed"]
[providers.openai]
base_url = "https://api.example.com/v1"
api_key = "sk-very-secret"
headers = { X-Token = "also-secret" }
[[models]]
name = "gpt-x"
provider = "openai"
aliases = ["small"]
fallback = ["smollm2"]
"""

FALLBACK = "providers.up.base_url='http://h/v1'\n[[models]]\nname='a'\nprovider='{}'\nfallback=['smollm2']"


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "lamina.toml"
    path.write_text(TOML, "utf-8")
    return path


def test_defaults_need_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings({}) == Settings()
    assert load_settings({}).port == 8080


def test_the_file_in_the_working_folder_is_read(toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toml.parent)
    assert load_settings({}).port == 9000


def test_the_environment_wins_over_the_file(toml: Path) -> None:
    settings = load_settings({"LAMINA_PORT": "9001", "LAMINA_CACHE__TTL_S": "5"}, toml)
    assert (settings.port, settings.cache.ttl_s, settings.models[0].aliases) == (9001, 5, ("small",))


def test_lamina_names_win_over_plain_ones_and_those_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lamina.toml"
    path.write_text('redis_url = "redis://file"\ndatabase_url = "sqlite:///file"', "utf-8")
    environ = {"REDIS_URL": "redis://plain", "LAMINA_REDIS_URL": "redis://ours", "DATABASE_URL": "sqlite:///plain"}
    settings = load_settings(environ, path)
    assert settings.redis_url == SecretStr("redis://ours")
    assert settings.database_url == SecretStr("sqlite:///plain")


def test_an_empty_variable_is_not_set(toml: Path) -> None:
    settings = load_settings({"LAMINA_PORT": "", "REDIS_URL": "", "LAMINA_CONFIG": str(toml)})
    assert (settings.port, settings.redis_url) == (9000, None)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("LAMINA_CACHE__IGNORED_FIELDS", "seed, top_p", ("seed", "top_p")),
        ("LAMINA_CACHE__IGNORED_FIELDS", '["a,b"]', ("a,b",)),
        ("LAMINA_CACHE__VERSIONS", "prompt=3,kb=x=y", {"prompt": "3", "kb": "x=y"}),
        ("LAMINA_CACHE__VERSIONS", '{"prompt": "3"}', {"prompt": "3"}),
        ("LAMINA_CACHE__HONOUR_NO_CACHE", "false", False),
    ],
)
def test_lists_and_tables_from_text(name: str, text: str, value: object) -> None:
    cache = load_settings({name: text, "LAMINA_CONFIG": ""}, Path("/dev/null")).cache
    assert getattr(cache, name.removeprefix("LAMINA_CACHE__").lower()) == value


def test_providers_and_models_from_the_environment_alone() -> None:
    environ = {
        "LAMINA_PROVIDERS__VLLM__BASE_URL": "http://gpu:8000/v1",
        "LAMINA_PROVIDERS__VLLM__API_KEY_ENV": "GPU_KEY",
        "GPU_KEY": "sk-1",
        "LAMINA_MODELS": '[{"name": "*", "provider": "vllm"}]',
    }
    settings = load_settings(environ, Path("/dev/null"))
    assert settings.providers["vllm"].api_key == SecretStr("sk-1")
    assert settings.models[0].provider == "vllm"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"LAMINA_PROT": "1"}, "unknown setting LAMINA_PROT; did you mean LAMINA_PORT?"),
        ({"LAMINA_CACHE__TTL": "1"}, "unknown setting LAMINA_CACHE__TTL; did you mean LAMINA_CACHE__TTL_S?"),
        ({"LAMINA_ZZZZZ": "1"}, "unknown setting LAMINA_ZZZZZ"),
        ({"LAMINA_PORT": "http"}, "bad setting LAMINA_PORT: Input should be a valid integer"),
        ({"LAMINA_PORT": "70000"}, "bad setting LAMINA_PORT: Input should be less than or equal to 65535"),
        ({"LAMINA_CACHE__MODE": "exakt"}, "bad setting LAMINA_CACHE__MODE: Input should be 'off'"),
        ({"LAMINA_CACHE__VERSIONS": "{"}, "LAMINA_CACHE__VERSIONS is not valid JSON"),
        ({"LAMINA_CACHE__VERSIONS": "3"}, "LAMINA_CACHE__VERSIONS is a table"),
        ({"LAMINA_PORT__X": "3"}, "bad setting"),
        ({"LAMINA_SECRET": "short"}, "bad setting LAMINA_SECRET: give at least 32"),
        ({"LAMINA_BOOTSTRAP_KEY": "a b"}, "bad setting LAMINA_BOOTSTRAP_KEY: a key is printable"),
        ({"LAMINA_CONFIG": "/nowhere.toml"}, "cannot read /nowhere.toml: No such file"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"LAMINA_CONFIG": "/dev/null", **environ})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = ", "is not valid TOML"),
        ("[cache]\nmodes = 'off'", "unknown setting cache.modes; did you mean cache.mode?"),
        ("[[models]]\nname = 'a'\nprovider = 'b'", "provider 'b' is not in [providers]"),
        ("[[models]]\nname='a'\nprovider='engine'\nfallbak=['b']", "did you mean models.0.fallback?"),
        ("[[models]]\nname='a'\nprovider='engine'\nfallback=['b']", "fallback 'b' is not a model"),
        (f"engine.enabled=false\n{FALLBACK.format('up')}", "fallback 'smollm2' is not a model"),
        (f"{FALLBACK.format('engine')}\naliases=['smollm2']", "fallback 'smollm2' is not a model"),
        ("[providers.'a/b']\nbase_url='http://h/v1'", "provider 'a/b': a name is"),
        ("[[models]]\nname='a'\nprovider='engine'\naliases=['a']", "model name 'a' is given twice"),
        ("[providers.p]\nbase_url = 'https://u:p@host/v1'", "not inside the URL"),
        ("[providers.p]\nbase_url = 'ftp://host'", "give http://host/v1"),
        ("[providers.p]\nbase_url = 'http://h'\napi_key_env = 'NOPE'", "environment variable NOPE is not set"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "lamina.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings({}, path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_secret_in_repr_or_errors(toml: Path) -> None:
    environ = {
        "LAMINA_SECRET": "s" * 40,
        "LAMINA_BOOTSTRAP_KEY": "lam_secret",
        "REDIS_URL": "redis://:hunter2@host",
        "DATABASE_URL": "postgresql://u:hunter2@host/db",
    }
    shown = repr(load_settings(environ, toml)) + str(load_settings(environ, toml))
    for secret in ("s" * 40, "lam_secret", "hunter2", "sk-very-secret", "also-secret"):
        assert secret not in shown
    with pytest.raises(SettingsError) as caught:
        load_settings({**environ, "LAMINA_SECRET": "hunter3"}, toml)
    assert "hunter3" not in str(caught.value)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 1


def test_workers_read_what_the_supervisor_wrote(toml: Path, tmp_path: Path) -> None:
    settings = with_home_services(load_settings({"LAMINA_SECRET": "s" * 40, "LAMINA_HOME": "here"}, toml))
    path = tmp_path / "settings.json"
    path.write_text(dump_resolved(settings), "utf-8")
    assert load_resolved(path) == settings
    assert settings.home == Path.cwd() / "here"


@pytest.mark.parametrize("text", ["", "[]", '{"prot": 1}'])
def test_a_broken_resolved_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text, "utf-8")
    with pytest.raises(SettingsError):
        load_resolved(path)


def test_children_do_not_inherit_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_SECRET", "s" * 40)
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:p@h/d")
    monkeypatch.setenv("OTHER", "kept")
    child = child_environment({"NEW": "1"})
    assert (child["OTHER"], child["NEW"]) == ("kept", "1")
    assert not {"LAMINA_SECRET", "DATABASE_URL"} & child.keys()
    assert settings_from_environment(Path("/dev/null")).secret == SecretStr("s" * 40)


def test_embedded_services_live_in_the_home() -> None:
    settings = with_home_services(Settings(home=Path("/srv/lamina")))
    assert settings.redis_url == SecretStr("unix:///srv/lamina/run/redis.sock")
    assert settings.database_url == SecretStr("sqlite:////srv/lamina/lamina.db")
    assert settings.engine_url == "unix:///srv/lamina/run/engine.sock"


def test_services_elsewhere_are_left_alone() -> None:
    given_settings = Settings.model_validate({"redis_url": "redis://r", "engine": {"enabled": False}})
    settings = with_home_services(given_settings)
    assert (settings.redis_url, settings.engine_url) == (SecretStr("redis://r"), None)


@given(st.integers(1, 300))
def test_sockets_fit_however_long_the_home_is(length: int) -> None:
    home = Home(Path("/" + "h" * length))
    assert max(len(str(home.engine_socket)), len(str(home.semantic_socket))) <= 100
    assert (home.sockets == home.run) == (len(str(home.run / "semantic.sock")) <= 100)
