from pathlib import Path
from typing import Any

import pytest

from gateway.routes import Routes
from gateway.settings import Settings


def routes(**changes: Any) -> Routes:
    values: dict[str, Any] = {
        "home": Path("/nowhere"),
        "engine_url": "unix:///engine.sock",
        "providers": {"up": {"base_url": "http://127.0.0.1:1/v1"}},
        **changes,
    }
    return Routes(Settings.model_validate(values))


def test_the_engine_has_a_route_without_any_configuration() -> None:
    found = routes().resolve("smollm2")
    assert found is not None
    assert found.primary.effective_model == "engine/smollm2"


def test_only_the_engines_models_carry_its_revision_and_none_may_set_it_aside() -> None:
    models = [
        {"name": "m", "provider": "up"},
        {"name": "tiny", "provider": "engine", "versions": {"kb": "7", "engine.revision": "mine"}},
    ]
    table = routes(models=models, engine={"revision": "r1"})
    found = {name: route.versions for name in ("m", "tiny", "smollm2") if (route := table.resolve(name))}
    engine = ("engine.revision", "r1")
    assert found == {"m": (), "tiny": (engine, ("kb", "7")), "smollm2": (engine,)}


def test_without_an_engine_nothing_answers_to_its_name() -> None:
    assert routes(engine_url=None).resolve("smollm2") is None


def test_aliases_are_the_same_route_so_they_share_entries() -> None:
    table = routes(models=[{"name": "big", "provider": "up", "upstream_model": "gpt", "aliases": ["a", "b"]}])
    assert table.resolve("a") is table.resolve("big") is table.resolve("b")
    assert sorted(name for name, _ in table.names()) == ["a", "b", "big", "smollm2"]


def test_a_model_may_take_the_engines_name_or_alias_it() -> None:
    table = routes(models=[{"name": "tiny", "provider": "engine", "aliases": ["smollm2"]}])
    found = table.resolve("smollm2")
    assert found is not None
    assert found.name == "tiny"


def test_a_wildcard_takes_what_nothing_else_takes_under_the_asked_name() -> None:
    table = routes(models=[{"name": "*", "provider": "up"}, {"name": "m", "provider": "up"}])
    any_, own = table.resolve("gpt-5.4"), table.resolve("m")
    assert any_ is not None
    assert own is not None
    assert any_.primary.effective_model == "up/gpt-5.4"
    assert own.name == "m"


def test_fallbacks_follow_the_primary_in_order() -> None:
    models = [
        {"name": "m", "provider": "up", "fallback": ["n", "smollm2"]},
        {"name": "n", "provider": "up", "upstream_model": "other"},
    ]
    found = routes(models=models).resolve("m")
    assert found is not None
    assert [target.effective_model for target in found.targets] == ["up/m", "up/other", "engine/smollm2"]


@pytest.mark.parametrize("mode", ["off", "observe", "exact"])
def test_mode_ttl_and_versions_fall_back_to_the_cache_settings(mode: str) -> None:
    table = routes(
        cache={"mode": mode, "ttl_s": 7, "versions": {"kb": "1", "prompt": "1"}},
        models=[{"name": "m", "provider": "up", "versions": {"prompt": "2"}}],
    )
    found = table.resolve("m")
    assert found is not None
    assert (found.mode, found.ttl_s, found.versions) == (mode, 7, (("kb", "1"), ("prompt", "2")))
