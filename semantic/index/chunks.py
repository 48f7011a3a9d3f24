"""The bytes of a snapshot's arrays, in chunks: as they are, or each encrypted under its number."""

from collections.abc import Iterator

from policies.encryption import UnsealError, open_chunk, seal_chunk
from semantic.errors import SemanticError

CHUNK_BYTES = 8 << 20
_TAG_BYTES = 16


class SnapshotError(SemanticError):
    """A snapshot is absent, broken or foreign; the index is made from rows instead."""


class Chunks:
    """Chunks of one file, written or read once, in order.

    Args:
        key: of this file alone; None to encrypt nothing.
    """

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._number = 0

    def size_of(self, size: int) -> int:
        """What an array of so many bytes takes in the file."""
        return size if self._key is None else size + _TAG_BYTES * -(-size // CHUNK_BYTES)

    def written(self, data: memoryview) -> Iterator[bytes | memoryview]:
        """An array as it is written."""
        for at in range(0, len(data), CHUNK_BYTES):
            chunk = data[at : at + CHUNK_BYTES]
            if self._key is None:
                yield chunk
                continue
            yield seal_chunk(self._key, self._number, bytes(chunk))
            self._number += 1

    def read(self, stored: memoryview, size: int) -> bytes | memoryview:
        """An array of `size` bytes, from what was written.

        Raises:
            SnapshotError: it was changed, or is of another file.
        """
        if self._key is None:
            return stored
        parts = []
        for at in range(0, len(stored), CHUNK_BYTES + _TAG_BYTES):
            try:
                parts.append(
                    open_chunk(self._key, self._number, bytes(stored[at : at + CHUNK_BYTES + _TAG_BYTES]))
                )
            except UnsealError:
                raise SnapshotError("its arrays do not open") from None
            self._number += 1
        raw = b"".join(parts)
        if len(raw) != size:
            raise SnapshotError("its arrays have another size")
        return raw
