"""The neutral answer as OpenAI wire objects, pure: whole, or cut into the chunks it came in."""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

from gateway.protocols.shape import CALL_TEXTS, text_or_empty
from policies.types import ChatResponse, Choice, Json

_SPELLED = ("content", "refusal")
_OWN_DELTAS = frozenset({"role", "content", "refusal", "tool_calls"})
_EVERY_CHUNK = frozenset({"system_fingerprint", "service_tier"})


def render_completion(response: ChatResponse, answer_id: str, created: int, model: str) -> Json:
    """The `chat.completion` object under this id, time and name; parts of `response` are shared."""
    body: Json = {
        "id": answer_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [
            {
                **choice.extra,
                "index": choice.index,
                "message": choice.message,
                "logprobs": choice.logprobs,
                "finish_reason": choice.finish_reason,
            }
            for choice in response.choices
        ],
    }
    if response.usage is not None:
        body["usage"] = response.usage
    return {**body, **response.extra}


def render_chunks(
    response: ChatResponse, answer_id: str, created: int, model: str, *, include_usage: bool
) -> list[Json]:
    """The answer as the chunks it came in, or would have: choices one after another, content cut at its pieces.

    Assembled again they give `response` (with the new id, time and name), the official SDK's accumulator included.
    A usage chunk comes last when asked for and known.
    """
    head: Json = {"id": answer_id, "object": "chat.completion.chunk", "created": created, "model": model}
    head |= {name: value for name, value in response.extra.items() if name in _EVERY_CHUNK}
    if include_usage:
        head["usage"] = None
    chunks = [{**head, "choices": [part]} for choice in response.choices for part in _parts(choice)]
    if chunks:
        chunks[0] |= {name: value for name, value in response.extra.items() if name not in _EVERY_CHUNK}
    if include_usage and response.usage is not None:
        chunks.append({**head, "choices": [], "usage": response.usage})
    return chunks


def _parts(choice: Choice) -> Iterator[Json]:
    """The choice objects of one choice's chunks, finish last."""
    deltas = list(_deltas(choice))
    *shares, left = _logprob_shares(choice, deltas)
    for delta, share in zip(deltas, shares, strict=True):
        yield {"index": choice.index, "delta": delta, "logprobs": share, "finish_reason": None}
    if choice.finish_reason is not None or left is not None or choice.extra:
        finish = {"index": choice.index, "delta": {}, "logprobs": left, "finish_reason": choice.finish_reason}
        yield {**choice.extra, **finish}


def _deltas(choice: Choice) -> Iterator[Json]:
    message = choice.message
    content, refusal = message.get("content"), message.get("refusal")
    others = {name: value for name, value in message.items() if name not in _OWN_DELTAS}
    yield {
        "role": message.get("role"),
        "content": None if content is None else "",
        "refusal": None if refusal else refusal,
        **{name: value for name, value in others.items() if not value},
    }
    yield from ({name: value} for name, value in others.items() if value)
    if isinstance(content, str):
        yield from ({"content": piece} for piece in cut(content, choice.pieces))
    elif content is not None:
        yield {"content": content}
    if refusal:
        yield {"refusal": refusal}
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield from ({"tool_calls": [part]} for part in _call_parts(index, call))


def cut(content: str, pieces: tuple[int, ...]) -> Iterator[str]:
    """The content in the pieces it came in; whole when these lengths are not its own."""
    if sum(pieces) != len(content):
        pieces = (len(content),)
    for start, end in pairwise(accumulate(pieces, initial=0)):
        if end > start:
            yield content[start:end]


def _call_parts(index: int, call: Json) -> Iterator[Json]:
    kind = next((name for name in CALL_TEXTS if isinstance(call.get(name), dict)), None)
    text = None if kind is None else call[kind].get(CALL_TEXTS[kind])
    if kind is None or not text:
        yield {**call, "index": index}
        return
    yield {**call, "index": index, kind: {**call[kind], CALL_TEXTS[kind]: ""}}
    yield {"index": index, kind: {CALL_TEXTS[kind]: text}}


def _logprob_shares(choice: Choice, deltas: list[Json]) -> list[Json | None]:
    """The logprobs of each delta, and last those of the finish chunk: tokens go with the text they spell.

    Never on a first delta: the official accumulator counts those twice when n > 1.
    """
    shares: list[Json | None] = [None] * (len(deltas) + 1)
    if choice.logprobs is None:
        return shares
    spelled = {name: [at for at in range(1, len(deltas)) if name in deltas[at]] for name in _SPELLED}
    places = spelled["content"] or spelled["refusal"] or [len(deltas)]
    bare = {name: [] if isinstance(value, list) else value for name, value in choice.logprobs.items()}
    for at in {*places, *spelled["refusal"]}:
        shares[at] = {name: list(value) if value == [] else value for name, value in bare.items()}
    for name, tokens in choice.logprobs.items():
        if not isinstance(tokens, list):
            continue
        targets = spelled.get(name) or places[-1:]
        texts = [text_or_empty(deltas[at].get(name)) for at in targets if at < len(deltas)] or [""]
        for at, some in zip(targets, _spread(tokens, texts), strict=True):
            shares[at] = {**(shares[at] or {}), name: some}
    return shares


def _spread(tokens: list[Any], texts: list[str]) -> Iterator[list[Any]]:
    """Cuts the tokens where the texts end; what is left over goes to the last."""
    position = spelled = wanted = 0
    for text in texts[:-1]:
        start, wanted = position, wanted + len(text)
        while position < len(tokens) and spelled < wanted:
            spelled += max(1, len(_token_text(tokens[position])))
            position += 1
        yield tokens[start:position]
    yield tokens[position:]


def _token_text(token: Any) -> str:
    return text_or_empty(token.get("token")) if isinstance(token, dict) else ""
