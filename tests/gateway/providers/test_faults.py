import inspect

import aiohttp
import pytest
from aiohttp import client_exceptions, http_exceptions

from gateway.providers.faults import FAULTS, FOREIGN, from_foreign

_WEB_SOCKETS = {aiohttp.WSServerHandshakeError, aiohttp.WSMessageTypeError}
"""Nothing here opens one."""

_UPLOADS = {aiohttp.UploadAbortedError}
"""Only raised for uploads that are tracked; none is."""


def _exceptions(module: object) -> set[type]:
    found = {value for _, value in inspect.getmembers(module, inspect.isclass) if issubclass(value, BaseException)}
    return {value for value in found if value.__module__.startswith("aiohttp")}


@pytest.mark.parametrize(
    "kind", sorted(_exceptions(client_exceptions) - _WEB_SOCKETS - _UPLOADS, key=lambda kind: kind.__name__)
)
def test_every_exception_of_the_client_has_its_line(kind: type) -> None:
    assert kind in FAULTS


@pytest.mark.parametrize("kind", sorted(_exceptions(http_exceptions), key=lambda kind: kind.__name__))
def test_every_exception_of_its_parser_is_covered(kind: type) -> None:
    assert issubclass(kind, FOREIGN)


@pytest.mark.parametrize("error", [TimeoutError(), OSError(), ConnectionRefusedError(), ConnectionResetError()])
def test_errors_of_the_system_are_mapped(error: Exception) -> None:
    assert from_foreign(error).status in {502, 504}


def test_the_text_of_a_foreign_error_stays_behind() -> None:
    mapped = from_foreign(aiohttp.ClientPayloadError("http://10.0.0.7/ Bearer sk-1"))
    assert "sk-1" not in f"{mapped} {mapped.body} {mapped.__notes__}"
    assert mapped.__notes__ == ["ClientPayloadError"]
