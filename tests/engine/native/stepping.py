"""Drives a runner by hand: any cut of any tokens, over any blocks."""

from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import torch

from engine.attention.paged import PagedKV
from engine.loader import Checkpoint, open_checkpoint
from engine.models.read_decoder import read_decoder
from engine.native.library import Library
from engine.native.runner import NativeRunner, build_native_runner
from engine.runner import RunnerSpec
from engine.sequence import Sequence
from engine.work import Plan, Work
from tests.engine import tiny


class AnyRunner(Protocol):
    """Either runner."""

    kv: PagedKV

    def run(self, plan: Plan) -> torch.Tensor: ...


@dataclass
class Options:
    """How a runner is made."""

    kv_dtype: str = "fp32"
    threads: int = 2
    block_size: int = 4
    num_blocks: int = 256
    linear: str = "fp32"


@dataclass
class Text:
    """Tokens and the blocks they go to; those that have left a group's window are taken out as it goes on."""

    ids: Items[int]
    order: int = 0
    write_from: int = 0
    tables: list[list[int]] = field(default_factory=list)


def spec_of(checkpoint: Checkpoint, options: Options) -> RunnerSpec:
    blocks = (options.num_blocks,) * len(checkpoint.config.kv_groups)
    return RunnerSpec(options.linear, blocks, options.block_size, kv_dtype=options.kv_dtype)


def native_runner(library: Library, folder: Path, options: Options | None = None) -> NativeRunner:
    options = options or Options()
    checkpoint = open_checkpoint(folder)
    weights = read_decoder(checkpoint.config, checkpoint.weights)
    return build_native_runner(
        library, checkpoint.config, weights, spec_of(checkpoint, options), threads=options.threads
    )


def schedulable(runner: NativeRunner) -> Any:
    """The runner as `tiny.generate` wants one."""
    return SimpleNamespace(run=runner.run, kv=runner.kv, model=SimpleNamespace(config=runner.config))


def tables_for(runner: AnyRunner, order: int, count: int) -> list[list[int]]:
    """`count` blocks per group, scattered; texts of different `order` share none."""
    tables = []
    for pool in runner.kv.pools:
        blocks = pool.values.shape[1] // runner.kv.shape.block_size
        shuffled = torch.randperm(blocks, generator=torch.Generator().manual_seed(3)).tolist()
        tables.append(shuffled[order * count : (order + 1) * count])
    return tables


def work_of(text: Text, runner: AnyRunner, start: int, end: int) -> Work:
    """A piece of a text as the scheduler would plan it; its last token is sampled."""
    sequence: Sequence = tiny.new_sequence(text.order, tuple(text.ids[:end]))
    size = runner.kv.shape.block_size
    tables = text.tables or tables_for(runner, text.order, -(-len(text.ids) // size))
    for pool, table in zip(runner.kv.pools, tables, strict=True):
        window = pool.group.window
        gone = 0 if window is None else max(0, start + 1 - window) // size
        sequence.tables.append([-1] * gone + table[gone : -(-end // size)])
    return Work(sequence, start, end - start, max(start, text.write_from))


def logits_at(runner: AnyRunner, text: Text, cuts: Items[int]) -> dict[int, torch.Tensor]:
    """Run a text in pieces that end at `cuts`; the logits at each end."""
    found = {}
    for start, end in pairwise((0, *cuts)):
        found[end] = runner.run(Plan((work_of(text, runner, start, end),)))[0]
    return found
