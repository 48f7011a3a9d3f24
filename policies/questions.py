"""Questions: the part of a request that may be compared by meaning, and what must be equal to the byte.

A request is cut in two. The turns said by user and assistant are its question; everything else (system and
developer text, tools, response format, parameters, unknown fields) is its frame. Two requests can share an answer
only inside one frame, and a question is only ever matched against one asked after the same turns or, as a
conversation, against another conversation as a whole.
"""

import hashlib
from collections.abc import Iterable

import msgspec
import orjson

from policies.keys import Namespace, canonical_request, encode_parts, frame, namespace_parts
from policies.types import Json

Turn = tuple[str, str]
"""Role (`user` or `assistant`) and text."""

_INSTRUCTION_ROLES = frozenset({"system", "developer"})
_SPOKEN_ROLES = frozenset({"user", "assistant"})
_PLAIN = frozenset({"role", "content"})
_NOT_BY_MEANING = (
    ("audio", "audio"),
    ("modalities", "modalities"),
    ("prediction", "prediction"),
    ("logprobs", "logprobs"),
    ("top_logprobs", "logprobs"),
    ("functions", "functions"),
    ("previous_response_id", "stateful"),
    ("conversation", "stateful"),
)
_MAX_TURNS = 200


class Question(msgspec.Struct, frozen=True, array_like=True):
    """What was said, oldest first; the last turn is the user's."""

    turns: tuple[Turn, ...]

    @property
    def text(self) -> str:
        """The last turn."""
        return self.turns[-1][1]

    @property
    def history(self) -> tuple[Turn, ...]:
        """All turns before the last."""
        return self.turns[:-1]


class Place(msgspec.Struct, frozen=True):
    """Where a question may look for answers.

    Attributes:
        question: what is compared by meaning.
        partition: digest of everything but the last turn; inside it, last turns are compared.
        family: digest of everything but the turns; inside it, conversations are compared as wholes.
    """

    question: Question
    partition: bytes
    family: bytes


class NoQuestion(msgspec.Struct, frozen=True):
    """The request has no part that may be compared by meaning; the reason is a metric label."""

    reason: str


def place(body: Json, namespace: Namespace, ignored: Iterable[str] = ()) -> Place | NoQuestion:
    """Where the request's question belongs, or why it is none.

    Args:
        body: the neutral request, strictly parsed; not changed.
        namespace: as for the exact key, so that both layers are cut alike.
        ignored: top-level fields that the operator says cannot change the answer.
    """
    for name, reason in _NOT_BY_MEANING:
        if body.get(name) not in (None, False):
            return NoQuestion(reason)
    if body.get("n") not in (None, 1):
        return NoQuestion("choices")
    messages = body.get("messages")
    if not isinstance(messages, list) or len(messages) > _MAX_TURNS:
        return NoQuestion("messages")
    turns, instructions, places = _cut(messages)
    if turns is None:
        return NoQuestion("content")
    if not turns or turns[-1][0] != "user" or not turns[-1][1].strip():
        return NoQuestion("no_user_turn")
    question = Question(tuple(turns))
    prefix = encode_parts(namespace_parts(namespace))
    fixed = canonical_request({**body, "messages": instructions}, ignored)
    fixed_parts = frame("frame", fixed) + frame("places", orjson.dumps(places))
    family = hashlib.sha256(prefix + fixed_parts).digest()
    history = orjson.dumps(question.history)
    partition = hashlib.sha256(frame("family", family) + frame("history", history)).digest()
    return Place(question, partition, family)


def _cut(messages: list[Json]) -> tuple[list[Turn] | None, list[Json], list[int]]:
    """Turns, instructions and the turn each of these precedes; None for turns when one is not plain text."""
    turns: list[Turn] = []
    instructions: list[Json] = []
    places: list[int] = []
    for message in messages:
        role = message.get("role")
        if role in _INSTRUCTION_ROLES:
            instructions.append(message)
            places.append(len(turns))
            continue
        text = _plain_text(message.get("content"))
        if role not in _SPOKEN_ROLES or not message.keys() <= _PLAIN or text is None:
            return None, instructions, places
        turns.append((role, text))
    return turns, instructions, places


def _plain_text(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        part = content[0]
        if part.keys() == {"type", "text"} and part["type"] == "text" and isinstance(part["text"], str):
            text: str = part["text"]
            return text
    return None
