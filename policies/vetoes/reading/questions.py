"""What a text asks for: price, time, place, person, reason, number, way …, as its question words say."""

from collections.abc import Sequence

from policies.vetoes.reading.tokens import Token

_DURATIONS = frozenset({"days", "weeks", "months", "hours", "minutes", "years", "seconds", "nights"})
_PRICED = frozenset(
    {"is", "are", "does", "do", "did", "will", "would", "to", "for", "was", "can", "should", "s", "extra"}
)
_AUXILIARIES = frozenset({
    "do", "does", "did", "is", "are", "was", "were", "will", "can", "should", "would", "must", "may", "has",
    "have", "could", "shall", "am", "to", "isn't", "doesn't", "won't",
})  # fmt: skip
_BARE = {
    "when": "time", "where": "place", "who": "person", "whom": "person", "why": "reason", "whose": "person",
}  # fmt: skip
_OF_HOW = {
    "long": "duration", "soon": "duration", "old": "age", "far": "distance", "often": "frequency",
    "many": "count", "much": "amount", "late": "time", "early": "time", "regularly": "frequency",
    "frequently": "frequency", "big": "size", "large": "size", "tall": "size", "heavy": "weight",
    "fast": "speed", "come": "reason", "quickly": "duration", "safe": "yes or no", "likely": "yes or no",
}  # fmt: skip
_OF_WHAT = {
    "time": "time", "date": "time", "day": "time", "year": "time", "month": "time", "price": "price",
    "age": "age", "colour": "colour", "color": "colour", "size": "size", "address": "place",
    "country": "country", "city": "city", "language": "language", "temperature": "temperature",
}  # fmt: skip
_MODALS = frozenset({"do", "can", "could", "should", "would", "might", "must"})
_ASKERS = frozenset({"i", "we", "you", "one"})
_LEADING = frozenset({
    "hi", "hello", "hey", "hiya", "please", "pls", "so", "and", "but", "ok", "at", "by", "from", "in", "for",
    "until", "till", "to", "on", "since", "of", "with", "after", "do", "does", "you", "can", "could", "tell",
    "me", "know", "explain", "about", "um", "er", "thanks", "just", "exactly", "i", "need", "want", "would",
    "like", "i'd", "wonder", "there", "anyone", "any", "idea", "not", "sure", "wondering", "question", "up",
})  # fmt: skip
_FORMS = {
    "wheres": "where", "whens": "when", "whos": "who", "whys": "why", "where's": "where", "when's": "when",
    "who's": "who", "why's": "why", "how's": "how", "what's": "what", "whats": "what", "hows": "how",
    "which": "what",
}  # fmt: skip


def voice(row: Sequence[Token]) -> set[str]:
    """`instructs` where a text asks how to do something, `tells` where it asks how something was."""
    found = set()
    for at, token in enumerate(row):
        if token.text not in {"how", "hows", "how's"}:
            continue
        follows = [each.text for each in row[at + 1 : at + 3]]
        if follows[:1] == ["to"] or (len(follows) > 1 and follows[0] in _MODALS and follows[1] in _ASKERS):
            found.add("instructs")
        elif follows[:1] in (["was"], ["were"]) and not _ASKERS.intersection(follows):
            found.add("tells")
    return found


def asked(row: Sequence[Token]) -> set[str]:
    """What the question words at the head of a clause, or at the very end, ask for."""
    found = set()
    leading = True
    for at, token in enumerate(row):
        if token.kind != "word":
            leading = token.kind in {"stop", "comma"} or (leading and token.kind == "fence")
            continue
        word = _FORMS.get(token.text, token.text)
        if leading or token.first or at == len(row) - 1:
            kind = _kind(word, row, at)
            if kind:
                found.add(kind)
                leading = False
                continue
        leading = (leading or token.first) and word in _LEADING
    return found


def _kind(word: str, row: Sequence[Token], at: int) -> str:
    if word in _BARE:
        open_clause = word == "when" and at + 1 < len(row) and row[at + 1].text not in _AUXILIARIES
        return "" if open_clause else _BARE[word]
    if word not in {"how", "what"}:
        return ""
    follows = row[at + 1].text if at + 1 < len(row) else ""
    if word == "what":
        return _OF_WHAT.get(follows, "")
    kind = _OF_HOW.get(follows, "")
    behind = row[at + 2].text if at + 2 < len(row) else ""
    if kind == "count" and behind in _DURATIONS:
        return "duration"
    if kind == "amount" and (behind in _PRICED or not behind):
        return "price"
    if kind == "amount" and behind in {"notice", "time"}:
        return "duration"
    return kind or "way"
