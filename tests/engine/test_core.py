"""One turn of the engine: what ends an answer, what fails it, and that its blocks always come back."""

from collections.abc import Sequence as Rows

import pytest

from engine.core import Core
from engine.events import FinishReason, TokenEvent
from engine.sampling import SamplingParams
from engine.work import Work
from tests.engine import tiny
from tests.engine.fakes import CountingObserver, ScriptedRunner, build_core, script

VOCAB = 300


def params(**wishes: object) -> SamplingParams:
    return SamplingParams(**{"max_tokens": 20, "temperature": 0.0} | wishes)


def drain(core: Core, limit: int = 200) -> list[TokenEvent]:
    events: list[TokenEvent] = []
    while core.has_work and limit:
        events += core.step()
        limit -= 1
    assert core.scheduler.kv.usage().blocks_used == 0
    return events


def run(text: str, wishes: SamplingParams, end: int | None = tiny.EOS_ID) -> tuple[str, TokenEvent]:
    core = build_core(ScriptedRunner(VOCAB, script(text, end)))
    core.add(tiny.new_sequence(0, (5, 6, 7), wishes))
    events = drain(core)
    assert [event.finish for event in events[:-1]] == [None] * (len(events) - 1)
    return "".join(event.text for event in events), events[-1]


def test_an_end_token_stops_and_has_no_text() -> None:
    text, last = run("hi", params())
    assert (text, last.finish, last.num_output, last.tokens) == ("hi", FinishReason.STOP, 3, ())


def test_an_end_token_may_come_first() -> None:
    """The stop check runs on the first token too."""
    text, last = run("", params())
    assert (text, last.finish, last.num_output) == ("", FinishReason.STOP, 1)


def test_a_stop_string_may_end_with_the_first_token() -> None:
    text, last = run("hello", params(stop=("h",)))
    assert (text, last.finish, last.num_output) == ("", FinishReason.STOP, 1)


def test_a_stop_string_across_tokens_is_cut_exactly() -> None:
    text, last = run("say END now", params(stop=("END",)))
    assert (text, last.finish, last.num_output) == ("say ", FinishReason.STOP, len("say END"))


def test_length_ends_with_everything_held_back() -> None:
    text, last = run("say EN", params(max_tokens=6, stop=("END",)))
    assert (text, last.finish, last.num_output) == ("say EN", FinishReason.LENGTH, 6)


def test_a_character_cut_by_the_length_is_flushed() -> None:
    text, last = run("é", params(max_tokens=1))
    assert (text, last.finish) == ("\ufffd", FinishReason.LENGTH)


def test_a_stop_token_id_stops_and_ignore_eos_does_not() -> None:
    assert run("abc", params(stop_token_ids=frozenset({68})), end=68)[1].finish is FinishReason.STOP
    assert run("abc", params(ignore_eos=True, max_tokens=9))[1].finish is FinishReason.LENGTH


def test_a_refused_sequence_is_told_why_and_leaves_no_trace() -> None:
    core = build_core(ScriptedRunner(VOCAB))
    (event,) = core.add(tiny.new_sequence(0, (5,) * 600, params()))
    assert event.error is not None
    assert (event.error.status, event.error.code) == (400, "context_length_exceeded")
    assert not core.has_work


def test_nan_logits_fail_that_sequence_alone() -> None:
    observer = CountingObserver()
    runner = ScriptedRunner(VOCAB, lambda one: None if one.seq_id == 1 and one.output_ids else 65)
    core = build_core(runner, observer=observer)
    for seq_id in range(3):
        core.add(tiny.new_sequence(seq_id, (5, 6), params(max_tokens=4)))
    ends = {event.seq_id: event for event in drain(core) if event.finish}
    assert [ends[seq_id].finish for seq_id in range(3)] == [
        FinishReason.LENGTH,
        FinishReason.ERROR,
        FinishReason.LENGTH,
    ]
    error = ends[1].error
    assert error is not None
    assert (error.status, error.kind) == (500, "server_error")
    assert observer.failed_steps == 0


def test_a_request_that_rules_out_every_token_is_its_own_fault_and_stops_nobody() -> None:
    core = build_core(ScriptedRunner(VOCAB))
    core.add(tiny.new_sequence(0, (5, 6), params(max_tokens=4)))
    core.add(tiny.new_sequence(1, (5, 6), params(min_tokens=2, allowed_token_ids=(tiny.EOS_ID,))))
    ends = {event.seq_id: event for event in drain(core) if event.finish}
    assert (ends[0].finish, ends[0].num_output) == (FinishReason.LENGTH, 4)
    error = ends[1].error
    assert error is not None
    assert (error.status, error.code) == (400, "invalid_value")


def test_a_step_that_raises_fails_its_sequences_and_the_next_ones_run() -> None:
    broken = [True]

    def before(work: Rows[Work]) -> None:
        if broken.pop():
            raise RuntimeError("secret detail")
        broken.append(False)

    observer = CountingObserver()
    core = build_core(ScriptedRunner(VOCAB, before=before), observer=observer)
    core.add(tiny.new_sequence(0, (5, 6), params()))
    (event,) = core.step()
    assert event.error is not None
    assert event.error.status == 500
    assert "secret" not in event.error.message
    assert (observer.failed_steps, core.scheduler.kv.usage().blocks_used) == (1, 0)
    broken.append(False)
    core.add(tiny.new_sequence(1, (5, 6), params(max_tokens=2)))
    assert drain(core)[-1].finish is FinishReason.LENGTH


def test_an_abort_frees_everything_in_every_state() -> None:
    observer = CountingObserver()
    core = build_core(ScriptedRunner(VOCAB), tiny.small_config(max_running=2), observer)
    for seq_id in range(4):
        core.add(tiny.new_sequence(seq_id, tuple(range(40)), params()))
    core.abort(3)  # waiting, never run
    core.step()
    core.abort(1)  # in the middle of its prefill
    for _ in range(6):
        core.step()
    core.abort(0)  # decoding
    core.abort(0)  # again
    core.abort(99)  # unknown
    drain(core)
    core.abort(2)  # finished: vllm#25067
    assert core.scheduler.kv.usage().blocks_used == 0
    assert observer.ends == [
        (3, FinishReason.ABORT),
        (1, FinishReason.ABORT),
        (0, FinishReason.ABORT),
        (2, FinishReason.LENGTH),
    ]


@pytest.mark.parametrize("kv_tokens", [48, 64, 512])
def test_preemption_does_not_change_the_text(kv_tokens: int) -> None:
    observer = CountingObserver()
    core = build_core(
        ScriptedRunner(VOCAB, script("a long answer, told twice: é🙂.")),
        tiny.small_config(kv_tokens=kv_tokens),
        observer,
    )
    texts = {0: "", 1: ""}
    for seq_id in texts:
        core.add(tiny.new_sequence(seq_id, (5,) * 10, params(max_tokens=37)))
    for event in drain(core):
        texts[event.seq_id] += event.text
    assert set(texts.values()) == {"a long answer, told twice: é🙂."}
    assert (observer.preemptions > 0) == (kv_tokens < 90)
    assert observer.admissions == [0, 1]
