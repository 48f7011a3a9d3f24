"""Drives wrk (a C load generator, in most distributions as the package `wrk`) and reads its figures."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %(key)s"
local body = %(body)s
local n = 0
local seed = tostring(os.time()) .. tostring(math.random(1, 1000000000))
if %(unique)s then
  request = function()
    n = n + 1
    return wrk.format(nil, nil, nil, (body:gsub("UNIQUE", seed .. "-" .. n)))
  end
else
  wrk.body = body
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT {\\"requests\\":%%d," ..
    "\\"us\\":%%d,\\"p50_us\\":%%.1f,\\"p99_us\\":%%.1f,\\"bad\\":%%d}\\n",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of request.

    Attributes:
        body: JSON text; `UNIQUE` in it becomes a new text each time when `unique`.
    """

    url: str
    key: str
    body: str
    unique: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians over rounds, with the spread of the rate."""

    rps: float
    rps_min: float
    rps_max: float
    p50_ms: float
    p99_ms: float
    bad: int

    @classmethod
    def of(cls, rounds: list[dict[str, float]]) -> "Figures":
        """Folds rounds."""
        rates = [r["requests"] / r["us"] * 1e6 for r in rounds]
        return cls(
            rps=round(median(rates), 1),
            rps_min=round(min(rates), 1),
            rps_max=round(max(rates), 1),
            p50_ms=round(median(r["p50_us"] for r in rounds) / 1000, 3),
            p99_ms=round(median(r["p99_us"] for r in rounds) / 1000, 3),
            bad=int(sum(r["bad"] for r in rounds)),
        )


def find_wrk() -> str:
    """Where wrk is; ends the program with advice when it is nowhere."""
    found = shutil.which("wrk")
    if found is None:
        raise SystemExit("wrk is not installed: on Debian or Ubuntu, `apt-get install wrk`, then run this again")
    return found


def drive(load: Load, connections: int, seconds: float, core: int, folder: Path) -> dict[str, float]:
    """One run of wrk on one core."""
    script = folder / "load.lua"
    values = {"key": load.key, "body": json.dumps(load.body), "unique": "true" if load.unique else "false"}
    script.write_text(_SCRIPT % values)
    command = [
        "taskset",
        "-c",
        str(core),
        find_wrk(),
        "-t1",
        f"-c{connections}",
        f"-d{max(1, round(seconds))}s",
        "--timeout",
        "10s",
    ]
    done = subprocess.run(
        [*command, "-s", str(script), load.url], capture_output=True, text=True, check=True, timeout=seconds + 30
    )
    match = re.search(r"RESULT (.*)", done.stdout)
    if match is None:
        raise SystemExit(f"wrk said nothing to read:\n{done.stdout}\n{done.stderr}")
    figures: dict[str, float] = json.loads(match[1])
    return figures
