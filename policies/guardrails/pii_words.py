"""Words that name a person: addresses of mail and of houses, births, licences, and names people say are theirs."""

import re

from policies.guardrails.patterns import Candidate, compiled

_UPPER = r"(?:[A-Z]|\xc3[\x80-\x9e]|[\xc4-\xd3][\x80-\xbf])"
_LETTER = r"[A-Za-z'.\x80-\xff-]"
_NAME = rf"{_UPPER}{_LETTER}{{1,30}}"
EMAIL = compiled(
    r"(?:^|[^\w.%+-])([A-Za-z0-9_%+\x80-\xff](?:[A-Za-z0-9._%+'\x80-\xff-]{0,63})@(?:[A-Za-z0-9\x80-\xff-]{1,63}\.){1,6}[A-Za-z]{2,24})"
)
_STREETS = (
    r"Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Way|Square|Sq|Place|Pl|Terrace"
    r"|Crescent"
    r"|Highway|Hwy|Parkway|Pkwy|Close|Grove|Gardens|Trail|Circle|Cir|Mews|Row|Walk|Alley|Plaza|Streets|Loop|Ridge"
)
_STEMS = (
    r"stra\xc3\x9fe|strasse|str\.|gasse|weg|platz|allee|ring|gade|vej|vejen|gatan|v\xc3\xa4gen|v\xc3\xa6nget"
    r"|gata|veien"
    r"|straat|laan|plein|katu|tie|utca|t\xc3\xa9r|gatve|iela|ulica"
)
_LONE = r"stra\xc3\x9fe|strasse|gasse|weg|platz|allee|u\.|utca|t\xc3\xa9r"
_WORDS_BEFORE = (
    r"Rua|Calle|C/|Via|Viale|Piazza|Rue|Avenida|Avda\.?|Av\.|Plaza|Paseo|Carrer|Travessa|Boulevard|Chemin|Quai"
    r"|ul\.|Ulica"
)
ADDRESS = compiled(
    rf"\b\d{{1,6}}[A-Za-z]?,? (?:{_NAME} ){{1,4}}(?:{_STREETS})\b|\bP\.? ?O\.? Box \d+|\bPSC \d+, Box \d+"
    rf"|\b{_UPPER}[A-Za-z\x80-\xff-]{{1,30}} ?(?:{_STEMS}),? \d{{1,3}}\b"
    rf"|\b{_UPPER}[A-Za-z\x80-\xff]{{1,30}} (?i:{_LONE}) \d{{1,3}}\b"
    rf"|\b(?:{_WORDS_BEFORE}) (?:{_LETTER}{{1,30}} ){{1,5}}\d{{1,5}}\b"
    rf"|\b\d{{1,5}},? (?:Rue|Avenue|Boulevard|Chemin|Quai|Place) (?:{_LETTER}{{1,30}} ?){{1,5}}"
    rf"|\b(?:Suite|Apt\.?|Apartment|Unit|Flat) #?\d{{1,5}}[A-Za-z]?\b.{{0,60}}\b\d{{4,6}}\b",
    ignore_case=False,
)
LIVES = compiled(
    r"\b(?:my|our|his|her|their|home|shipping|billing|delivery|postal|mailing|new) address (?:is|to"
    r"|:)\s{0,3}.{0,40}\d"
)
_DAY = (
    r"(?:\d{1,4}[-/. ]\d{1,2}[-/. ]\d{2,4}|\d{1,2}(?:st|nd|rd|th)?(?: of)? [A-Z][a-z]{2,8},? \d{4}"
    r"|[A-Z][a-z]{2,8}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4})"
)
BIRTH = compiled(
    rf"\b(?:d\.?o\.?b\.?|date of birth|birth ?date|born on|birthday|geburtsdatum|date de naissance|geboren am)"
    rf"(?:'s)?\s{{0,3}}(?:\W|is|was|on){{0,4}}\s{{0,3}}{_DAY}"
)
_BORN = compiled(r"\bborn on")
_SELF = re.compile(r"\b(?:i was|i am|i'm|my|patient|customer|client|applicant|employee|member)\b[^.\n]{0,40}$")
LICENCE = compiled(
    r"\b(?:passport|driver'?s?'?s? licen[cs]e|driving licen[cs]e|licen[cs]e plate|national id|identity card"
    r"|id card)"
    r"(?: (?:number|no\.?|nr\.?|#))?(?: is|:| =)?\s{0,3}#?([A-Z0-9][A-Z0-9-]{4,19})(?:[^\w]|$)"
)
PERSON = compiled(
    rf"\b(?:[Mm]y (?:full |first |last |real )?name is|[Mm]y name's|[Ii] am called|[Ii]ch hei\xc3\x9fe"
    rf"|[Mm]ein Name ist"
    rf"|[Jj]e m'appelle|[Mm]e llamo|[Mm]i nombre es|[Mm]i chiamo|[Yy]ours sincerely,\s|[Ss]igned,\s"
    rf"|[Rr]egards,\s)\s{{0,3}}"
    rf"((?:(?:Mr|Mrs|Ms|Dr|Prof)\.? )?{_NAME}(?: {_NAME}){{0,3}})",
    ignore_case=False,
)
_NOT_NAMES = frozenset(
    {"The", "A", "An", "Not", "What", "How", "Why", "Because", "Where", "When", "My", "Your", "This", "It"}
)
_NOBODYS_DOMAINS = re.compile(
    r"(?:^|\.)(?:example\.(?:com|org|net|edu)|example|test|invalid|localhost|local|internal)$"
)
_NOBODYS_BOXES = frozenset(
    {"noreply", "no-reply", "donotreply", "do-not-reply", "git", "mailer-daemon", "postmaster", "user", "username"}
)
_FILE_ENDS = frozenset(
    {"png", "jpg", "jpeg", "gif", "svg", "webp", "py", "js", "ts", "css", "html", "json", "md", "txt"}
)


def is_email(candidate: Candidate) -> bool:
    """A mail address of somebody; reserved domains and boxes that nobody reads do not count."""
    box, _, domain = candidate.value.lower().rpartition("@")
    if _NOBODYS_DOMAINS.search(domain) or domain.rpartition(".")[2] in _FILE_ENDS:
        return False
    return box not in _NOBODYS_BOXES and not candidate.before.endswith(b"://")


def is_address(_candidate: Candidate) -> bool:
    """Every match counts."""
    return True


def is_birth(candidate: Candidate) -> bool:
    """A date of birth: under its label, or of the speaker or a client; that of a figure of history is public."""
    if not _BORN.search(candidate.value.encode()):
        return True
    return _SELF.search(candidate.before.decode("utf-8", "replace").lower()) is not None


def is_licence(candidate: Candidate) -> bool:
    """A number of a document: it has digits."""
    return any(sign.isdigit() for sign in candidate.value)


def is_person(candidate: Candidate) -> bool:
    """A name that somebody gives as theirs."""
    return candidate.value.split()[0] not in _NOT_NAMES
