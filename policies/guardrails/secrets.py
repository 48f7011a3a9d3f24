"""Secrets: keys, tokens, passwords and connection strings; whoever reads the cache would hold them.

Shapes of tokens come from detect-secrets' detectors (`data/secrets.json`, written by `training/secret_patterns.py`
from the pinned library, so that nothing of it, and no network client, is loaded here) and from the list below.
"""

import base64
import binascii
import math
from collections import Counter
from typing import ClassVar

import orjson

from policies.guardrails.patterns import Candidate, any_of, compiled, encoded, union
from policies.guardrails.types import Action, Material, Subject, Verdict

_VENDORS = r"""(?:^|[^A-Za-z0-9_])(?:sk-(?:ant-|or-|proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}|gsk_[A-Za-z0-9]{40,}
hf_[A-Za-z0-9]{30,}|AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{28}
github_pat_[0-9A-Za-z_]{40,}|gh[pousr]_[A-Za-z0-9]{36}|xox[abeoprs]-[0-9A-Za-z-]{20,}|xapp-[0-9]-[0-9A-Za-z-]{20,}
[sr]k_(?:live|test)_[0-9A-Za-z]{20,}|whsec_[0-9A-Za-z+/=]{24,}|npm_[A-Za-z0-9]{36}|dop_v1_[0-9a-f]{64}
shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0(?:atp|csp)-[0-9A-Za-z_-]{22,}|EAAA[0-9A-Za-z_-]{60}|r8_[A-Za-z0-9]{37}
key-[0-9a-f]{32}|lin_api_[0-9A-Za-z]{40}|glc_[0-9A-Za-z+/=]{32,}|glsa_[0-9A-Za-z]{32}_[0-9a-f]{8}|dapi[0-9a-f]{32}
pplx-[0-9A-Za-z]{40,}|xai-[0-9A-Za-z]{60,}|nvapi-[0-9A-Za-z_-]{60,}|fw_[0-9A-Za-z]{24}|tvly-[0-9A-Za-z-]{28,}
hvs\.[0-9A-Za-z_-]{24,}|CCIPAT_[0-9A-Za-z_]{40,}|ATATT3[0-9A-Za-z_=-]{60,}|figd_[0-9A-Za-z_-]{40}|phc_[0-9A-Za-z]{40,}
secret_[0-9A-Za-z]{43}|ntn_[0-9A-Za-z]{40,}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}|sntrys_[0-9A-Za-z+/=_]{40,}|lam_[0-9A-Za-z_-]{24,}
AGE-SECRET-KEY-1[0-9A-Z]{58}|(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}|dp\.pt\.[0-9A-Za-z]{40,})""".replace(
    "\n", "|"
)
_PRIVATE_KEY = r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-[23]"
_CONNECTION = r"""\b[a-z][a-z0-9+.-]{1,30}://[^\s:/?#@'"<>]{0,128}:([^\s/?#@'"<>]{3,256})@[^\s@'"]"""
_JWT = r"\b(eyJ[A-Za-z0-9_=-]{8,})\.[A-Za-z0-9_=-]{4,}"
_AUTHORISATION = r"\b(?:authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic|token)|-u\s+[\w.-]+:)\s*([^\s'\"]{8,})"
_NAME = (
    r"(?:api|auth|service|account|db|database|priv|private|client|access|secret|encryption|signing|master)[_-]?key"
    r"|(?:db|database|key)[_-]?pass|password|passwd|passphrase|pwd|secret|contrase(?:\xc3\xb1|n)a"
    r"|(?:access|auth|refresh|api|bearer)[_-]?token"
)
_ASSIGNED = (
    rf"""(?:{_NAME})\w{{0,40}}["'\]]{{0,2}}(?:\[\d*\])?\s{{0,4}}(?::=|={{1,3}}>?|!={{1,2}}|:)\s{{0,4}}@?"""
    r"""(["'`][^"'`\r\n]{3,400}["'`]|[^\s"'`]{6,400})"""
)
_NAMED_SETTING = rf"\w_(?:{_NAME})\w{{0,40}}\s{{0,4}}[:=]\s{{0,4}}([^\s][^\r\n]{{7,200}})"
_CALLED = rf"""(?:{_NAME})\w{{0,40}}(?:\.assign)?\((["'][^"'\r\n]{{3,400}}["'])"""
_COMPARED = rf"""(["'`][^"'`\r\n]{{3,400}}["'`])\s{{0,4}}[!=]{{2,3}}\s{{0,4}}[\w.]{{0,60}}(?:{_NAME})"""
_SAID = (
    r"\b(?:password|passcode|passphrase|pin(?: code)?|api key|secret key|access token|token|login)\s+(?:is|was|=)"
    r"\s+[\"'`]?([^\s\"'`]{4,200})"
)
_PLACEHOLDER = compiled(
    r"^(?:\$|%|<|\{\{?[\w. ]*\}|\[[\w ]*\]|\*+$|x+$|\.+$|os\.|process\.|env\b|getenv|config\.|self\.|this\.)"
    r"|^request\."
    r"|fake|example|placeholder|change.?me|your[_ -]|my[_-]?(?:secret|password|key|token)|insert|dummy|redacted"
    r"|sample|todo|\bnone\b|\bnull\b|\btrue\b|\bfalse\b|undefined"
    r"|^(?:str|string|int|optional|required|input|password|secret)\W*$"
)
_CALL = compiled(r"^[\w.]+\(")
_ENTROPY_BITS = 3.0
_MIN_MIXED = 6
_JWT_PAD = "==="


