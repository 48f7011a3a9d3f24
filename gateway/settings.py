"""Settings: one frozen tree from `lamina.toml` and the environment; unknown names refused, secrets masked."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from gateway.errors import SettingsError
from gateway.settings_cache import CacheSettings, Frozen, Mode, TtlClass
from gateway.settings_encryption import EncryptionSettings
from gateway.settings_ledger import LedgerSettings, PriceSettings
from gateway.settings_tables import (
    EngineSettings,
    GuardSettings,
    LimitSettings,
    MarkForm,
    ModelSettings,
    ProviderSettings,
    RedisSettings,
    SemanticSettings,
    TraceSettings,
)
from gateway.settings_text import is_secret, kind_at, parse_text, put, revealed, secret_in, suggestion

__all__ = [
    "CacheSettings",
    "EncryptionSettings",
    "EngineSettings",
    "GuardSettings",
    "LedgerSettings",
    "LimitSettings",
    "MarkForm",
    "Mode",
    "ModelSettings",
    "PriceSettings",
    "ProviderSettings",
    "RedisSettings",
    "SemanticSettings",
    "Settings",
    "TraceSettings",
    "TtlClass",
    "child_environment",
    "dump_resolved",
    "load_resolved",
    "load_settings",
    "settings_from_environment",
]

Origins = dict[tuple[str, ...], str]
"""Which variable set which path."""

_PLAIN_ALIASES = {
    "REDIS_URL": "redis_url",
    "DATABASE_URL": "database_url",
    "ENGINE_URL": "engine_url",
    "SEMANTIC_URL": "semantic_url",
}
_PREFIX = "LAMINA_"
_FILE = "_FILE"
"""Ends the name of a variable that names the file in which a secret is."""

_MIN_SECRET_CHARS = 32
_NOT_SETTINGS = {"LAMINA_CONFIG"}
_PROVIDER_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Without a slash: a key and a purge call a model `provider/name`, and names of models do have slashes."""


