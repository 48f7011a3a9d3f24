"""Builds what encrypts, from the settings."""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.db import Database, DataKeyRepository
from gateway.invalidation.data_keys import DataKeys
from gateway.layers.keyring import Keyring
from gateway.settings import Settings
from policies.encryption import master_keys


@dataclass(frozen=True, slots=True)
class Encryption:
    """What encrypts: the keys that a worker has, and what keeps them as the database says."""

    keyring: Keyring
    data_keys: DataKeys


def open_encryption(
    settings: Settings, database: Database, on_fault: Callable[[str], None], now_s: Callable[[], float]
) -> Encryption | None:
    """Encryption, where a master key is given and it is not switched off."""
    key = settings.encryption.master_key
    if key is None or not settings.encryption.enabled:
        return None
    keyring = Keyring(master_keys(key.get_secret_value()))
    return Encryption(keyring, DataKeys(DataKeyRepository(database), keyring, on_fault, now_s))
