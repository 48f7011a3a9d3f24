"""The command line of the engine takes what the settings say."""

from argparse import Namespace
from pathlib import Path

from engine.__main__ import _BY_DEVICE, _parser, _spec
from gateway.home import Home
from gateway.settings import Settings
from gateway.supervisor.programs import engine_program


def parsed(tmp_path: Path, **engine: object) -> Namespace:
    settings = Settings(home=tmp_path, engine=engine)
    program = engine_program(settings, Home(tmp_path), tmp_path / "model.gguf", "engine")
    return _parser().parse_args(program.argv[program.argv.index("engine") + 1 :])


def test_what_no_setting_says_is_left_to_the_engine_and_its_device(tmp_path: Path) -> None:
    options = parsed(tmp_path)
    assert [name for name in _BY_DEVICE if getattr(options, name) is not None] == []
    assert parsed(tmp_path, kv_dtype="int8", max_running=3).max_running == 3


def test_the_settings_defaults_are_the_engines_own(tmp_path: Path) -> None:
    told, plain = _spec(parsed(tmp_path)), _spec(_parser().parse_args(["--model", "model.gguf"]))
    assert told.config == plain.config


def test_every_setting_arrives(tmp_path: Path) -> None:
    options = parsed(
        tmp_path,
        kv_memory_mb=64,
        kv_dtype="int8",
        host_kv_mb=32,
        prefix_cache=False,
        retention="hit-density",
        tenant_waiting=9,
        step_tokens=96,
        prefill_tokens=80,
        long_prefill=16,
        runner="torch",
        min_cache_tokens=7,
    )
    config = _spec(options).config
    assert (config.kv_memory_mb, config.kv_dtype, config.host_kv_mb) == (64, "int8", 32)
    assert (config.prefix_cache, config.tenant_waiting, config.min_cache_tokens) == (False, 9, 7)
    assert config.retention == "hit-density"
    assert (config.step_tokens, config.prefill_tokens, config.long_prefill) == (96, 80, 16)
    assert (config.chunk_tokens, config.runner) == (80, "torch")
