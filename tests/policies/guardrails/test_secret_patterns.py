"""The shapes in secrets.json are those of the pinned library."""

from gateway.guards import DATA
from training.secret_patterns import content


def test_the_file_is_what_the_library_gives() -> None:
    assert (DATA / "secrets.json").read_bytes() == content(), "run: python -m training.secret_patterns"
