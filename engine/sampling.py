"""How one request wants its tokens chosen."""

from dataclasses import dataclass

_COLDEST = 1e-5
"""Below this temperature fp32 logits divided by it would overflow."""


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What a request that says nothing is sampled with; models differ in what suits them."""

    temperature: float = 1.0
    top_p: float = 1.0


PLAIN_SAMPLING = SamplingDefaults()
"""The OpenAI protocol's own defaults."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Checked sampling wishes of one request; the order they apply in is `engine.sampler`'s.

    Attributes:
        max_tokens: most tokens to generate, the end token included; 0 only computes the prompt.
        min_tokens: no end token, `stop_token_ids` or `stop` text before that many tokens.
        temperature: [0, 2]; 0 is greedy and draws no random number, and so does what is next to nothing.
        top_p: [0, 1]; smallest set of tokens whose probability reaches it; 0 keeps the best one.
        top_k: keep the k best tokens; 0 keeps all.
        min_p: [0, 1]; drop tokens below this share of the best token's probability.
        seed: key of the random stream; None draws a fresh one for the request.
        stop: texts that end the answer and are cut from it.
        stop_token_ids: further tokens that end the answer.
        ignore_eos: go on past the model's end tokens (benchmarks).
        repetition_penalty: [0.01, 2]; divides the logits of tokens in prompt and answer, multiplies negative ones.
        presence_penalty: subtracted once from each token already generated.
        frequency_penalty: subtracted per time a token was generated.
        logit_bias: (token id, addend) pairs.
        allowed_token_ids: no others are generated; empty allows all.
        bad_words_ids: token sequences that are never completed.
        top_logprobs: how many alternatives to report beside the chosen token; None reports no log-probabilities.
    """

    max_tokens: int
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    allowed_token_ids: tuple[int, ...] = ()
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    top_logprobs: int | None = None

    @property
    def greedy(self) -> bool:
        """Whether the best token is taken without a draw."""
        return self.temperature < _COLDEST

    @property
    def edits_logits(self) -> bool:
        """Whether logits must be changed before choosing."""
        return (
            self.presence_penalty != 0
            or self.frequency_penalty != 0
            or self.repetition_penalty != 1
            or self.min_tokens > 0
            or bool(self.logit_bias or self.allowed_token_ids or self.bad_words_ids)
        )
