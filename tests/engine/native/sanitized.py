"""Run as a program: `... LIBRARY FOLDER...`. Steps each model with a library built with sanitizers."""

import sys
from pathlib import Path

import torch

from engine.native.library import Library
from engine.work import Plan
from tests.engine.native.stepping import Options, Text, logits_at, native_runner, work_of

IDS = [int(one) for one in torch.randint(0, 260, (200,), generator=torch.Generator().manual_seed(5))]


def main() -> None:
    """Cut a text in many ways and decode several at once; the sanitizers end the process at the first fault."""
    library = Library(Path(sys.argv[1]))
    for folder in map(Path, sys.argv[2:]):
        for kv_dtype in ("fp32", "fp16", "bf16", "int8"):
            runner = native_runner(library, folder, Options(kv_dtype=kv_dtype, threads=2))
            found = logits_at(runner, Text(IDS), [1, 2, 64, 65, 130, 199, 200])
            whole = logits_at(runner, Text(IDS, order=1), [200])
            assert torch.equal(found[200], whole[200])
            rows = tuple(work_of(Text(IDS[: 65 + n], order=2), runner, 64 + n, 65 + n) for n in range(10))
            runner.run(Plan(rows))
            runner.close()
    sys.stdout.write("clean\n")


if __name__ == "__main__":
    main()
