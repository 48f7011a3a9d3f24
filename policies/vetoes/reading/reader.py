"""From tokens to facts."""

from collections.abc import Iterator, Sequence

from policies.vetoes.facts import Amount, DatePart, Facts, Marks
from policies.vetoes.inflection import stem
from policies.vetoes.lexicon import Lexicon, Meaning
from policies.vetoes.reading import questions, relations
from policies.vetoes.reading.amounts import amount
from policies.vetoes.reading.calendar import date
from policies.vetoes.reading.tokens import Token, bounded, quotes, tokens

_GAP = 4
_POLITE = frozenset({"pleas", "please"})
_SCOPE = 5
_BINDING = frozenset({"in", "for", "on", "at", "from", "to", "with", "near", "by", "into", "via", "using", "of"})
_SUBJECTS = frozenset(
    {"i", "you", "we", "they", "he", "she", "it", "there", "that", "this", "anyone", "someone", "the"}
)
_COMPOUND = frozenset({"time", "months", "length", "mass"})
_CODES = {"version": "codes", "phone": "codes", "link": "links", "code": "symbols", "symbol": "symbols",
          "name": "symbols", "language": "symbols"}  # fmt: skip


def read(text: str, lexicon: Lexicon) -> Facts:
    """The facts of a text; linear in its length, which beyond 4,000 characters is only digested."""
    part, unread = bounded(text)
    return _Reading(tokens(part), lexicon).facts(part, unread)


