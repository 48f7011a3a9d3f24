"""What every room's tests may use: real servers, and the same random numbers in each run."""

import sys
from collections.abc import Iterator

import hypothesis
import pytest

from tests.servers.postgres import PostgresServer, running_postgres
from tests.servers.redis import RedisServer
from tests.servers.tls import Papers

hypothesis.settings.register_profile(
    "ci", derandomize=True, deadline=5000, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--screenshots DIR` keeps pictures of the dashboard's pages."""
    parser.addoption("--screenshots", metavar="DIR", default=None, help="Where browser tests put pictures.")


def pytest_report_header() -> str:
    """Says which random numbers a run used."""
    return "hypothesis: profile ci, derandomized (seed = the test itself), deadline 5 s"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Torch computes with one thread: on matrices this small, and with processes beside it, others only spin.

    Before each test, since an engine that one of them opens sets the threads of its process.
    """
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def _shared_redis() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """Certificates made for this run."""
    return Papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture
def redis_server(_shared_redis: RedisServer) -> RedisServer:
    """A real Redis, running and empty; a test may freeze, kill or restart it."""
    _shared_redis.make_clean()
    return _shared_redis


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL; a test that kills or freezes it brings it back."""
    with running_postgres() as server:
        yield server
