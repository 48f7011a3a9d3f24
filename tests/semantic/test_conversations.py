"""Conversations with the packaged embedder: found, judged together, and told from their traps."""

from collections.abc import Iterator

import numpy as np
import pytest

from policies.questions import Question, Turn
from semantic.conversations import Conversations, build_conversations
from semantic.embedders.shared import SharedEmbedder
from semantic.embedders.table import load_embedder
from semantic.lexicon import load_lexicon
from semantic.models.folder import packaged_embedder

pytestmark = pytest.mark.slow

COFFEE: tuple[Turn, ...] = (
    ("user", "How much coffee do I need for a French press for four people?"),
    ("assistant", "Use about 60 grams of coarse coffee to one litre of water."),
    ("user", "and for two people?"),
)
CHATTY: tuple[Turn, ...] = (
    (
        "user",
        "Happy Sunday! How much coffee do I need for a French press for four people? We are half asleep.",
    ),
    ("assistant", "Ha, happy Sunday! Use about 60 grams of coarse coffee to one litre of water."),
    ("user", "Perfect, thank you! And for two people?"),
)
RICE: tuple[Turn, ...] = (
    ("user", "How much rice should I cook for four people?"),
    ("assistant", "About 300 grams of dry rice is plenty for four."),
    ("user", "and for two people?"),
)
COLD_BREW: tuple[Turn, ...] = (
    ("user", "How much coffee do I need for a cold brew for four people?"),
    ("assistant", "Use about 120 grams of coarse coffee to one litre of water."),
    ("user", "and for two people?"),
)


@pytest.fixture(scope="module")
def embedder() -> Iterator[SharedEmbedder]:
    made = SharedEmbedder(load_embedder(packaged_embedder(), "onnx", 1))
    yield made
    made.close()


@pytest.fixture(scope="module")
def judge(embedder: SharedEmbedder) -> Conversations:
    return build_conversations(embedder, load_lexicon())


def test_chatter_is_likelier_than_any_trap(judge: Conversations) -> None:
    stored = [Question(CHATTY), Question(RICE), Question(COLD_BREW)]
    (_, right), *traps = judge.judge_all(Question(COFFEE), stored)
    assert right > 0.5
    assert all(veto is not None or probability < right / 2 for veto, probability in traps)


def test_several_are_judged_as_each_by_itself(judge: Conversations) -> None:
    stored = [Question(RICE), Question(COFFEE), Question(CHATTY), Question(COLD_BREW)]
    together = judge.judge_all(Question(COFFEE), stored)
    assert together == [judge.judge(question, Question(COFFEE)) for question in stored]
    assert judge.judge_all(Question(COFFEE), []) == []


def test_the_right_conversation_is_nearest(judge: Conversations, embedder: SharedEmbedder) -> None:
    texts = [judge.nomination_text(Question(turns)) for turns in (COFFEE, CHATTY, RICE)]
    vectors = embedder.embed(texts)
    assert np.argmax(vectors[1:] @ vectors[0]) == 0


def test_a_turn_that_stands_alone_is_found_by_itself(judge: Conversations) -> None:
    alone: Turn = ("user", "What is the weight limit for cabin bags?")
    assert judge.nomination_text(Question((*COFFEE[:2], alone))) == alone[1]
    assert judge.judge(Question((*COFFEE[:2], alone)), Question((alone,)))[0] is None
    assert judge.nomination_text(Question((("user", ""),))) == ""


def test_a_single_turn_matches_no_turn_that_depends_on_a_history(judge: Conversations) -> None:
    assert judge.judge(Question(COFFEE[2:]), Question(COFFEE))[0] is not None


def test_the_fingerprint_is_of_what_decides(judge: Conversations, embedder: SharedEmbedder) -> None:
    assert build_conversations(embedder, load_lexicon()).fingerprint == judge.fingerprint
