"""Templates render once, in a sandbox, as the model's author meant them."""

import pytest

from engine import chat_template
from engine.chat_template import ChatTemplate
from engine.errors import ModelError, RequestError
from tests.engine import tiny
from tests.engine.fakes import byte_tokenizer

HELLO = [{"role": "user", "content": "hello"}]


def test_developer_becomes_system_where_the_template_lacks_it() -> None:
    messages = [{"role": "developer", "content": "be kind"}]
    assert ChatTemplate(tiny.TEMPLATE, {}).render(messages).startswith("<|im_start|>system\nbe kind")
    knowing = "{% for m in messages %}{% if m.role == 'developer' %}DEV{% endif %}{% endfor %}"
    assert ChatTemplate(knowing, {}).render(messages) == "DEV"


def test_the_first_token_is_there_exactly_once() -> None:
    """vllm#5278 and kin: the template writes the first token, so encoding must not add another."""
    template = ChatTemplate("{{ bos_token }}{{ messages[0]['content'] }}", {"bos_token": "<|im_start|>"})
    ids = byte_tokenizer().encode(template.render(HELLO))
    assert ids.count(1) == 1
    assert ids[0] == 1


def test_block_lines_leave_no_space() -> None:
    assert ChatTemplate("a\n  {% if true %}\nb\n  {% endif %}\nc", {}).render(HELLO) == "a\nb\nc"


def test_a_template_may_refuse_messages() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}", {})
    with pytest.raises(RequestError, match="roles must alternate") as caught:
        template.render(HELLO)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{% for i in range(10 ** 9) %}x{% endfor %}",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(RequestError):
        ChatTemplate(source, {}).render(HELLO)


def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MAX_PROMPT_CHARS", 100)
    template = ChatTemplate("{% for i in range(1000) %}{{ messages[0]['content'] }}{% endfor %}", {})
    with pytest.raises(RequestError, match="too long"):
        template.render(HELLO)


def test_broken_and_oversized_templates_do_not_load() -> None:
    with pytest.raises(ModelError, match="does not compile"):
        ChatTemplate("{% if %}", {})
    with pytest.raises(ModelError, match="longer than"):
        ChatTemplate("x" * (chat_template.MAX_TEMPLATE_CHARS + 1), {})


def test_a_template_tells_what_it_knows() -> None:
    plain = ChatTemplate(tiny.TEMPLATE, {})
    assert (plain.knows_tools, plain.options) == (False, frozenset())
    source = "{% if tools %}{{ tools }}{% endif %}{{ bos_token }}{% if think is defined %}{{ think }}{% endif %}"
    knowing = ChatTemplate(source, {"bos_token": "<s>"})
    assert (knowing.knows_tools, knowing.options) == (True, {"think"})
    assert knowing.render(HELLO) == "<s>"
    assert knowing.render(HELLO, None, {"think": False}) == "<s>False"


def test_json_is_written_as_templates_were_trained_on_it() -> None:
    source = "{{ tools | tojson }} {{ tools | tojson(indent=1) }}"
    assert ChatTemplate(source, {}).render(HELLO, [{"a": "<é>'"}]) == (
        '[{"a": "<é>\'"}] [\n {\n  "a": "<é>\'"\n }\n]'
    )


def test_no_date_enters_a_prompt() -> None:
    """A prompt that changes by the day is never cached."""
    source = "{% if strftime_now is defined %}{{ strftime_now('%d') }}{% else %}no date{% endif %}"
    assert ChatTemplate(source, {}).render(HELLO) == "no date"


def test_messages_nested_too_deep_to_write_are_refused() -> None:
    deep: list[object] = []
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(RequestError):
        ChatTemplate("{{ tools | tojson }}", {}).render(HELLO, [{"a": deep}])
