"""Usage of every form is split into parts that add up to the prompt."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.ledger import Split, split
from policies.ledger.usage import MOST_TOKENS
from policies.types import cached_tokens, token_counts

counts = st.integers(-5, 3000) | st.none() | st.just("7") | st.booleans()
details = st.dictionaries(
    st.sampled_from(["cached_tokens", "cache_write_tokens"]), counts
) | st.fixed_dictionaries(
    {
        "cached_tokens": counts,
        "cache_write_tokens": counts,
        "cache_write_tokens_details": st.dictionaries(st.sampled_from(["ttl_5m_tokens", "ttl_1h_tokens"]), counts),
        "cached_tokens_details": st.dictionaries(st.sampled_from(["device", "ram", "host", "disk"]), counts),
    }
)
chat_usage = st.fixed_dictionaries(
    {"prompt_tokens": counts, "completion_tokens": counts}, optional={"prompt_tokens_details": details | st.none()}
)


@given(chat_usage, st.booleans())
def test_the_parts_add_up_to_what_metrics_count(usage: dict[str, Any], engine: bool) -> None:
    found = split(usage, engine=engine)
    assert found is not None
    assert min(found) >= 0
    assert (found.prompt, found.output) == token_counts(usage)
    assert found.cached == min(cached_tokens(usage), found.prompt)


@pytest.mark.parametrize("usage", [None, {}, {"total_tokens": 5}, {"speed": None}])
def test_silence_is_not_zero(usage: dict[str, Any] | None) -> None:
    assert split(usage, engine=False) is None


ENGINE = {"prompt_tokens": 90, "completion_tokens": 5}


@pytest.mark.parametrize(
    ("usage", "engine", "parts"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, False, Split(9, 0, 0, 0, 0, 0, 0, 2)),
        (  # OpenAI: read tokens are part of the prompt
            {"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}},
            False,
            Split(26, 0, 0, 0, 64, 0, 0, 5),
        ),
        (  # the engine tells writes by life, and may tell where it had what it read
            ENGINE
            | {
                "prompt_tokens_details": {
                    "cached_tokens": 48,
                    "cached_tokens_details": {"device": 16, "host": 24, "disk": 8},
                    "cache_write_tokens": 32,
                    "cache_write_tokens_details": {"ttl_5m_tokens": 10, "ttl_1h_tokens": 20},
                }
            },
            True,
            Split(10, 16, 24, 8, 0, 12, 20, 5),
        ),
        (  # without tiers, the engine's are its device's
            ENGINE | {"prompt_tokens_details": {"cached_tokens": 48}},
            True,
            Split(42, 48, 0, 0, 0, 0, 0, 5),
        ),
        (  # Anthropic: three numbers that add up
            {
                "input_tokens": 10,
                "output_tokens": 4,
                "cache_read_input_tokens": 50_000,
                "cache_creation_input_tokens": 700,
                "cache_creation": {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 200},
            },
            False,
            Split(10, 0, 0, 0, 50_000, 500, 200, 4),
        ),
        (  # Anthropic's numbers beside OpenAI's, as routers put them
            {
                "prompt_tokens": 60,
                "completion_tokens": 4,
                "cache_read_input_tokens": 40,
                "cache_creation_input_tokens": 9,
            },
            False,
            Split(11, 0, 0, 0, 40, 9, 0, 4),
        ),
        (  # OpenAI's Responses
            {"input_tokens": 70, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 64}},
            False,
            Split(6, 0, 0, 0, 64, 0, 0, 4),
        ),
        (  # Gemini: thoughts are output
            {
                "promptTokenCount": 70,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 6,
                "cachedContentTokenCount": 60,
            },
            False,
            Split(10, 0, 0, 0, 60, 0, 0, 10),
        ),
        (  # DeepSeek
            {
                "prompt_tokens": 70,
                "completion_tokens": 4,
                "prompt_cache_hit_tokens": 64,
                "prompt_cache_miss_tokens": 6,
            },
            False,
            Split(6, 0, 0, 0, 64, 0, 0, 4),
        ),
        ({"prompt_tokens": 2**60, "completion_tokens": 1}, False, Split(MOST_TOKENS, 0, 0, 0, 0, 0, 0, 1)),
    ],
)
def test_forms(usage: dict[str, Any], engine: bool, parts: Split) -> None:
    assert split(usage, engine=engine) == parts
