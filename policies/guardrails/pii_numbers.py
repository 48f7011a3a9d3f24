"""Numbers that name a person: each rule looks at a candidate and what stands around it.

A checksum, a known prefix or a word nearby decides; digits of orders, versions, hashes and prices do not count.
"""

import ipaddress
import re
from types import ModuleType

import phonenumbers
from phonenumbers import PhoneNumberType
from stdnum import iban, luhn
from stdnum.be import nn as be_nn
from stdnum.br import cpf as br_cpf
from stdnum.ca import sin as ca_sin
from stdnum.ch import ssn as ch_ssn
from stdnum.cn import ric as cn_ric
from stdnum.de import idnr as de_idnr
from stdnum.dk import cpr as dk_cpr
from stdnum.es import dni as es_dni
from stdnum.es import nie as es_nie
from stdnum.fi import hetu as fi_hetu
from stdnum.fr import nir as fr_nir
from stdnum.gb import nhs as gb_nhs
from stdnum.in_ import aadhaar as in_aadhaar
from stdnum.in_ import pan as in_pan
from stdnum.it import codicefiscale as it_codice
from stdnum.kr import rrn as kr_rrn
from stdnum.mx import curp as mx_curp
from stdnum.nl import bsn as nl_bsn
from stdnum.no import fodselsnummer as no_fnr
from stdnum.pl import pesel as pl_pesel
from stdnum.se import personnummer as se_pnr
from stdnum.us import itin as us_itin
from stdnum.us import ssn as us_ssn

from policies.guardrails.patterns import Candidate, compiled

_EDGE = r"(?:^|[^\w.$#/@%&=+-])"
CARD = compiled(_EDGE + r"(\d(?:[ -]?\d){11,18})(?:[^\w-]|-\D|$)")
IBAN = compiled(r"(?:^|\W)([A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}(?: ?[A-Z0-9]{1,3})?)(?:\W|$)", ignore_case=False)
PHONE = compiled(r"(?:^|[^\w.$#/@%&=-])((?:\+|00)?\(?\d[\d ().\xc2\xa0/-]{5,22}\d)(?:[^\w@%]|$)")
IPV4 = compiled(r"(?:^|[^\w.])(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})(?:[^\w.]|\.\D|\.?$)")
IPV6 = compiled(r"(?:^|[^\w:.])((?:[0-9a-f]{1,4}:){2,7}[0-9a-f:]{0,30})(?:[^\w:]|$)")

_NOT_A_PERSONS = re.compile(
    r"(?:order|invoice|ticket|ref|reference|tracking|parcel|isbn|issn|doi|model|part|serial|version|build|release|case"
    r"|sku|item|batch|lot|article|product|commit|hash|checksum|request|transaction|receipt|coupon|issue|pr|bug|id|uuid"
    r"|ean|upc|page|line|chapter|section|row)s?\s*(?:number|num|nr|no|code|id|#)?\.?\s*(?:is|are|was|:|#|=)?\s*#?\W{0,2}$"
)
_ABOUT_A_PHONE = re.compile(
    r"\b(?:call|phone|telephone|tel|mobile|cell|cellphone|fax|whatsapp|sms|text|contact|reach|dial|ring|hotline|office"
    r"|handy|telefon\w*|t\xe9l\w*|tel\xe9fono|m\xf3vil|messages?|number|landline)\b",
)
_USE_OF_A_PHONE = re.compile(r"^[\s\\,.;:()-]{0,4}(?:office|fax|mobile|cell|home|work|phone|tel)\b")
_ABOUT_A_CARD = re.compile(r"\b(?:card|visa|mastercard|amex|maestro|diners|credit|debit|carte|karte|tarjeta)\b")
_ABOUT_A_VERSION = re.compile(r"(?:\bv|version|release|build|firmware|section|chapter|clause)\W{0,3}$")
_ABOUT_AN_ADDRESS = re.compile(r"\b(?:ip|ipv4|ipv6|host|server|address|ping|client|from|login|visitor)\b")
_DATE = re.compile(
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/. ]\d{1,2}[-/. ](?:19|20)?\d{2}|(?:19|20)\d\d ?- ?(?:19|20)\d\d)"
)
_PRICE = re.compile(r"[\d ]*\.\d{1,2}")
_AMERICAN = re.compile(r"(?:\+?1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}")
_GROUPED = re.compile(r"\(?0\d{1,4}\)?[ -]\d{2,}(?:[ -]\d{2,})*")
_PUBLIC_KINDS = frozenset(
    {PhoneNumberType.TOLL_FREE, PhoneNumberType.PREMIUM_RATE, PhoneNumberType.SHARED_COST, PhoneNumberType.UAN}
)
_REGIONS = ("GB", "DE", "FR", "IT", "NL", "BE", "CH", "AT", "AU", "SE", "ES", "IE")
_FICTION = re.compile(r"555-?01\d\d$")
_EXAMPLE_CARDS = frozenset({"4111111111111111", "4242424242424242", "5555555555554444", "378282246310005"})
_CARD_SHAPES = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[689]\d)\d{11,13}|6(?:011|5\d\d|4[4-9]\d)\d{12,15}|35\d{14}|(?:1800|2131)\d{11}|62\d{14,17}"
    r"|(?:5[06-9]|6\d)\d{10,17}"
)
_RESOLVERS = frozenset({"8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9", "208.67.222.222", "208.67.220.220"})
_LARGE_OCTET = 20


