"""A small run of the kills: every request is answered, and the index holds the rows afterwards."""

import json

import pytest

from bench.semantic_kills import main


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_request_is_answered_while_the_service_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kills", "4", "--seed", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kills"] == 4
    assert told["kills_while_it_served"] > 0
    assert told["index_equals_rows"]
    assert told["rows"] > 0
    assert set(told["statuses"]) == {"200"}
