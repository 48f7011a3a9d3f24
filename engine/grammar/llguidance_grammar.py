"""Grammars by llguidance: JSON schemas, regular expressions and Lark grammars over the model's own tokens."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from engine.errors import RequestError
from engine.grammar.contract import Grammar, GrammarKind, GrammarSpec
from engine.grammar.schema_bounds import MAX_SOURCE_BYTES, too_hard
from engine.tokenizer import Tokenizer

_WHITESPACE = r"[\x20\x0A\x0D\x09]{1,16}"
_KEPT = 16
_SPECIAL = b"\xff"
"""Starts the spelling of a control token for llguidance, so that no text can match it."""


class LlguidanceGrammar:
    """One answer's place in a grammar."""

    def __init__(self, matcher: LLMatcher, vocab_size: int) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size

    @property
    def finished(self) -> bool:
        """Whether nothing but an end token could follow; also after a failure."""
        return self._matcher.is_stopped()

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Return which token ids may come next; see the contract."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        allowed: npt.NDArray[np.bool_] = np.unpackbits(bits, count=self._vocab_size, bitorder="little").view(bool)
        return np.zeros_like(allowed) if self._matcher.is_error() else allowed

    def accept(self, token_id: int) -> bool:
        """Go on past a token; see the contract."""
        return self._matcher.consume_token(token_id)

    def fork(self) -> "LlguidanceGrammar":
        """Return an independent copy."""
        return LlguidanceGrammar(self._matcher.deep_copy(), self._vocab_size)


class LlguidanceCompiler:
    """Compiles grammars, keeping the last few.

    The first grammar costs some tenths of a second, for indexing the vocabulary. What one may cost after that is
    bounded by its size, by `engine.grammar.schema_bounds` and by llguidance's own limits on states and work.

    Args:
        tokenizer: whose tokens the grammars run over.
        eos_ids: tokens that may end an answer, where the grammar lets it end.
    """

    def __init__(self, tokenizer: Tokenizer, eos_ids: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._eos_ids = eos_ids
        self._lock = threading.Lock()
        self._vocabulary: LLTokenizer | None = None
        self._compiled: OrderedDict[GrammarSpec, LLMatcher] = OrderedDict()

    def compile(self, spec: GrammarSpec) -> Grammar:
        """Compile a grammar, bounded in time and memory; see the contract."""
        if not self._eos_ids:
            raise _refused(spec, "the model has no end token")
        with self._lock:
            known = self._compiled.get(spec)
            if known is not None:
                self._compiled.move_to_end(spec)
            vocabulary = self._vocabulary = self._vocabulary or self._index()
        if known is None:
            known = self._built(spec, vocabulary)
            with self._lock:
                self._compiled[spec] = known
                if len(self._compiled) > _KEPT:
                    self._compiled.popitem(last=False)
        return LlguidanceGrammar(known.deep_copy(), self._tokenizer.vocab_size)

    def _built(self, spec: GrammarSpec, vocabulary: LLTokenizer) -> LLMatcher:
        if len(spec.source.encode()) > MAX_SOURCE_BYTES:
            raise _refused(spec, f"it is longer than {MAX_SOURCE_BYTES} bytes")
        if spec.kind is GrammarKind.JSON_SCHEMA and (fault := too_hard(spec.source)):
            raise _refused(spec, fault)
        try:
            matcher = LLMatcher(vocabulary, _as_grammar(spec), log_level=0, limits=_limits())
        except ValueError as error:
            raise _refused(spec, str(error)) from error
        if not matcher.is_error():
            # The first mask does what work was put off, and finds out whether it is too much.
            matcher.compute_bitmask()
        if matcher.is_error():
            raise _refused(spec, matcher.get_error())
        return matcher

    def _index(self) -> LLTokenizer:
        words = _Vocabulary(self._tokenizer, self._eos_ids)
        return LLTokenizer(TokenizerWrapper(words), n_vocab=len(words.tokens), eos_token=sorted(self._eos_ids))


class _Vocabulary:
    """The tokenizer in the shape llguidance reads."""

    def __init__(self, tokenizer: Tokenizer, eos_ids: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        silent = [index for index in range(tokenizer.vocab_size) if not tokenizer.piece(index)]
        hidden = {index: _SPECIAL + tokenizer.label(index) for index in {*silent, *eos_ids}}
        self.tokens: Sequence[bytes] = [
            hidden.get(index) or tokenizer.piece(index) for index in range(tokenizer.vocab_size)
        ]
        self.special_token_ids: Sequence[int] = sorted(hidden)
        self.eos_token_id = min(eos_ids)
        self.bos_token_id: int | None = None

    def __call__(self, text: bytes) -> list[int]:
        """Tokenise what the grammar forces."""
        return self._tokenizer.encode(text.decode())


def _as_grammar(spec: GrammarSpec) -> str:
    if spec.kind is GrammarKind.JSON_SCHEMA:
        return LLMatcher.grammar_from_json_schema(
            spec.source, overrides={"whitespace_pattern": _WHITESPACE, "lenient": not spec.strict}
        )
    if spec.kind is GrammarKind.REGEX:
        return LLMatcher.grammar_from_regex(spec.source)
    return LLMatcher.grammar_from_lark(spec.source)


def _limits() -> LLParserLimits:
    return LLParserLimits(
        initial_lexer_fuel=200_000,
        step_lexer_fuel=50_000,
        step_max_items=20_000,
        max_lexer_states=20_000,
        max_grammar_size=50_000,
        verbose_errors=False,
    )


def _refused(spec: GrammarSpec, why: str) -> RequestError:
    reason = " ".join(why.removesuffix("<non-verbose/>").split())[:200]
    message = f"Invalid '{spec.field}': the grammar cannot be enforced: {reason}."
    return RequestError(400, message, code="invalid_value", param=spec.field)
