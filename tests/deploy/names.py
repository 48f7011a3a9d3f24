"""The name service of a container network, in small: one name, several addresses, over UDP."""

import contextlib
import socket
import struct
import threading
from collections.abc import Sequence

_HEADER = struct.Struct("!HHHHHH")
_ANSWERED, _REFUSED = 0x8180, 0x8183
_A, _IN, _TTL_S = 1, 1, 1


class Names:
    """Answers questions for A records until it is closed.

    Attributes:
        addresses: what the name stands for; may be replaced at any time.
    """

    def __init__(self, host: str, name: str, addresses: Sequence[str]) -> None:
        self.addresses = list(addresses)
        self._name = name
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        self._socket.settimeout(0.2)
        self._open = True
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops answering."""
        self._open = False
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while self._open:
            with contextlib.suppress(TimeoutError):
                message, sender = self._socket.recvfrom(512)
                self._socket.sendto(self._answer(message), sender)

    def _answer(self, message: bytes) -> bytes:
        number, *_ = _HEADER.unpack_from(message)
        labels, at = [], _HEADER.size
        while (length := message[at]) != 0:
            labels.append(message[at + 1 : at + 1 + length].decode())
            at += 1 + length
        kind, _ = struct.unpack_from("!HH", message, at + 1)
        question = message[_HEADER.size : at + 5]
        known = ".".join(labels).lower() == self._name
        found = self.addresses if known and kind == _A else []
        head = _HEADER.pack(number, _ANSWERED if known else _REFUSED, 1, len(found), 0, 0)
        records = b"".join(
            struct.pack("!HHHIH", 0xC00C, _A, _IN, _TTL_S, 4) + socket.inet_aton(one) for one in found
        )
        return head + question + records
