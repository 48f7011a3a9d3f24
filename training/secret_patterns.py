"""Writes data/secrets.json: the shapes of tokens that the pinned detect-secrets knows, in linear-time form.

`python -m training.secret_patterns`. Look-around is replaced by what stands around, since a match is only counted,
never cut out. Public addresses are left to the PII guard; private keys and JWTs have rules of their own.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import re2
from detect_secrets import plugins
from detect_secrets.plugins.base import RegexBasedDetector

_FILE = Path(__file__).resolve().parent.parent / "policies" / "guardrails" / "data" / "secrets.json"
_LEFT_OUT = {"base", "ip_public", "private_key", "jwt", "basic_auth"}
_REWRITTEN = (
    (r"(?:(?<=\W)|(?<=^))", r"(?:^|\W)"),
    (r"(?!\w)", r"(?:\W|$)"),
    (r"(?![a-zA-Z0-9_\-])", r"(?:[^a-zA-Z0-9_\-]|$)"),
    (r"(?![a-f0-9])", r"(?:[^a-f0-9]|$)"),
    (r"{50,1024}", r"{50,}"),
)


def patterns() -> Iterator[dict[str, Any]]:
    """Each detector's patterns; all of them compile in linear time."""
    for module in sorted(found.name for found in pkgutil.iter_modules(plugins.__path__)):
        if module in _LEFT_OUT:
            continue
        for kind in vars(importlib.import_module(f"{plugins.__name__}.{module}")).values():
            if (
                isinstance(kind, type)
                and issubclass(kind, RegexBasedDetector)
                and kind.__module__.endswith(f".{module}")
            ):
                for found in kind().denylist:
                    yield {
                        "detector": module,
                        "pattern": _linear(found.pattern),
                        "ignore_case": bool(found.flags & 2),
                    }


def _linear(pattern: str) -> str:
    for old, new in _REWRITTEN:
        pattern = pattern.replace(old, new)
    re2.compile(pattern)
    return pattern


def content() -> bytes:
    """The file, source and licence first."""
    source = f"detect-secrets {version('detect-secrets')}, detect_secrets/plugins"
    said = {"source": source, "licence": "Apache-2.0"}
    return msgspec.json.format(msgspec.json.encode({**said, "patterns": list(patterns())}), indent=1) + b"\n"


if __name__ == "__main__":
    _FILE.write_bytes(content())
    print(f"{_FILE} written")
