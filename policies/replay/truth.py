"""Whether a stored answer would have been right."""

from policies.replay.line import Line


def same_answer(stored: Line, asked: Line) -> bool | None:
    """Whether what answered `stored` also answers `asked`; None when the log cannot tell.

    Ids decide where both have one; else equal answers are right, and unequal ones may say the same in other words.
    """
    if stored.truth is not None and asked.truth is not None:
        return stored.truth == asked.truth
    if stored.answer is not None and asked.answer is not None and _plain(stored.answer) == _plain(asked.answer):
        return True
    return None


def _plain(answer: str) -> str:
    return " ".join(answer.split())
