"""The guards on public labelled sets: `python -m bench.guardrails --data DIR [--json] [--cross-validate]`.

DIR is laid out as the project's public evaluation data. Every text goes through the guards as the gateway loads
them. The models were trained on rows of these very sets: their in-sample figures say that the shipped files work,
and those of `--cross-validate`, which trains anew per fold, say how well they judge what they have not seen.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.data import read_rows, require
from gateway.guards import load_guards
from gateway.settings_tables import GuardSettings
from policies.guardrails.pii import PiiGuard
from policies.guardrails.types import Guard, Material, Subject
from policies.intervals import wilson
from training.guards import figures, plans
from training.linear import out_of_fold

Rows = list[dict[str, Any]]
Figures = dict[str, Any]

_NEEDED = (
    "safety/detect_secrets_cases.jsonl",
    "safety/openai_moderation.jsonl.gz",
    "safety/presidio_pii.jsonl.gz",
    "safety/prompt_injection.jsonl",
    "safety/xstest_prompts.jsonl",
    "safety/xstest_refusals.jsonl.gz",
    "semantic/time_sensitivity.jsonl",
)
_KINDS = {
    "CREDIT_CARD": "card",
    "EMAIL_ADDRESS": "email",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip",
    "PHONE_NUMBER": "phone",
    "US_DRIVER_LICENSE": "licence",
    "US_SSN": "us_ssn",
}
"""Structured kinds of the set, and what the guard calls them."""
_LOOSE_KINDS = {"PERSON": "person", "STREET_ADDRESS": "address"}
_EVERYDAY = {
    "semantic/clinc150_clusters.jsonl.gz": "text",
    "semantic/banking77_clusters.jsonl.gz": "text",
    "prompts/mt_bench.jsonl": "turns",
}


def asked(text: str) -> Subject:
    """A text as a user's only turn."""
    return Subject(question=text, turn_texts=(text,))


def answered(question: str, answer: str) -> Subject:
    """A question with its answer."""
    return Subject(question=question, turn_texts=(question,), answer_texts=(answer,), content_texts=(answer,))


def share(hits: int, rows: int) -> Figures:
    """A share with its 95 % Wilson interval."""
    interval = wilson(hits / max(1, rows), rows)
    ends = {"low": round(interval.low, 4), "high": round(interval.high, 4)}
    return {"share": round(hits / max(1, rows), 4), "hits": hits, "rows": rows, **ends}


def judged(guard: "Guard | _Either", subjects: Sequence[Subject], alarm: Sequence[bool]) -> Figures:
    """Recall, false alarms, F1 and time of one guard over labelled subjects."""
    begun = time.process_time()
    said = [guard.check(subject) is not None for subject in subjects]
    took_ms = 1000 * (time.process_time() - begun) / max(1, len(subjects))
    hits = sum(one and other for one, other in zip(said, alarm, strict=True))
    quiet = [one for one, other in zip(said, alarm, strict=True) if not other]
    return {
        "recall": share(hits, sum(alarm)),
        "false_alarms": share(sum(quiet), len(quiet)),
        "f1": round(2 * hits / max(1, sum(said) + sum(alarm)), 4),
        "ms_per_check": round(took_ms, 3),
    }


def pii_figures(rows: Rows) -> Figures:
    """Text-level recall per kind, and alarms on rows without any personal data."""
    guard = PiiGuard(Material("private"))
    begun = time.process_time()
    found = [set(guard.kinds(row["text"])) for row in rows]
    took_ms = 1000 * (time.process_time() - begun) / len(rows)
    types = [{span["type"] for span in row["spans"]} for row in rows]
    kinds = {}
    for name, kind in (_KINDS | _LOOSE_KINDS).items():
        having = [seen for seen, there in zip(found, types, strict=True) if name in there]
        if having:
            kinds[name] = share(sum(kind in seen for seen in having), len(having))
    structured = [seen for seen, there in zip(found, types, strict=True) if there & _KINDS.keys()]
    clean = [seen for seen, there in zip(found, types, strict=True) if not there]
    return {
        "rows": len(rows),
        "structured_recall": share(sum(map(bool, structured)), len(structured)),
        "false_alarms": share(sum(map(bool, clean)), len(clean)),
        "kinds": kinds,
        "ms_per_check": round(took_ms, 3),
    }


