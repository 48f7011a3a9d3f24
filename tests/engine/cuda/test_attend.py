"""A backend serves only when its numbers are right on this machine."""

import logging

import pytest
import torch

from engine.attention.cuda_batch import ChunkAttention, StepBatch
from engine.attention.cuda_choice import AttentionChoice
from engine.attention.paged import KvShape
from engine.cuda.attend import CHUNKS, AttentionShape, first_that_works, importable
from engine.errors import EngineError
from engine.kv.contract import KvGroup
from tests.engine.attention.pools import DEVICE

SHAPE = AttentionShape(
    (KvGroup((0, 2)), KvGroup((1,), window=5)), KvShape(2, 16, 4, "fp32", DEVICE), 4, 0.25, torch.float32
)
OWN = AttentionChoice("triton", "triton", "own kernels")
GATHERED = AttentionChoice("sdpa", "sdpa", "gathering works everywhere")
needs_triton = pytest.mark.skipif("triton" not in importable(), reason="triton is not installed")


class WrongChunks:
    """Prefill that looks at nothing."""

    def __init__(self, kv: object, heads: int, score_scale: float) -> None:
        pass

    def plan(self, batch: StepBatch) -> ChunkAttention:
        def attend(layer: int, rows: torch.Tensor, out: torch.Tensor) -> None:
            out.zero_()

        del batch
        return attend


def test_gathering_is_right() -> None:
    assert first_that_works([GATHERED], SHAPE) == GATHERED


@needs_triton
@pytest.mark.parametrize("kind", [pytest.param("fp32", marks=pytest.mark.slow), "int8"])
def test_own_kernels_are_right(kind: str) -> None:
    shape = AttentionShape(SHAPE.groups, KvShape(2, 16, 4, kind, DEVICE), 4, 0.25, torch.float32)
    assert first_that_works([OWN, GATHERED], shape) == OWN


@needs_triton
def test_what_is_wrong_or_absent_is_passed_over_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(CHUNKS, "wrong", "tests.engine.cuda.test_attend:WrongChunks")
    monkeypatch.setitem(CHUNKS, "absent", "engine.attention.no_such_module:Chunks")
    choices = [AttentionChoice("triton", name, "") for name in ("absent", "wrong")]
    with caplog.at_level(logging.WARNING):
        assert first_that_works([*choices, GATHERED], SHAPE) == GATHERED
    assert "attention by triton and absent does not work here" in caplog.text
    assert "attention by triton and wrong is off by 1" in caplog.text
    with pytest.raises(EngineError, match="no attention works on this device"):
        first_that_works(choices, SHAPE)
