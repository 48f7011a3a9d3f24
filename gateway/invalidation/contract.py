"""What the command line and the admin surface need of the announcer."""

from typing import Protocol


class Announcer(Protocol):
    """Tells every worker that a tenant's keys or purges changed."""

    async def announce(self, tenant_id: str, auth_seq: int, purge_seq: int) -> None:
        """Raises the tenant's sequences in Redis to at least these; they never go down.

        When it returns, the next request on every worker sees the change.

        Raises:
            StoreUnavailable: Redis did not confirm; workers still learn of it by their own poll of the database.
        """
        ...
