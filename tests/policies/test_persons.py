"""For whom an entry was made: every name that the request gives, whatever the scope."""

import pytest

from policies.controls import read_controls
from policies.keys import Scope
from policies.persons import made_for
from policies.purge_scopes import person
from policies.types import Json

U, S = person("user", "u"), person("session", "s")


@pytest.mark.parametrize(
    ("headers", "body", "whose"),
    [
        ({}, {}, ()),
        ({"x-lamina-user": "u"}, {}, (U,)),
        ({"x-lamina-session": "s"}, {}, (S,)),
        ({"x-lamina-user": "u", "x-lamina-cache-scope": "user"}, {}, (U,)),
        ({"x-lamina-session": "s", "x-lamina-user": "u"}, {"user": "v"}, (S, U, person("user", "v"))),
        ({}, {"user": "u"}, (U,)),
        ({}, {"safety_identifier": "u", "user": "u"}, (U,)),
        ({}, {"session_id": "s"}, (S,)),
        ({"x-lamina-cache-scope": "user"}, {"safety_identifier": "u"}, (U,)),
        ({}, {"user": None, "safety_identifier": 7, "session_id": ""}, ()),
    ],
)
def test_every_name_given_is_kept(headers: dict[str, str], body: Json, whose: tuple[bytes, ...]) -> None:
    controls = read_controls([(name.encode(), value.encode()) for name, value in headers.items()], body)
    assert made_for(controls, body) == whose


def test_a_user_and_a_session_of_one_name_are_two() -> None:
    assert person("user", "a") != person("session", "a")
    assert controls_scope().kind == "session"


def controls_scope() -> Scope:
    headers = [(b"x-lamina-session", b"s"), (b"x-lamina-cache-scope", b"session")]
    return read_controls(headers, {}).scope
