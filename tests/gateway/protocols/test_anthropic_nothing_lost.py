"""No text of an Anthropic request is dropped in translation, but for what is documented to be left out."""

import random
from typing import Any

import orjson
import pytest

from gateway.protocols.anthropic_request import LEFT_OUT, read_request


class Marker:
    """Writes requests in which every text is one of a kind; remembers those that may be left out."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.used = 0
        self.marks = 3
        self.may_go: set[str] = set()

    def word(self) -> str:
        self.used += 1
        return f"<{self.used}>"

    def tree(self, depth: int = 2) -> Any:
        if depth == 0 or self.random.random() < 0.4:
            return self.word()
        return {self.word(): self.tree(depth - 1), self.word(): [self.tree(depth - 1)]}

    def extras(self) -> dict[str, Any]:
        """Unknown fields, and a cache_control, which has no place in a body."""
        some: dict[str, Any] = {self.word(): self.tree()} if self.random.random() < 0.3 else {}
        if self.marks and self.random.random() < 0.5:
            self.marks -= 1
            some["cache_control"] = {"type": "ephemeral", "ttl": self.random.choice(["5m", "1h", None])}
        return some

    def text(self) -> dict[str, Any]:
        return {"type": "text", "text": self.word(), **self.extras()}

    def image(self) -> dict[str, Any]:
        base64 = {"type": "base64", "media_type": self.word(), "data": self.word(), self.word(): self.word()}
        url = {"type": "url", "url": self.word()}
        return {"type": "image", "source": self.random.choice([base64, url]), **self.extras()}

    def result(self) -> dict[str, Any]:
        content = self.random.choice([self.word(), [self.text(), self.image()], [self.text()]])
        flag = {"is_error": self.random.random() < 0.5} if self.random.random() < 0.5 else {}
        return {"type": "tool_result", "tool_use_id": self.word(), "content": content, **flag, **self.extras()}

    def thought(self) -> dict[str, Any]:
        if self.random.random() < 0.5:
            return {"type": "redacted_thinking", "data": self.word()}
        return {"type": "thinking", "thinking": self.word(), "signature": self.word()}

    def use(self) -> dict[str, Any]:
        given = {self.word(): self.tree()}
        return {"type": "tool_use", "id": self.word(), "name": self.word(), "input": given, **self.extras()}

    def some(self, *makers: Any) -> list[dict[str, Any]]:
        return [self.random.choice(makers)() for _ in range(self.random.randint(1, 4))]

    def turn(self) -> dict[str, Any]:
        role = self.random.choice(["user", "assistant", "system"])
        blocks = {
            "user": (self.text, self.image, self.result),
            "assistant": (self.text, self.use, self.thought),
            "system": (self.text,),
        }
        content = self.word() if self.random.random() < 0.3 else self.some(*blocks[role])
        return {"role": role, "content": content, **self.extras()}

    def tool(self) -> dict[str, Any]:
        schema = {"type": "object", "properties": {self.word(): {"description": self.word()}}}
        return {"name": self.word(), "description": self.word(), "input_schema": schema, **self.extras()}

    def body(self) -> dict[str, Any]:
        left_out: dict[str, Any] = {name: self.word() for name in sorted(LEFT_OUT)}
        self.may_go |= set(left_out.values())
        left_out["cache_control"] = {"type": "ephemeral"}
        optional = {
            "system": self.random.choice([self.word(), [self.text(), self.text()]]),
            "tools": [self.tool(), self.tool()],
            "tool_choice": {"type": "tool", "name": self.word()},
            "stop_sequences": [self.word(), self.word()],
            "metadata": {"user_id": self.word(), self.word(): self.word()},
            "output_config": {
                "effort": self.word(),
                "format": {"type": "json_schema", "schema": {"title": self.word()}, self.word(): self.word()},
                self.word(): self.tree(),
            },
            "thinking": {"type": self.word()},
            self.word(): self.tree(),
            **left_out,
        }
        chosen = {name: value for name, value in optional.items() if self.random.random() < 0.7}
        turns = [self.turn() for _ in range(self.random.randint(1, 5))]
        return {"model": "m", "max_tokens": 1, "messages": turns, **chosen}


@pytest.mark.parametrize("seed", range(200))
def test_no_text_of_a_request_is_lost_unheard(seed: int) -> None:
    marker = Marker(seed)
    body = marker.body()
    given, left = orjson.dumps(body).decode(), orjson.dumps(read_request(body, ()).body).decode()
    assert "cache_control" not in left
    words = {f"<{number}>" for number in range(1, marker.used + 1)}
    lost = {word for word in words if word in given and word not in left}
    assert lost <= marker.may_go
    assert not {word for word in words - marker.may_go if given.count(word) != left.count(word)}
