"""Where Redis is, and the greeting: password, user and database before the first command, never in a message."""

from collections.abc import Iterator

import pytest

from gateway.errors import SettingsError, StoreUnavailable
from gateway.redis_link import RedisTarget
from gateway.tls import TlsFiles
from tests.gateway.redis_link.conftest import Connect
from tests.servers.redis import RedisServer


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("redis://h", RedisTarget("h")),
        ("redis://h:1/", RedisTarget("h", 1)),
        ("redis://h:1/3", RedisTarget("h", 1, database=3)),
        ("redis://h?db=3", RedisTarget("h", database=3)),
        ("redis://[::1]:2", RedisTarget("::1", 2)),
        ("rediss://h", RedisTarget("h", tls=TlsFiles())),
        ("rediss://h:1?ssl_ca_certs=/a%20b.pem", RedisTarget("h", 1, tls=TlsFiles("/a b.pem"))),
        (
            "rediss://u:p@h/2?ssl_ca_certs=/c&ssl_certfile=/d&ssl_keyfile=/e&ssl_cert_reqs=required",
            RedisTarget("h", username="u", password="p", database=2, tls=TlsFiles("/c", "/d", "/e")),
        ),
        ("redis://:p%40ss@h", RedisTarget("h", password="p@ss")),
        ("redis://u%3A:p@h", RedisTarget("h", username="u:", password="p")),
        ("unix:///a/b%20c.sock", RedisTarget(path="/a/b c.sock")),
        ("unix://u:p@/a.sock?db=2", RedisTarget(path="/a.sock", username="u", password="p", database=2)),
    ],
)
def test_urls(url: str, target: RedisTarget) -> None:
    assert RedisTarget.parse(url) == target


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "h",
            "http://h",
            "redis://",
            "redis:///0",
            "unix://",
            "redis://h/x",
            "redis://h:x",
            "redis://h:99999",
        ),
        "redis://u:h[@x",
    ],
)
def test_a_url_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        RedisTarget.parse(url.replace("h", "secret"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            "rediss://:s3cret@h?ssl_cert_reqs=none",
            "ssl_cert_reqs=none: the server's certificate is always checked; name",
        ),
        (
            "rediss://:s3cret@h?ssl_cert_reqs=optional",
            "ssl_cert_reqs=optional: the server's certificate is always",
        ),
        ("rediss://:s3cret@h?ssl_check_hostname=false", "ssl_check_hostname=false: the server's certificate is"),
        (
            "rediss://:s3cret@h?ssl_cacerts=/x",
            "unknown ssl_cacerts; known are ssl_ca_certs, ssl_certfile, ssl_key",
        ),
        ("redis://:s3cret@h?ssl_ca_certs=/x", "ssl_ca_certs is for rediss://; without it nothing is encrypted"),
        ("unix:///a.sock?ssl_cert_reqs=none", "ssl_cert_reqs is for rediss://"),
    ],
)
def test_what_would_switch_checks_off_is_refused(url: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        RedisTarget.parse(url)
    assert told in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_password_does_not_show() -> None:
    assert "p4ss" not in repr(RedisTarget.parse("redis://u:p4ss@h"))


@pytest.fixture
def guarded() -> Iterator[RedisServer]:
    """A Redis of its own that asks for a password."""
    server = RedisServer()
    server.start()
    server.command("ACL", "SETUSER", "app", "on", ">app-pass", "~*", "&*", "+@all")
    server.command("CONFIG", "SET", "requirepass", "s3cret")
    yield server
    server.close()


@pytest.fixture
def urls(guarded: RedisServer) -> str:
    """The guarded server's URL with `{who}` for credentials."""
    return "unix://{who}" + str(guarded.socket_path)


async def test_password_user_and_database_are_in_the_greeting(urls: str, connect: Connect) -> None:
    for who, name in ((":s3cret@", b"default"), ("app:app-pass@", b"app")):
        link = connect(urls.format(who=who) + "?db=3", deadline_s=2.0).link
        facts = dict(part.partition(b"=")[::2] for part in (await link.call("CLIENT", "INFO")).split())
        assert (facts[b"user"], facts[b"db"]) == (name, b"3")


@pytest.mark.parametrize("who", ["", ":wr0ng@", "app:wr0ng@", "nobody:s3cret@"])
async def test_a_wrong_credential_is_refused_and_told_without_it(urls: str, connect: Connect, who: str) -> None:
    linked = connect(urls.format(who=who) + "?db=3", deadline_s=2.0, failures=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable) as caught:
            await linked.link.call("PING")
        assert str(caught.value) == "connect"
    assert linked.faults == ["connect", "connect"]
    assert not linked.link.open


async def test_a_database_that_does_not_exist_is_refused(redis_server: RedisServer, connect: Connect) -> None:
    with pytest.raises(StoreUnavailable, match="connect"):
        await connect(redis_server.url + "?db=999").link.call("PING")
