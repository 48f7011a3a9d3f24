"""Marks of prompt caching in the words of each upstream, and salts that no client chooses."""

import copy
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.providers import load_provider
from gateway.providers.contract import Provider, ProviderCall
from gateway.providers.marks import with_marks
from gateway.settings import MarkForm, ProviderSettings
from policies.types import CacheMark
from tests.upstream import Upstream

BODY: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be kind."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]},
    ],
    "tools": [{"type": "function", "function": {"name": "f"}}],
}
MARKS = (
    CacheMark(("tools", 0), 3600),
    CacheMark(("messages", 0, "content", 0), 3600),
    CacheMark(("messages", 1, "content", 1), 300),
    CacheMark(("messages", 2, "tool_calls", 0), 300),
)


def test_each_mark_is_put_where_it_stood() -> None:
    before = copy.deepcopy(BODY)
    hour, minutes = ({"cache_control": {"type": "ephemeral", "ttl": ttl}} for ttl in ("1h", "5m"))
    marked = with_marks(BODY, MARKS, "cache_control")
    system, user, assistant = marked["messages"]
    assert system["content"] == [{"type": "text", "text": "Be kind.", **hour}]
    assert user["content"] == [BODY["messages"][1]["content"][0], {**BODY["messages"][1]["content"][1], **minutes}]
    assert assistant["tool_calls"] == [{**BODY["messages"][2]["tool_calls"][0], **minutes}]
    assert marked["tools"] == [{**BODY["tools"][0], **hour}]
    assert before == BODY


def test_openais_breakpoints_stand_on_parts_alone() -> None:
    explicit = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    marked = with_marks(BODY, MARKS, "breakpoint")
    assert marked["messages"][0]["content"] == [{"type": "text", "text": "Be kind.", **explicit}]
    assert marked["messages"][1]["content"][1] == {**BODY["messages"][1]["content"][1], **explicit}
    assert marked["messages"][2] == BODY["messages"][2]
    assert marked["tools"] == BODY["tools"]
    assert with_marks(BODY, MARKS, "drop") is BODY


async def opened(upstream: Upstream, kind: str, marks: MarkForm) -> AsyncIterator[Provider]:
    settings = ProviderSettings(kind=kind, base_url=upstream.base_url, cache_marks=marks)
    provider = load_provider(kind).from_settings("up", settings)
    yield provider
    await provider.close()


@pytest.mark.parametrize(
    ("kind", "form", "sent"),
    [
        ("openai", "drop", "drop"),
        ("openai", "cache_control", "cache_control"),
        ("openai", "breakpoint", "breakpoint"),
        ("engine", "drop", "cache_control"),
    ],
)
async def test_an_upstream_gets_marks_as_its_settings_say(
    upstream: Upstream, call: ProviderCall, kind: str, form: MarkForm, sent: MarkForm
) -> None:
    async for provider in opened(upstream, kind, form):
        await provider.complete(replace(call, body=BODY, marks=MARKS))
    expected = with_marks(BODY, MARKS, sent)
    assert upstream.calls[0].body["messages"] == expected["messages"]
    assert upstream.calls[0].body["tools"] == expected["tools"]


@pytest.mark.parametrize("chosen", ["mine", "salt-1", 7, None])
async def test_a_client_never_chooses_the_engines_salt(
    upstream: Upstream, call: ProviderCall, chosen: Any
) -> None:
    body = {**BODY, "cache_salt": chosen}
    async for provider in opened(upstream, "engine", "drop"):
        await provider.complete(replace(call, body=body))
        await provider.complete(replace(call, body=body, salt=None))
    assert [sent.body.get("cache_salt") for sent in upstream.calls] == ["salt-1", None]


async def test_a_client_divides_only_its_own_tenant_on_other_servers(
    upstream: Upstream, call: ProviderCall
) -> None:
    async for provider in opened(upstream, "openai", "drop"):
        for salt, chosen in (("salt-1", "x"), ("salt-2", "x"), ("salt-1", "y"), ("salt-1", "x")):
            await provider.complete(replace(call, body={**BODY, "cache_salt": chosen}, salt=salt))
        await provider.complete(replace(call, body=BODY))
    *salts, absent = (sent.body.get("cache_salt") for sent in upstream.calls)
    assert salts[0] == salts[3]
    assert len(set(salts)) == 3
    assert not {"x", "y"} & set(salts)
    assert absent is None
