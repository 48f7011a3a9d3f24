"""docker-compose.yml and the Dockerfile: valid by their schemas and linters, and hardened throughout."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.packaged import packaged_model
from engine.revision import model_revision
from gateway.settings import Settings, load_settings
from scripts.install import TORCH_VERSION
from tests.deploy import compose
from tests.deploy.compose import DOCKERFILE, FILE, ROOT

STACK = compose.load()
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
JOBS = {"init"}
OPEN = {"proxy": "127.0.0.1:8080:8080", "grafana": "127.0.0.1:3000:3000"}
BIN = Path(sys.executable).parent
_PINNED = re.compile(r"[\w./-]+:[\w.-]*\d[\w.-]*@sha256:[0-9a-f]{64}")
_SECRET = re.compile(r"password|secret|token|key|credential", re.IGNORECASE)
_STOP_MARGIN_S = 5


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])


def test_it_follows_the_compose_specification() -> None:
    command = [str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_dockerfile_has_no_offence() -> None:
    command = [str(BIN / "hadolint"), "--failure-threshold", "style", str(DOCKERFILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", sorted((ROOT / "deploy").glob("*.sh")), ids=lambda path: str(path.name))
def test_a_script_is_one(script: Path) -> None:
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert "set -eu" in script.read_text("utf-8")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_hardened(name: str) -> None:
    service = SERVICES[name]
    user, _, group = service["user"].partition(":")
    assert user.isdecimal(), "named by number, so that nothing depends on the image's list of users"
    assert int(user) > 0
    assert group.isdecimal()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["init"] is True
    assert service.get("cap_add", []) == (["NET_BIND_SERVICE"] if name == "proxy" else [])
    assert not service.keys() & {"privileged", "network_mode", "pid", "ipc", "userns_mode", "devices"}
    limits = service["deploy"]["resources"]["limits"]
    assert limits.keys() == {"cpus", "memory", "pids"}


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - JOBS))
def test_a_service_has_a_health_check_and_comes_back(name: str) -> None:
    service = SERVICES[name]
    health = service["healthcheck"]
    assert health["test"][0] in {"CMD", "CMD-SHELL"}
    assert {"interval", "timeout", "retries", "start_period"} <= health.keys()
    assert service["restart"] == "unless-stopped"
    assert seconds(service["stop_grace_period"]) > 0
    assert service["logging"]["options"]["max-size"]


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_pinned_or_built_here(name: str) -> None:
    service = SERVICES[name]
    if "build" in service:
        assert service["build"]["dockerfile"] == "deploy/Dockerfile"
        assert service["build"]["target"] in compose.stages()
        assert service["image"].startswith("lamina-")
    else:
        assert _PINNED.fullmatch(service["image"]), service["image"]


def test_every_base_image_is_pinned() -> None:
    known = compose.stages()
    outside = {stage.base for stage in known.values()} - known.keys()
    assert outside
    assert all(_PINNED.fullmatch(image) for image in outside)


@pytest.mark.parametrize("name", SERVICES)
def test_no_secret_is_in_an_environment_or_a_command(name: str) -> None:
    service = SERVICES[name]
    for variable, value in (service.get("environment") or {}).items():
        if _SECRET.search(variable) or variable.endswith("_URL_FILE"):
            assert variable.endswith("_FILE"), variable
            assert value.startswith("/run/secrets/"), variable
            assert value.removeprefix("/run/secrets/") in service["secrets"], f"{variable} is not mounted"
        assert "@" not in str(value), variable
    told = re.findall(r"/run/secrets/(\w+)", str(service["command"]) if "command" in service else "")
    assert set(told) <= set(service.get("secrets", ()))


def test_every_secret_is_made_and_used_and_kept_out_of_git() -> None:
    script = (ROOT / "deploy" / "secrets.sh").read_text("utf-8")
    used = {secret for service in SERVICES.values() for secret in service.get("secrets", ())}
    assert used == STACK["secrets"].keys()
    for name, secret in STACK["secrets"].items():
        assert secret == {"file": f"deploy/secrets/{name}"}
        assert f"keep {name} " in script
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert "!deploy" not in (ROOT / ".dockerignore").read_text("utf-8")


def test_every_config_is_a_file_that_somebody_mounts() -> None:
    mounted = {one["source"] for service in SERVICES.values() for one in service.get("configs", ())}
    assert mounted == STACK["configs"].keys()
    for config in STACK["configs"].values():
        assert (ROOT / config["file"]).is_file()


def test_only_two_services_are_open_and_only_to_this_machine() -> None:
    assert {name: ports for name, service in SERVICES.items() for ports in service.get("ports", ())} == OPEN
    assert STACK["networks"]["inside"] == {"internal": True}
    for name in ("redis", "postgres", "semantic", "engine", "init"):
        networks = SERVICES[name]["networks"]
        assert set(networks) == {"inside"}, f"{name} can be reached from, or reaches, outside"


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_waits_for_exists_and_fits(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        condition = wait["condition"]
        assert other in SERVICES
        assert (condition == "service_completed_successfully") is (other in JOBS)
        if SERVICES[other].get("profiles"):
            assert wait["required"] is False, f"{other} may be switched off by its profile"


def test_the_order_is_database_then_job_then_those_who_read_it() -> None:
    assert SERVICES["init"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("gateway", "semantic"):
        assert SERVICES[name]["depends_on"]["init"] == {"condition": "service_completed_successfully"}
    assert SERVICES["proxy"]["depends_on"]["gateway"] == {"condition": "service_healthy"}


def test_either_engine_is_the_engine_and_one_is_chosen_by_default() -> None:
    assert (SERVICES["engine"]["profiles"], SERVICES["engine-gpu"]["profiles"]) == (["cpu"], ["gpu"])
    for name in ("engine", "engine-gpu"):
        assert SERVICES[name]["networks"]["inside"]["aliases"] == ["engine"]
    assert "COMPOSE_PROFILES=cpu" in (ROOT / ".env").read_text("utf-8").splitlines()
    (device,) = SERVICES["engine-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]


def test_a_container_is_given_the_time_that_it_takes_to_drain(tmp_path: Path) -> None:
    settings = _settings_of_the_gateway(tmp_path)
    grace_s = {name: seconds(service.get("stop_grace_period", "10s")) for name, service in SERVICES.items()}
    supervisor_s = 2 + _STOP_MARGIN_S  # workers are killed two seconds after their time to drain
    assert grace_s["gateway"] >= settings.limits.drain_s + supervisor_s
    assert grace_s["proxy"] > grace_s["gateway"], "the proxy holds streams for as long as a gateway does"
    for name in ("engine", "engine-gpu"):
        (drain,) = (word for word in SERVICES[name]["command"] if word.startswith("--drain="))
        assert float(drain.removeprefix("--drain=")) >= settings.limits.drain_s
        assert grace_s[name] >= settings.limits.drain_s + supervisor_s


def test_the_settings_are_settings_and_gateways_are_many(tmp_path: Path) -> None:
    settings = _settings_of_the_gateway(tmp_path)
    assert settings.engine_url == "http://engine:8081"
    assert settings.semantic_url == "http://semantic:8082"
    assert settings.encryption.master_key is not None
    assert settings.traces.endpoint is None
    assert SERVICES["gateway"]["deploy"]["replicas"] >= 2


def test_the_revision_is_that_of_the_packaged_model(tmp_path: Path) -> None:
    assert _settings_of_the_gateway(tmp_path).engine.revision == model_revision(packaged_model(), (None, None))


def _settings_of_the_gateway(tmp_path: Path) -> Settings:
    environment = {"PATH": "/usr/bin:/bin", "SECRETS": str(tmp_path)}
    subprocess.run(["sh", str(ROOT / "deploy" / "secrets.sh")], env=environment, check=True)
    given = {name: str(value) for name, value in SERVICES["gateway"]["environment"].items()}
    given = {name: value.replace("/run/secrets", str(tmp_path)) for name, value in given.items()}
    given["LAMINA_CONFIG"] = str(ROOT / STACK["configs"]["lamina_toml"]["file"])
    return load_settings(given)


def test_secrets_are_made_once_and_differ(tmp_path: Path) -> None:
    _settings_of_the_gateway(tmp_path)
    before = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    _settings_of_the_gateway(tmp_path)
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == before
    assert len(set(before.values())) == len(before)
    assert before["redis_password"].strip() not in before["redis_acl"]
    assert tmp_path.stat().st_mode & 0o077 == 0
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o444}


@pytest.mark.parametrize("target", ["gateway", "semantic", "engine", "engine-gpu"])
def test_an_image_runs_as_nobody_and_checks_itself_as_compose_does(target: str) -> None:
    chain = compose.whole(target)
    users = [rest for stage in chain for word, rest in stage.lines if word == "USER"]
    assert users[-1] == SERVICES[target]["user"] == "10001:10001"
    told = compose.stages()[target].last("HEALTHCHECK")
    assert told is not None
    assert ["CMD", *json.loads(told.partition("CMD ")[2])] == SERVICES[target]["healthcheck"]["test"]


def test_everything_but_torch_is_installed_by_hash() -> None:
    for stage in compose.stages().values():
        for word, rest in stage.lines:
            if word == "RUN" and "pip install" in rest:
                by_hash = "--require-hashes" in rest
                assert by_hash or "torch==" in rest or rest.endswith("--no-build-isolation ."), rest
    args = {rest for stage in compose.stages().values() for word, rest in stage.lines if word == "ARG"}
    assert f"TORCH_VERSION={TORCH_VERSION}" in args


def test_what_runs_is_many_stages_away_from_what_builds() -> None:
    for target in ("gateway", "semantic", "engine"):
        names = {stage.name for stage in compose.whole(target)}
        assert not names & {"packages", "lamina", "with-models", "with-torch"}
        assert all("apt-get" not in rest for stage in compose.whole(target) for word, rest in stage.lines)


def test_the_context_holds_what_is_copied_and_no_more() -> None:
    kept = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"]
    assert kept[0] == "*"
    allowed = {line.removeprefix("!") for line in kept if line.startswith("!")}
    copied = {
        path
        for stage in compose.stages().values()
        for word, rest in stage.lines
        if word == "COPY" and "--from" not in rest
        for path in rest.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / path).exists() for path in copied)
