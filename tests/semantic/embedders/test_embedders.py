"""Embedders: every kind keeps the contract, nonsense is found at the start, and many callers share one model."""

import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from semantic.embedders.contract import Embedder, check_embedder
from semantic.embedders.onnx import together
from semantic.embedders.shared import SharedEmbedder
from semantic.embedders.table import EMBEDDERS, load_embedder
from semantic.errors import ConfigError, ModelError
from semantic.models.folder import packaged_embedder
from semantic.remembered import Remembered
from tests.semantic.embedders.letters import Letters


class Broken(Letters):
    """Does something to right vectors."""

    def __init__(self, harm: object) -> None:
        super().__init__()
        self._harm = harm

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Embeds texts, wrongly."""
        return self._harm(super().embed(texts))  # type: ignore[operator,no-any-return]


@pytest.fixture(scope="module", params=EMBEDDERS)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    if request.param == "sentence":
        pytest.importorskip("sentence_transformers")
    return load_embedder(packaged_embedder(), request.param, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.timeout(300)
def test_every_kind_keeps_the_contract(embedder: Embedder) -> None:
    check_embedder(embedder)
    assert embedder.embed([]).shape == (0, embedder.dimensions)
    texts = ["one", "two " * 50, "", "drei ü", "one"]
    together_found = embedder.embed(texts)
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    np.testing.assert_allclose(together_found, alone, atol=1e-5)
    assert len(embedder.fingerprint) == 16


@pytest.mark.parametrize(
    "harm",
    [
        np.zeros_like,
        lambda vectors: vectors * np.nan,
        lambda vectors: vectors * 1.1,
        lambda vectors: vectors[:, :-1],
        lambda vectors: vectors.astype(np.float64),
        lambda vectors: np.tile(vectors[:1], (len(vectors), 1)),
        lambda vectors: np.roll(vectors, 1, axis=0),
    ],
)
def test_an_embedder_that_makes_everything_alike_or_unlike_is_refused(harm: object) -> None:
    check_embedder(Letters())
    with pytest.raises(ModelError, match="the embedder gives"):
        check_embedder(Broken(harm))


def test_an_unknown_kind_and_an_absent_package_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="known are auto, onnx, sentence"):
        load_embedder("x", "word2vec", 1)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.delitem(sys.modules, "semantic.embedders.sentence", raising=False)
    with pytest.raises(ModelError, match="pip install sentence-transformers"):
        load_embedder("some/model", "auto", 1)


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        load_embedder(tmp_path, "onnx", 1)


def test_texts_of_like_length_share_a_batch() -> None:
    lengths = [5, 200, 6, 5, 210, 7, 40]
    batches = list(together(lengths))
    assert sorted(row for batch in batches for row in batch) == list(range(7))
    assert [sorted(lengths[row] for row in batch) for batch in batches] == [[5, 5, 6, 7], [40], [200, 210]]
    assert max(map(len, together([3] * 100))) == 32


@pytest.fixture
def shared() -> Iterator[tuple[SharedEmbedder, Letters]]:
    letters = Letters()
    made = SharedEmbedder(letters, budget_bytes=5000)
    yield made, letters
    made.close()


def test_what_was_asked_for_is_not_computed_again(shared: tuple[SharedEmbedder, Letters]) -> None:
    made, letters = shared
    first = made.embed(["one", "two"])
    np.testing.assert_array_equal(made.embed(["two", "one", "one"]), first[[1, 0, 0]])
    assert letters.batches == [2]
    made.embed(["three"], urgent=False)
    made.embed(["three"])
    assert letters.batches == [2, 1, 1]


def test_many_callers_get_their_own_vectors(shared: tuple[SharedEmbedder, Letters]) -> None:
    made, letters = shared
    wrong: list[str] = []

    def ask(name: int) -> None:
        for number in range(30):
            text = f"{chr(97 + name % 26)}{number}"
            if not np.allclose(made.embed([text])[0], letters.embed([text])[0]):
                wrong.append(text)

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_budget_is_kept_and_the_last_used_stay() -> None:
    kept: Remembered[str, bytes] = Remembered(10, len)
    for name in "abc":
        kept.put(name, b"xxx")
    kept.get("a")
    kept.put("d", b"xxxx")
    assert [name for name in "abcd" if kept.get(name)] == ["a", "c", "d"]
    kept.put("e", b"x" * 11)
    assert len(kept) == 0
    kept.put("a", b"xxx")
    kept.put("a", b"x")
    kept.discard("b")
    kept.put("b", b"x" * 9)
    assert len(kept) == 2
