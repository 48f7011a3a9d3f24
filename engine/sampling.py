"""How one request wants its tokens chosen."""

from dataclasses import dataclass


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
        max_tokens: most tokens to generate, the end token included.
        temperature: [0, 2]; 0 is greedy and draws no random number.
        top_p: [0, 1]; smallest set of tokens whose probability reaches it; 0 keeps the best one.
        top_k: keep the k best tokens; 0 keeps all.
        min_p: [0, 1]; drop tokens below this share of the best token's probability.
        seed: key of the random stream; None draws a fresh one for the request.
        stop: texts that end the answer and are cut from it.
        stop_token_ids: further tokens that end the answer.
        ignore_eos: go on past end tokens (benchmarks).
        presence_penalty: subtracted once from each token already generated.
        frequency_penalty: subtracted per time a token was generated.
        logit_bias: (token id, addend) pairs.
        top_logprobs: how many alternatives to report beside the chosen token; None reports no log-probabilities.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    top_logprobs: int | None = None

    @property
    def edits_logits(self) -> bool:
        """Whether logits must be changed before choosing."""
        return bool(self.logit_bias) or self.presence_penalty != 0 or self.frequency_penalty != 0
