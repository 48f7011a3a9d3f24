"""What is not answered when the time to drain is over is told so in the protocol's own words, never just cut."""

import logging
from pathlib import Path

import pytest

from tests.gateway.http.wire import Line, Reply, chat_request, native, said
from tests.gateway.stand import stand
from tests.servers.redis import RedisServer
from tests.upstream import Script

MESSAGES = "/v1/messages"


@pytest.mark.slow
async def test_what_outlives_the_drain_is_told_so(
    tmp_path: Path, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with stand(tmp_path, redis_server, limits={"drain_s": 0.1}) as it:
        lines = whole, streaming, messages, sending = [await Line.open(it) for _ in range(4)]
        it.upstream.default = Script(hang_after=2)
        await streaming.send(chat_request(said("streaming", stream=True)))
        assert (await streaming.head()).status == 200
        await messages.send(chat_request(said("messages", stream=True, max_tokens=9), path=MESSAGES))
        assert (await messages.head()).status == 200
        it.upstream.default = Script(hang_after=0)
        await whole.send(chat_request(said("whole")))
        await it.upstream.until(calls=3)
        await sending.send(chat_request(said("a body that never ends"))[:-5])
    for refused in (whole, sending):
        error = native(await refused.reply(), 503, code="stopping", type="server_error")
        assert "Try again" in error["message"]
    told = Reply(200, (), b"".join([part async for part in streaming.parts()])).events[-1]
    assert told["error"]["code"] == "stopping"
    text = b"".join([part async for part in messages.parts()])
    assert text.rstrip().rpartition(b"\n\n")[2].startswith(b"event: error\n")
    assert [record for record in caplog.records if record.exc_info and record.levelno >= logging.ERROR] == []
    for line in lines:
        await line.close()
