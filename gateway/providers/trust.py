"""Whom a provider's connections trust, and what they show of themselves."""

from gateway.settings import ProviderSettings
from gateway.tls import Tls, TlsFiles, TlsNames


def open_tls(name: str, settings: ProviderSettings) -> Tls | None:
    """TLS by the provider's own files; None where it names none, and the system's authorities are trusted.

    Raises:
        SettingsError: a file is not what it should be.
    """
    files = TlsFiles(
        *(str(path) if path else None for path in (settings.ca_file, settings.cert_file, settings.key_file))
    )
    if files == TlsFiles():
        return None
    return Tls(files, TlsNames(*(f"provider {name!r}: {part}" for part in ("ca_file", "cert_file", "key_file"))))
