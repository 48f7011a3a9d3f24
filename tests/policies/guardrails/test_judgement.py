"""Verdicts together: the strictest wins, and a policy's version is that of all its parts."""

import msgspec
import pytest

from policies.guardrails.judgement import ALLOWED, decide, policy_version
from policies.guardrails.size import SizeGuard
from policies.guardrails.types import Material, Subject, Verdict

HIDDEN = frozenset({"pii"})
REFUSE = Verdict("refusal", "refusal", "refuse")
PRIVATE = Verdict("personal", "personal", "private")
PII = Verdict("pii", "pii_email", "private")
SHORT = Verdict("time_bound", "time_bound", "short_life", ttl_s=60.0)
EXACT = Verdict("size", "long_question", "exact_only")


@pytest.mark.parametrize(
    ("verdicts", "scope", "exact", "semantic", "ttl_s"),
    [
        ([], "tenant", True, True, None),
        ([REFUSE], "user", False, False, None),
        ([PRIVATE], "tenant", False, False, None),
        ([PRIVATE], "user", True, True, None),
        ([PII], "tenant", False, False, None),
        ([PII], "session", True, False, None),
        ([SHORT], "tenant", True, False, 60.0),
        ([msgspec.structs.replace(SHORT, ttl_s=0.0)], "tenant", False, False, 0.0),
        ([EXACT], "tenant", True, False, None),
        ([EXACT, PRIVATE], "user", True, False, None),
        ([SHORT, REFUSE], "user", False, False, 60.0),
        ([PII, SHORT], "conversation", True, False, 60.0),
    ],
)
def test_the_strictest_wins(
    verdicts: list[Verdict], scope: str, *, exact: bool, semantic: bool, ttl_s: float | None
) -> None:
    decision = decide(verdicts, Subject("q", scope_kind=scope), HIDDEN)
    assert (decision.exact, decision.semantic, decision.ttl_cap_s) == (exact, semantic, ttl_s)
    assert set(decision.reasons) == {verdict.reason for verdict in verdicts}


def test_the_reason_that_forbids_most_comes_first() -> None:
    assert decide([SHORT, REFUSE], Subject("q"), HIDDEN).reasons[0] == "refusal"
    assert decide([], Subject("q"), HIDDEN) is ALLOWED


def test_every_part_of_a_policy_changes_its_version() -> None:
    class Newer(SizeGuard):
        version = "2"

    plain = Material("refuse")
    versions = {
        policy_version([]),
        policy_version([(SizeGuard(plain), plain)]),
        policy_version([(Newer(plain), plain)]),
        *(
            policy_version([(SizeGuard(other), other)])
            for other in (
                Material("private"),
                Material("refuse", data=b"x"),
                Material("refuse", max_chars=1),
                Material("refuse", public=("a@b.example",)),
            )
        ),
    }
    assert len(versions) == 7
    assert policy_version([(SizeGuard(plain), plain)]) == policy_version([(SizeGuard(plain), Material("refuse"))])


def test_long_texts_are_not_stored_and_long_questions_not_compared() -> None:
    guard = SizeGuard(Material("refuse", max_chars=100, max_semantic_chars=10))
    assert guard.check(Subject("short", ("short",))) is None
    verdict = guard.check(Subject("q" * 11, ("q" * 11,)))
    assert verdict is not None
    assert verdict.action == "exact_only"
    verdict = guard.check(Subject("q", answer_texts=("a" * 101,)))
    assert verdict is not None
    assert verdict.action == "refuse"
