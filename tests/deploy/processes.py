"""The stack of docker-compose.yml as processes: its own commands, environment, secrets and health checks.

Each service gets an address of the loopback of its own, so that ports stay those of the file. What a container
brings along is translated: names of services, mounted secrets and configs, folders that are a tmpfs or a volume.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.supervisor.embedded_redis import find_redis_server
from tests.deploy import compose
from tests.deploy.compose import ROOT
from tests.deploy.names import Names

_NET = "127.77.7."
_FIRST = {"proxy": 10, "redis": 20, "semantic": 30, "engine": 40, "init": 50, "gateway": 100}
_RESOLVER = f"{_NET}2"
_STARTS_WITHIN_S = 240.0
_BIN = Path(sys.executable).parent


@dataclass
class Running:
    """One container's process.

    Attributes:
        grace_s: how long compose waits after SIGTERM before it kills.
    """

    service: str
    address: str
    process: subprocess.Popen[bytes]
    output: Path
    grace_s: float

    def terminate(self) -> None:
        """What compose sends first."""
        self.process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """The exit status, once it has ended within its time."""
        return self.process.wait(self.grace_s)

    @property
    def said(self) -> str:
        """Its output so far."""
        return self.output.read_text("utf-8", "replace")


@dataclass
class Stack:
    """The services that run, over a folder of the test's.

    Args:
        folder: for secrets, homes and output.
        database_url: of a running PostgreSQL; takes the place of the one that names the postgres service.
        environment: variables of the operator, such as LAMINA_CACHE_MODE.
    """

    folder: Path
    database_url: str
    environment: Mapping[str, str] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    names: Names | None = None

    def __post_init__(self) -> None:
        self.file = compose.load(self.environment)
        self.secrets = self.folder / "secrets"
        environment = {"PATH": os.environ["PATH"], "SECRETS": str(self.secrets)}
        subprocess.run(["sh", str(ROOT / "deploy" / "secrets.sh")], env=environment, check=True)
        self._replace("database_url", self.database_url)
        self._replace("redis_url", (self.secrets / "redis_url").read_text().replace("@redis:", f"@{_NET}20:"))

    def _replace(self, secret: str, text: str) -> None:
        path = self.secrets / secret
        path.chmod(0o600)
        path.write_text(text)

    def address(self, service: str, number: int = 0) -> str:
        """Where a service's replica listens."""
        return f"{_NET}{_FIRST[service] + number}"

    @property
    def url(self) -> str:
        """Where clients find the stack."""
        return f"http://{self.address('proxy')}:8080"

    def start(self, service: str, number: int = 0) -> Running:
        """Starts one replica; returns at once."""
        output = self.folder / f"{service}-{number}.out"
        with output.open("ab") as sink:
            process = subprocess.Popen(
                self.command(service, number),
                env=self.variables(service, number),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        told = self.file["services"][service].get("stop_grace_period", "10s")
        one = Running(service, self.address(service, number), process, output, float(told.removesuffix("s")))
        self.running.append(one)
        return one

    def until_healthy(self, one: Running) -> None:
        """Returns once the service's own health check passes."""
        due_s = time.monotonic() + _STARTS_WITHIN_S
        while not self.healthy(one):
            assert one.process.poll() is None, one.said
            assert time.monotonic() < due_s, one.said
            time.sleep(0.3)

    def healthy(self, one: Running) -> bool:
        """What the service's health check says."""
        kind, *words = self.file["services"][one.service]["healthcheck"]["test"]
        command = ["sh", "-c", *words] if kind == "CMD-SHELL" else words
        told = [self._translated(word, one.address, 0, one.service) for word in command]
        told = [sys.executable if word == "python" else word for word in told]
        told = [word.replace("redis-cli", f"redis-cli -h {one.address}") for word in told]
        done = subprocess.run(told, env={"PATH": self._path()}, capture_output=True, check=False, timeout=30)
        return done.returncode == 0

    def run(self, service: str, *more: str) -> str:
        """Runs a job to its end; returns what it printed."""
        command = [*self.command(service, 0), *more]
        done = subprocess.run(
            command, env=self.variables(service, 0), cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, service: str, number: int) -> list[str]:
        """The program and its arguments, as the image and the file together name them."""
        spec = self.file["services"][service]
        words = list(spec["command"])
        if "build" in spec:
            words = compose.stages()[spec["build"]["target"]].command("ENTRYPOINT") + words
        words = [self._translated(word, self.address(service, number), number, service) for word in words]
        programs = {"lamina": [sys.executable, "-m", "gateway"], "python": [sys.executable]}
        return [*programs.get(words[0], [shutil.which(words[0], path=self._path()) or words[0]]), *words[1:]]

    def variables(self, service: str, number: int) -> dict[str, str]:
        """The environment of the image and of the file, and nothing of ours but where programs are."""
        spec = self.file["services"][service]
        given = {name: str(value) for name, value in (spec.get("environment") or {}).items()}
        own = {"PATH": self._path(), "PYTHONPATH": str(ROOT), "HOME": str(self.folder)}
        if service == "proxy":
            assert self.names is not None
            own |= {"LAMINA_RESOLVER": self.names.address, "LAMINA_PROXY_BIND": self.address(service)}
        address = self.address(service, number)
        return {
            **{name: self._translated(value, address, number, service) for name, value in given.items()},
            **own,
        }

    def name_gateways(self, *numbers: int) -> None:
        """Says which replicas the name `gateway` stands for."""
        addresses = [self.address("gateway", number) for number in numbers]
        if self.names is None:
            self.names = Names(_RESOLVER, "gateway", addresses)
        self.names.addresses = addresses

    def close(self) -> None:
        """Ends whatever still runs."""
        for one in self.running:
            if one.process.poll() is None:
                one.process.kill()
                one.process.wait()
        if self.names is not None:
            self.names.close()

    def _path(self) -> str:
        redis = find_redis_server()
        assert redis is not None
        return os.pathsep.join([str(_BIN), str(redis.parent), os.environ.get("PATH", os.defpath)])

    def _translated(self, text: str, address: str, number: int, service: str) -> str:
        text = re.sub(r"//(\w+):(?=\d)", self._named, text)
        text = re.sub(r"0\.0\.0\.0|127\.0\.0\.1|^localhost$", address, text)
        for folder in ("/run/lamina", "/var/lib/lamina", "/data"):
            own = self.folder / f"{service}-{number}{folder.replace('/', '-')}"
            if text.startswith(folder) or f"={folder}" in text:
                own.mkdir(mode=0o700, exist_ok=True)
                text = text.replace(folder, str(own))
        for mounted in self.file["services"][service].get("configs", ()):
            source = self.file["configs"][mounted["source"]]["file"]
            text = text.replace(mounted["target"], str(ROOT / source))
        return text.replace("/run/secrets", str(self.secrets))

    def _named(self, found: re.Match[str]) -> str:
        name = found[1]
        return f"//{self.address(name)}:" if name in _FIRST else found[0]


@contextlib.contextmanager
def stack(folder: Path, database_url: str, environment: Mapping[str, str]) -> Any:
    """A stack that ends with the block."""
    one = Stack(folder, database_url, environment)
    try:
        yield one
    finally:
        one.close()
