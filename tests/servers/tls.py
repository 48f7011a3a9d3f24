"""TLS for tests: an authority with its certificates, and what ends TLS in front of a real server."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)
_SSL_REQUEST_BYTES = 8
_CLOSING_S = 0.02
"""Sockets are closed some turns of the loop after they were told to be."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Behaviour = Literal["tls", "postgres", "mute", "silent", "plain", "bad_request"]


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for tests.

    Attributes:
        ca: its own certificate, as a PEM file.
    """

    def __init__(self, folder: Path, name: str = "tests") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} CA")])
        self._key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        signed = self._builder(self._name, self._key, now - _DAY, now + _DAY)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        signed = signed.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        signed = signed.add_extension(usage, critical=True)
        self.ca = folder / f"{name}-ca.pem"
        self.ca.write_bytes(signed.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, *names: str, ends_in_days: float = 1.0, passphrase: str = "") -> Identity:
        """A certificate for DNS names or addresses, in files called `name`; signing again replaces them."""
        now = dt.datetime.now(dt.UTC)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        ends = now + ends_in_days * _DAY
        builder = self._builder(subject, key, min(now, ends) - _DAY, ends)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_named(one) for one in names]), critical=False
        )
        lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase:
            lock = serialization.BestAvailableEncryption(passphrase.encode())
        made = Identity(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        signed = builder.sign(self._key, hashes.SHA256())
        made.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        pkcs8 = serialization.PrivateFormat.PKCS8
        made.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, lock))
        return made

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        begins: dt.datetime,
        ends: dt.datetime,
    ) -> x509.CertificateBuilder:
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(begins).not_valid_after(ends)
        return builder.add_extension(identifier, critical=False)


def server_context(identity: Identity, clients_of: Authority | None = None) -> ssl.SSLContext:
    """TLS of a server; with `clients_of` it asks for a certificate of that authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(identity.certificate, identity.key)
    if clients_of is not None:
        context.load_verify_locations(clients_of.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Papers:
    """What TLS tests need: an authority, strangers to it, and TLS of servers good and bad.

    Attributes:
        ours, strangers: authorities.
        good: for localhost and 127.0.0.1.
        wrong_name, expired, foreign: a server that nobody may believe.
        asks: good, and wants a client's certificate of ours.
        client: such a certificate.
    """

    def __init__(self, folder: Path) -> None:
        self.ours, self.strangers = Authority(folder), Authority(folder, "strangers")
        names = ("localhost", "127.0.0.1")
        identity = self.ours.sign("good", *names)
        self.good = server_context(identity)
        self.wrong_name = server_context(self.ours.sign("wrong-name", "elsewhere.test"))
        self.expired = server_context(self.ours.sign("expired", *names, ends_in_days=-1))
        self.foreign = server_context(self.strangers.sign("foreign", *names))
        self.asks = server_context(identity, self.ours)
        self.client = self.ours.sign("client", "client.test")


class TlsFront:
    """Listens on a port of the loopback and passes plain bytes on; runs on a thread and a loop of its own.

    Args:
        behind: opens a connection to what stands behind.
        context: TLS of the server.
        behaviour: `tls`; `postgres`: TLS once the client has asked for it in PostgreSQL's words; `silent`: accepts
            and says nothing; `mute`: promises TLS as PostgreSQL does, and says no more; `plain`: no TLS;
            `bad_request`: says what a plain web server says to TLS.

    Attributes:
        port: where it listens.
        accepted: connections so far, after their handshake where there is one.
        heard: what clients sent, out of TLS where there is one.
    """

    def __init__(
        self, behind: Callable[[], Awaitable[Streams]], context: ssl.SSLContext, behaviour: Behaviour = "tls"
    ) -> None:
        self.port = 0
        self.accepted = 0
        self.heard = b""
        self._context = context
        self._behaviour = behaviour
        self._behind = behind
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tls-front", daemon=True)
        self._ready = threading.Event()
        self._ends: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._ends is not None
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join(10)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._ends = asyncio.Event()
        self._loop.set_exception_handler(lambda _loop, _context: None)  # clients leave in every way there is
        wrapped = self._context if self._behaviour == "tls" else None
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=wrapped)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ends.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(_CLOSING_S)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            if not writer.is_closing():
                writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._behaviour in {"postgres", "mute"}:
            await reader.readexactly(_SSL_REQUEST_BYTES)
            writer.write(b"S")
        if self._behaviour in {"silent", "mute"}:
            while data := await reader.read(65536):
                self.heard += data
            return
        if self._behaviour == "bad_request":
            self.heard += await reader.read(65536)
            writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            await reader.read()
            return
        if self._behaviour == "postgres":
            await writer.start_tls(self._context)
        await self._pass(reader, writer)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await self._behind()

        async def answers() -> None:
            with contextlib.suppress(OSError):
                while data := await behind_reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            writer.close()

        back = asyncio.create_task(answers())
        try:
            while data := await reader.read(65536):
                self.heard += data
                behind_writer.write(data)
        finally:
            back.cancel()
            behind_writer.transport.abort()


def _named(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
