"""A test that fails is run once more, and the run says which ones needed it.

Real servers, browsers and disks share the machine with others, and stand still for seconds at times. What fails
twice fails; what passes only the second time is named at the end of the run, to be looked into.
"""

import gc
import sys
from collections.abc import Sequence

import pytest
from _pytest.runner import runtestprotocol

_NEEDED = "failed before"
_LAST = ("last_exc", "last_type", "last_value", "last_traceback")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Runs a test, twice at most."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        why = _reason(reports)
        _forget()
        item.user_properties.append((_NEEDED, why))
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names what passed only when it was run again, and why it had failed."""
    for report in terminalreporter.stats.get("passed", ()):
        for name, why in report.user_properties:
            if name == _NEEDED and report.when == "call":
                terminalreporter.write_line(f"RUN AGAIN {report.nodeid}: it had failed by {why}", yellow=True)


def _reason(reports: Sequence[pytest.TestReport]) -> str:
    failed = next(report for report in reports if report.failed)
    lines = str(failed.longreprtext).splitlines()
    told = [line[1:].strip() for line in lines if line.startswith("E ")]
    return f"{failed.when}: {(told or lines or ['?'])[0][:200]}"


def _forget() -> None:
    """Lets go of what the failure holds, so that it is not found open during the second run."""
    for name in _LAST:
        if hasattr(sys, name):
            delattr(sys, name)
    told, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = told
