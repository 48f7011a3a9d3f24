"""The packaged verifier: wordings agree, near misses do not, and broken files are refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from semantic.errors import ModelError
from semantic.verifier import PACKAGED, AlignmentVerifier, load_verifier

pytestmark = pytest.mark.slow

ALIKE = [
    ("How do I reset my password?", "hi, how do i reset my pasword thanks"),
    ("What are your opening hours?", "When are you open?"),
    ("Can I bring my dog?", "Are dogs allowed?"),
    ("How do I cancel my subscription?", "I want to end my subscription, how do I do that?"),
]
APART = [
    ("How do I cancel my subscription?", "How do I pause my subscription?"),
    ("What is the fee for a lost card?", "What is the fee for a stolen wallet?"),
    ("Is parking free for guests?", "Is breakfast free for guests?"),
    ("How do I download my invoice?", "How do I pay my invoice?"),
    ("What is the capital of France?", "How tall is the Eiffel Tower?"),
]


@pytest.fixture(scope="module")
def verifier() -> AlignmentVerifier:
    return load_verifier(None, 1)


def test_wordings_are_more_probable_than_near_misses(verifier: AlignmentVerifier) -> None:
    alike, apart = verifier.probabilities(ALIKE), verifier.probabilities(APART)
    assert min(alike) > 0.8
    assert max(apart) < 0.5


def test_order_and_company_of_pairs_change_nothing(verifier: AlignmentVerifier) -> None:
    together = verifier.probabilities([*ALIKE, *APART])
    swapped = verifier.probabilities([(b, a) for a, b in (*ALIKE, *APART)])
    alone = [load.probabilities([pair])[0] for load in [load_verifier(None, 1)] for pair in (*ALIKE, *APART)]
    np.testing.assert_allclose(together, swapped, atol=1e-4)
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_odd_texts_get_a_probability(verifier: AlignmentVerifier) -> None:
    odd = ["", " ", "?", "\ud800", "\x00", "é" * 5000, "word " * 3000, "日本語のテキスト"]
    found = verifier.probabilities([(one, other) for one in odd for other in odd])
    assert all(0 <= chance <= 1 for chance in found)


def test_texts_that_are_not_read_to_their_end_have_no_answer_in_common(verifier: AlignmentVerifier) -> None:
    start = "Please tell me about the opening hours of the town library. " * 30
    assert verifier.probabilities([(start + "On Monday?", start + "On Sunday?")]) == [0.0]


def test_nothing_asked_is_nothing_answered(verifier: AlignmentVerifier) -> None:
    assert verifier.probabilities([]) == []


@pytest.mark.parametrize("file", ["verifier.json", "verifier.safetensors"])
def test_a_missing_or_broken_file_is_refused(tmp_path: Path, file: str) -> None:
    shutil.copytree(PACKAGED, tmp_path / "v")
    (tmp_path / "v" / file).write_bytes(b"{}")
    with pytest.raises(ModelError):
        load_verifier(tmp_path / "v", 1)
    (tmp_path / "v" / file).unlink()
    with pytest.raises(ModelError):
        load_verifier(tmp_path / "v", 1)


def test_a_verifier_of_another_encoder_is_refused(tmp_path: Path) -> None:
    shutil.copytree(PACKAGED, tmp_path / "v")
    described = json.loads((tmp_path / "v" / "verifier.json").read_text())
    (tmp_path / "v" / "verifier.json").write_text(json.dumps({**described, "encoder": "0" * 16}))
    with pytest.raises(ModelError, match="another encoder"):
        load_verifier(tmp_path / "v", 1)
