"""The embedded engine as a provider: while it loads or restarts, clients are asked to come back."""

from pathlib import Path

import pytest

from gateway.errors import UpstreamError
from gateway.providers import open_provider
from gateway.providers.contract import ProviderCall
from gateway.settings import ProviderSettings


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_is_not_there_yet_is_a_503_that_says_when_to_try_again(
    tmp_path: Path, stream: bool
) -> None:
    settings = ProviderSettings(kind="engine", base_url=f"unix://{tmp_path}/engine.sock")
    provider = open_provider("engine", settings)
    call = ProviderCall("smollm2", {"messages": []}, "r")
    with pytest.raises(UpstreamError) as raised:
        await (provider.stream(call) if stream else provider.complete(call))
    await provider.close()
    assert raised.value.status == 503
    assert raised.value.headers["retry-after"] == "2"
    assert raised.value.body["error"]["code"] == "engine_unavailable"  # type: ignore[index]
