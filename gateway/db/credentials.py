"""API keys and the texts operators give: made, checked and digested. Pure but for the random generator."""

import hashlib
import re
import secrets
import unicodedata

from gateway.db.errors import RecordError
from gateway.db.records import PURGE_KINDS, PURGE_MODES, PurgeKind, PurgeMode
from policies.purge_scopes import Purge, named

KEY_PREFIX = "lam_"
TOKEN_PREFIX = "lat_"  # noqa: S105  (not a secret, but how one begins)
MIN_KEY_CHARS = 16
MAX_KEY_CHARS = 512
MAX_TEXT_CHARS = 512

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_ROW_ID = re.compile(r"[TKA][0-9A-F]{16}")
_HEX_DIGEST = re.compile(r"[0-9a-f]{64}")
_EVERYTHING = (("all", ""),)


def make_key() -> str:
    """Makes an API key of 256 random bits."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def key_digest(key: str) -> bytes:
    """Digests an API key as the database stores it (SHA-256, 32 bytes)."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def check_key(key: str) -> str:
    """Returns a key that an operator chose, if it can serve as one.

    Raises:
        RecordError: invalid: too short, too long, or not plain visible ASCII, which is all a header can carry.
    """
    if not MIN_KEY_CHARS <= len(key) <= MAX_KEY_CHARS:
        raise RecordError("invalid", f"an API key has {MIN_KEY_CHARS} to {MAX_KEY_CHARS} characters")
    if not all("!" <= char <= "~" for char in key):
        raise RecordError("invalid", "an API key has visible ASCII characters only, and no spaces")
    return key


def make_tenant_id() -> str:
    """Makes a tenant's id; upper case, so that no tenant's name can be mistaken for it."""
    return "T" + secrets.token_hex(8).upper()


def make_key_id() -> str:
    """Makes a key's id, which names the key without opening anything."""
    return "K" + secrets.token_hex(8).upper()


def make_token() -> str:
    """Makes an administrator's token of 256 random bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def make_token_id() -> str:
    """Makes a token's id, which names the token without opening anything."""
    return "A" + secrets.token_hex(8).upper()


def is_name_or_id(text: str) -> bool:
    """Says whether any row could have this name or id; false saves the database from odd text."""
    return bool(_NAME.fullmatch(text) or _ROW_ID.fullmatch(text))


def check_name(name: str) -> str:
    """Returns a tenant's name if it is allowed.

    Raises:
        RecordError: invalid.
    """
    if not _NAME.fullmatch(name):
        raise RecordError(
            "invalid",
            f"{name[:80]!r} is not a name: use 1 to 63 of a-z, 0-9, '.', '_' and '-', a letter or digit first",
        )
    return name


def check_text(what: str, text: str) -> str:
    """Returns a free text (label, reason, value, actor) if both databases can hold it.

    Raises:
        RecordError: invalid: too long, or with control characters or lone surrogates.
    """
    if len(text) > MAX_TEXT_CHARS:
        raise RecordError("invalid", f"{what} has more than {MAX_TEXT_CHARS} characters")
    if any(unicodedata.category(char) in {"Cc", "Cs"} for char in text):
        raise RecordError("invalid", f"{what} has control characters")
    return text


def check_purge(kind: PurgeKind, value: str, mode: PurgeMode) -> None:
    """Accepts a purge that can match something.

    Raises:
        RecordError: invalid.
    """
    if kind not in PURGE_KINDS:
        raise RecordError("invalid", f"a purge is of {', '.join(PURGE_KINDS)}, not {kind!r}")
    if mode not in PURGE_MODES:
        raise RecordError("invalid", f"a purge is {' or '.join(PURGE_MODES)}, not {mode!r}")
    check_text(f"the {kind}", value)
    if (kind == "all") is not (value == ""):
        raise RecordError("invalid", "a purge of all takes no value; every other kind needs one")
    if kind == "key" and not _HEX_DIGEST.fullmatch(value):
        raise RecordError("invalid", "a key digest is 64 lower-case hexadecimal digits")
    if kind == "version" and not all(value.partition("=")[:2]):
        raise RecordError("invalid", "a version is given as name=value")
    if kind in ("age", "versions", "print") and named(Purge(1, kind, value, mode)).values == _EVERYTHING:
        raise RecordError("invalid", f"{value[:80]!r} names no {kind}")
