"""Builds the service and closes it, by hand."""

import asyncio
import contextlib
import hashlib
import importlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from policies.nomination import Settle, Settled
from policies.questions import Question
from policies.vetoes import Lexicon
from semantic.embedders.contract import Embedder
from semantic.embedders.shared import SharedEmbedder
from semantic.embedders.table import load_embedder
from semantic.errors import BusyError, ModelError, StoreError
from semantic.index.index import Index
from semantic.index.keeper import Keeper, load
from semantic.index.snapshot import Origin
from semantic.judge import Judge, Parts, Questions
from semantic.lexicon import load_lexicon
from semantic.metrics import Metrics
from semantic.models.folder import packaged_embedder, verify_packaged
from semantic.options import Options
from semantic.rows.backend import identity_of
from semantic.rows.follower import Follower, Sources
from semantic.rows.memory import StoredQuestions
from semantic.rows.store import RowStore
from semantic.turns import Conversations, LastTurns
from semantic.verifying import SharedVerifier
from semantic.vetoes import FactVetoes, Vetoes

_LOG = logging.getLogger("semantic")
_RETRY_S = 1.0
_MIB = 1 << 20
_SETTLE_S = 20.0

_VERIFIER = "semantic.verifier:load_verifier"
"""Takes a folder, or None for the packaged weights, and a number of threads."""

_CONVERSATIONS = "semantic.conversations:build_conversations"
"""Takes an embedder and a lexicon."""

_WEIGHTS = Path(__file__).parent / "weights"
_PACKAGED_VERIFIER = _WEIGHTS / "verifier.json"
_PACKAGED_CONVERSATIONS = _WEIGHTS / "conversations.json"


@dataclass(frozen=True, slots=True)
class Models:
    """Everything that judges, loaded once; belongs to no event loop."""

    embedder: SharedEmbedder
    verifier: SharedVerifier | None
    vetoes: Vetoes
    conversations: Conversations

    def close(self) -> None:
        """Ends the models' threads. Idempotent."""
        self.embedder.close()
        if self.verifier is not None:
            self.verifier.close()


def load_models(options: Options, metrics: Metrics) -> Models:
    """Loads embedder, verifier and vetoes.

    Raises:
        ModelError: a model cannot be loaded, or computes nonsense.
        ConfigError: the kind of embedder is unknown.
    """
    embedder = SharedEmbedder(
        _load_embedder(options),
        budget_bytes=options.cache_mib * _MIB,
        told_batch=metrics.batch("embedder"),
        told_hits=metrics.cached,
    )
    verifier, lexicon = _load_verifier(options), load_lexicon()
    return Models(
        embedder=embedder,
        verifier=SharedVerifier(verifier, told_batch=metrics.batch("verifier")) if verifier else None,
        vetoes=FactVetoes(lexicon),
        conversations=_load_conversations(embedder, lexicon),
    )


