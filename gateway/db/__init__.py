"""SQL: tenants, API keys, purge log, audit. With `migrations/`, the only room that knows SQLAlchemy."""

from gateway.db.audit import AuditRepository
from gateway.db.bootstrap import DEFAULT_TENANT, bootstrap
from gateway.db.credentials import key_digest
from gateway.db.database import Database
from gateway.db.errors import RecordError
from gateway.db.keys import KeyRepository
from gateway.db.purges import PurgeRepository
from gateway.db.records import (
    PURGE_KINDS,
    PURGE_MODES,
    AuditRow,
    KeyRecord,
    TOKEN_ROLES,
    NewRow,
    PurgeKind,
    PurgeMode,
    PurgeRow,
    SemanticRow,
    TenantRecord,
    TenantState,
)
from gateway.db.semantic_rows import SemanticRows
from gateway.db.tenants import TenantRepository
    TokenRecord,
    TokenRole,

__all__ = [
    "DEFAULT_TENANT",
from gateway.db.tokens import TokenRepository
    "PURGE_KINDS",
    "PURGE_MODES",
    "AuditRepository",
    "AuditRow",
    "Database",
    "TOKEN_ROLES",
    "KeyRecord",
    "KeyRepository",
    "NewRow",
    "PurgeKind",
    "PurgeMode",
    "PurgeRepository",
    "PurgeRow",
    "RecordError",
    "SemanticRow",
    "SemanticRows",
    "TenantRecord",
    "TenantRepository",
    "TenantState",
    "bootstrap",
    "key_digest",
]
    "TokenRecord",
    "TokenRepository",
    "TokenRole",
