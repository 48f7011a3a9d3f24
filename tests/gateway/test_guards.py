"""Guards at work: deadlines, faults, versions, and what is let near the index."""

import asyncio
import time
from collections.abc import Iterator
from typing import ClassVar

import pytest
from pydantic import ValidationError

from gateway.guards import Guards, Subject, open_guards, subject_of
from gateway.settings_tables import GuardSettings
from gateway.telemetry.metrics import Metrics
from policies.guardrails.size import SizeGuard
from policies.guardrails.types import Action, Material, Verdict
from policies.types import ChatResponse, Choice

CLEAN = Subject("What is a heat pump?", ("What is a heat pump?",), answer_texts=("It moves heat.",))
PLAIN = Material("refuse")


class Stub:
    """A guard that does as it is told."""

    name: ClassVar[str] = "stub"
    version: ClassVar[str] = "1"
    default_action: ClassVar[Action] = "refuse"
    data_file: ClassVar[str] = ""
    of_questions: ClassVar[bool] = True

    def __init__(self, _material: Material) -> None:
        self.takes_s = 0.0
        self.error: Exception | None = None

    def check(self, _subject: Subject) -> Verdict | None:
        time.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        return None


def with_stub(stub: Stub, metrics: Metrics, **settings: object) -> Guards:
    chosen = GuardSettings.model_validate(settings)
    return Guards([(stub, PLAIN), (SizeGuard(PLAIN), PLAIN)], chosen, metrics)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def guards(metrics: Metrics) -> Iterator[Guards]:
    opened = open_guards(GuardSettings(), metrics)
    yield opened
    opened.close()


async def test_a_clean_answer_may_be_stored_anywhere(guards: Guards) -> None:
    decision = await guards.judge_write(CLEAN)
    assert (decision.exact, decision.semantic, decision.reasons) == (True, True, ())
    assert await guards.question_is_clean(CLEAN) == ()


async def test_a_prompt_with_personal_data_is_not_clean(guards: Guards, metrics: Metrics) -> None:
    subject = subject_of(
        {"messages": [{"role": "user", "content": "I am ann.lee@mail-x.de, what is a heat pump?"}]}
    )
    assert await guards.question_is_clean(subject) == ("pii_email",)
    assert (
        b'lamina_guard_verdicts_total{action="private",guard="pii",reason="pii_email"} 1.0' in metrics.exposition()
    )
    assert b"ann.lee" not in metrics.exposition()


@pytest.mark.parametrize("padding", ["", "x" * 10_000], ids=["inline", "thread"])
async def test_a_guard_that_raises_forbids_storing(metrics: Metrics, padding: str) -> None:
    stub = Stub(PLAIN)
    stub.error = KeyError("a text that must not be told")
    guards = with_stub(stub, metrics)
    decision = await guards.judge_write(Subject("q" + padding[:1], (padding,)))
    assert (decision.exact, decision.semantic, decision.reasons) == (False, False, ("guard_fault",))
    assert await guards.question_is_clean(Subject("q", (padding,))) == ("guard_fault",)
    shown = metrics.exposition()
    assert b'reason="guard_fault_stub_KeyError"' in shown
    assert b"must not be told" not in shown
    guards.close()


async def test_a_late_guard_forbids_storing_and_holds_nobody_up(metrics: Metrics) -> None:
    stub = Stub(PLAIN)
    stub.takes_s = 1.5
    guards = with_stub(stub, metrics, wait_ms=50)
    begun = time.perf_counter()
    decision = await guards.judge_write(Subject("q", ("x" * 10_000,)))
    assert time.perf_counter() - begun < 1.2
    assert decision.reasons == ("guard_timeout",)
    assert b'reason="guard_timeout"' in metrics.exposition()
    guards.close()


async def test_processor_time_counts_not_the_wait_for_it(metrics: Metrics) -> None:
    clock = iter([0.0, 0.01, 0.06])
    guards = Guards(
        [(Stub(PLAIN), PLAIN), (SizeGuard(PLAIN), PLAIN)], GuardSettings(), metrics, lambda: next(clock)
    )
    assert (await guards.judge_write(CLEAN)).reasons == ("guard_timeout",)
    guards.close()


async def test_the_loop_goes_on_while_long_texts_are_judged(metrics: Metrics) -> None:
    stub = Stub(PLAIN)
    stub.takes_s = 0.1
    guards = with_stub(stub, metrics)
    ticks = 0
    judging = asyncio.ensure_future(guards.judge_write(Subject("q", ("x" * 10_000,))))
    while not judging.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert ticks > 5
    guards.close()


async def test_an_old_entry_is_judged_anew_only_when_the_policy_changed(guards: Guards) -> None:
    secret = Subject("q", ("q",), answer_texts=('password = "tr0ub4dor&3x"',))
    assert (await guards.judge_hit(secret, guards.policy_version)).exact
    assert not (await guards.judge_hit(secret, "an older one")).exact


def test_settings_change_the_policys_version(metrics: Metrics) -> None:
    settings = [GuardSettings(), GuardSettings(off=("toxicity",)), GuardSettings(actions={"pii": "refuse"})]
    opened = [open_guards(each, metrics) for each in [*settings, GuardSettings()]]
    versions = [each.policy_version for each in opened]
    assert len(set(versions)) == 3
    assert versions[0] == versions[3]
    for each in opened:
        each.close()


async def test_guards_may_be_switched_off(metrics: Metrics) -> None:
    guards = open_guards(GuardSettings(enabled=False), metrics)
    assert (await guards.judge_write(Subject("q", answer_texts=("I'm sorry, I can't.",)))).exact
    guards.close()


@pytest.mark.parametrize(
    "bad", [{"off": ("nobody",)}, {"actions": {"nobody": "refuse"}}, {"actions": {"pii": "x"}}]
)
def test_unknown_names_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GuardSettings.model_validate(bad)


def test_a_subject_has_every_text_and_tells_them_apart() -> None:
    body = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": "one"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "f", "arguments": '{"a":1}'}}],
            },
            {"role": "tool", "content": "found"},
            {"role": "user", "content": [{"type": "text", "text": "two"}, {"type": "image_url"}, 7]},
            "broken",
        ],
        "response_format": {"type": "text"},
    }
    call = {"id": "c", "function": {"name": "f", "arguments": '{"b":2}'}}
    message = {"role": "assistant", "content": "said", "tool_calls": [call]}
    response = ChatResponse("id", 1, "m", (Choice(0, message, "stop"),))
    subject = subject_of(body, response, scope="user", size=9)
    assert subject == Subject(
        question="two",
        turn_texts=("one", '{"a":1}', "found", "two"),
        system_texts=("Be brief.", "Be kind."),
        answer_texts=("said", '{"b":2}'),
        content_texts=("said",),
        response_format={"type": "text"},
        size_bytes=9,
        scope_kind="user",
    )
    assert subject_of({"messages": 3}) == Subject("")
