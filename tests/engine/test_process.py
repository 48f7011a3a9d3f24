"""The real process: it starts on the packaged model, answers, drains on SIGTERM, and fails in one clear line."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.engine import tiny

pytestmark = pytest.mark.slow


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "engine", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_ready(path: Path, process: subprocess.Popen[str]) -> httpx2.Client:
    deadline = time.monotonic() + 90
    while not listens(path):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    client = httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), base_url="http://engine", timeout=60)
    client.get("/health").raise_for_status()
    return client


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@pytest.fixture
def socket_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "e.sock"


def test_the_packaged_model_answers_and_a_signal_drains(socket_path: Path) -> None:
    with start("--socket", str(socket_path), "--kv-tokens", "4096") as process:
        client = wait_ready(socket_path, process)
        assert oct(socket_path.stat().st_mode)[-3:] == "600"
        ask = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}
        reply = client.post("/v1/chat/completions", json={"model": "smollm2", **ask}).json()
        assert reply["choices"][0]["message"]["content"] == "The capital of France is Paris."
        body = {"model": "smollm2", **ask, "stream": True, "max_tokens": 25, "ignore_eos": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            lines = stream.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            assert [line for line in lines if line][-1] == "data: [DONE]"
        client.close()
        assert process.wait(timeout=20) == 0
        assert not socket_path.exists()


def test_no_prompt_reaches_a_disk_or_the_output(tmp_path: Path, socket_path: Path) -> None:
    model, temporary = tiny.write_folder(tmp_path), tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "engine", "--model", str(model), "--name", "t", "--threads", "1"]
    command += ["--socket", str(socket_path), "--kv-tokens", "160", "--host-kv-mb", "1"]
    pipe, environment = subprocess.PIPE, {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment) as process:
        client = wait_ready(socket_path, process)

        def ask(number: int, most: int = 4) -> int:
            text = f"{number} {'Quixvanthropole ' * 3}"
            body = {"model": "t", "messages": [{"role": "user", "content": text}], "max_tokens": most}
            return client.post("/v1/chat/completions", json=body).status_code

        assert [ask(0), ask(0, most=-1)] == [200, 400]
        before = written_bytes(process.pid)  # what is needed first may be compiled first
        assert {ask(number) for number in range(1, 9)} == {200}
        assert ask(9, most=-1) == 400
        assert written_bytes(process.pid) == before
        assert "kv_host_bytes 0.0" not in client.get("/metrics").text, "blocks went to the host meanwhile"
        client.close()
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=20)
    assert "Quixvanthropole" not in said
    assert list(temporary.iterdir()) == []


def written_bytes(pid: int) -> int:
    """How many bytes a process has written to file systems with a disk."""
    counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text("ascii").splitlines())
    return int(counts["write_bytes"])


def test_a_drain_is_bounded(tmp_path: Path, socket_path: Path) -> None:
    folder = tiny.write_folder(tmp_path, tiny.Shape(context=30000))
    options = ("--drain", "1", "--threads", "1", "--kv-tokens", "40000")
    with start("--model", str(folder), "--name", "t", "--socket", str(socket_path), *options) as process:
        client = wait_ready(socket_path, process)
        body = {"model": "t", "messages": [{"role": "user", "content": "x"}], "stream": True}
        body |= {"max_tokens": 29000, "ignore_eos": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            next(stream.iter_lines())
            asked = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)
            assert time.monotonic() - asked < 8
            assert process.returncode == 0
        client.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "/no/such/model.gguf"], "no model at /no/such/model.gguf"),
        (["--model", __file__], "is not a readable GGUF file"),
        (["--kv-tokens", "3"], "at least one block"),
        (["--threads", "-1"], "threads must be at least 1"),
        (["--kv-tokens", str(10**12)], "does not fit this machine"),
    ],
)
def test_what_cannot_start_says_so_in_one_line(arguments: list[str], message: str, socket_path: Path) -> None:
    process = start("--socket", str(socket_path), *arguments)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors.count("\n") == 1
    assert errors.startswith("engine: ")
    assert message in errors


def test_a_stale_socket_is_replaced_and_a_live_one_respected(tmp_path: Path, socket_path: Path) -> None:
    folder = str(tiny.write_folder(tmp_path))
    options = ("--model", folder, "--name", "t", "--threads", "1", "--socket", str(socket_path))
    with start(*options) as first:
        wait_ready(socket_path, first).close()
        second = start(*options)
        _, errors = second.communicate(timeout=60)
        assert second.returncode == 2
        assert "in use" in errors
        os.kill(first.pid, signal.SIGKILL)
    assert socket_path.exists()
    with start(*options) as third:
        wait_ready(socket_path, third).close()
        third.send_signal(signal.SIGTERM)
        assert third.wait(timeout=20) == 0
