"""What `lamina warm` reads: its requests, and which of them an earlier run has done."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from gateway.errors import LaminaError

_HEAD = "lamina-warm-1"
_DIGEST_BYTES = 12


class WarmError(LaminaError):
    """The file, or its state, cannot be used."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request to be sent; equal requests have equal digests."""

    number: int
    body: dict[str, Any] = field(repr=False)

    @property
    def digest(self) -> str:
        """Of the body."""
        canonical = json.dumps(self.body, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return hashlib.sha256(canonical).hexdigest()[: 2 * _DIGEST_BYTES]


def read_jobs(path: Path, model: str, system: str | None) -> list[Job]:
    """Every request of a file, in order.

    Args:
        path: per line a chat body, `{"request": a chat body}`, `{"prompt": a text}`, or a question in plain text.
        model: for lines that name none.
        system: for questions and prompts that bring no system text.

    Raises:
        WarmError: the file cannot be read, or a line makes no sense; nothing has been sent then.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise WarmError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WarmError(f"{path} is not UTF-8") from None
    jobs = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                body = _body(line.strip(), model, system)
            except ValueError as error:
                raise WarmError(f"{path}, line {number}: {error}") from None
            jobs.append(Job(number, body))
    return jobs


def _body(line: str, model: str, system: str | None) -> dict[str, Any]:
    read = json.loads(line) if line.startswith(("{", '"')) else line
    if isinstance(read, str):
        read = {"prompt": read}
    body = read["request"] if isinstance(read.get("request"), dict) else read
    if "messages" not in body:
        prompt = body.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise ValueError("it has neither 'messages', 'request' nor 'prompt'")
        body = {"model": body.get("model", model), "messages": list(_messages(prompt, body.get("system", system)))}
    whole = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
    return {"model": model, **whole}


def _messages(prompt: str, system: object) -> Iterator[dict[str, str]]:
    if isinstance(system, str) and system:
        yield {"role": "system", "content": system}
    yield {"role": "user", "content": prompt}


class Done:
    """Digests of requests that need not be sent again, in a file beside the requests; each is written at once.

    Use it as a context. An entry that was being written when the process died is not counted.

    Args:
        path: of the state.
        target: stands for gateway and key; a state of another target is begun anew.
    """

    def __init__(self, path: Path, target: str) -> None:
        self._path = path
        self._head = f"{_HEAD} {hashlib.sha256(target.encode()).hexdigest()[:16]}"
        self._known: set[str] = set()

    def __enter__(self) -> Self:
        try:
            lines = self._path.read_text("utf-8").split("\n") if self._path.exists() else [""]
            fresh = lines[0] != self._head
            self._known = set() if fresh else {line for line in lines[1:-1] if len(line) == 2 * _DIGEST_BYTES}
            torn = not fresh and lines[-1] != ""
            self._file = self._path.open("w" if fresh else "a", encoding="utf-8", buffering=1)
            self._file.write(f"{self._head}\n" if fresh else "\n" * torn)
        except (OSError, UnicodeDecodeError) as error:
            raise WarmError(f"cannot keep the state in {self._path}: {error}") from None
        return self

    def __exit__(self, *_ended: object) -> None:
        self._file.close()

    def __contains__(self, digest: str) -> bool:
        return digest in self._known

    def add(self, digest: str) -> None:
        """A request is done."""
        self._known.add(digest)
        self._file.write(f"{digest}\n")

    def forget(self) -> None:
        """All is done: the next run begins anew."""
        self._path.unlink(missing_ok=True)
