"""What is erased, and what a store has to do for it."""

from dataclasses import dataclass, field
from typing import Protocol

from gateway.layers.entry import Entry
from policies.erasure import StoreProof
from policies.purge_scopes import person


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose data goes.

    Attributes:
        user: the end user's id; empty for the whole tenant.
        shredded: whether the tenant's data keys are destroyed, so that nothing encrypted before can be kept.
    """

    tenant_id: str
    user: str = field(default="", repr=False)
    shredded: bool = False

    @property
    def person(self) -> str:
        """The user's digest, as entries know it, hexadecimal; empty for a tenant."""
        return person("user", self.user).hex() if self.user else ""

    @property
    def everything(self) -> bool:
        """Whether all that the tenant has stored goes."""
        return not self.user or self.shredded

    def takes(self, entry: Entry) -> bool:
        """Whether an entry goes; one from before users were recorded may be theirs."""
        if self.everything or (not entry.route and not entry.whose):
            return True
        return bytes.fromhex(self.person) in entry.made().whose


class Store(Protocol):
    """One place where something of somebody may be. Shown by tests/gateway/test_erasure_set.py."""

    name: str

    async def erase(self, scope: Scope) -> StoreProof:
        """Removes what goes, then looks again; may be done again, and says what is left.

        Raises:
            LaminaError: the store does not answer; what was removed stays removed.
        """
        ...
