"""What encryption costs: sealing and opening entries of some sizes, with and without it.

`python -m bench.encryption` prints the best of several rounds in microseconds, as one JSON line.
"""

import argparse
import json
import sys
import timeit

from gateway.db.records import DataKeyRecord
from gateway.layers.entry import Entry, Sealer, StoredAnswer, StoredChoice
from gateway.layers.keyring import Keyring
from gateway.layers.opened import OpenedEntries
from policies.encryption import MasterKeys, master_key

_KEY = bytes(range(32))
_ANSWER_CHARS = (200, 2_000, 20_000)


def entry(chars: int) -> Entry:
    """An answer of so many characters, of words that pack like text."""
    words = " ".join(f"{index * 7919 % 9973:x}" for index in range(chars))[:chars]
    answer: StoredAnswer = ("chatcmpl-1", 1, "m", {"prompt_tokens": 7, "completion_tokens": 4}, {})
    choice: StoredChoice = (0, {"role": "assistant", "content": words}, "stop", None, (), {})
    return Entry(_KEY, "T", 1.0, 60.0, 0, ("m",), "", (), (), answer, (choice,), "req-1")


def sealers() -> dict[str, Sealer]:
    """One that authenticates and one that encrypts."""
    ring = Keyring(MasterKeys(master_key("m" * 32)))
    made, wrapped = ring.fresh("T")
    ring.take("T", [DataKeyRecord(made.key_id, "T", wrapped, ring.masters.current.key_id, 1.0)])
    return {"authenticated": Sealer(b"s" * 32), "encrypted": Sealer(b"s" * 32, ring)}


def measured(rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """Microseconds per call, the best of the rounds."""
    found: dict[str, dict[str, float]] = {}
    for name, sealer in sealers().items():
        for chars in _ANSWER_CHARS:
            made = entry(chars)
            stored, known = sealer.seal(made), OpenedEntries(sealer)
            known.open(stored, "T", _KEY)
            works = {
                "seal": lambda sealer=sealer, made=made: sealer.seal(made),
                "open": lambda sealer=sealer, stored=stored: sealer.open(stored, "T", _KEY),
                "open_again": lambda known=known, stored=stored: known.open(stored, "T", _KEY),
            }
            found[f"{name}_{chars}"] = {
                what: round(min(timeit.repeat(work, number=calls, repeat=rounds)) / calls * 1e6, 2)
                for what, work in works.items()
            }
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=500)
    given = parser.parse_args()
    sys.stdout.write(json.dumps(measured(given.rounds, given.calls)) + "\n")


if __name__ == "__main__":
    main()
