"""Parts of a request: what differs is named, and nothing else is."""

from typing import Any

import pytest

from policies.keys import Namespace, Scope
from policies.request_parts import differing_parts, request_parts

SPACE = Namespace("T1", "chat", "p/m", versions=(("prompt", "1"),))


def body(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]
    return {"messages": messages, "temperature": 0.5, **fields}


def differ(other: dict[str, Any], space: Namespace = SPACE) -> tuple[str, ...]:
    return differing_parts(request_parts(body(), SPACE), request_parts(other, space))


def said(*turns: tuple[str, str]) -> dict[str, Any]:
    return body(messages=[{"role": role, "content": content} for role, content in turns])


def test_equal_requests_differ_in_nothing() -> None:
    assert differ(body()) == ()
    assert differ(body(stream=True, user="u", n=1)) == ()


@pytest.mark.parametrize(
    ("other", "parts"),
    [
        (body(temperature=0.6), ("field:temperature",)),
        (body(tools=[{"type": "function"}], seed=3), ("field:seed", "field:tools")),
        (said(("system", "Be long."), ("user", "Hello?")), ("system",)),
        (said(("system", "Be brief."), ("user", "Hello!")), ("question",)),
        (
            said(("system", "Be brief."), ("user", "Hi"), ("assistant", "Yes?"), ("user", "Hello?")),
            ("history",),
        ),
    ],
)
def test_what_differs_is_named(other: dict[str, Any], parts: tuple[str, ...]) -> None:
    assert differ(other) == parts


@pytest.mark.parametrize(
    ("space", "parts"),
    [
        (Namespace("T1", "chat", "p/other", versions=(("prompt", "1"),)), ("model",)),
        (Namespace("T1", "chat", "p/m", versions=(("prompt", "2"),)), ("version:prompt",)),
        (Namespace("T1", "chat", "p/m"), ("version:prompt",)),
        (Namespace("T1", "chat", "p/m", Scope("user", "u"), versions=SPACE.versions), ("scope", "scope-id")),
        (Namespace("T1", "chat", "p/m", partition="x", versions=SPACE.versions), ("partition",)),
        (Namespace("T1", "chat", "p/m", versions=SPACE.versions, asked_versions=(("kb", "7"),)), ("asked:kb",)),
    ],
)
def test_the_namespace_counts_too(space: Namespace, parts: tuple[str, ...]) -> None:
    assert differ(body(), space) == parts
