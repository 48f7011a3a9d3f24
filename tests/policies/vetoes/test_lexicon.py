"""The word lists: they parse, say where they come from, and a broken line is named."""

from importlib import resources

import pytest

from policies.vetoes.inflection import adjective_forms, stem, verb_forms
from policies.vetoes.lexicon import parse
from semantic.lexicon import load_lexicon


def _files() -> dict[str, str]:
    folder = resources.files("policies.vetoes") / "data"
    return {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".txt")}


@pytest.mark.parametrize("name", sorted(_files()))
def test_every_list_states_source_and_licence(name: str) -> None:
    head = "\n".join(_files()[name].splitlines()[:5])
    assert "Source:" in head
    assert "Licence:" in head


def test_the_fingerprint_follows_the_lists() -> None:
    lexicon = load_lexicon()
    assert len(lexicon.lists) == 64
    assert lexicon.lists == load_lexicon().lists


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("antonyms.txt", "up | | down"),
        ("aliases.txt", "no colon"),
        ("negation.txt", "odd: word"),
        ("dates.txt", "x"),
    ],
)
def test_a_broken_line_is_named(name: str, line: str) -> None:
    files = _files()
    number = len(files[name].splitlines()) + 1
    with pytest.raises(ValueError, match=f"{name}:{number}"):
        parse({**files, name: f"{files[name].rstrip()}\n{line}\n"})


def test_a_group_file_without_a_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"more\.txt"):
        parse({**_files(), "more.txt": "a | b\n"})


def test_word_forms() -> None:
    assert {"cancel", "cancels", "canceled", "cancelling", "cancelled"} <= set(verb_forms("cancel"))
    assert {"bake", "bakes", "baked", "baking"} <= set(verb_forms("bake"))
    assert {"apply", "applies", "applied", "applying"} <= set(verb_forms("apply"))
    assert {"big", "bigger", "biggest"} <= set(adjective_forms("big"))
    assert stem("cancelled") == stem("cancelling") == stem("cancels") == stem("cancel")
    assert stem("bakes") == stem("baked") == stem("baking")
    assert stem("applies") == stem("applied") == stem("apply")
