"""What the command line and the admin surface need of the announcer."""

from typing import Protocol


class Announcer(Protocol):
    """Tells every worker that a tenant's keys or purges changed."""

    async def announce(self, tenant_id: str, auth_seq: int, purge_seq: int) -> tuple[int, int]:
        """Raises the tenant's sequences in Redis to at least these; they never go down.

        When it returns these very sequences, the next request on every worker sees the change.

        Returns:
            What Redis holds now: higher where somebody else announced later changes; `tell` judges that.

        Raises:
            StoreUnavailable: Redis did not confirm; workers still learn of it by their own poll of the database.
        """
        ...