class Settings(Frozen):
    """All settings of one set of processes.

    Attributes:
        home: folder that holds the state of an embedded set, mode 0700.
        host: address to listen on; 0.0.0.0 for every one.
        port: to listen on; 0 lets the system choose.
        workers: gateway processes on that port.
        bootstrap_key: first tenant's API key; one is made and shown once when absent.
        admin_key: opens `/admin/v1/`; made in `home` when absent. A gateway without one lets nobody in there.
        api_key: a tenant's key for commands that ask the gateway themselves, such as `lamina warm`.
        secret: master secret for entry authentication and engine salts; made in `home` when absent.
        redis_url: Redis that runs elsewhere (`redis://`, `rediss://`, `unix://`); no embedded one is started.
        database_url: database that runs elsewhere (`postgresql://`, `sqlite:///`); else SQLite in `home`.
        database_deadline_ms: longest time of a call to the database; whoever is known is served without it.
        engine_url: engine that runs elsewhere; no embedded one is started.
        semantic_url: semantic service that runs elsewhere (`http://`, `https://`, `unix://`); no embedded one is
            started.
        log_level: debug, info, warning or error.
    """

    home: Path = Path(".lamina")
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    bootstrap_key: SecretStr | None = None
    admin_key: SecretStr | None = None
    api_key: SecretStr | None = None
    secret: SecretStr | None = None
    redis_url: SecretStr | None = None
    database_url: SecretStr | None = None
    database_deadline_ms: Annotated[float, Field(gt=0, le=60_000)] = 2000.0
    engine_url: str | None = None
    semantic_url: str | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    cache: CacheSettings = CacheSettings()
    guards: GuardSettings = GuardSettings()
    encryption: EncryptionSettings = EncryptionSettings()
    redis: RedisSettings = RedisSettings()
    limits: LimitSettings = LimitSettings()
    semantic: SemanticSettings = SemanticSettings()
    engine: EngineSettings = EngineSettings()
    ledger: LedgerSettings = LedgerSettings()
    traces: TraceSettings = TraceSettings()
    providers: Mapping[str, ProviderSettings] = Field(default_factory=dict)
    models: tuple[ModelSettings, ...] = ()

    @field_validator("bootstrap_key", "admin_key", "api_key")
    @classmethod
    def _fits_a_header(cls, key: SecretStr | None) -> SecretStr | None:
        text = key.get_secret_value() if key else "-"
        if not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError("a key is printable ASCII without spaces")
        return key

    @field_validator("secret", "admin_key")
    @classmethod
    def _is_long(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret and len(secret.get_secret_value()) < _MIN_SECRET_CHARS:
            raise ValueError(f"give at least {_MIN_SECRET_CHARS} characters, such as from `openssl rand -hex 32`")
        return secret

    @field_validator("semantic_url")
    @classmethod
    def _names_a_service(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "unix:///")
        if parts.scheme not in {"http", "https", "unix"} or "@" in parts.netloc:
            raise ValueError("give http://host:port, https://host:port or unix:///path.sock, and the token apart")
        return url

    @property
    def compares_meaning(self) -> bool:
        """Whether some route asks the semantic layer, if only to count."""
        modes = {self.cache.mode, *(model.mode for model in self.models)}
        return not modes.isdisjoint({"semantic", "observe"})

    @model_validator(mode="after")
    def _names_agree(self) -> "Settings":
        known = {*self.providers, "engine"}
        for name in self.providers:
            if not _PROVIDER_NAME.fullmatch(name):
                raise ValueError(f"provider {name[:80]!r}: a name is 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'")
        taken: set[str] = set()
        names = {model.name for model in self.models}
        if self.engine.enabled or self.engine_url is not None:
            aliases = {alias for model in self.models for alias in model.aliases}
            names |= {self.engine.name} - aliases
        for model in self.models:
            if model.provider not in known:
                raise ValueError(f"model {model.name!r}: provider {model.provider!r} is not in [providers]")
            for name in (model.name, *model.aliases):
                if name in taken:
                    raise ValueError(f"model name {name!r} is given twice")
                taken.add(name)
            for name in model.fallback:
                if name not in names:
                    raise ValueError(f"model {model.name!r}: fallback {name!r} is not a model")
        return self

    @model_validator(mode="after")
    def _classes_exist(self) -> "Settings":
        for model in self.models:
            if model.ttl_class is not None and model.ttl_class not in self.cache.ttl_classes:
                raise ValueError(f"model {model.name!r}: there is no cache.ttl_classes.{model.ttl_class[:40]}")
        return self


def load_settings(environ: Mapping[str, str], path: Path | None = None) -> Settings:
    """Reads `lamina.toml` (or `path`, or LAMINA_CONFIG), then the environment over it.

    `LAMINA_CACHE__TTL_S=60` sets `cache.ttl_s`. Lists are `a,b` or JSON, tables are `a=1,b=2` or JSON. REDIS_URL,
    DATABASE_URL, ENGINE_URL and SEMANTIC_URL are taken too, under their LAMINA_ names. Empty variables count as
    not set. A secret may be in a file instead, whose path is in a variable of the same name and `_FILE`.

    Raises:
        SettingsError: an unknown name or a bad value, one line that names it and never shows a secret.
    """
    tree = _read_toml(environ, path)
    environ = _with_secrets_of_files(environ)
    origins: Origins = {}
    for plain, name in _PLAIN_ALIASES.items():
        if environ.get(plain):
            tree[name] = environ[plain]
            origins[(name,)] = plain
    for name, value in sorted(environ.items()):
        if value and name.startswith(_PREFIX) and name not in _NOT_SETTINGS:
            steps = tuple(name.removeprefix(_PREFIX).lower().split("__"))
            origins[steps] = name
            put(tree, steps, parse_text(kind_at(Settings, steps), value, name), name)
    return _with_provider_keys(_validated(tree, origins), environ)


def dump_resolved(settings: Settings) -> str:
    """The settings as JSON, secrets included; for a file that nobody else can read."""
    return json.dumps(revealed(settings.model_dump()))


def load_resolved(path: Path) -> Settings:
    """What `dump_resolved` wrote.

    Raises:
        SettingsError: the file is absent or holds something else.
    """
    try:
        tree = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise SettingsError(f"{path} does not hold settings") from None
    return _validated(tree, {})


def settings_from_environment(path: Path | None = None) -> Settings:
    """The settings of this process; the only place where the environment is read."""
    return load_settings(os.environ, path)


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child process: ours without settings and their secrets, and `extra` over it."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
    return {name: value for name, value in ours.items() if name.removesuffix(_FILE) not in _PLAIN_ALIASES} | dict(
        extra
    )


def _with_secrets_of_files(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables, with the text of each file that one names under the name of its secret."""
    found: dict[str, str] = {}
    for name, path in environ.items():
        plain = name.removesuffix(_FILE)
        steps = tuple(plain.removeprefix(_PREFIX).lower().split("__"))
        named = plain in _PLAIN_ALIASES or (plain.startswith(_PREFIX) and is_secret(kind_at(Settings, steps)))
        if not path or plain == name or not named:
            continue
        if environ.get(plain):
            raise SettingsError(f"{plain} and {name} are both set; give one of them")
        found[plain] = secret_in(Path(path), name)
    return {**environ, **found, **dict.fromkeys((f"{plain}{_FILE}" for plain in found), "")}


def _read_toml(environ: Mapping[str, str], path: Path | None) -> dict[str, Any]:
    chosen = path or (Path(environ["LAMINA_CONFIG"]) if environ.get("LAMINA_CONFIG") else None)
    if chosen is None:
        chosen = Path("lamina.toml")
        if not chosen.is_file():
            return {}
    try:
        return tomllib.loads(chosen.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {chosen}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{chosen} is not valid TOML: {error}") from None


def _validated(tree: dict[str, Any], origins: Origins) -> Settings:
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise SettingsError(_one_line(error, origins)) from None


def _one_line(error: ValidationError, origins: Origins) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    path = tuple(str(part) for part in first["loc"])
    where = origins.get(path) or ".".join(path) or "settings"
    if first["type"] != "extra_forbidden":
        return f"bad setting {where}: {first['msg'].removeprefix('Value error, ')}"
    meant = suggestion(Settings, path)
    if meant is None:
        return f"unknown setting {where}"
    if path in origins:
        return f"unknown setting {where}; did you mean {_PREFIX}{'__'.join((*path[:-1], meant)).upper()}?"
    return f"unknown setting {where}; did you mean {'.'.join((*path[:-1], meant))}?"


def _with_provider_keys(settings: Settings, environ: Mapping[str, str]) -> Settings:
    providers = dict(settings.providers)
    for name, provider in providers.items():
        if provider.api_key_env and provider.api_key is None:
            value = environ.get(provider.api_key_env)
            path = environ.get(f"{provider.api_key_env}{_FILE}")
            if not value and path:
                value = secret_in(Path(path), f"{provider.api_key_env}{_FILE}")
            if not value:
                raise SettingsError(f"provider {name!r}: environment variable {provider.api_key_env} is not set")
            providers[name] = provider.model_copy(update={"api_key": SecretStr(value)})
    return settings.model_copy(update={"providers": providers})
