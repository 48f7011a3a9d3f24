"""Registrations: what is said of a version is kept as digests, but for texts with gaps."""

import pytest

from policies.dependencies import DependencyRefused, Ref
from policies.fingerprints import text_print, tool_print
from policies.registrations import MOST_TOOLS, Registered, version_of

GAPS = "You help the customers of {{company}} with their orders."
TOOL = {"name": "weather", "parameters": {}}


def test_what_is_said_is_kept_as_digests() -> None:
    said = Registered("help", "3", "prompt", ("kb", "kb", "p@1"), ("Be kind.", GAPS), (TOOL,), ("m", "m"), "x")
    made = version_of(said)
    assert made.ref == Ref("help", "3")
    assert made.depends_on == (Ref("kb"), Ref("p", "1"))
    assert set(made.prints) == {text_print("Be kind.").hex(), tool_print(TOOL).hex()}
    assert made.templates == (("You help the customers of ", " with their orders."),)
    assert (made.models, made.content) == (("m",), "x")


@pytest.mark.parametrize(
    "said",
    [
        Registered("a b", "1", "prompt"),
        Registered("a", "", "prompt"),
        Registered("a", "1@2", "prompt"),
        Registered("a", "1", "prompt", ("b@",)),
        Registered("a", "1", "prompt", (), ("",)),
        Registered("a", "1", "prompt", (), ("Hi {{name}}",)),
        Registered("a", "1", "prompt", (), ("x" * 262_145,)),
        Registered("a", "1", "tools", (), (), (TOOL,) * (MOST_TOOLS + 1)),
    ],
    ids=lambda said: f"{said.name}@{said.version}",
)
def test_odd_ones_are_refused(said: Registered) -> None:
    with pytest.raises(DependencyRefused) as refused:
        version_of(said)
    assert refused.value.reason == "invalid"
