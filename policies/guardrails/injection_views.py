"""A text as a model might read it: undone disguises, and the signs of an injection in each of them."""

import base64
import binascii
import re
import string
from collections.abc import Iterator
from urllib.parse import unquote

from policies.guardrails.patterns import compiled, encoded, union

_LOOKED_AT_CHARS = 20_000
_MOST_PIECES = 20
_ONE_PASS_BYTES = 4_000  # beyond, the automaton of all signs outgrows those of each
_LEET = bytes.maketrans(b"013457@$!", b"oieastasi")
_LETTERS = string.ascii_lowercase
_TURNED = _LETTERS[13:] + _LETTERS[:13]
_ROT13 = bytes.maketrans((_LETTERS + _LETTERS.upper()).encode(), (_TURNED + _TURNED.upper()).encode())
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}){12,4000}")
_BASE64 = re.compile(r"(?<![0-9A-Za-z+/=])[A-Za-z0-9+/_-]{16,8000}={0,2}")
_BINARY = re.compile(r"(?:[01]{8}[ ,]?){6,1000}")
_SPACED = re.compile(r"(?:\b\w[ .*_-]){4,40}\w\b")
_DIGIT = re.compile(r"\d")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})")

_VERBS = (
    r"ignore|disregard|forget|override|overrule|bypass|neglect|skip|drop|discard|supersede\w*|do not (?:follow"
    r"|obey)"
    r"|don't (?:follow|obey)|stop following|pay no (?:attention|heed) to|ignor(?:a|ieren?|iere|ez|are|i|e as"
    r"|a las)"
    r"|vergiss|vergessen sie|missachte|olvida|olvide|oublie[zr]?|dimentica|negeer|vergeet|esque\xc3\xa7a"
    r"|zignoruj|zapomnij"
)
_OBJECTS = (
    r"instruc\w*|instruktion\w*|direction\w*|directive\w*|rules?\b|regels?\b|regeln|reglas|r\xc3\xa8gles|regole"
    r"|regras|guideline\w*"
    r"|richtlinien|consignes|anweisung\w*|istruzion\w*|instructies|instrukcj\w*|prompt\w*|polic(?:y|ies)|safety"
    r"|restriction\w*"
    r"|your programming|orders\b|commands?\b|constraints?|everything (?:above|before|you)|alles, was"
)
_OVERRIDE = compiled(rf"\b(?:{_VERBS})\b[^.!?\n]{{0,60}}\b(?:{_OBJECTS})")
_EXTRACT = compiled(
    r"\b(?:reveal|show|print|output|repeat|display|leak|dump|expose|tell me|give me|write out|translate"
    r"|summari[sz]e|recite"
    r"|rivela|mostra|muestra|revela|zeige?|r\xc3\xa9v\xc3\xa8le|montre|toon|poka\xc5\xbc)\b[^.!?\n]{0,60}"
    r"\b(?:system[- ]?prompt|system message|systemprompt|prompt del sistema|prompt di sistema"
    r"|prompt syst\xc3\xa8me"
    r"|(?:hidden|initial|original|secret|confidential|internal|exact) (?:\w+ )?(?:prompt|instructions?|rules"
    r"|configuration|directives?)"
    r"|(?:text|words|everything|all) (?:that (?:comes|came) )?(?:above|before this)|instrucciones del sistema"
    r"|istruzioni del sistema)"
)
_UNBOUND = compiled(
    r"\b(?:no|without|free (?:of|from)|lift(?:ed)?|remove|any|senza|sin|sans|ohne|keine"
    r"|uneingeschr\xc3\xa4nkt)\b[^.!?\n]{0,25}"
    r"\b(?:restrictions?|limits|limitations?|filters?|rules|content polic(?:y|ies)|moral|ethic\w*|restrizioni"
    r"|restricciones"
    r"|regeln|einschr\xc3\xa4nkungen|richtlinien|filtre)\b|\b(?:DAN|jailbr[eo]\w+|developer mode|do anything now"
    r"|unfiltered|unrestricted"
    r"|god mode|evil ?gpt)\b"
)
_PLANTED = compiled(
    r"\b(?:from now on|henceforth|in (?:all|every) (?:future|later)|for all (?:later|future)"
    r"|when(?:ever)? (?:any ?one|some ?(?:one|body)"
    r"|a user|the user|users|you are asked|asked)|if (?:any ?one|some ?(?:one|body)|a user|the user))\b[^\n]{0,80}"
    r"\b(?:answer|reply|respond|say|tell|output|append|include|always)\b"
)
_TO_AN_AI = compiled(
    r"\b(?:(?:to|attention|note|notice|important)\b[^.\n]{0,30}\b(?:ai|llms?|assistants?|language models?"
    r"|agents?|chatbots?)\b"
    r"|(?:ai|llm|assistant|agent|model)s?\b[^.\n]{0,20}\b(?:reading|processing|processes|that reads?|must|has to"
    r"|shall)\b"
    r"|for (?:ai|coding|autonomous) \w*\s?(?:agents?|assistants?))"
)
_ROLES = compiled(
    r"<\|(?:im_start|im_end|system|start_header_id|end_header_id|eot_id)\|>|\[/?INST\]|<</?SYS>>|</?(?:system"
    r"|assistant|user)>"
    r"|^\s*(?:#{1,4} ?|\[|-+\s*)?(?:system|assistant)(?: (?:message|override|update|prompt))?\]?\s{0,2}:.{0,80}"
    r"\b(?:you|your|reveal|ignore|new|override|may now|mode|understood|i will)\b|\bsystem (?:override|hinweis"
    r"|nota)\b|systemhinweis"
    r"|\[system\]|nota del? sistema|nota di sistema|(?:begin|end) system (?:message|prompt)"
)
_SENDS = compiled(
    r"\b(?:send|forward|email|e-mail|post|upload|transmit|exfiltrate|leak|curl|http_post|send_email"
    r"|copy)\b[^\n]{0,80}"
    r"(?:[\w.+-]+@[\w-]+\.\w+|https?://|customer list|api keys?|credentials|secrets?|externally|passwords)"
)
_DECODES = compiled(
    r"\b(?:decode|decrypt|base64|rot13|binary|hex)\b[^\n]{0,60}\b(?:do|follow|execute|run|obey"
    r"|perform)\b[^\n]{0,30}"
    r"\b(?:it|what|instruction|says|exactly|inside|that)\b"
)
_QUOTED = re.compile(r"[\"'`\u201c\u2018][^\"'`\u201d\u2019\n]{4,200}[\"'`\u201d\u2019]")
_ABOUT = compiled(
    r"\b(?:prompt injections?|injection attacks?|jailbreaks?|attack(?:s|ers?)?|owasp|defen[cs]es?"
    r"|filters? blocks?|protect(?:s|ion)?"
    r"|detect(?:s|ion|or)?|phrases?|examples? of|classifier|paper|study|dangerous when|guardrails?|red[- ]team)\b"
)
_SIGNS = (
    ("override", _OVERRIDE),
    ("extract", _EXTRACT),
    ("unbound", _UNBOUND),
    ("planted", _PLANTED),
    ("to an ai", _TO_AN_AI),
    ("role", _ROLES),
    ("sends", _SENDS),
    ("decodes", _DECODES),
)

