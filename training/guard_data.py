"""Rows that the guards' models learn from: public labelled sets, and examples written for this project.

Public rows are read from the folder of evaluation data and never copied; its README names sources and licences.
The written examples lie in `training/data/guards`, one JSON object a line with a `family` that stays whole.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from policies.guardrails.injection_views import injection_tokens
from policies.guardrails.personal import personal_tokens
from policies.guardrails.refusal import may_refuse, refusal_tokens
from training.linear import Row

WRITTEN = Path(__file__).parent / "data" / "guards"
ORDINARY_WEIGHT = 0.3
QUIET_WEIGHT = 0.1
WRITTEN_WEIGHT = 0.5


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON lines file, gzipped or not."""
    data = path.read_bytes()
    for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines():
        yield json.loads(line)


def prompts_of(data: Path) -> list[str]:
    """Word problems and programming tasks: nothing in them is personal, bound to a time or meant to mislead."""
    names = ("gsm8k_test", "humaneval")
    return [row["prompt"] for name in names for row in rows_of(data / "prompts" / f"{name}.jsonl.gz")]


def everyday() -> list[str]:
    """Written prompts of every kind that no guard should mind."""
    return [row["text"] for row in rows_of(WRITTEN / "everyday.jsonl")]


def _searched(data: Path) -> list[str]:
    """Search questions: about the world, not about the asker."""
    return [row["text"] for row in rows_of(data / "semantic" / "time_sensitivity.jsonl")]


def _quiet(field: str, texts: list[str], tokens: Callable[[str], Iterable[str]]) -> list[Row]:
    """Rows that only teach what is ordinary."""
    return [
        Row(
            {field: text},
            tuple(tokens(text)),
            alarm=False,
            group=f"quiet-{text}",
            weight=QUIET_WEIGHT,
            judged=False,
        )
        for text in texts
    ]


def _no_tokens(_text: str) -> tuple[str, ...]:
    return ()


def time_bound(data: Path) -> list[Row]:
    """Search questions with a crowd's label, and written ones of both kinds."""
    public = rows_of(data / "semantic" / "time_sensitivity.jsonl")
    rows = [Row({"question": row["text"]}, (), bool(row["time_sensitive"]), row["id"]) for row in public]
    rows += _quiet("question", [*prompts_of(data), *everyday()], _no_tokens)
    return rows + [
        Row(
            {"question": row["question"]},
            (),
            row["alarm"],
            f"written-{row['family']}",
            WRITTEN_WEIGHT,
            judged=False,
        )
        for row in rows_of(WRITTEN / "time_bound.jsonl")
    ]


def refusal(data: Path) -> list[Row]:
    """Labelled answers, written ones, and ordinary solutions, which no model refused."""
    rows = [
        _answer(row["response"], row["prompt"], row["prompt_id"], alarm=row["label"] != "compliance")
        for row in rows_of(data / "safety" / "xstest_refusals.jsonl.gz")
    ]
    for row in rows_of(WRITTEN / "refusal.jsonl"):
        group = f"written-{row['family']}"
        rows.append(_answer(row["answer"], row["question"], group, alarm=row["alarm"], weight=WRITTEN_WEIGHT))
    for name, field in (("gsm8k_test", "solution"), ("humaneval", "canonical_solution")):
        rows += [
            _answer(row[field], row["prompt"], row["id"], alarm=False, weight=ORDINARY_WEIGHT)
            for row in rows_of(data / "prompts" / f"{name}.jsonl.gz")
        ]
    return rows


def _answer(answer: str, question: str, group: str, *, alarm: bool, weight: float = 1.0) -> Row:
    tokens = tuple(refusal_tokens(answer, question))
    texts = {"answer": answer, "question": question}
    return Row(texts, tokens, alarm, group, weight, judged=weight == 1, ruled_out=not may_refuse(answer))


def toxicity(data: Path) -> list[Row]:
    """Samples with labels of a moderation team; any label counts."""
    public = rows_of(data / "safety" / "openai_moderation.jsonl.gz")
    rows = [Row({"text": row["text"]}, (), bool(row["flagged"]), row["id"]) for row in public]
    return rows + _quiet("text", [*prompts_of(data), *everyday(), *_searched(data)], _no_tokens)


def injection(data: Path) -> list[Row]:
    """A public corpus with benign traps, and written examples, texts about injections among them."""
    rows = [
        Row({"text": row["text"]}, tuple(injection_tokens(row["text"])), row["label"] == "malicious", row["id"])
        for row in rows_of(data / "safety" / "prompt_injection.jsonl")
    ]
    rows += _quiet("text", [*prompts_of(data), *everyday()], injection_tokens)
    for row in rows_of(WRITTEN / "injection.jsonl"):
        tokens = tuple(injection_tokens(row["text"]))
        rows.append(
            Row({"text": row["text"]}, tokens, row["alarm"], f"written-{row['family']}", 1.0, judged=False)
        )
    return rows


def personal(data: Path) -> list[Row]:
    """Written questions about the asker's own account, and general ones with the same words."""
    rows = rows_of(WRITTEN / "personal.jsonl")
    quiet = _quiet("question", [*prompts_of(data), *everyday(), *_searched(data)], personal_tokens)
    return [_question(row["question"], row["family"], alarm=row["alarm"]) for row in rows] + quiet


def _question(question: str, group: str, *, alarm: bool) -> Row:
    return Row({"question": question}, tuple(personal_tokens(question)), alarm, group)
