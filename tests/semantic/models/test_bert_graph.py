"""The ONNX graph: the vectors of sentence-transformers, alone or in a batch, and heads as torch computes them."""

import dataclasses

import numpy as np
import pytest

from semantic.errors import ModelError
from semantic.models import bert_graph
from semantic.models.folder import BertConfig, packaged_embedder, read_config, read_pooling, read_weights
from semantic.models.tokens import TextEncoder

CONFIG = BertConfig(
    hidden=8, layers=2, heads=2, intermediate=16, vocabulary=30, positions=12, types=2, norm_eps=1e-12
)


def small_weights(seed: int = 7) -> dict[str, np.ndarray]:
    """Weights of an encoder too small to mean anything."""
    draw = np.random.default_rng(seed)

    def of(*shape: int) -> np.ndarray:
        return draw.normal(0, 0.3, shape).astype(np.float32)

    made = {
        "embeddings.word_embeddings.weight": of(30, 8),
        "embeddings.position_embeddings.weight": of(12, 8),
        "embeddings.token_type_embeddings.weight": of(2, 8),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}" for number in range(2)):
        shapes = {f"attention.self.{part}": (8, 8) for part in ("query", "key", "value")}
        shapes |= {"attention.output.dense": (8, 8), "intermediate.dense": (16, 8), "output.dense": (8, 16)}
        for name, shape in shapes.items():
            made |= {f"{layer}.{name}.weight": of(*shape), f"{layer}.{name}.bias": of(shape[0])}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for norm in norms:
        made |= {f"{norm}.weight": 1 + of(8), f"{norm}.bias": of(8)}
    return made


def _feeds(*rows: tuple[int, ...]) -> dict[str, np.ndarray]:
    width = max(map(len, rows))
    ids, mask = (np.zeros((len(rows), width), np.int32) for _ in range(2))
    for at, row in enumerate(rows):
        ids[at, : len(row)], mask[at, : len(row)] = row, 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def test_padding_changes_nothing() -> None:
    for output in ("sentence", "head"):
        weights = small_weights() | {
            "head.weight": np.eye(3, 8, dtype=np.float32),
            "head.bias": np.ones(3, np.float32),
        }
        session = bert_graph.session(weights, CONFIG, output, 1)
        (alone,) = session.run(None, _feeds((1, 2, 3)))
        (beside,) = session.run(None, _feeds((1, 2, 3), (4, 5, 6, 7, 8, 9, 10)))
        np.testing.assert_allclose(alone[0], beside[0], atol=1e-6)


def test_a_sentence_is_the_mean_of_its_tokens_with_length_one() -> None:
    feeds = _feeds((1, 2, 3), (4, 5))
    (tokens,) = bert_graph.session(small_weights(), CONFIG, "tokens", 1).run(None, feeds)
    (mean,) = bert_graph.session(small_weights(), CONFIG, "sentence", 1).run(None, feeds)
    (first,) = bert_graph.session(small_weights(), CONFIG, "sentence", 1, pooling="cls").run(None, feeds)
    expected = np.stack([tokens[0, :3].mean(0), tokens[1, :2].mean(0)])
    np.testing.assert_allclose(mean, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(
        first, tokens[:, 0] / np.linalg.norm(tokens[:, 0], axis=1, keepdims=True), atol=1e-6
    )


@pytest.mark.parametrize("dense", [False, True])
def test_a_head_reads_the_first_tokens_state(dense: bool) -> None:
    draw = np.random.default_rng(3)
    head = {
        name: draw.normal(size=shape).astype(np.float32) for name, shape in (("weight", (2, 8)), ("bias", (2,)))
    }
    inner = draw.normal(size=(8, 8)).astype(np.float32)
    weights = small_weights() | {f"head.{name}": value for name, value in head.items()}
    if dense:
        weights |= {"head.dense.weight": inner, "head.dense.bias": np.ones(8, np.float32)}
    feeds = _feeds((1, 2, 3), (4, 5))
    (tokens,) = bert_graph.session(small_weights(), CONFIG, "tokens", 1).run(None, feeds)
    (found,) = bert_graph.session(weights, CONFIG, "head", 1).run(None, feeds)
    state = np.tanh(tokens[:, 0] @ inner.T + 1) if dense else tokens[:, 0]
    np.testing.assert_allclose(found, state @ head["weight"].T + head["bias"], atol=1e-5)


def test_absent_and_misshaped_weights_are_refused_by_name() -> None:
    weights = small_weights()
    del weights["encoder.layer.1.output.dense.bias"]
    with pytest.raises(ModelError, match=r"lack encoder\.layer\.1\.output\.dense\.bias"):
        bert_graph.build(weights, CONFIG, "sentence")
    with pytest.raises(ModelError, match="has shape"):
        bert_graph.build(small_weights(), dataclasses.replace(CONFIG, positions=13), "sentence")
    with pytest.raises(ModelError, match="head"):
        bert_graph.build(small_weights(), CONFIG, "head")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("default")
def test_vectors_equal_those_of_sentence_transformers() -> None:
    from sentence_transformers import SentenceTransformer

    folder = packaged_embedder()
    config = read_config(folder)
    pooling = read_pooling(folder, config.positions)
    session = bert_graph.session(read_weights(folder), config, "sentence", 1, pooling=pooling.kind)
    texts = ["How do I reset my password?", "", "é ∑ 漢字 🎉", "a" * 3000, "word " * 600, *map(str, range(20))]
    texts += ["How do I reset my password? " * times for times in range(1, 30, 7)]
    expected = SentenceTransformer(str(folder), device="cpu").encode(texts, normalize_embeddings=True)
    tokens = TextEncoder.load(folder / "tokenizer.json", pooling.max_tokens).encode(texts)
    (found,) = session.run(None, tokens.feeds)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert [texts[at] for at in np.flatnonzero(tokens.truncated)] == ["word " * 600]
