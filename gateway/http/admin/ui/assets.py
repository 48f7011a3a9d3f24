"""The dashboard's own files: styles, scripts and an icon, read once, served under names that change with them."""

import hashlib
from pathlib import Path

from gateway.http.asgi import Headers

FOLDER = Path(__file__).parent / "assets"
PREFIX = "/admin/ui/assets/"
_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}
_DIGEST_CHARS = 12
_FOREVER = b"public, max-age=31536000, immutable"


class Assets:
    """Files by the path that they are served under."""

    def __init__(self, files: dict[str, bytes]) -> None:
        digest = hashlib.sha256()
        for name, content in sorted(files.items()):
            digest.update(name.encode() + b"\0" + content + b"\0")
        self._version = digest.hexdigest()[:_DIGEST_CHARS]
        self._files = {self.url(name): content for name, content in files.items()}

    @classmethod
    def read(cls) -> "Assets":
        """From the package."""
        files = (file for file in FOLDER.rglob("*") if file.suffix in _TYPES)
        return cls({file.relative_to(FOLDER).as_posix(): file.read_bytes() for file in files})

    def url(self, name: str) -> str:
        """Where a file is."""
        return f"{PREFIX}{self._version}/{name}"

    def get(self, path: str) -> tuple[Headers, bytes] | None:
        """A file and its headers; None when there is none."""
        content = self._files.get(path)
        if content is None:
            return None
        kind = _TYPES[path[path.rindex(".") :]]
        return [(b"content-type", kind), (b"cache-control", _FOREVER)], content