class SecretsGuard:
    """Finds credentials in what was asked and answered."""

    name: ClassVar[str] = "secrets"
    version: ClassVar[str] = "1"
    default_action: ClassVar[Action] = "refuse"
    data_file: ClassVar[str] = "secrets.json"
    of_questions: ClassVar[bool] = True

    def __init__(self, material: Material) -> None:
        self._action = material.action
        shapes = [*orjson.loads(material.data)["patterns"], {"pattern": _VENDORS, "ignore_case": False}]
        self._shapes = [
            compiled(
                "|".join(f"(?:{each['pattern']})" for each in shapes if each["ignore_case"] is ignore_case),
                ignore_case=ignore_case,
            )
            for ignore_case in (True, False)
        ]
        self._private_key = compiled(_PRIVATE_KEY)
        self._rules = [
            ("secret_connection", compiled(_CONNECTION), _is_value),
            ("secret_jwt", compiled(_JWT, ignore_case=False), _is_jwt),
            ("secret_authorization", compiled(_AUTHORISATION), _is_random),
            ("secret_assigned", compiled(_ASSIGNED), _is_assigned),
            ("secret_assigned", compiled(_NAMED_SETTING), _is_value),
            ("secret_assigned", compiled(_CALLED), _is_value),
            ("secret_assigned", compiled(_COMPARED), _is_value),
            ("secret_said", compiled(_SAID), _is_random),
        ]
        self._worth_a_look = union([self._private_key, *self._shapes, *(rule for _, rule, _ in self._rules)])

    def check(self, subject: Subject) -> Verdict | None:
        """The first kind of secret found in any text."""
        for text in subject.texts:
            reason = self._find(encoded(text))
            if reason is not None:
                return Verdict(self.name, reason, self._action, {reason: 1})
        return None

    def _find(self, text: bytes) -> str | None:
        if not self._worth_a_look.search(text):
            return None
        if self._private_key.search(text):
            return "secret_private_key"
        if any(shape.search(text) for shape in self._shapes):
            return "secret_token"
        return next((reason for reason, rule, accept in self._rules if any_of(rule, text, accept)), None)


def _bare(value: str) -> str:
    return value.strip().strip("\"'`").strip()


def _is_value(candidate: Candidate) -> bool:
    """Any value that is no placeholder and no reference to one."""
    value = _bare(candidate.value)
    return len(value) > 2 and not _PLACEHOLDER.search(encoded(value))  # noqa: PLR2004  (two signs are no secret)


def _is_assigned(candidate: Candidate) -> bool:
    """A quoted value, or a bare one that looks drawn at random: prose follows a colon too."""
    if not _is_value(candidate):
        return False
    return candidate.value[:1] in "\"'`" or _mixed(_bare(candidate.value))


def _is_random(candidate: Candidate) -> bool:
    return _is_value(candidate) and _mixed(_bare(candidate.value))


def _mixed(value: str) -> bool:
    """Letters with digits or signs inside, and enough entropy for its length."""
    value = value.rstrip(".,;:!?)")
    kinds = (any(c.isalpha() for c in value), any(c.isdigit() for c in value), any(not c.isalnum() for c in value))
    if len(value) < _MIN_MIXED or sum(kinds) < 2 or "://" in value or _CALL.search(encoded(value)):  # noqa: PLR2004
        return len(value) >= 4 and value.isdigit()  # noqa: PLR2004  (a PIN)
    return kinds[1] or _entropy(value) >= _ENTROPY_BITS


def _entropy(value: str) -> float:
    shares = (count / len(value) for count in Counter(value).values())
    return -sum(share * math.log2(share) for share in shares)


def _is_jwt(candidate: Candidate) -> bool:
    """Whether the head is a JSON object that names an algorithm or type."""
    try:
        head = orjson.loads(base64.urlsafe_b64decode(candidate.value.rstrip("=") + _JWT_PAD))
    except (binascii.Error, ValueError):
        return False
    return isinstance(head, dict) and bool(head.keys() & {"alg", "typ", "enc", "kid"})
