import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.doctor import REMEDIES, Doctor, Seen, diverge, merged, parts_of, summed_up
from policies.doctor.divergence import HEALTHY
from policies.doctor.volatile import common_prefix
from policies.types import Json

RULES = "You are the help desk of a railway. Answer in two sentences and name the page of the handbook. " * 4
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in "abc"]


def body(system: str = RULES, *turns: str, tools: list[Json] | None = None) -> Json:
    said = [
        {"role": "assistant" if place % 2 else "user", "content": text}
        for place, text in enumerate(turns or ("When does the night train leave?",))
    ]
    messages = ([{"role": "system", "content": system}] if system else []) + said
    return {"messages": messages, **({"tools": tools} if tools else {})}


def kind_of(before: Json, now: Json) -> str:
    return diverge(parts_of(before), parts_of(now)).kind


@pytest.mark.parametrize(
    ("kind", "before", "now"),
    [
        ("time", body(f"It is 2026-05-04 10:31:07. {RULES}"), body(f"It is 2026-05-04 10:31:09. {RULES}")),
        ("time", body(f"Today is Monday. {RULES}"), body(f"Today is Tuesday. {RULES}")),
        ("time", body(f"now=1767225600 {RULES}"), body(f"now=1767225955 {RULES}")),
        ("id", body(f"Session sess_a81Kd02Lm. {RULES}"), body(f"Session sess_b77Qx91Pz. {RULES}")),
        (
            "id",
            body(f"trace 0b9f1c1e-aa10-4c51-9d32-1b1f8d2f6a01 {RULES}"),
            body(f"trace 7d2e1c1e-bb10-4c51-9d32-1b1f8d2f6a99 {RULES}"),
        ),
        ("number", body(f"You have 12 tickets open. {RULES}"), body(f"You have 7 tickets open. {RULES}")),
        ("json_order", body('{"a": 1, "b": [2]} ' + RULES), body('{"b": [2], "a": 1} ' + RULES)),
        ("whitespace", body(RULES), body(RULES.replace(". ", ".\n"))),
        ("case", body(RULES), body(RULES.replace("You are", "YOU ARE"))),
        ("unicode", body(f"Zürich. {RULES}"), body(f"Zu\u0308rich. {RULES}")),
        ("variable", body(f"The guest is called Ada. {RULES}"), body(f"The guest is called Grace. {RULES}")),
        ("tools_order", body(tools=TOOLS), body(tools=TOOLS[::-1])),
        ("tools", body(tools=TOOLS), body(tools=TOOLS[1:])),
        ("tools", body(), body(tools=TOOLS)),
        ("truncated", body(RULES, "u1", "a1", "u2", "a2", "u3"), body(RULES, "u2", "a2", "u3", "a3", "u4")),
        ("edited", body(RULES, "u1", "a1", "u2"), body(RULES, "u1 now", "a1", "u2", "a2", "u3")),
        ("continued", body(RULES, "u1"), body(RULES, "u1", "a1", "u2")),
        ("repeated", body(RULES, "u1"), body(RULES, "u1")),
        ("question", body(RULES, "How do I pay?"), body(RULES, "Where is the toilet?")),
        ("question", body(RULES, "u1", "a1", "u2"), body(RULES, "x1", "y1", "x2")),
    ],
)
def test_the_field_that_broke_the_prefix_is_named(kind: str, before: Json, now: Json) -> None:
    assert kind_of(before, now) == kind
    assert (kind in HEALTHY) or REMEDIES[kind]


def test_what_is_lost_is_what_both_share_behind_the_field() -> None:
    found = diverge(parts_of(body(f"It is 10:31. {RULES}")), parts_of(body(f"It is 10:32. {RULES}")))
    assert found.path == "messages[0].content"
    assert found.kept_chars == len("It is 10:3")
    assert found.lost_chars == len(f". {RULES}") + len("When does the night train leave?")


def test_two_times_in_one_text_are_one_finding_and_all_behind_them_is_counted() -> None:
    texts = [f"From 10:{minute} to 11:{minute}. {RULES}" for minute in (10, 20)]
    found = diverge(parts_of(body(texts[0])), parts_of(body(texts[1])))
    assert found.kind == "time"
    assert found.lost_chars >= len(RULES)


def test_tokens_are_those_the_model_counted_in_proportion() -> None:
    doctor = Doctor()
    seen = [Seen(("t", "m"), parts_of(body(f"It is 10:3{minute}. {RULES}")), 1000) for minute in range(5)]
    findings = [doctor.see(one) for one in seen]
    assert findings[0].divergence.kind == "first"
    assert findings[0].healthy
    assert all(finding.divergence.kind == "time" for finding in findings[1:])
    assert findings[1].tokens == pytest.approx(1000)
    assert findings[1].lost_tokens > 900
    report = summed_up(findings)
    assert (report.requests, report.compared, len(report.ailments)) == (5, 4, 1)
    assert report.ailments[0].requests == 4
    assert report.lost_tokens == pytest.approx(sum(finding.lost_tokens for finding in findings))


def test_a_prompt_is_compared_with_the_one_it_was_built_like_and_never_with_another_tenant() -> None:
    doctor = Doctor()
    other = "Translate what follows into Welsh, and keep names as they are, whatever they may look like. " * 4
    for system in (RULES, other, RULES, other):
        doctor.see(Seen(("t", "m"), parts_of(body(system, f"q {system[:3]}"))))
    assert doctor.see(Seen(("t", "m"), parts_of(body(RULES, "another")))).divergence.kind == "question"
    assert doctor.see(Seen(("u", "m"), parts_of(body(RULES, "another")))).divergence.kind == "first"


def test_workers_reports_add_up() -> None:
    doctors = [Doctor(), Doctor()]
    reports = [
        summed_up(
            [doctor.see(Seen(("t", "m"), parts_of(body(f"It is 10:3{minute}. {RULES}")))) for minute in range(3)]
        )
        for doctor in doctors
    ]
    both = merged(reports)
    assert both.requests == 6
    assert both.ailments[0].requests == 4
    assert both.lost_tokens == pytest.approx(sum(report.lost_tokens for report in reports))


TEXTS = st.text('ab 1:{}"[],', max_size=40)


@given(st.lists(TEXTS, max_size=5), st.lists(TEXTS, max_size=5))
def test_nothing_is_kept_or_lost_that_is_not_there(one: list[str], other: list[str]) -> None:
    before, now = parts_of(body("", *one)), parts_of(body("", *other))
    found = diverge(before, now)
    whole = sum(len(part.text) for part in now)
    assert 0 <= found.kept_chars <= whole
    assert 0 <= found.lost_chars <= whole
    assert diverge(now, now).kind == "repeated"


@given(TEXTS, TEXTS)
def test_the_common_prefix_is_the_longest(one: str, other: str) -> None:
    length = common_prefix(one, other)
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]


def test_a_body_of_any_shape_has_parts() -> None:
    odd = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}, 7]}, "x"]}
    assert [part.path for part in parts_of(odd)] == ["messages[0].content[0]", "messages[0].content[1]"]
    assert json.loads(parts_of(odd)[0].text)["type"] == "image_url"