def refusal_figures(guard: Guard, rows: Rows) -> Figures:
    """How much of each label would be written."""
    kept: dict[str, list[bool]] = {}
    begun = time.process_time()
    for row in rows:
        kept.setdefault(row["label"], []).append(guard.check(answered(row["prompt"], row["response"])) is None)
    took_ms = 1000 * (time.process_time() - begun) / len(rows)
    bad = kept.get("refusal", []) + kept.get("partial_refusal", [])
    return {
        "rows": len(rows),
        "refusals_written": share(sum(bad), len(bad)),
        "written": {label: share(sum(each), len(each)) for label, each in sorted(kept.items())},
        "ms_per_check": round(took_ms, 3),
    }


def safety_sets(guards: dict[str, Guard], data: Path) -> Figures:
    """Every labelled set through the guard that it tests."""

    def read(name: str) -> Rows:
        return read_rows(data / name)

    secrets = read("safety/detect_secrets_cases.jsonl")
    moderated, injected = read("safety/openai_moderation.jsonl.gz"), read("safety/prompt_injection.jsonl")
    timed, prompts = read("semantic/time_sensitivity.jsonl"), read("safety/xstest_prompts.jsonl")
    is_secret = [row["is_secret"] for row in secrets]
    return {
        "presidio_pii": pii_figures(read("safety/presidio_pii.jsonl.gz")),
        "detect_secrets_cases": {
            **judged(guards["secrets"], _asked(secrets), is_secret),
            "pii_too": judged(_Either(guards["secrets"], guards["pii"]), _asked(secrets), is_secret),
        },
        "xstest_refusals": refusal_figures(guards["refusal"], read("safety/xstest_refusals.jsonl.gz")),
        "time_sensitivity": judged(guards["time_bound"], _asked(timed), [row["time_sensitive"] for row in timed]),
        "openai_moderation": judged(guards["toxicity"], _asked(moderated), [row["flagged"] for row in moderated]),
        "prompt_injection": judged(
            guards["injection"], _asked(injected), [row["label"] == "malicious" for row in injected]
        ),
        "xstest_prompts": {
            name: judged(guards[name], _asked(prompts), [row["label"] == "unsafe" for row in prompts])
            for name in ("toxicity", "injection")
        },
    }


def everyday_alarms(guards: dict[str, Guard], data: Path) -> Figures:
    """How often each guard speaks on ordinary questions; some of them are personal or bound to a time."""
    alarms: Figures = {}
    for name, field in _EVERYDAY.items():
        if not (data / name).is_file():
            continue
        texts = [row[field] if isinstance(row[field], str) else row[field][0] for row in read_rows(data / name)]
        subjects = [asked(text) for text in texts]
        alarms[name] = {
            guard.name: share(sum(guard.check(subject) is not None for subject in subjects), len(subjects))
            for guard in guards.values()
        }
    return alarms


def cross_validated(data: Path) -> Figures:
    """Each model on rows of groups that it did not see, at the threshold that it ships with."""
    torch.set_num_threads(1)
    found: Figures = {}
    for name, plan in plans().items():
        rows = plan.rows(data)
        scores = out_of_fold(plan.recipe, rows)
        public, alarm = np.array([row.judged for row in rows]), np.array([row.alarm for row in rows])
        heeded = public | plan.heeds_written
        threshold = plan.threshold(scores[heeded], alarm[heeded])
        found[name] = figures(scores[public], alarm[public], threshold)
    return found


class _Either:
    """Two guards as one."""

    def __init__(self, *guards: Guard) -> None:
        self._checks: list[Callable[[Subject], object]] = [guard.check for guard in guards]

    def check(self, subject: Subject) -> object:
        return next((verdict for check in self._checks if (verdict := check(subject)) is not None), None)


def _asked(rows: Iterable[dict[str, Any]]) -> list[Subject]:
    return [asked(row["text"]) for row in rows]


def main() -> None:
    """Prints the figures, as JSON or one set a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cross-validate", action="store_true", help="train anew per fold: minutes")
    options = parser.parse_args()
    require(parser, options.data, _NEEDED)
    guards = {guard.name: guard for guard, _ in load_guards(GuardSettings())}
    report: Figures = {
        "sets": safety_sets(guards, options.data),
        "everyday": everyday_alarms(guards, options.data),
    }
    if options.cross_validate:
        report["cross_validated"] = cross_validated(options.data)
    if options.json:
        print(json.dumps(report, indent=1))
        return
    for part, sets in report.items():
        for name, said in sets.items():
            print(part, name, json.dumps(said))


if __name__ == "__main__":
    main()
