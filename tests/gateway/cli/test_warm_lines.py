"""What `lamina warm` reads, and what it remembers when it dies."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.warm_lines import Done, Job, WarmError, read_jobs

CHAT: dict[str, Any] = {"model": "big", "messages": [{"role": "user", "content": "Hi"}], "seed": 7}


def jobs(path: Path, *lines: str, system: str | None = None) -> list[Job]:
    file = path / "prompts"
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return read_jobs(file, "m", system)


def test_every_form_of_a_line(tmp_path: Path) -> None:
    found = jobs(
        tmp_path,
        json.dumps(CHAT | {"stream": True, "stream_options": {"include_usage": True}}),
        json.dumps({"request": CHAT, "t": 3}),
        json.dumps({"prompt": "Hi", "model": "small", "system": "Be brief."}),
        '"Hi"',
        "",
        "Hi there, how are you?",
        system="Be kind.",
    )
    assert [job.number for job in found] == [1, 2, 3, 4, 6]
    assert found[0].body == found[1].body == CHAT
    assert found[0].digest == found[1].digest
    assert found[2].body["model"] == "small"
    assert [message["content"] for message in found[2].body["messages"]] == ["Be brief.", "Hi"]
    assert [message["content"] for message in found[3].body["messages"]] == ["Be kind.", "Hi"]
    assert found[4].body["model"] == "m"


@pytest.mark.parametrize("line", ['{"a": 1}', '{"prompt": ""}', '{"prompt": 3}', "{broken", '"open'])
def test_a_bad_line_is_named_before_anything_is_sent(tmp_path: Path, line: str) -> None:
    with pytest.raises(WarmError, match="line 2"):
        jobs(tmp_path, "fine", line)


def test_what_is_done_is_remembered(tmp_path: Path) -> None:
    (one, two) = jobs(tmp_path, "one", "two")
    state = tmp_path / "prompts.done"
    with Done(state, "here") as done:
        done.add(one.digest)
    with Done(state, "here") as done:
        assert one.digest in done
        assert two.digest not in done
    with Done(state, "elsewhere") as done:
        assert one.digest not in done


def test_a_torn_entry_is_not_counted_and_spoils_nothing(tmp_path: Path) -> None:
    (one, two) = jobs(tmp_path, "one", "two")
    state = tmp_path / "prompts.done"
    with Done(state, "here") as done:
        done.add(one.digest)
    with state.open("a") as file:
        file.write(two.digest[:7])
    with Done(state, "here") as done:
        assert one.digest in done
        assert two.digest not in done
        done.add(two.digest)
    with Done(state, "here") as done:
        assert one.digest in done
        assert two.digest in done


@pytest.mark.parametrize("garbage", ["", "something else\n", "lamina-warm-0 abc\n0123\n"])
def test_a_foreign_state_is_begun_anew(tmp_path: Path, garbage: str) -> None:
    state = tmp_path / "prompts.done"
    state.write_text(garbage)
    with Done(state, "here") as done:
        done.add("a" * 24)
    with Done(state, "here") as done:
        assert "a" * 24 in done
        assert "0123" not in done