def build_judge(
    models: Models, index: Index, questions: Questions, metrics: Metrics, reached: Callable[[], int]
) -> Judge:
    """A judge over an index and over what was asked in its rows."""
    return Judge(
        Parts(
            embedder=models.embedder,
            index=index,
            questions=questions,
            vetoes=models.vetoes,
            verifier=models.verifier,
            conversations=models.conversations,
            told=metrics,
            reached=reached,
        )
    )


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What has to forget besides the index."""

    keeper: Keeper
    store: RowStore
    questions: StoredQuestions

    def forget(self) -> bool:
        """Drops data keys and questions from memory, and writes the snapshot anew; false when that failed."""
        self.store.forget_keys()
        self.questions.clear()
        return self.keeper.snapshot_now()


class Service:
    """The index and what feeds it; lives in one event loop.

    Args:
        options: of the process.
        models: what judges.
        metrics: hears what happens.
        asked: what was asked in the rows of an index without a database, which the caller fills.

    Attributes:
        judge: what answers.
        follower: what follows the rows; None until the database could be opened, or when there is none.
    """

    def __init__(self, options: Options, models: Models, metrics: Metrics, asked: Questions | None = None) -> None:
        self.metrics = metrics
        self.index = Index(models.embedder.dimensions, models.embedder.fingerprint)
        self.follower: Follower | None = None
        self._options = options
        self._models = models
        self._questions: Questions | None = asked
        self._forgetting: Forgetting | None = None
        self.judge = build_judge(models, self.index, self, metrics, lambda: self.reached)
        self._watch()

    @property
    def reached(self) -> int:
        """The change up to which the index holds everything."""
        return self.follower.reached if self.follower else 0

    @property
    def ready(self) -> bool:
        """Whether the index holds what the rows held when the service started."""
        return self._options.database_url is None or (self.follower is not None and self.follower.ready)

    def questions(self, rows: Sequence[int]) -> Mapping[int, Question]:
        """What was asked in rows; see `semantic.judge.Questions`."""
        return self._questions.questions(rows) if self._questions is not None else {}

    async def settle(self, asked: Settle) -> Settled:
        """Forgets what is gone, in memory and on disk.

        Raises:
            BusyError: the rows are not followed yet, or there are none.
        """
        if self.follower is None or self._forgetting is None:
            raise BusyError("the rows are not followed yet")
        await self.follower.reach(asked.change, _SETTLE_S)
        snapshot = await asyncio.to_thread(self._forgetting.forget)
        self._models.embedder.forget()
        held = sum(row in self.index for row in asked.rows)
        return Settled(self.reached, held, len(self.index), snapshot)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follows the rows meanwhile; at the end everything is written and closed."""
        following = asyncio.create_task(self._follow()) if self._options.database_url else None
        try:
            yield
        finally:
            if following is not None:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following
            await asyncio.to_thread(self._models.close)

    async def _follow(self) -> None:
        store = await self._opened()
        origin = Origin(
            self._models.embedder.fingerprint,
            self._models.embedder.dimensions,
            hashlib.sha256(identity_of(str(self._options.database_url)).encode()).hexdigest(),
            self._options.master_keys,
        )
        home = self._options.home
        if home is not None:
            reason = await asyncio.to_thread(load, self.index, home, origin)
            _LOG.warning("snapshot: %s", reason or f"{len(self.index)} rows")
        budget = self._options.questions_mib * _MIB
        loop = asyncio.get_running_loop()
        self._questions = questions = StoredQuestions(store, self.index, loop, budget_bytes=budget)
        embedder, conversations = self._models.embedder, self._models.conversations
        self.follower = Follower(Sources(store, self.index, questions, embedder, conversations, self.metrics))
        keeper = Keeper(
            self.index,
            home,
            origin,
            lambda: self.reached,
            threads=self._options.threads,
            every_s=self._options.snapshot_s,
            failed=self.metrics.fault,
        )
        self._forgetting = Forgetting(keeper, store, questions)
        keeper.start()
        try:
            await self.follower.run()
        finally:
            await asyncio.shield(asyncio.to_thread(keeper.stop))
            with contextlib.suppress(StoreError):
                await store.close()

    async def _opened(self) -> RowStore:
        while True:
            try:
                return RowStore.open(str(self._options.database_url), masters=self._options.master_keys)
            except StoreError as error:
                _LOG.warning("%s; next try in %.0f s", error, _RETRY_S)
                await asyncio.sleep(_RETRY_S)

    def _watch(self) -> None:
        index, watch = self.index, self.metrics.watch
        watch("rows", "Rows in the index.", lambda: len(index))
        watch("partitions", "Partitions in the index.", lambda: len(index.turns))
        watch(
            "conversation_families", "Families with conversations in the index.", lambda: len(index.conversations)
        )
        watch("reached", "Change that the index has reached.", lambda: self.reached)
        watch("changes_behind", "Changes not yet in the index.", self._behind)

    def _behind(self) -> int:
        return max(0, self.follower.head - self.follower.reached) if self.follower else 0


def _load_embedder(options: Options) -> Embedder:
    model: str | Path | None = options.model
    if model is None:
        model = packaged_embedder()
        verify_packaged(model)
    return load_embedder(model, options.embedder, options.threads)


def _load_verifier(options: Options) -> Any:
    module, _, function = _VERIFIER.partition(":")
    if options.verifier is None and (find_spec(module) is None or not _PACKAGED_VERIFIER.is_file()):
        _LOG.warning("there is no verifier; nothing but the same question will be served")
        return None
    return getattr(importlib.import_module(module), function)(options.verifier, options.threads)


def _load_conversations(embedder: SharedEmbedder, lexicon: Lexicon) -> Conversations:
    module, _, function = _CONVERSATIONS.partition(":")
    if find_spec(module) is None or not _PACKAGED_CONVERSATIONS.is_file():
        _LOG.warning("there are no weights for conversations; none will be answered by another")
        return LastTurns()
    try:
        made: Conversations = getattr(importlib.import_module(module), function)(embedder, lexicon)
    except ValueError as error:
        raise ModelError(f"{_PACKAGED_CONVERSATIONS} is broken: {error}") from error
    return made
