"""Files of TLS: what is wrong with one is said in a line that names setting and file, and checks stay on."""

import os
import ssl
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.errors import SettingsError
from gateway.settings import ModelSettings, ProviderSettings, Settings, load_settings
from gateway.supervisor.checks import check
from gateway.tls import Tls, TlsFiles, TlsNames, tls_advice, tls_reason
from tests.servers.tls import Papers

NAMES = TlsNames("s: ca", "s: cert", "s: key")


@pytest.fixture
def files(papers: Papers, tmp_path: Path) -> dict[str, str]:
    """Paths by what is there."""
    (tmp_path / "empty").write_bytes(b"")
    locked = papers.ours.sign("locked", "client.test", passphrase="hidden")
    return {
        "ca": str(papers.ours.ca),
        "cert": str(papers.client.certificate),
        "key": str(papers.client.key),
        "other_key": str(locked.key),
        "locked": str(locked.certificate),
        "empty": str(tmp_path / "empty"),
        "absent": str(tmp_path / "absent"),
        "folder": str(tmp_path),
    }


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (("absent", None, None), "s: ca: cannot read {absent}: No such file or directory"),
        (("folder", None, None), "s: ca: cannot read {folder}: Is a directory"),
        (("empty", None, None), "s: ca: {empty} holds no certificates in PEM form"),
        (("key", None, None), "s: ca: {key} holds no certificates in PEM form"),
        ((None, None, "key"), "s: key: give its certificate too, by s: cert"),
        ((None, "cert", "absent"), "s: key: cannot read {absent}: No such file or directory"),
        (
            (None, "cert", None),
            "s: cert: {cert} needs PEM files of a certificate and its key, which has no passphrase",
        ),
        ((None, "cert", "other_key"), "s: cert: {cert} needs PEM files"),
        ((None, "locked", "other_key"), "s: cert: {locked} needs PEM files"),
        ((None, "empty", "key"), "s: cert: {empty} needs PEM files"),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_bad_file_is_named(files: dict[str, str], named: tuple[str | None, ...], told: str) -> None:
    paths = [files[name] if name else None for name in named]
    with pytest.raises(SettingsError) as caught:
        Tls(TlsFiles(*paths), NAMES)
    assert str(caught.value).startswith(told.format(**files))
    assert "\n" not in str(caught.value)


def test_certificates_and_names_are_checked(files: dict[str, str]) -> None:
    for named in (TlsFiles(), TlsFiles(files["ca"]), TlsFiles(files["ca"], files["cert"], files["key"])):
        context = Tls(named, NAMES).current()
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_context_is_made_again_only_when_its_files_change(papers: Papers, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(papers.strangers.ca.read_bytes())
    tls = Tls(TlsFiles(str(ca)), NAMES)
    first = tls.current()
    assert tls.current() is first
    ca.unlink()
    assert tls.current() is first
    ca.write_bytes(b"half writ")
    assert tls.current() is first
    ca.write_bytes(papers.ours.ca.read_bytes())
    os.utime(ca, ns=(1, 1))
    assert [found["subject"] for found in tls.current().get_ca_certs()] != [
        found["subject"] for found in first.get_ca_certs()
    ]
    assert tls.current() is tls.current()


def test_what_is_not_tls_has_no_reason_and_no_advice() -> None:
    assert tls_reason(ConnectionRefusedError()) is None
    assert tls_advice("connect", "x") == ""
    assert tls_reason(ssl.SSLError()) == "tls"
    assert "name its CA by x" in tls_advice("tls_untrusted", "x")


def of_provider(**fields: str) -> dict[str, object]:
    return {"providers": {"up": {"base_url": "https://h/v1", **fields}}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            of_provider(ca_file="/absent/ca"),
            "provider 'up': ca_file: cannot read /absent/ca: No such file or directory",
        ),
        (
            of_provider(key_file="/x"),
            "provider 'up': key_file: give its certificate too, by provider 'up': cert_file",
        ),
        (
            {"redis_url": SecretStr("rediss://:s3cret@h?ssl_ca_certs=/absent/ca")},
            "redis_url: ssl_ca_certs: cannot read /absent/ca: No such file or directory",
        ),
    ],
)
def test_the_supervisor_finds_it_before_anything_starts(changes: dict[str, object], told: str) -> None:
    settings = Settings.model_validate({"engine": {"enabled": False}, **changes})
    with pytest.raises(SettingsError) as caught:
        check(settings)
    assert str(caught.value) == told


def test_files_without_https_are_refused() -> None:
    environ = {"LAMINA_PROVIDERS__UP__BASE_URL": "http://h/v1", "LAMINA_PROVIDERS__UP__CA_FILE": "/ca.pem"}
    with pytest.raises(SettingsError, match="are for https://; base_url has another scheme"):
        load_settings(environ, Path(os.devnull))
    settings = load_settings(environ | {"LAMINA_PROVIDERS__UP__BASE_URL": "https://h/v1"}, Path(os.devnull))
    assert settings.providers["up"] == ProviderSettings(base_url="https://h/v1", ca_file=Path("/ca.pem"))
    assert settings.models == tuple[ModelSettings, ...]()
