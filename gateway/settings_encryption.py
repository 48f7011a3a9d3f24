"""Settings of the encryption at rest."""

from pydantic import SecretStr, field_validator

from gateway.settings_cache import Frozen

_MIN_MASTER_CHARS = 32


class EncryptionSettings(Frozen):
    """Encryption at rest; docs/encryption.md says what is encrypted, and what is not.

    Attributes:
        enabled: false encrypts nothing, and opens nothing that is encrypted.
        master_key: wraps each tenant's data key; at least 32 characters. Several, one per line: the first is in
            use, the others still open what they wrapped. Made in `home` when absent and the database is there too.
        read_plain: whether entries from before encryption was switched on are still served.
    """

    enabled: bool = True
    master_key: SecretStr | None = None
    read_plain: bool = True

    @field_validator("master_key")
    @classmethod
    def _are_long(cls, keys: SecretStr | None) -> SecretStr | None:
        if keys is not None and any(
            len(key) < _MIN_MASTER_CHARS for key in keys.get_secret_value().split() or [""]
        ):
            raise ValueError(f"give at least {_MIN_MASTER_CHARS} characters, such as from `openssl rand -hex 32`")
        return keys
