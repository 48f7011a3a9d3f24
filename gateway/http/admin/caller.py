"""Who asks for something of the administrator's, and what they may."""

from dataclasses import dataclass
from typing import Literal, get_args

from gateway.errors import ApiError

Role = Literal["reader", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request that Access let in.

    Attributes:
        actor: as the audit names them: `admin`, or `token:` and a token's id.
        role: what they may do.
        tenants: ids of the tenants they may know of; None for every one.
    """

    actor: str
    role: Role
    tenants: frozenset[str] | None = None

    @property
    def everywhere(self) -> bool:
        """Whether no tenant is kept from them."""
        return self.tenants is None

    def may(self, tenant_id: str) -> bool:
        """Whether they may know of this tenant; to others it does not exist."""
        return self.tenants is None or tenant_id in self.tenants

    def require(self, role: Role, *, everywhere: bool = False) -> None:
        """Returns for callers with at least this role and, for `everywhere`, no bounds.

        Raises:
            ApiError: 403.
        """
        if ROLES.index(self.role) < ROLES.index(role):
            raise _refused(f"This takes the role {role}; yours is {self.role}.", "role_too_low")
        if everywhere and not self.everywhere:
            raise _refused("This concerns every tenant; your token is bound to some.", "token_is_bound")


def _refused(why: str, code: str) -> ApiError:
    return ApiError(403, why, code=code, kind="permission_error")
