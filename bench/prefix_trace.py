"""How often a prompt's blocks are found, on a recorded trace, by the engine's own KV cache.

`python -m bench.prefix_trace FILE --blocks N|unlimited --policy lru|hit-density --json`

A trace is one JSON object a line, plain or gzip, with `hash_ids` (one id per 512-token block of the prompt; equal
ids behind equal prefixes are the same tokens) and `timestamp` (ms). Every id becomes 512 token ids of its own, so
digests, token comparison, trees, pool and retention are the engine's. Requests run one after the other, each holds
its whole prompt, and nothing is generated. `block_hit_rate` is blocks found over blocks asked for.
"""

import argparse
import gzip
import itertools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.kv.contract import KvGroup
from engine.kv.digests import ModelIdentity
from engine.kv.kv_cache import KvCache, KvUsage
from engine.kv.retention import RETENTION
from engine.kv.wishes import CacheWishes, PrefixOutcome, Retention

TRACE_BLOCK_TOKENS = 512
BAR_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Request:
    """One line of a trace.

    Attributes:
        at_s: seconds from the trace's start.
        blocks: an id per block of the prompt.
    """

    at_s: float
    blocks: tuple[int, ...]


@dataclass(slots=True)
class Prompt:
    """A request as the KV cache sees it; keeps `engine.kv.contract.Holder`."""

    seq_id: int
    prompt_ids: tuple[int, ...]
    output_ids: list[int] = field(default_factory=list)
    cache: CacheWishes = field(default_factory=CacheWishes)
    priority: int = 0
    num_computed: int = 0
    write_from: int = 0
    tables: list[list[int]] = field(default_factory=list)
    prefix: PrefixOutcome | None = None
    hit_unit: int = 1
    cache_upto: int = sys.maxsize


def read_trace(file: Path) -> list[Request]:
    """Read a trace, in its order.

    Raises:
        ValueError: a line lacks `hash_ids` or is no JSON.
    """
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    requests = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
            requests.append(Request(row.get("timestamp", 0) / 1000, tuple(map(int, row["hash_ids"]))))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file}, line {number}: not a request with hash_ids ({error})") from error
    return requests


def tokens_of(blocks: Sequence[int]) -> tuple[int, ...]:
    """Write out a prompt: block id b is tokens 512 b to 512 b + 511, so different blocks share no token."""
    spans = (range(block * TRACE_BLOCK_TOKENS, (block + 1) * TRACE_BLOCK_TOKENS) for block in blocks)
    return tuple(itertools.chain.from_iterable(spans))


