"""One path of the machine next door, step by step: a crash brings back an old entry and the old sequence."""

from tests.gateway.invalidation.test_no_resurrection import NoResurrection


def test_an_entry_restored_by_a_crash_stays_purged() -> None:
    machine = NoResurrection()
    try:
        machine.both_workers_know_the_tenant()
        machine.poll(0)
        fill = machine.begin_fill(worker=0, key="k0", model="m0", tags=[])
        machine.finish_fill(fill=fill, worker=0)
        machine.look_up(worker=0, key="k0")
        machine.restore_an_old_snapshot(then_purge=True)
        machine.look_up(worker=0, key="k0")
    finally:
        machine.teardown()


def test_a_purge_while_redis_is_away_holds_when_it_comes_back() -> None:
    machine = NoResurrection()
    try:
        machine.both_workers_know_the_tenant()
        machine.poll(0)
        fill = machine.begin_fill(worker=0, key="k0", model="m0", tags=[])
        machine.finish_fill(fill=fill, worker=0)
        machine.look_up(worker=0, key="k0")
        machine.redis.command("SAVE")
        machine.crash_redis()
        machine.purge(("all", ""))
        machine.start_redis()
        machine.look_up(worker=0, key="k0")
    finally:
        machine.teardown()
