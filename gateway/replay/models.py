"""The semantic models in this process, and the only way from a replay to them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from gateway.replay.errors import ReplayError
from gateway.replay.prepare import Prepared
from gateway.settings import SemanticSettings
from semantic.errors import SemanticError
from semantic.options import Options
from semantic.rehearsal import Rehearsal, open_rehearsal

_TOGETHER = 32


@contextmanager
def models_of(settings: SemanticSettings) -> Iterator[Rehearsal]:
    """The models that a set with these settings would load.

    Raises:
        ReplayError: one cannot be loaded.
    """
    model = None if settings.model is None else str(settings.model)
    options = Options(model=model, verifier=settings.verifier, threads=settings.threads or 1)
    try:
        rehearsal = open_rehearsal(options)
    except SemanticError as error:
        raise ReplayError(f"the semantic models cannot be loaded: {error}") from None
    try:
        yield rehearsal
    finally:
        rehearsal.close()


def question_vectors(
    rehearsal: Rehearsal, prepared: Sequence[Prepared], tick: Callable[[int], None] = lambda _count: None
) -> np.ndarray:
    """Vectors of each line's last turn, fp32 [lines, dimensions]; zeros where a line has no question.

    Args:
        rehearsal: embeds.
        prepared: the whole log.
        tick: told how many more lines are done.
    """
    vectors = np.zeros((len(prepared), rehearsal.dimensions), np.float32)
    asked: dict[str, list[int]] = {}
    for one in prepared:
        if one.unguarded_place is not None:
            asked.setdefault(one.unguarded_place.question.text, []).append(one.at)
    texts = sorted(asked, key=len)
    tick(len(prepared) - sum(map(len, asked.values())))
    for begin in range(0, len(texts), _TOGETHER):
        batch = texts[begin : begin + _TOGETHER]
        for text, vector in zip(batch, rehearsal.embed(batch), strict=True):
            vectors[asked[text]] = vector
        tick(sum(len(asked[text]) for text in batch))
    return vectors
