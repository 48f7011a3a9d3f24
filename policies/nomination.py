"""What gateway and semantic service say to each other: what is asked, who was found, what speaks against it.

Bodies are MessagePack of these structs. The service nominates and judges meaning; life, purges, budget and the
decision to serve are the gateway's.
"""

import msgspec

from policies.questions import Question


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """Looks for stored questions with the same answer.

    Attributes:
        partition: where last turns are compared.
        family: where whole conversations are compared; used only when the question has a history.
        question: what is asked now.
        limit: most candidates wanted.
        at_least: change sequence that the index must have reached, else it reads the rows first; 0 for any.
    """

    partition: bytes
    family: bytes
    question: Question
    limit: int = 4
    at_least: int = 0


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A stored question that may have the same answer.

    Attributes:
        row: its number in `semantic_rows`.
        similarity: cosine, -1 to 1, higher is closer.
        veto: the rule that says the answers differ, such as `number`; None when none does.
        probability: the verifier's calibrated probability that the answers are equal, 0 to 1; None when it was not
            asked, because of a veto or because enough better candidates were.
        how: `turn` when the histories are equal, `conversation` when they were compared.
    """

    row: int
    similarity: float
    veto: str | None = None
    probability: float | None = None
    how: str = "turn"


class Nominated(msgspec.Struct, frozen=True, array_like=True):
    """The service's answer, best first: by probability, those with a veto last.

    Attributes:
        candidates: at most as many as asked for.
        reached: change sequence that the index has reached.
        models: fingerprint of embedder, verifier and vetoes: what was learnt under another one does not count.
        spent_ms: (embedding, search, vetoes, verifier).
    """

    candidates: tuple[Candidate, ...]
    reached: int
    models: str
    spent_ms: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class Texts(msgspec.Struct, frozen=True, array_like=True):
    """Texts to embed, at most 256."""

    texts: tuple[str, ...]


class Vectors(msgspec.Struct, frozen=True, array_like=True):
    """Unit vectors, little-endian fp32 [dimensions] each, in the order of the texts."""

    vectors: tuple[bytes, ...]
    models: str


class Pairs(msgspec.Struct, frozen=True, array_like=True):
    """Pairs of texts to verify, at most 64.

    Attributes:
        kind: `questions`: have they the same answer; `answers`: do they say the same.
    """

    pairs: tuple[tuple[str, str], ...]
    kind: str = "questions"


class Verdicts(msgspec.Struct, frozen=True, array_like=True):
    """Per pair the veto's name or None, and the calibrated probability."""

    verdicts: tuple[tuple[str | None, float], ...]


class Near(msgspec.Struct, frozen=True, array_like=True):
    """Asks for stored rows near a text or near a row, for quarantine, purge by meaning and explanations.

    Attributes:
        families: where to look; empty for every family of the tenant's rows that `tenant_id` names.
        similarity: least cosine, -1 to 1.
    """

    tenant_id: str
    text: str | None = None
    row: int | None = None
    families: tuple[bytes, ...] = ()
    similarity: float = 0.9
    limit: int = 100


class NearRows(msgspec.Struct, frozen=True, array_like=True):
    """(row, similarity), nearest first."""

    rows: tuple[tuple[int, float], ...]


class Settle(msgspec.Struct, frozen=True, array_like=True):
    """Asks the service to forget what is gone: reach a change, write a snapshot without it, and drop its caches.

    Attributes:
        change: that must be reached.
        rows: that must not be in the index then.
    """

    change: int
    rows: tuple[int, ...] = ()


class Settled(msgspec.Struct, frozen=True, array_like=True):
    """What came of it.

    Attributes:
        reached: the change up to which the index holds everything; less than asked for when that took too long.
        held: how many of the rows are in the index all the same.
        rows: how many the index holds.
        snapshot: whether no snapshot from before is left on disk.
    """

    reached: int
    held: int
    rows: int
    snapshot: bool