class _Reading:
    """One text being read; each method takes a token or leaves it to the next."""

    def __init__(self, row: list[Token], lexicon: Lexicon) -> None:
        self.row = row
        self.lexicon = lexicon
        self.amounts: list[Amount] = []
        self.dates: list[DatePart] = []
        self.taken: dict[str, set[str]] = {"codes": set(), "links": set(), "symbols": set()}
        self.names: set[str] = set()
        self.bound: set[str] = set()
        self.marks: dict[str, dict[str, set[str]]] = {}
        self.words: set[str] = set()
        self.content: list[str] = []
        self.negations = 0
        self.denied: set[str] = set()
        self.doubtful = False
        self.amount_end = -2
        capitals = sum(token.capital for token in row)
        self.titled = capitals > 3 and capitals * 10 > 6 * sum(token.kind == "word" for token in row)  # noqa: PLR2004

    def facts(self, text: str, unread: bytes) -> Facts:
        at, size = 0, len(self.row)
        while at < size:
            at = self._step(at)
        for kind, said in (("asks", questions.asked(self.row)), ("voice", questions.voice(self.row))):
            if said:
                self.marks.setdefault(kind, {}).setdefault(kind, set()).update(said)
        origins, targets = relations.ends(self.row, self.lexicon.fillers)
        senses = self.lexicon.senses
        return Facts(
            words=frozenset(self.words),
            content=tuple(self.content),
            senses=tuple(senses.get(word, frozenset()) for word in self.content),
            amounts=tuple(self.amounts),
            dates=frozenset(self.dates),
            codes=frozenset(self.taken["codes"]),
            links=frozenset(self.taken["links"]),
            symbols=frozenset(self.taken["symbols"]),
            quotes=frozenset(self._quotes(text)),
            names=frozenset(self.names),
            bound_names=frozenset(self.bound),
            marks=_frozen(self.marks),
            negations=self.negations,
            doubtful=self.doubtful,
            denied=frozenset(self.denied),
            order=relations.order(self.row, self.lexicon.fillers),
            origins=origins,
            targets=targets,
            sources=relations.sources(self.row, self.lexicon.fillers),
            initials="".join([token.text[0] for token in self.row if token.kind == "word"]),
            unread=unread,
        )

    def _quotes(self, text: str) -> Iterator[tuple[str, ...]]:
        for words in quotes(text):
            telling = tuple(word for word in words if word not in self.lexicon.fillers)
            if telling:
                yield telling

    def _step(self, at: int) -> int:
        """Take what begins at a token; returns the index behind it."""
        token = self.row[at]
        if token.kind == "word":
            glued = at + 1 < len(self.row) and self.row[at + 1].glued
            if token.text not in self.lexicon.special and not glued:
                self._common(at, token)
                return at + 1
            behind = self._phrase(at)
            if behind:
                return behind
        elif token.kind in {"stop", "comma"}:
            return at + 1
        return self._figure(at, token)

    def _common(self, at: int, token: Token) -> None:
        """A word without a meaning of its own."""
        word = token.text
        if "'" in word:
            self._word(at, token)
            return
        if token.capital:
            self._name(at, token, word)
        self.words.add(word)
        if word not in self.lexicon.fillers:
            root = stem(word)
            self.words.add(root)
            self.content.append(root)

    def _figure(self, at: int, token: Token) -> int:
        if token.text in {"->", "=>"}:
            return at + 1
        if token.kind in _CODES:
            self.taken[_CODES[token.kind]].add(token.text.strip("`").rstrip(".,)"))
            self._say(token.text)
            return at + 1
        found = date(self.row, at, self.lexicon)
        if found:
            self.dates += found[0]
            return self._pass(at, found[1])
        if self._is_code(at):
            return self._code(at)
        number = amount(self.row, at, self.lexicon)
        if number:
            self._amount(at, number[0])
            self.amount_end = number[1]
            self.words.update([token.text for token in self.row[at : number[1]]])
            dimension, base, value, _ = number[0]
            single = value == 1 and bool(dimension)
            self.content.append(stem(self.row[number[1] - 1].text) if single else f"{base:g}{dimension}")
            return self.amount_end
        if token.kind == "ordinal":
            value = float(token.text[:-2])
            self.amounts.append(("ordinal", value, value, True))
            self._say(token.text)
        elif token.kind == "word":
            day = self.lexicon.ordinals.get(token.text)
            if day:
                self.amounts.append(("ordinal", float(day), float(day), True))
            self._word(at, token)
        return at + 1

    def _amount(self, at: int, found: Amount) -> None:
        """Add an amount, to the one before when both are parts of one: `2 hours 15 minutes`, `5 ft 3 in`."""
        gap = at - self.amount_end
        joined = gap == 0 or (gap == 1 and self.row[at - 1].text == "and")
        joined = joined and self.row[at].text not in {"a", "an"}
        if joined and self.row[at].glued and not found[0] and self.amounts[-1][0] == "time":
            found = ("time", found[2] * 60, found[2], False)
        if joined and self.amounts and found[0] in _COMPOUND and self.amounts[-1][0] == found[0]:
            _, base, value, _ = self.amounts.pop()
            found = (found[0], round(base + found[1], 6), value, False)
        self.amounts.append(found)

    def _pass(self, at: int, behind: int) -> int:
        for token in self.row[at:behind]:
            self.words.add(token.text)
            if token.text not in self.lexicon.fillers:
                self.content.append(token.text)
        return behind

    def _is_code(self, at: int) -> bool:
        """Letters and digits without a blank between them that are no amount with its unit."""
        row = self.row
        if at + 1 >= len(row) or not row[at + 1].glued:
            return False
        kinds = (row[at].kind, row[at + 1].kind)
        if kinds == ("word", "number"):
            return True
        if kinds != ("number", "word"):
            return False
        word = row[at + 1].text
        follows = at + 2 < len(row) and row[at + 2].glued and row[at + 2].kind in {"number", "word"}
        return (follows and word != "h") or not (word in self.lexicon.units or word in {"k", "bn", "mn", "x"})

    def _code(self, at: int) -> int:
        """A code; letters then one or two digits, as in a product's name, are left as word and number."""
        end = at + 1
        while end < len(self.row) and self.row[end].glued and self.row[end].kind in {"word", "number"}:
            end += 1
        parts = self.row[at:end]
        if len(parts) == 2 and parts[0].kind == "word" and self._is_product(parts):  # noqa: PLR2004
            self._word(at, parts[0])
            value = float(parts[1].text.replace(",", ""))
            self.amounts.append(("", value, value, False))
            return end
        code = "".join(part.text for part in parts)
        self.taken["codes"].add(code)
        self._say(code)
        return end

    def _is_product(self, parts: Sequence[Token]) -> bool:
        known = self.lexicon.words.get(parts[0].text)
        long = len(parts[0].text) > 3 or (known is not None and bool(known.canonical))  # noqa: PLR2004
        return long and len(parts[1].text) <= 2  # noqa: PLR2004

    def _phrase(self, at: int) -> int:
        """The longest phrase of the lexicon that begins here; 0 for none."""
        phrases = self.lexicon.phrases.get(self.row[at].text)
        if phrases is None:
            return 0
        for rest, meaning in phrases:
            behind = _match(self.row, at + 1, rest)
            if behind:
                if ".." in rest:
                    self._mean(at, meaning)
                    return 0
                self._mean(at, meaning)
                for token in self.row[at:behind]:
                    self.words.add(token.text)
                    own = self.lexicon.words.get(token.text)
                    self.doubtful = self.doubtful or (own is not None and own.polarity == "doubtful")
                self._content(meaning, [token.text for token in self.row[at:behind]])
                return behind
        return 0

    def _content(self, meaning: Meaning, words: list[str]) -> None:
        if meaning.canonical:
            if meaning.canonical not in _POLITE:
                self._say(meaning.canonical)
            return
        for word in words:
            self.words.add(stem(word))
            if word not in self.lexicon.fillers:
                self.content.append(stem(word))

    def _word(self, at: int, token: Token) -> None:
        written = token.text
        word = written.removesuffix("'s")
        lexicon = self.lexicon
        meaning = lexicon.words.get(word)
        self.words.add(word)
        if meaning is not None:
            self._mean(at, meaning)
        if word.endswith("n't"):
            self._negate(at)
        self._name(at, token, word)
        if meaning is not None and meaning.canonical:
            self._say(meaning.canonical)
        elif word not in lexicon.fillers and not word.endswith("n't"):
            root = stem(word)
            self.words.add(root)
            self.content.append(root)

    def _say(self, word: str) -> None:
        self.words.add(word)
        self.content.append(word)

    def _mean(self, at: int, meaning: Meaning) -> None:
        for kind, group, member in meaning.marks:
            self.marks.setdefault(kind, {}).setdefault(group, set()).add(member)
        self.dates += meaning.dates
        if meaning.polarity == "negating":
            self._negate(at)
        elif meaning.polarity == "doubtful":
            self.doubtful = True

    def _negate(self, at: int) -> None:
        """Count a negation, unless it opens a question that asks what the plain one does: `isn't there`."""
        token, follows = self.row[at], self.row[at + 1].text if at + 1 < len(self.row) else ""
        if token.text.endswith(("n't", "nt")) and follows in _SUBJECTS and self._opens(at):
            return
        if token.text == "no" and (token.first and follows in {",", ""}):
            return
        self.negations += 1
        for token in self.row[at + 1 : at + 1 + _SCOPE]:
            if token.kind != "word":
                break
            if token.text not in self.lexicon.fillers:
                self.denied.add(stem(token.text))
                break

    def _opens(self, at: int) -> bool:
        return self.row[at].first or self.row[at - 1].kind == "comma"

    def _name(self, at: int, token: Token, word: str) -> None:
        """A capital inside a sentence, or one at its start on a word that no list knows."""
        if not token.capital or (self.titled and not token.upper) or len(word) < 2 or word in self.lexicon.fillers:  # noqa: PLR2004
            return
        meaning = self.lexicon.words.get(word)
        if meaning is not None and (meaning.marks or meaning.canonical or meaning.dates):
            return
        if token.first and (word in self.lexicon.words or stem(word) in self.lexicon.senses):
            return
        self.names.add(word)
        before = self.row[at - 1].text if at else ""
        before = self.row[at - 2].text if at > 1 and before in {"the", "a", "an", "my"} else before
        if before in _BINDING:
            self.bound.add(word)


def _match(row: Sequence[Token], at: int, rest: tuple[str, ...]) -> int:
    """Index behind the phrase's words when they stand here, else 0."""
    for number, word in enumerate(rest):
        if word == "..":
            wanted = rest[number + 1]
            for skip in range(1, _GAP + 1):
                if at + skip < len(row) and row[at + skip].text == wanted:
                    return at + skip + 1
                if at + skip >= len(row) or row[at + skip].kind in {"stop", "comma"}:
                    return 0
            return 0
        if at >= len(row) or row[at].text != word:
            return 0
        at += 1
    return at


def _frozen(marks: dict[str, dict[str, set[str]]]) -> Marks:
    return {
        kind: {group: frozenset(members) for group, members in groups.items()} for kind, groups in marks.items()
    }
