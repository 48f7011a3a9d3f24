"""A small run of the chaos: every fault strikes, purges go on, and nothing that was purged is served."""

import pytest

from bench.purge_chaos.__main__ import run


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_nothing_purged_is_served_while_parts_are_killed() -> None:
    report = await run(requests=450, seed=3, clients=6)
    assert report["stale"] == 0, report
    assert report["requests"] >= 450
    assert len(report["faults"]) == 8
    assert report["purges"] >= 20
    assert report["faults"][-1]["after_purges"] > 0, "purges went on between the faults"
    assert report["answers"]["HIT"] > 0, "there was something to serve stale"