def is_card(candidate: Candidate) -> bool:
    """A card number: checksum and length of a known issuer, or a checksum beside a word for cards."""
    digits = re.sub(r"\D", "", candidate.value)
    if digits in _EXAMPLE_CARDS or len(set(digits)) < 3 or not luhn.is_valid(digits):  # noqa: PLR2004  (0000…)
        return False
    before = _lower(candidate.before)
    if _ABOUT_A_CARD.search(before):
        return True
    return _CARD_SHAPES.fullmatch(digits) is not None and not _NOT_A_PERSONS.search(before)


def is_iban(candidate: Candidate) -> bool:
    """A bank account number with a valid checksum and its country's form; trailing words are cut off."""
    parts = candidate.value.split(" ")
    return any(iban.is_valid("".join(parts[:count])) for count in range(len(parts), 0, -1))


def is_phone(candidate: Candidate) -> bool:
    """A telephone number that a person may be reached at; free-call and fictional ones are nobody's."""
    value = candidate.value
    value = value[1:] if value.startswith("(") and ")" not in value else value
    digits = re.sub(r"\D", "", value)
    before = _lower(candidate.before)
    if not 7 <= len(digits) <= 15 or _DATE.fullmatch(value) or _NOT_A_PERSONS.search(before):  # noqa: PLR2004  (E.164)
        return False
    if _FICTION.search(value) or _PRICE.fullmatch(value) or value.count("(") != value.count(")"):
        return False
    if value.startswith(("+", "00")) and _valid("+" + digits.removeprefix("00"), None) is not False:
        return _valid("+" + digits.removeprefix("00"), None) is True or bool(_ABOUT_A_PHONE.search(before))
    if _ABOUT_A_PHONE.search(before) or _USE_OF_A_PHONE.search(_lower(candidate.after)):
        return _valid(value, "US") is not False
    if _AMERICAN.fullmatch(value):
        return _valid(value, "US") is True
    return _GROUPED.fullmatch(value) is not None and any(_valid(value, region) for region in _REGIONS)


def _valid(value: str, region: str | None) -> bool | None:
    """True for a number of a person's, False for a public one, None for no number there."""
    try:
        number = phonenumbers.parse(value, region)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_valid_number(number):
        return None
    return phonenumbers.number_type(number) not in _PUBLIC_KINDS


def is_ip(candidate: Candidate) -> bool:
    """A public network address; documentation ranges, well-known resolvers and versions do not count."""
    value = (
        candidate.value.rstrip(":")
        if candidate.value.endswith(":") and "::" not in candidate.value
        else candidate.value
    )
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return False
    before = _lower(candidate.before)
    if not address.is_global or address.is_multicast or value in _RESOLVERS or _ABOUT_A_VERSION.search(before):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return True
    return max(address.packed) >= _LARGE_OCTET or _ABOUT_AN_ADDRESS.search(before) is not None


