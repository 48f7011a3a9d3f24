"""Deficit round robin between tenants (Shreedhar and Varghese, 1995), paid after use.

A tenant whose balance is positive may use the engine and pays for each token that is computed for it. When no
tenant that wants a turn has any balance left, all of them are given the same number of quanta. So two tenants that
both want more than there is get equal numbers of computed tokens, whatever the number of their requests; a tenant
alone gets everything; and neither thrift nor waste is remembered beyond a bound.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet


class FairShare:
    """Balances of tenants, in tokens.

    Args:
        quantum: tokens given per round; the grain of the rotation.
        max_debt: a balance never falls below minus this, so that what a tenant used while nobody else wanted it is
            not held against it for long.
    """

    def __init__(self, quantum: int, max_debt: int) -> None:
        self._quantum = quantum
        self._max_debt = max_debt
        self._balances: dict[str, int] = {}

    def turn(self, wanting: Collection[str]) -> str:
        """Choose which of the tenants that want something is next.

        Side effects: may give all of them quanta. The same tenant stays next until it has paid its balance away.

        Args:
            wanting: at least one tenant.
        """
        balances = self._balances
        for tenant in wanting:
            balances.setdefault(tenant, 0)
        best = max(balances[tenant] for tenant in wanting)
        if best <= 0:
            given = (1 - best + self._quantum - 1) // self._quantum * self._quantum
            for tenant in wanting:
                balances[tenant] += given
        return next(tenant for tenant, balance in balances.items() if balance > 0 and tenant in wanting)

    def charge(self, tenant: str, tokens: int) -> None:
        """Take tokens off a balance; a tenant without any left goes to the end of the round."""
        balances = self._balances
        balance = max(balances.get(tenant, 0) - tokens, -self._max_debt)
        if balance <= 0:
            balances.pop(tenant, None)
        balances[tenant] = balance

    def forget(self, active: AbstractSet[str]) -> None:
        """Drop every tenant that is not active: who comes back starts at nothing, neither credit nor debt."""
        if not self._balances.keys() <= active:
            self._balances = {tenant: left for tenant, left in self._balances.items() if tenant in active}
