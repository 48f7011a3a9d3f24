"""TLS of a client: whom it trusts and what it shows of itself. Certificates and names are checked, always."""

import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.errors import SettingsError

_EXPIRED = frozenset({9, 10})
"""OpenSSL's codes of a certificate that is not valid yet, or no more."""

_OTHER_NAME = frozenset({62, 64})
"""Those of one that is for another host name, or another address."""

_ADVICE: Mapping[str, str] = {
    "tls_untrusted": "it shows a certificate of nobody who is trusted here; name its CA by {ca}",
    "tls_name": "it shows a certificate for other names than the one in the URL; use a name that is in it",
    "tls_expired": "it shows a certificate that is not valid now; renew it, or set the clock",
    "tls": "no TLS came about; look whether that port speaks it, and whether it wants a client certificate",
}


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of one link.

    Attributes:
        ca: those who are trusted, in place of the system's; None for the system's.
        certificate: shown to a server that asks for one; None for none.
        key: of the certificate, without a passphrase; None when it is in the certificate's file.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class TlsNames:
    """What the settings call the files, for errors."""

    ca: str
    certificate: str
    key: str


class Tls:
    """A context that follows its files: who renews a certificate restarts nothing.

    Raises:
        SettingsError: a file cannot be read or is not what it should be, in one line that names setting and file.
    """

    def __init__(self, files: TlsFiles, names: TlsNames) -> None:
        self._files = files
        self._names = names
        self._seen = self._stamps()
        self._context = _context(files, names)

    def current(self) -> ssl.SSLContext:
        """For the next connection: made of the files as they are, or as they were when they fit together last."""
        seen = self._stamps()
        if seen != self._seen:
            try:
                self._context = _context(self._files, self._names)
            except SettingsError:
                return self._context
            self._seen = seen
        return self._context

    def _stamps(self) -> tuple[int, ...]:
        return tuple(
            _changed_ns(path) for path in (self._files.ca, self._files.certificate, self._files.key) if path
        )


def tls_reason(error: BaseException) -> str | None:
    """Why TLS failed: `tls_untrusted`, `tls_name`, `tls_expired`, `tls`; None when it was something else."""
    causes = [cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)]
    if not causes:
        return None
    cause = causes[-1]  # the HTTP client wraps it into one of the same kind, without its code
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return "tls"
    code = getattr(cause, "verify_code", 0)
    return "tls_name" if code in _OTHER_NAME else "tls_expired" if code in _EXPIRED else "tls_untrusted"


def tls_advice(reason: str, ca: str) -> str:
    """What to do about a reason of `tls_reason`, in one line; empty for any other.

    Args:
        reason: a word.
        ca: the setting that names the CA.
    """
    return _ADVICE.get(reason, "").format(ca=ca)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _context(files: TlsFiles, names: TlsNames) -> ssl.SSLContext:
    if files.key and not files.certificate:
        raise SettingsError(f"{names.key}: give its certificate too, by {names.certificate}")
    for path, name in ((files.ca, names.ca), (files.certificate, names.certificate), (files.key, names.key)):
        if path:
            _check_readable(path, name)
    try:
        context = ssl.create_default_context(cafile=files.ca or None)
    except ssl.SSLError:
        raise SettingsError(f"{names.ca}: {files.ca} holds no certificates in PEM form") from None
    if files.certificate:
        try:
            # a passphrase would be asked for on the terminal
            context.load_cert_chain(files.certificate, files.key or None, password=lambda: "")
        except (ssl.SSLError, ValueError):
            fits = "needs PEM files of a certificate and its key, which has no passphrase"
            raise SettingsError(f"{names.certificate}: {files.certificate} {fits}") from None
    return context


def _check_readable(path: str, name: str) -> None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  (an empty path must not become the working folder)
            file.read(1)
    except OSError as error:
        raise SettingsError(f"{name}: cannot read {path}: {error.strerror}") from None


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  (asked before each connection)
    except OSError:
        return 0
