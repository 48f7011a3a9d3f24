"""Derive policies/vetoes/data/synonyms.txt from WordNet 3.0's database files (Debian package wordnet-base).

python scripts/derive_synonyms.py /usr/share/wordnet
"""

import sys
from pathlib import Path

from policies.vetoes.inflection import stem

OUT = Path(__file__).resolve().parent.parent / "policies" / "vetoes" / "data" / "synonyms.txt"
PARTS = ("noun", "verb", "adj", "adv")
LETTERS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
NEAR = frozenset({"@", "&", "+", "$", "\\"})
"""Hypernym, similar, derived, verb group, pertainym."""
HEAD = """\
# Single words that may stand for one another: synonym sets, each with what is directly above it or
# derived from it.
# Only words that occur in WordNet's tagged texts. Derived by scripts/derive_synonyms.py.
# Source: WordNet 3.0, Princeton University. Licence: WordNet 3.0 licence, see WORDNET-LICENSE.
"""


def common_words(folder: Path, part: str) -> set[str]:
    """Lemmas of one word, two letters or more, with at least one sense in the tagged texts."""
    found = set()
    for line in (folder / f"index.{part}").read_text("utf-8").splitlines():
        if line.startswith(" "):
            continue
        fields = line.split()
        pointers = int(fields[3])
        if fields[0].isalpha() and len(fields[0]) > 1 and int(fields[5 + pointers]) > 0:
            found.add(fields[0])
    return found


def synsets(folder: Path, part: str) -> dict[tuple[str, str], tuple[list[str], list[tuple[str, str, str]]]]:
    """By part of speech and offset: the words, and the synonym sets next to it."""
    sets = {}
    for line in (folder / f"data.{part}").read_text("utf-8").splitlines():
        if line.startswith(" "):
            continue
        fields = line.split(" ")
        count = int(fields[3], base=16)
        words = [fields[4 + 2 * number].partition("(")[0] for number in range(count)]
        start = 4 + 2 * count
        pointers = [
            fields[start + 1 + 4 * number : start + 5 + 4 * number] for number in range(int(fields[start]))
        ]
        near = [(kind, offset, ends) for symbol, offset, kind, ends in pointers if symbol in NEAR]
        sets[LETTERS[part], fields[0]] = (words, near)
    return sets


def main() -> None:
    """Write every set of two words or more, sorted."""
    folder = Path(sys.argv[1])
    common = {LETTERS[part]: common_words(folder, part) for part in PARTS}
    sets = {key: found for part in PARTS for key, found in synsets(folder, part).items()}
    lines = set()
    for (letter, _), (words, near) in sets.items():
        own = sorted(common[letter].intersection(words))
        if len(own) > 1:
            lines.add(" ".join(own))
        for kind, offset, ends in near:
            theirs = sets[kind, offset][0]
            if ends != "0000":
                couple = int(ends, 16)
                left, right = words[(couple >> 8) - 1], theirs[(couple & 0xFF) - 1]
                derived = left in common[letter] and right in common[kind] and stem(left) != stem(right)
                lines.update([f"{min(left, right)} {max(left, right)}"] if derived else [])
            elif others := sorted(common[kind].intersection(theirs) - set(own)):
                lines.update([" ".join(own + others)] if own else [])
    OUT.write_text(HEAD + "".join(f"{line}\n" for line in sorted(lines)), "utf-8")
    print(f"{len(lines)} sets in {OUT}")


if __name__ == "__main__":
    main()
