"""Derive policies/vetoes/data/synonyms.txt from WordNet 3.0's database files (Debian package wordnet-base).

python scripts/derive_synonyms.py /usr/share/wordnet
"""

import sys
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "policies" / "vetoes" / "data" / "synonyms.txt"
PARTS = ("noun", "verb", "adj", "adv")
HEAD = """\
# Synonym sets of single words that occur in WordNet's tagged texts. Derived by scripts/derive_synonyms.py.
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


def synsets(folder: Path, part: str) -> list[list[str]]:
    """The words of every synonym set, lower-case lemmas only."""
    sets = []
    for line in (folder / f"data.{part}").read_text("utf-8").splitlines():
        if line.startswith(" "):
            continue
        fields = line.split(" ")
        count = int(fields[3], 16)
        words = [fields[4 + 2 * number].partition("(")[0] for number in range(count)]
        sets.append([word for word in words if word.isalpha() and word.islower()])
    return sets


def main() -> None:
    """Write the sets of two words or more, sorted."""
    folder = Path(sys.argv[1])
    lines = set()
    for part in PARTS:
        common = common_words(folder, part)
        for words in synsets(folder, part):
            kept = sorted(common.intersection(words))
            if len(kept) > 1:
                lines.add(" ".join(kept))
    OUT.write_text(HEAD + "".join(f"{line}\n" for line in sorted(lines)), "utf-8")
    print(f"{len(lines)} sets in {OUT}")


if __name__ == "__main__":
    main()
