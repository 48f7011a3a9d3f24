"""What the administrator's routes take and tell, in its common parts."""

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.errors import ApiError

Item = TypeVar("Item")
Row = TypeVar("Row")
_MAX_DIGITS = 18

Text = Annotated[str, StringConstraints(max_length=512)]
"""Free text, as both databases can hold it."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=80)]
"""A name or an id of something."""


class Body(BaseModel):
    """What a request may say: nothing unknown, no value of another kind, and an example in the document."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class Said(BaseModel):
    """What an answer says."""

    model_config = ConfigDict(frozen=True, from_attributes=True, hide_input_in_errors=True)


class Page(Said, Generic[Item]):
    """Some of a list.

    Attributes:
        items: in the list's order.
        next: to be sent as `after` for those that follow; None at the end.
    """

    items: list[Item]
    next: str | None = Field(default=None, examples=[None])


def cursor_number(after: str | None) -> int | None:
    """The number that names a row, where `paged` was given numbers.

    Raises:
        ApiError: 400: it is none.
    """
    if after is None:
        return None
    if not (after.isascii() and after.isdigit() and len(after) <= _MAX_DIGITS):
        raise ApiError(400, "`after` is the `next` of the page before.", code="invalid_request", param="after")
    return int(after)


def paged(
    rows: Sequence[Row], limit: int, cursor: Callable[[Row], str], shown: Callable[[Row], Item]
) -> Page[Item]:
    """A page of at most `limit`, made of one row more than that where there are more.

    Args:
        rows: in the list's order.
        limit: of the page.
        cursor: names a row, so that those after it can be asked for.
        shown: what is told of a row.
    """
    now = rows[:limit]
    return Page(items=[shown(row) for row in now], next=cursor(now[-1]) if len(rows) > limit else None)
