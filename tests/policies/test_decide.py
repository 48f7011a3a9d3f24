"""Decisions: one test per transition, and judge's boundaries by Hypothesis."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from policies.controls import NO_CONTROLS, Controls
from policies.decide import (
    MAX_CLOCK_SKEW_S,
    Bypass,
    Discard,
    Hit,
    Life,
    Lookup,
    Miss,
    Stale,
    Store,
    WriteRules,
    admit,
    judge,
    route,
)
from policies.purges import PurgeMode
from policies.types import ChatResponse, Choice, Json

BODY: Json = {"messages": [{"role": "user", "content": "a"}]}
LIFE = Life(created_s=1000.0, ttl_s=100.0)
RULES = WriteRules(ttl_s=60.0, max_ttl_s=600.0)
ANSWER = ChatResponse("id", 1, "m", (Choice(0, {"role": "assistant", "content": "Four."}, "stop"),))


class TestRoute:
    def test_looks_up_and_serves(self) -> None:
        assert route(BODY, NO_CONTROLS, "exact") == Lookup(serve=True, read=True, write=True)

    def test_observe_serves_nothing(self) -> None:
        assert route(BODY, NO_CONTROLS, "observe") == Lookup(serve=False, read=True, write=True)

    @pytest.mark.parametrize(
        ("mode", "asked"), [("off", None), ("off", "exact"), ("exact", "off"), ("observe", "off")]
    )
    def test_off_wins_from_either_side(self, mode: str, asked: str | None) -> None:
        assert route(BODY, Controls(mode=asked), mode) == Bypass("off")

    def test_a_request_cannot_switch_serving_on(self) -> None:
        assert route(BODY, Controls(mode="exact"), "observe") == Lookup(serve=False, read=True, write=True)

    @pytest.mark.parametrize(
        ("field", "reason"),
        [
            ("web_search_options", "live_data"),
            ("kv_transfer_params", "transfer"),
            ("ec_transfer_params", "transfer"),
            ("diagnostics", "diagnostics"),
        ],
    )
    def test_fields_that_bypass(self, field: str, reason: str) -> None:
        assert route({**BODY, field: {}}, NO_CONTROLS, "exact") == Bypass(reason)
        assert isinstance(route({**BODY, field: None}, NO_CONTROLS, "exact"), Lookup)

    @pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
    def test_warming_a_prompt_bypasses(self, field: str) -> None:
        assert route({**BODY, field: 0}, NO_CONTROLS, "exact") == Bypass("prewarm")
        assert isinstance(route({**BODY, field: 1}, NO_CONTROLS, "exact"), Lookup)

    def test_neither_read_nor_write_is_a_bypass(self) -> None:
        assert route(BODY, Controls(no_read=True, no_write=True), "exact") == Bypass("request")

    def test_read_and_write_are_switched_one_by_one(self) -> None:
        assert route(BODY, Controls(no_read=True), "exact") == Lookup(serve=True, read=False, write=True)
        assert route(BODY, Controls(no_write=True), "exact") == Lookup(serve=True, read=True, write=False)


class TestJudge:
    def test_a_living_entry_is_a_hit(self) -> None:
        assert judge(LIFE, None, NO_CONTROLS, 1040.0) == Hit(age_s=40.0, ttl_s=60.0)

    @pytest.mark.parametrize("now_s", [1100.0, 1100.001, 1e9])
    def test_its_life_ends(self, now_s: float) -> None:
        assert judge(LIFE, None, NO_CONTROLS, now_s) == Miss("expired")

    def test_a_hard_purge_is_final(self) -> None:
        assert judge(LIFE, "hard", Controls(max_stale_s=math.inf), 1001.0) == Miss("purged")

    def test_a_soft_purge_is_a_miss_unless_stale_is_accepted(self) -> None:
        assert judge(LIFE, "soft", NO_CONTROLS, 1040.0) == Miss("soft_purged")
        assert judge(LIFE, "soft", Controls(max_stale_s=0.0), 1040.0) == Stale(40.0, 0.0, "soft_purged")
        assert judge(LIFE, "soft", NO_CONTROLS, 1200.0) == Miss("expired")
        assert judge(LIFE, "soft", Controls(max_stale_s=100.0), 1200.0) == Stale(200.0, -100.0, "soft_purged")

    def test_stale_is_accepted_up_to_its_bound(self) -> None:
        assert judge(LIFE, None, Controls(max_stale_s=5.0), 1105.0) == Stale(105.0, -5.0, "max_stale")
        assert judge(LIFE, None, Controls(max_stale_s=5.0), 1105.1) == Miss("expired")
        assert judge(LIFE, None, Controls(max_stale_s=math.inf), 1e9) == Stale(1e9 - 1000, 1100 - 1e9, "max_stale")

    def test_max_age_is_a_bound_on_age(self) -> None:
        assert judge(LIFE, None, Controls(max_age_s=40.0), 1040.0) == Hit(40.0, 60.0)
        assert judge(LIFE, None, Controls(max_age_s=39.9), 1040.0) == Miss("max_age")
        assert judge(LIFE, None, Controls(max_age_s=39.9, max_stale_s=math.inf), 1040.0) == Miss("max_age")

    def test_min_fresh_is_a_bound_on_what_is_left(self) -> None:
        assert judge(LIFE, None, Controls(min_fresh_s=60.0), 1040.0) == Hit(40.0, 60.0)
        assert judge(LIFE, None, Controls(min_fresh_s=60.1), 1040.0) == Miss("min_fresh")

    def test_a_clock_a_little_ahead_gives_age_zero(self) -> None:
        assert judge(LIFE, None, NO_CONTROLS, 1000.0 - MAX_CLOCK_SKEW_S) == Hit(0.0, 100.0)

    def test_an_entry_from_the_far_future_is_not_trusted(self) -> None:
        accepting = Controls(max_stale_s=math.inf)
        assert judge(LIFE, None, accepting, 1000.0 - MAX_CLOCK_SKEW_S - 0.1) == Miss("clock")


TIMES = st.floats(0, 1e5)
BOUNDS = st.none() | TIMES
PURGED: st.SearchStrategy[PurgeMode | None] = st.sampled_from([None, "soft", "hard"])
CONTROLS = st.builds(
    Controls,
    max_age_s=BOUNDS,
    min_fresh_s=BOUNDS,
    max_stale_s=BOUNDS | st.just(math.inf),
)


@given(st.builds(Life, TIMES, TIMES), PURGED, CONTROLS, TIMES)
@example(Life(5.0, 0.0), None, NO_CONTROLS, 5.0)
@example(Life(5.0, 10.0), None, NO_CONTROLS, 15.0)
@example(Life(5.0, 10.0), "soft", Controls(max_stale_s=0.0), 15.0)
def test_what_judge_never_does(life: Life, purged: PurgeMode | None, controls: Controls, now_s: float) -> None:
    decision = judge(life, purged, controls, now_s)
    if isinstance(decision, Miss):
        assert decision.reason in {"clock", "purged", "max_age", "min_fresh", "soft_purged", "expired"}
        return
    assert purged != "hard"
    assert decision.age_s == max(0.0, now_s - life.created_s)
    assert now_s >= life.created_s - MAX_CLOCK_SKEW_S
    assert controls.max_age_s is None or decision.age_s <= controls.max_age_s
    assert controls.min_fresh_s is None or life.ttl_s - decision.age_s >= controls.min_fresh_s
    if isinstance(decision, Hit):
        assert purged is None
        assert decision.ttl_s > 0
        assert now_s < life.created_s + life.ttl_s or decision.age_s == 0
    else:
        assert controls.max_stale_s is not None
        assert -controls.max_stale_s <= decision.ttl_s <= 0
        assert purged == "soft" or decision.age_s >= life.ttl_s


@given(st.builds(Life, TIMES, TIMES), PURGED, CONTROLS, TIMES)
def test_accepting_stale_never_turns_a_hit_into_less(
    life: Life, purged: PurgeMode | None, controls: Controls, now_s: float
) -> None:
    strict = judge(life, purged, replace(controls, max_stale_s=None), now_s)
    if isinstance(strict, Hit):
        assert judge(life, purged, controls, now_s) == strict


@given(st.builds(Life, TIMES, TIMES), CONTROLS, TIMES, TIMES)
def test_a_hit_that_expired_does_not_come_back(
    life: Life, controls: Controls, one_s: float, later_s: float
) -> None:
    early, late = sorted((one_s, later_s))
    if early >= life.created_s and isinstance(judge(life, None, controls, late), Hit):
        assert isinstance(judge(life, None, replace(controls, min_fresh_s=None), early), Hit)


class TestAdmit:
    def test_a_whole_answer_is_stored_for_the_routes_life(self) -> None:
        assert admit(ANSWER, BODY, NO_CONTROLS, RULES, fallback=False) == Store(60.0)

    @pytest.mark.parametrize(("asked_s", "granted_s"), [(5.0, 5.0), (600.0, 600.0), (601.0, 600.0), (1e9, 600.0)])
    def test_an_asked_life_is_clamped(self, asked_s: float, granted_s: float) -> None:
        assert admit(ANSWER, BODY, Controls(ttl_s=asked_s), RULES, fallback=False) == Store(granted_s)

    def test_the_routes_own_life_is_clamped_too(self) -> None:
        rules = WriteRules(ttl_s=6000.0, max_ttl_s=600.0)
        assert admit(ANSWER, BODY, NO_CONTROLS, rules, fallback=False) == Store(600.0)

    def test_no_store_is_honoured(self) -> None:
        assert admit(ANSWER, BODY, Controls(no_write=True), RULES, fallback=False) == Discard("no_store")

    def test_a_fallbacks_answer_is_not_the_primarys(self) -> None:
        assert admit(ANSWER, BODY, NO_CONTROLS, RULES, fallback=True) == Discard("fallback")

    @pytest.mark.parametrize("finish_reason", ["length", "content_filter", None])
    def test_the_gate_decides_last(self, finish_reason: Any) -> None:
        cut = structs.replace(ANSWER, choices=(structs.replace(ANSWER.choices[0], finish_reason=finish_reason),))
        assert isinstance(admit(cut, BODY, NO_CONTROLS, RULES, fallback=False), Discard)
