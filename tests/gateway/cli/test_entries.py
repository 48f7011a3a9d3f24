"""What `lamina entries show --text` prints for people: words, and JSON only where there are none."""

from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli import entries
from gateway.cli.administration import plain, shown_text
from gateway.cli.gateway_client import Answer

ENTRY = {"layer": "exact", "id": "ab" * 32, "model": "m"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "weather", "arguments": "{}"}}]}


class Told:
    """A gateway that tells of one entry."""

    def __init__(self, answer: list[dict[str, Any]]) -> None:
        self.body: dict[str, Any] = {"entries": [ENTRY], "question": "Who made it?", "answer": answer}
        self.paths: list[str] = []

    def get(self, path: str) -> Answer:
        self.paths.append(path)
        return Answer(200, {}, self.body)


def shown(
    monkeypatch: pytest.MonkeyPatch, answer: list[dict[str, Any]], question: str | None = "Who made it?"
) -> str:
    told = Told(answer)
    told.body["question"] = question
    monkeypatch.setattr(entries, "_client", lambda _url: told)
    done = CliRunner().invoke(entries.entries, ["show", "ab" * 32, "--text"])
    assert done.exit_code == 0, done.output
    assert told.paths == [f"/admin/v1/entries/default/{'ab' * 32}?text=true"]
    return done.output


def test_question_and_answer_are_shown_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    output = shown(monkeypatch, [{"role": "assistant", "content": "Ada did.\x1b[2J", "refusal": None}])
    assert "question: Who made it?" in output
    assert r"answer: Ada did.\x1b[2J" in output
    assert "\x1b" not in output, "what a model said cannot drive the terminal"
    assert "{'" not in output


def test_a_question_that_the_exact_layer_does_not_keep_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "question: not kept" in shown(monkeypatch, [{"content": "Ada did."}], None)


def test_an_answer_without_words_is_shown_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    assert '"name": "weather"' in shown(monkeypatch, [CALL]).replace("\n", "")


def test_plain_text_is_one_line_unless_line_ends_are_harmless() -> None:
    assert plain("a\n\x1b[2J\u202eb\u00e9") == "a\\n\\x1b[2J\\u202eb\u00e9"
    assert shown_text("a\n[b]\x07") == "a\n\\[b]\\x07"
