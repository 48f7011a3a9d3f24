"""A request log drawn with a seed: topics asked in several wordings, and traps that differ in one number."""

import json
import random
from pathlib import Path
from typing import Any

_TOPICS = (
    ("How do I {} my {}?", ("reset", "export", "print", "delete"), ("password", "calendar", "invoice", "profile")),
    ("What does the {} plan {}?", ("basic", "team", "yearly", "student"), ("cost", "include", "exclude")),
)
_OPENINGS = ("", "Hello, ", "Please tell me: ", "Quick question. ")
_SECONDS_BETWEEN = 7.0


def questions() -> list[tuple[str, str]]:
    """(cluster, question) of everything that is ever asked."""
    found = []
    for frame, first, second in _TOPICS:
        for one in first:
            for other in second:
                asked = frame.format(one, other)
                found += [(f"{one}-{other}", f"{opening}{asked}") for opening in _OPENINGS]
    for size in range(2, 12):
        found.append((f"size-{size}", f"How much is a box of {size} candles?"))
    return found


def lines(count: int, seed: int = 7, *, labelled: bool = True) -> list[dict[str, Any]]:
    """So many lines, in order, of two tenants; popular questions come often."""
    draw = random.Random(seed)
    pool = questions()
    draw.shuffle(pool)
    weights = [1 / (rank + 3) for rank in range(len(pool))]
    made = []
    for number in range(count):
        cluster, prompt = draw.choices(pool, weights)[0]
        line: dict[str, Any] = {
            "t": number * _SECONDS_BETWEEN,
            "tenant": draw.choice(("north", "south")),
            "prompt": prompt,
            "answer": f"This is what there is to say of {cluster}.",
            "prompt_tokens": 20,
            "completion_tokens": 60,
            "latency_ms": 900,
        }
        made.append(line | ({"cluster": cluster} if labelled else {}))
    return made


def write(path: Path, made: list[dict[str, Any]]) -> Path:
    """The lines as a file."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in made), "utf-8")
    return path
