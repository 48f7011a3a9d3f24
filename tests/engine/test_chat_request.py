"""Bodies: every bound is a 400 that names its field; what cannot be honoured is refused."""

import pytest

from engine.errors import RequestError
from engine.protocol.chat_request import ChatCall, read_chat_call
from engine.sampling import SamplingDefaults

HELLO = [{"role": "user", "content": "hello"}]


def read(**fields: object) -> ChatCall:
    return read_chat_call({"model": "m", "messages": HELLO} | fields)


def test_a_plain_call() -> None:
    call = read()
    assert (call.model, call.n, call.stream, call.include_usage, call.cache_salt) == ("m", 1, False, False, None)
    assert call.messages == ({"role": "user", "content": "hello"},)
    assert (call.params.max_tokens, call.params.temperature, call.params.seed) == (0, 1.0, None)


def test_no_tokens_at_all_may_be_asked_for() -> None:
    assert read(max_tokens=0).max_tokens == 0
    assert read(max_completion_tokens=0, max_tokens=9).max_tokens == 0
    assert read().max_tokens is None


def test_null_means_absent_and_unknown_fields_are_ignored() -> None:
    nulls = dict.fromkeys(("temperature", "n", "stop", "seed", "tools", "logit_bias", "stream", "max_tokens"))
    assert read(**nulls, user="u", metadata={"a": "b"}, service_tier="auto", brand_new=1) == read()


def test_sampling_fields_arrive() -> None:
    params = read(
        max_tokens=5,
        max_completion_tokens=7,
        temperature=0,
        top_p=0.5,
        top_k=-1,
        min_p=0.1,
        seed=-3,
        stop="x",
        stop_token_ids=[4],
        ignore_eos=True,
        presence_penalty=-2,
        frequency_penalty=2,
        logit_bias={"7": -100},
        logprobs=True,
        top_logprobs=3,
    ).params
    assert (params.max_tokens, params.temperature, params.top_p, params.top_k, params.min_p) == (7, 0, 0.5, 0, 0.1)
    assert (params.seed, params.stop, params.stop_token_ids, params.ignore_eos) == (-3, ("x",), {4}, True)
    assert (params.presence_penalty, params.frequency_penalty, params.logit_bias) == (-2, 2, ((7, -100.0),))
    assert params.top_logprobs == 3
    call = read(min_tokens=2, max_tokens=5, repetition_penalty=1.1, bad_words=["no", "never"], priority=-3)
    assert (call.params.min_tokens, call.params.repetition_penalty, call.max_tokens) == (2, 1.1, 5)
    assert (call.bad_words, call.priority) == (("no", "never"), -3)
    assert read(allowed_token_ids=[7, 8]).params.allowed_token_ids == (7, 8)
    assert read(logprobs=True).params.top_logprobs == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 0),
        ("n", 17),
        ("n", True),
        ("n", 1.5),
        ("max_tokens", -1),
        ("max_tokens", "5"),
        ("min_tokens", -1),
        ("repetition_penalty", 0),
        ("repetition_penalty", 1e-40),
        ("repetition_penalty", 2.5),
        ("bad_words", "x"),
        ("bad_words", [""]),
        ("allowed_token_ids", [-1]),
        ("allowed_token_ids", [True]),
        ("priority", "high"),
        ("max_completion_tokens", -1),
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", "hot"),
        ("top_p", 1.1),
        ("top_k", -2),
        ("min_p", 2),
        ("seed", 2**63),
        ("seed", 1.5),
        ("stop", ""),
        ("stop", ["a"] * 17),
        ("stop", [1]),
        ("stop", {"a": 1}),
        ("stop_token_ids", ["a"]),
        ("presence_penalty", 2.5),
        ("frequency_penalty", -2.5),
        ("logit_bias", [1]),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {"1": 101}),
        ("top_logprobs", 3),
        ("stream", "yes"),
        ("stream_options", {"include_usage": True}),
        ("cache_salt", ""),
        ("cache_salt", "x" * 1025),
        ("messages", []),
        ("messages", "hello"),
    ],
)
def test_a_bad_value_names_its_field(field: str, value: object) -> None:
    with pytest.raises(RequestError) as caught:
        read(**{field: value})
    assert caught.value.status == 400
    assert (caught.value.param or "").startswith(field)


