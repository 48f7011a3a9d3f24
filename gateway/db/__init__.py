"""SQL: tenants, API keys, purge log, audit. With `migrations/`, the only room that knows SQLAlchemy."""

from gateway.db.audit import AuditRepository
from gateway.db.bootstrap import DEFAULT_TENANT, bootstrap
from gateway.db.credentials import key_digest
from gateway.db.data_keys import DataKeyRepository
from gateway.db.database import Database
from gateway.db.dependencies import By, Changed, VersionRepository
from gateway.db.errors import RecordError
from gateway.db.keys import KeyRepository
from gateway.db.ledger import Batch, LedgerQuery, LedgerRepository, LedgerRow
from gateway.db.overrides import OverrideRepository
from gateway.db.purges import PurgeRepository
from gateway.db.records import (
    PURGE_KINDS,
    PURGE_MODES,
    TOKEN_ROLES,
    Appended,
    AuditRow,
    DataKeyRecord,
    KeyRecord,
    NewPurge,
    NewRow,
    Overrides,
    PurgeKind,
    PurgeMode,
    PurgeRow,
    SemanticRow,
    TenantRecord,
    TenantState,
    TokenRecord,
    TokenRole,
)
from gateway.db.semantic_rows import SemanticRows
from gateway.db.tenants import TenantRepository
from gateway.db.tokens import TokenRepository
from gateway.db.version_rows import EVERYBODY, VersionRow

__all__ = [
    "DEFAULT_TENANT",
    "EVERYBODY",
    "PURGE_KINDS",
    "PURGE_MODES",
    "TOKEN_ROLES",
    "Appended",
    "AuditRepository",
    "AuditRow",
    "Batch",
    "By",
    "Changed",
    "DataKeyRecord",
    "DataKeyRepository",
    "Database",
    "KeyRecord",
    "KeyRepository",
    "LedgerQuery",
    "LedgerRepository",
    "LedgerRow",
    "NewPurge",
    "NewRow",
    "OverrideRepository",
    "Overrides",
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
    "TokenRecord",
    "TokenRepository",
    "TokenRole",
    "VersionRepository",
    "VersionRow",
    "bootstrap",
    "key_digest",
]
