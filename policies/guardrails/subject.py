"""From a neutral request and its answer to what guards judge."""

from collections.abc import Iterable, Iterator
from typing import Any

from policies.guardrails.types import Subject
from policies.types import ChatResponse, Json

_INSTRUCTION_ROLES = frozenset({"system", "developer"})


def subject_of(
    body: Json, response: ChatResponse | None = None, *, scope: str = "tenant", size: int = 0
) -> Subject:
    """What guards judge.

    Args:
        body: the neutral request.
        response: the whole answer, or None before there is one.
        scope: kind of the scope under which the answer would be stored.
        size: bytes of the stored answer, 0 when not known.
    """
    turns: list[str] = []
    instructions: list[str] = []
    question = ""
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict):
            continue
        texts = list(_texts(message))
        if message.get("role") in _INSTRUCTION_ROLES:
            instructions += texts
            continue
        turns += texts
        if message.get("role") == "user":
            question = "\n".join(texts)
    wanted = body.get("response_format")
    return Subject(
        question=question,
        turn_texts=tuple(turns),
        system_texts=tuple(instructions),
        answer_texts=() if response is None else tuple(_answers(response)),
        content_texts=() if response is None else tuple(_visible(response)),
        response_format=wanted if isinstance(wanted, dict) else None,
        size_bytes=size,
        scope_kind=scope,
    )


def _visible(response: ChatResponse) -> Iterator[str]:
    for choice in response.choices:
        yield from _content(choice.message.get("content"))


def _answers(response: ChatResponse) -> Iterator[str]:
    for choice in response.choices:
        yield from _texts(choice.message)


def _texts(message: Json) -> Iterator[str]:
    yield from _content(message.get("content"))
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        yield refusal
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield from _arguments(call.get("function"))
    yield from _arguments(message.get("function_call"))


def _content(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        if content:
            yield content
        return
    parts: Iterable[Any] = content if isinstance(content, list) else ()
    for part in parts:
        if isinstance(part, str) and part:
            yield part
        elif isinstance(part, dict) and isinstance(part.get("text"), str) and part["text"]:
            yield part["text"]


def _arguments(function: Any) -> Iterator[str]:
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if isinstance(arguments, str) and arguments:
        yield arguments