@pytest.mark.parametrize(
    "fields",
    [
        {"top_logprobs": 21, "logprobs": True},
        {"stream": True, "stream_options": []},
        {"functions": [{"name": "f"}]},
        {"modalities": ["text", "audio"]},
        {"audio": {"voice": "x"}},
        {"chat_template": "{{ 1 }}"},
        {"chat_template_kwargs": [1]},
        {"chat_template_kwargs": {"a": []}},
        {"chat_template_kwargs": {"a": "x" * 2000}},
        {"min_tokens": 4, "max_tokens": 3},
        {"function_call": "auto"},
    ],
)
def test_what_would_change_the_answer_unheard_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(RequestError) as caught:
        read(**fields)
    assert caught.value.status == 400


def test_values_that_ask_for_nothing_are_fine() -> None:
    read(tools=[], response_format={"type": "text"}, modalities=["text"], repetition_penalty=1.0, echo=False)


def test_parts_are_joined_and_roles_kept() -> None:
    call = read(
        messages=[
            {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]},
            {"role": "user", "content": "hi", "name": "ann"},
            {"role": "assistant", "content": None, "refusal": "no"},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "never"}]},
        ]
    )
    assert call.messages == (
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "hi", "name": "ann"},
        {"role": "assistant", "content": "no"},
        {"role": "assistant", "content": "never"},
    )


@pytest.mark.parametrize(
    "message",
    [
        "hi",
        {"content": "hi"},
        {"role": "king", "content": "hi"},
        {"role": "user"},
        {"role": "user", "content": []},
        {"role": "user", "content": 5},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": ["text"], "text": "a"}]},
        {"role": "user", "content": [{"type": {}, "text": "a"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
        {"role": "function", "content": "4", "name": "f"},
        {"role": "tool"},
        {"role": "assistant", "tool_calls": [{"id": "c"}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]},
        {"role": "assistant", "tool_calls": "f"},
        {"role": "user", "content": "a", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"role": "assistant", "content": "a", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "content": "a", "audio": {"id": "x"}},
    ],
)
def test_messages_this_model_cannot_read_are_refused(message: object) -> None:
    with pytest.raises(RequestError) as caught:
        read(messages=[message])
    assert caught.value.status == 400
    assert (caught.value.param or "").startswith("messages")


@pytest.mark.parametrize("body", [[], "x", None, {"messages": HELLO}, {"model": "", "messages": HELLO}])
def test_a_body_without_a_model_is_refused(body: object) -> None:
    with pytest.raises(RequestError):
        read_chat_call(body)


def test_what_a_request_does_not_say_about_sampling_is_the_models_default() -> None:
    body = {"model": "m", "messages": HELLO}
    defaults = SamplingDefaults(temperature=0.2, top_p=0.9)
    silent = read_chat_call(body, defaults).params
    spoken = read_chat_call(body | {"temperature": 1.5, "top_p": 0.5}, defaults).params
    null = read_chat_call(body | {"temperature": None}, defaults).params
    assert (silent.temperature, silent.top_p) == (0.2, 0.9)
    assert (spoken.temperature, spoken.top_p) == (1.5, 0.5)
    assert null.temperature == 0.2


def test_calls_and_their_results_reach_the_template() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": [1]}'}}
    broken = {"id": "c2", "type": "function", "function": {"name": "f", "arguments": '{"x": '}}
    messages = read(
        messages=[
            {"role": "assistant", "content": None, "tool_calls": [call, broken]},
            {"role": "tool", "content": [{"type": "text", "text": "4"}], "tool_call_id": "c1"},
        ]
    ).messages
    first, second = messages[0]["tool_calls"]
    assert (messages[0]["content"], first["id"], first["function"]["arguments"]) == ("", "c1", {"x": [1]})
    assert second["function"]["arguments"] == '{"x": ', "a model's broken JSON must not end its conversation"
    assert messages[1] == {"role": "tool", "content": "4", "tool_call_id": "c1"}
