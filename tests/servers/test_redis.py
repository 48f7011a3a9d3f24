"""The Redis that tests use does what its methods say."""

import pytest

from tests.servers.redis import RedisServer


def test_it_is_clean_whatever_the_test_before_did(redis_server: RedisServer) -> None:
    redis_server.command("SET", "k", "v")
    redis_server.stop()
    redis_server.make_clean()
    assert redis_server.command("GET", "k") == b"$-1\r\n"
    redis_server.kill()
    redis_server.make_clean()
    assert redis_server.command("PING") == b"+PONG\r\n"


@pytest.mark.slow
def test_a_frozen_server_does_not_answer(redis_server: RedisServer) -> None:
    redis_server.stop()
    try:
        with pytest.raises(TimeoutError):
            redis_server.command("PING")
    finally:
        redis_server.cont()


@pytest.mark.parametrize("keep", [True, False])
def test_a_restart_keeps_data_only_when_asked(redis_server: RedisServer, keep: bool) -> None:
    redis_server.command("SET", "k", "v")
    redis_server.restart(keep_data=keep)
    assert redis_server.command("GET", "k") == (b"$1\r\nv\r\n" if keep else b"$-1\r\n")


def test_only_keys_with_a_life_are_evicted(redis_server: RedisServer) -> None:
    redis_server.command("SET", "sequence", "7")
    redis_server.command("CONFIG", "SET", "maxmemory", "4mb")
    for number in range(600):
        redis_server.command("SET", f"entry:{number}", b"x" * 16384, "EX", "1000")
    assert redis_server.command("GET", "sequence") == b"$1\r\n7\r\n"
    assert int(redis_server.command("DBSIZE")[1:-2]) < 600
