"""What keeps an index in shape behind the requests: cells that have grown are rebuilt, snapshots are written."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from semantic.index.cell import Cell
from semantic.index.index import Index
from semantic.index.packing import pack, unpack
from semantic.index.snapshot import Origin, SnapshotError, read_latest, write

_LOG = logging.getLogger("semantic.index")
_POLL_S = 0.25


def load(index: Index, folder: Path, origin: Origin) -> str | None:
    """Fills an empty index from the newest snapshot; returns why it stays empty when none is of use."""
    try:
        _, arrays = read_latest(folder, origin)
        unpack(arrays, index)
    except SnapshotError as error:
        index.clear()
        return str(error)
    return None


class Keeper:
    """A thread that rebuilds and writes.

    Args:
        index: to keep.
        folder: of snapshots; None for no snapshots.
        origin: what they are of.
        reached: tells the change that the index has reached.
        threads: that train inverted lists.
        every_s: between two snapshots, when something has changed.
        failed: called with `rebuild` or `snapshot` when one fails; the index serves on.
    """

    def __init__(
        self,
        index: Index,
        folder: Path | None,
        origin: Origin,
        reached: Callable[[], int],
        *,
        threads: int = 1,
        every_s: float = 300.0,
        failed: Callable[[str], None] | None = None,
    ) -> None:
        self._index = index
        self._folder = folder
        self._origin = origin
        self._reached = reached
        self._threads = threads
        self._every_s = every_s
        self._failed = failed or (lambda _what: None)
        self._written = -1
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="keeper", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and writes a last snapshot when something has changed. Idempotent."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._snapshot()

    def snapshot_now(self) -> bool:
        """Replaces the snapshot on disk by one of the index as it is; false when that fails."""
        self._written = -1
        return self._snapshot(empty=True)

    def rebuild_due(self) -> int:
        """Rebuilds every cell that is due; returns how many."""
        count = 0
        while (cell := self._index.next_due()) is not None:
            self._rebuild(cell)
            count += 1
        return count

    def _work(self) -> None:
        waited_s = 0.0
        while not self._stop.wait(_POLL_S):
            self.rebuild_due()
            waited_s += _POLL_S
            if waited_s >= self._every_s:
                waited_s = 0.0
                self._snapshot()

    def _rebuild(self, cell: Cell) -> None:
        try:
            cell.rebuild(self._threads)
        except Exception:  # noqa: BLE001  (counted; the cell serves on as it is)
            _LOG.exception("a cell of %d rows could not be rebuilt", len(cell))
            self._failed("rebuild")

    def _snapshot(self, *, empty: bool = False) -> bool:
        reached = self._reached()
        if self._folder is None or (reached in {self._written, 0} and not empty):
            return True
        try:
            with self._writing:
                write(self._folder, self._origin, reached, len(self._index), pack(self._index))
            self._written = reached
        except Exception:  # noqa: BLE001  (counted; the index serves on)
            _LOG.exception("no snapshot could be written to %s", self._folder)
            self._failed("snapshot")
            return False
        return True
