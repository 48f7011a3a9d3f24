"""For whom a request asks: digests of the users and sessions it names, whatever the scope of its entry."""

from policies.controls import Controls
from policies.purge_scopes import person
from policies.types import Json

_OF_BODY = (("user", "user"), ("user", "safety_identifier"), ("session", "session_id"))


def made_for(controls: Controls, body: Json) -> tuple[bytes, ...]:
    """What an entry keeps, so that a purge of a user or a session finds it.

    Args:
        controls: the headers' `x-lamina-user` and `x-lamina-session`, and the entry's scope.
        body: its `user`, `safety_identifier` and `session_id`; what Anthropic's protocol calls
            `metadata.user_id` is `user` here.
    """
    found = [person(kind, id_) for kind, id_ in (*controls.ids, (controls.scope.kind, controls.scope.id)) if id_]
    for kind, name in _OF_BODY:
        id_ = body.get(name)
        if isinstance(id_, str) and id_:
            found.append(person(kind, id_))
    return tuple(dict.fromkeys(found))