class NationalId:
    """Numbers that a state gives to one person.

    Args:
        kind: part of the reason.
        pattern: its form.
        check: the module of python-stdnum that knows its checksum.
        near: words one of which must stand before it, where form and checksum alone would alarm too often.
    """

    def __init__(self, kind: str, pattern: str, check: ModuleType, near: str = "") -> None:
        self.kind = kind
        self.pattern = compiled(rf"{_EDGE}({pattern})(?:[^\w-]|$)")
        self._check = check
        self._near = re.compile(rf"\b(?:{near})", re.IGNORECASE) if near else None

    def accepts(self, candidate: Candidate) -> bool:
        """Whether the checksum fits and a word stands near."""
        before = _lower(candidate.before)
        if (self._near is not None and not self._near.search(before)) or _NOT_A_PERSONS.search(before):
            return False
        valid: bool = self._check.is_valid(candidate.value)
        return valid


def lettered_ids() -> tuple[NationalId, ...]:
    """Those with so many letters that their digits do not stand together."""
    return (
        NationalId("it_codice", r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", it_codice),
        NationalId("in_pan", r"[A-Z]{5}\d{4}[A-Z]", in_pan, "pan|permanent account"),
    )


def national_ids() -> tuple[NationalId, ...]:
    """Those whose digits stand together."""
    return (
        NationalId("us_ssn", r"\d{3}-\d{2}-\d{4}", us_ssn),
        NationalId("us_ssn", r"\d{3}[ .]?\d{2}[ .]?\d{4}", us_ssn, "ssn|social security|social"),
        NationalId("us_itin", r"9\d{2}-\d{2}-\d{4}", us_itin),
        NationalId("uk_nhs", r"\d{3}[ -]?\d{3}[ -]?\d{4}", gb_nhs, "nhs"),
        NationalId("fr_nir", r"[12] ?\d{2} ?\d{2} ?\d[\dAB] ?\d{3} ?\d{3} ?\d{2}", fr_nir),
        NationalId("es_dni", r"\d{8}-?[A-Z]", es_dni),
        NationalId("es_nie", r"[XYZ]-?\d{7}-?[A-Z]", es_nie),
        NationalId("de_idnr", r"\d{2} ?\d{3} ?\d{3} ?\d{3}", de_idnr, "steuer|idnr|tax|identifikation"),
        NationalId("nl_bsn", r"\d{4}[. ]?\d{2}[. ]?\d{3}", nl_bsn, "bsn|burgerservice|sofi"),
        NationalId("be_nn", r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}", be_nn),
        NationalId("pl_pesel", r"\d{11}", pl_pesel, "pesel"),
        NationalId("br_cpf", r"\d{3}\.\d{3}\.\d{3}-\d{2}", br_cpf),
        NationalId("br_cpf", r"\d{11}", br_cpf, "cpf"),
        NationalId("in_aadhaar", r"\d{4} \d{4} \d{4}", in_aadhaar),
        NationalId("in_aadhaar", r"\d{12}", in_aadhaar, "aadhaar|aadhar|uidai"),
        NationalId("ca_sin", r"\d{3}[ -]?\d{3}[ -]?\d{3}", ca_sin, "sin|social insurance|nas"),
        NationalId("se_pnr", r"(?:19|20)?\d{6}[-+]\d{4}", se_pnr),
        NationalId("fi_hetu", r"\d{6}[-+A-FU-Y]\d{3}[0-9A-Y]", fi_hetu),
        NationalId("no_fnr", r"\d{6} ?\d{5}", no_fnr, "f\xf8dsels|personnummer|fnr|national id"),
        NationalId("dk_cpr", r"\d{6}-\d{4}", dk_cpr),
        NationalId("ch_ahv", r"756\.\d{4}\.\d{4}\.\d{2}", ch_ssn),
        NationalId("mx_curp", r"[A-Z]{4}\d{6}[HM][A-Z]{5}[0-9A-Z]\d", mx_curp),
        NationalId("kr_rrn", r"\d{6}-[1-8]\d{6}", kr_rrn),
        NationalId("cn_ric", r"\d{17}[\dX]", cn_ric),
    )


def _lower(context: bytes) -> str:
    return context.decode("utf-8", "replace").lower()
