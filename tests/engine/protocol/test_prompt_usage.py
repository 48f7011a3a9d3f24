"""Read, written and kept tokens of a prompt always add up."""

from hypothesis import given
from hypothesis import strategies as st

from engine.events import TokenEvent
from engine.kv.wishes import Breakpoint
from engine.prompt_use import PromptUse
from engine.protocol.chat_reply import ReplyHead
from engine.protocol.completion_reply import CompletionChoice, CompletionReply
from engine.protocol.prompt_usage import miss_header, prompt_details, written_by_life
from tests.engine.fakes import byte_tokenizer

TTLS = st.sampled_from([300, 1800, 3600, 43200, 86400])
POINTS = st.dictionaries(st.integers(1, 400), TTLS, max_size=4).map(
    lambda found: tuple(Breakpoint(tokens, ttl_s) for tokens, ttl_s in sorted(found.items()))
)


@given(st.integers(0, 300), st.integers(0, 300), POINTS, st.sampled_from([1, 7, 128]))
def test_each_written_token_has_one_life_at_most(
    cached: int, written: int, points: tuple[Breakpoint, ...], unit: int
) -> None:
    lives = written_by_life(PromptUse(cached, written, unit=unit), points)
    expected: dict[str, int] = {}
    for token in range(cached, cached + written):
        ttl_s = max((point.ttl_s for point in points if point.tokens // unit * unit > token), default=0)
        if ttl_s:
            name = {300: "5m", 1800: "30m", 3600: "1h", 43200: "12h", 86400: "24h"}[int(ttl_s)]
            expected[name] = expected.get(name, 0) + 1
    assert {name: tokens for name, tokens in lives.items() if tokens} == {
        f"ttl_{name}_tokens": tokens for name, tokens in expected.items()
    }
    assert sum(lives.values()) <= written


def test_details_name_every_count_and_the_miss() -> None:
    use = PromptUse(32, 48, "differs", 33)
    assert prompt_details(use, (Breakpoint(64, 3600), Breakpoint(90, 300))) == {
        "cached_tokens": 32,
        "cache_write_tokens": 48,
        "cache_write_tokens_details": {"ttl_1h_tokens": 32, "ttl_5m_tokens": 16},
        "miss": {"reason": "differs", "at": 33},
    }
    assert prompt_details(PromptUse(), ()) == {
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "cache_write_tokens_details": {},
    }


def test_where_tokens_were_read_is_told_when_some_were_on_the_host() -> None:
    told = prompt_details(PromptUse(32, 0, host=24), ())
    assert told["cached_tokens_details"] == {"device": 8, "host": 24}
    assert "cached_tokens_details" not in prompt_details(PromptUse(32), ())


def test_a_header_tells_the_miss_in_short() -> None:
    assert miss_header(PromptUse(0, 0, "differs", 0)) == [(b"x-lamina-prefix-miss", b"differs; at=0")]
    assert miss_header(PromptUse(0, 16, "cold")) == [(b"x-lamina-prefix-miss", b"cold")]
    assert miss_header(PromptUse(16)) == miss_header(None) == []


def test_a_stream_that_begins_with_another_prompt_tells_nothing_of_the_first() -> None:
    head = ReplyHead("cmpl-1", 0, "m", 9, logprobs=False, include_usage=False)
    choices = (CompletionChoice(), CompletionChoice())
    reply = CompletionReply(head, byte_tokenizer(), choices, per_prompt=1, shown=1)
    reply.opening(1, TokenEvent(1, 0, "a", prompt=PromptUse(0, 0, "short")))
    assert reply.headers == []
    reply.opening(0, TokenEvent(0, 0, "b", prompt=PromptUse(0, 0, "cold")))
    assert reply.headers == [(b"x-lamina-prefix-miss", b"cold")]
