"""What a request changes about a row of logits before a token is chosen.

Order: what is forbidden (grammar, `allowed_token_ids`, `bad_words`, end tokens before `min_tokens`), bias,
repetition penalty (over prompt and answer), presence and frequency penalties (over the answer alone, as OpenAI
means them).
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from engine.sampling import SamplingParams
from engine.sequence import Sequence

Row = npt.NDArray[np.float32]

_NEVER = np.float32(-np.inf)


def edits(sequence: Sequence) -> bool:
    """Tell whether this sequence's logits are changed at all."""
    return sequence.grammar is not None or sequence.params.edits_logits


def edited(row: Row, sequence: Sequence, eos_ids: frozenset[int]) -> Row:
    """Return a changed copy of a row.

    Args:
        row: fp32 [V].
        sequence: whose row it is.
        eos_ids: the model's end tokens.
    """
    changed = row.copy()
    params = sequence.params
    _forbid(changed, sequence, eos_ids)
    for token_id, addend in params.logit_bias:
        changed[token_id] += np.float32(addend)
    if params.repetition_penalty != 1:
        _penalise_repetition(changed, sequence, params.repetition_penalty)
    if sequence.output_ids and (params.presence_penalty or params.frequency_penalty):
        ids, times = np.unique(sequence.output_ids, return_counts=True)
        changed[ids] -= (params.presence_penalty + params.frequency_penalty * times).astype(np.float32)
    return changed


def _forbid(row: Row, sequence: Sequence, eos_ids: frozenset[int]) -> None:
    params = sequence.params
    if sequence.grammar is not None:
        allowed = sequence.grammar.allowed()
        row[: len(allowed)][~allowed[: len(row)]] = _NEVER
        row[len(allowed) :] = _NEVER
    if params.allowed_token_ids:
        kept = row[list(params.allowed_token_ids)]
        row[:] = _NEVER
        row[list(params.allowed_token_ids)] = kept
    forbidden = set(_bad_ends(params, sequence.output_ids))
    if len(sequence.output_ids) < params.min_tokens:
        forbidden |= eos_ids | params.stop_token_ids
    if forbidden:
        row[[token_id for token_id in forbidden if token_id < len(row)]] = _NEVER


def _bad_ends(params: SamplingParams, output_ids: list[int]) -> Iterable[int]:
    for *start, last in params.bad_words_ids:
        if not start or output_ids[-len(start) :] == start:
            yield last


def _penalise_repetition(row: Row, sequence: Sequence, penalty: float) -> None:
    ids = np.unique([*sequence.prompt_ids, *sequence.output_ids])
    logits = row[ids]
    row[ids] = np.where(logits > 0, logits / np.float32(penalty), logits * np.float32(penalty))
