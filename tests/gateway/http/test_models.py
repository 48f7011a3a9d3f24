"""GET /v1/models: the names this gateway answers to, for whoever has a key."""

import openai
import pytest

from tests.gateway.http.wire import fetch
from tests.gateway.stand import Stand

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_list_names_every_model_and_alias(it: Stand, sdk: openai.AsyncOpenAI) -> None:
    listed = await sdk.models.list()
    names = [model.id for model in listed.data]
    assert names == sorted(names)
    assert {"m", "alias", "a/b", "watched"} <= set(names)
    assert all(model.object == "model" and model.owned_by == "up" and model.created for model in listed.data)
    assert it.upstream.calls == []


@pytest.mark.parametrize("name", ["m", "alias", "a/b"])
async def test_one_model_is_found_by_name_alias_and_slashed_name(
    it: Stand, sdk: openai.AsyncOpenAI, name: str
) -> None:
    assert (await sdk.models.retrieve(name)).id == name


@pytest.mark.parametrize("path", ["/v1/models/a%2Fb", "/v1/models/a/b", "/models/a%2Fb", "/models/a/b?beta=true"])
async def test_both_path_forms_and_an_encoded_slash_are_understood(it: Stand, path: str) -> None:
    assert (await fetch(it, path)).json["id"] == "a/b"


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/v1/models/", "/v1/models?limit=3"])
async def test_the_list_has_every_path_form(it: Stand, path: str) -> None:
    reply = await fetch(it, path)
    assert reply.json["object"] == "list"
    assert reply["content-type"] == "application/json"
    assert reply["x-request-id"].startswith("req_")


async def test_head_sends_headers_alone(it: Stand) -> None:
    whole = await fetch(it, "/v1/models")
    head = await fetch(it, "/v1/models", method="HEAD")
    assert head.status == 200
    assert head["content-length"] == whole["content-length"]


async def test_an_unknown_name_is_a_native_404(it: Stand, sdk: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await sdk.models.retrieve("gpt-99")
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m", "/v1/models/gpt-99", "/models/a/b"])
async def test_without_a_key_nothing_is_told_of_any_model(it: Stand, path: str) -> None:
    for key in (None, "lam_wrong"):
        reply = await fetch(it, path, key=key)
        assert reply.status == 401
        assert reply.json["error"]["code"] == "invalid_api_key"