_ANY_SIGN = union(pattern for _, pattern in _SIGNS)


def signs(data: bytes) -> list[str]:
    """Names of the signs that an encoded text bears."""
    if len(data) <= _ONE_PASS_BYTES and not _ANY_SIGN.search(data):
        return []
    return [name for name, pattern in _SIGNS if pattern.search(data)]


def bears_a_sign(data: bytes) -> bool:
    """Whether it bears any."""
    if len(data) <= _ONE_PASS_BYTES:
        return _ANY_SIGN.search(data) is not None
    return any(pattern.search(data) for _, pattern in _SIGNS)


def injection_tokens(text: str) -> Iterator[str]:
    """What the model is told beside the words."""
    text = text[:_LOOKED_AT_CHARS]
    data = encoded(text)
    found = signs(data)
    yield from found
    if len(found) > 1:
        yield "several signs"
    if any(bears_a_sign(view) for view in disguised(text, data)):
        yield "disguised"
    if _ABOUT.search(data):
        yield "about"
        if found and not bears_a_sign(encoded(_QUOTED.sub(" ", text))):
            yield "quoted"


def disguised(text: str, data: bytes) -> Iterator[bytes]:
    """What a text, given encoded too, says when its disguises are undone; some readings make no sense."""
    if _DIGIT.search(text):
        yield data.translate(_LEET)
    yield data[::-1] if text.isascii() else encoded(text[::-1])
    yield data.translate(_ROT13)
    if "%" in text and _PERCENT.search(text):
        yield encoded(unquote(text, errors="replace"))
    if _SPACED.search(text):
        yield encoded(_SPACED.sub(lambda match: re.sub(r"[ .*_-]", "", match[0]), text))
    for pattern, undo in ((_HEX, bytes.fromhex), (_BASE64, _from_base64), (_BINARY, _from_binary)):
        for number, match in enumerate(pattern.finditer(text)):
            if number >= _MOST_PIECES:
                break
            yield encoded(_readable(undo(match[0])))


def _from_base64(piece: str) -> bytes:
    piece = piece.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(piece + "=" * (-len(piece) % 4))
    except (binascii.Error, ValueError):
        return b""


def _from_binary(piece: str) -> bytes:
    bits = re.sub(r"[ ,]", "", piece)
    return bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits) - 7, 8))


def _readable(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
