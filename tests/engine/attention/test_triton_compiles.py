"""Every kernel becomes machine code for the GPUs it is meant for, without a GPU, and fits its registers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed")

ROOT = Path(__file__).resolve().parents[3]
TRICKLE_BYTES = 32
"""Of registers spilled; more would mean that a tile is too large for the device."""

SHARED_BYTES = {80: 163 << 10, 90: 227 << 10}
"""Most shared memory a block may have, by compute capability."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("capability", "kinds"), [(80, ["int8"]), (90, ["bf16", "fp8"])])
def test_kernels_compile_and_fit_their_registers(capability: int, kinds: list[str]) -> None:
    script = Path(__file__).with_name("compile_kernels.py")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(capability), "gqa128", *kinds],
        env=environment | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {one["kernel"] for one in found} == {
        "_store",
        "_decode",
        "_combine",
        "_prefill",
        "_copy",
        "_add_norm",
        "_turn",
        "_gate",
    }
    for one in found:
        assert one["spilled_bytes"] <= TRICKLE_BYTES, one
        assert one["shared_bytes"] <= SHARED_BYTES[capability], one
