"""Bytes between a device and the host, through pinned memory and on a stream of their own."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class HostCopy:
    """Bytes on their way to the host.

    Attributes:
        host: uint8 on the host; whole once `arrived` is.
        arrived: None where the copy was made at once.
    """

    host: torch.Tensor
    arrived: torch.cuda.Event | None

    def payload(self) -> bytes:
        """Wait for the bytes, and return them."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.host.numpy().tobytes()


class HostLink:
    """The way between one device and the host.

    What `send` is given was computed on the current stream; the copy waits for that by an event, and the memory is
    not used for anything else before the copy has read it. What `fetch` returns may be read on the current stream,
    which waits for its arrival by an event.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._stream: torch.cuda.Stream | None = None
        if self._device.type == "cuda":
            self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]

    def send(self, source: torch.Tensor) -> HostCopy:
        """Copy contiguous uint8 to the host; do not change the source afterwards."""
        if self._stream is None:
            return HostCopy(source.clone(), None)
        host = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            host.copy_(source, non_blocking=True)
            arrived: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record(self._stream)
        source.record_stream(self._stream)
        return HostCopy(host, arrived)

    def fetch(self, payload: bytes) -> torch.Tensor:
        """Copy bytes to the device, uint8."""
        host = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
        if self._stream is None:
            return host
        with torch.cuda.stream(self._stream):
            # Pinned memory is given back to its allocator only after the stream has read it.
            device = host.pin_memory().to(self._device, non_blocking=True)
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._stream)
        device.record_stream(current)
        return device

    def settle(self) -> None:
        """Wait until all that was fetched is where it was put."""
        if self._stream is not None:
            torch.cuda.current_stream(self._device).synchronize()