class Stopwatch:
    """Adds up seconds by name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._since = time.perf_counter()

    def lap(self, name: str) -> None:
        """Give the time since the last lap to a name."""
        now = time.perf_counter()
        self.seconds[name] += now - self._since
        self._since = now


@dataclass(slots=True)
class Replay:
    """What a replay found.

    Attributes:
        requests, blocks, tokens: asked for.
        hits: blocks found.
        hits_by_half: found and asked for in the first and the second half of the requests.
        refused: requests longer than the pool.
        watch: seconds by part.
    """

    requests: int = 0
    blocks: int = 0
    tokens: int = 0
    hits: int = 0
    hits_by_half: list[list[int]] = field(default_factory=lambda: [[0, 0], [0, 0]])
    refused: int = 0
    watch: Stopwatch = field(default_factory=Stopwatch)

    def count(self, half: int, asked: int, found: int) -> None:
        """Add one request."""
        self.requests += 1
        self.blocks += asked
        self.hits += found
        self.hits_by_half[half][0] += found
        self.hits_by_half[half][1] += asked


def replay(requests: Sequence[Request], kv: KvCache) -> Replay:
    """Run a trace through a cache, one request at a time.

    Side effects: fills the cache; shows a bar on a terminal.
    """
    found, size = Replay(), kv.block_size
    for number, request in enumerate(_with_bar(requests)):
        found.watch.lap("other")
        prompt = Prompt(number, tokens_of(request.blocks))
        num_tokens = len(prompt.prompt_ids)
        found.watch.lap("write out")
        kv.peek(prompt)
        found.watch.lap("hash and look up")
        admitted = kv.admit(prompt, num_tokens, request.at_s)
        found.watch.lap("admit")
        found.tokens += num_tokens
        found.refused += not admitted
        hit_tokens = prompt.prefix.hit_tokens if prompt.prefix is not None else 0
        found.count(int(number >= len(requests) // 2), num_tokens // size, -(-hit_tokens // size))
        if admitted:
            prompt.num_computed = num_tokens
            kv.computed(prompt, request.at_s)
            found.watch.lap("publish")
        kv.release(prompt, request.at_s)
        found.watch.lap("release")
    return found


def build_cache(blocks: int, policy: str, block_size: int) -> KvCache:
    """Make an empty cache of that many blocks."""
    root = ModelIdentity("trace", "trace", "trace", "trace", kv_dtype="none").root()
    return KvCache((KvGroup((0,)),), (blocks,), block_size, root, retention=Retention(policy=policy))


def report(found: Replay, usage: KvUsage, options: argparse.Namespace) -> dict[str, object]:
    """Return the figures as JSON values; times in seconds, or nanoseconds per prompt token."""
    seconds, tokens = found.watch.seconds, max(1, found.tokens)
    total = sum(seconds.values())
    cache = sum(seconds[part] for part in ("hash and look up", "admit", "publish", "release"))
    return {
        "block_hit_rate": round(found.hits / max(1, found.blocks), 6),
        "block_hit_rate_by_half": [round(hits / max(1, asked), 6) for hits, asked in found.hits_by_half],
        "trace": options.file.name,
        "policy": options.policy,
        "capacity_blocks": options.blocks or "unlimited",
        "block_size": options.block_size,
        "requests": found.requests,
        "requests_refused": found.refused,
        "blocks": found.blocks,
        "blocks_hit": found.hits,
        "tokens": found.tokens,
        "evictions": usage.evictions,
        "misses": usage.misses,
        "hash_and_lookup_ns_per_token": round(seconds["hash and look up"] / tokens * 1e9, 1),
        "cache_ns_per_token": round(cache / tokens * 1e9, 1),
        "seconds": round(total, 3),
        "seconds_by_part": {part: round(spent, 3) for part, spent in seconds.items()},
        "fraction_in_cache": round(cache / total, 3) if total else 0.0,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Replay a trace and print what was found."""
    options = _parser().parse_args(arguments)
    if TRACE_BLOCK_TOKENS % options.block_size:
        raise SystemExit(f"--block-size must divide {TRACE_BLOCK_TOKENS}")
    try:
        requests = read_trace(options.file)[: options.requests]
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error
    per_trace_block = TRACE_BLOCK_TOKENS // options.block_size
    blocks = options.blocks or 1 + len({block for request in requests for block in request.blocks})
    kv = build_cache(blocks * per_trace_block, options.policy, options.block_size)
    figures = report(replay(requests, kv), kv.usage(), options)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        print("\n".join(f"{name:30} {value}" for name, value in figures.items()))


def _with_bar(requests: Sequence[Request]) -> Iterator[Request]:
    shown = sys.stderr.isatty()
    step = max(1, len(requests) // 200)
    for number, request in enumerate(requests):
        if shown and number % step == 0:
            done = BAR_WIDTH * number // len(requests)
            sys.stderr.write(f"\r{'#' * done:.<{BAR_WIDTH}} {number}/{len(requests)} requests")
            sys.stderr.flush()
        yield request
    if shown:
        sys.stderr.write("\r\033[K")


def _blocks(text: str) -> int | None:
    if text == "unlimited":
        return None
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be a positive number of blocks, or unlimited")
    return count


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="the trace, .jsonl or .jsonl.gz")
    parser.add_argument("--blocks", type=_blocks, default=None, help="512-token blocks, or unlimited (default)")
    parser.add_argument("--policy", choices=sorted(RETENTION), default="lru")
    parser.add_argument("--block-size", type=int, default=TRACE_BLOCK_TOKENS, help="tokens in a block of the pool")
    parser.add_argument("--requests", type=int, default=None, help="stop after so many")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    main()
