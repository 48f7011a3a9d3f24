"""Stories told twice: a number said more often in one of them is another sum."""

import pytest

from policies.vetoes import compare, read
from semantic.lexicon import load_lexicon

STORY = "Ann has 4 boxes with 12 pens each. She gives 3 pens away. How many pens has Ann left?"


@pytest.mark.parametrize(
    "other",
    [
        "Ann has 4 boxes with 12 pens each. She gives 3 pens away and buys 4 more. How many pens has Ann left?",
        "Ann has 4 boxes with 12 pens each. She gives 3 pens to each of 3 friends. How many pens has Ann left?",
        "Ann has boxes with 12 pens each. She gives 3 pens away. How many pens has Ann left?",
    ],
)
def test_a_step_more_or_less_is_vetoed(other: str) -> None:
    lexicon = load_lexicon()
    assert compare(read(STORY, lexicon), read(other, lexicon)) is not None


def test_the_same_story_in_other_words_is_not() -> None:
    lexicon = load_lexicon()
    other = (
        "There are 4 boxes, each with 12 pens, and Ann gives 3 of the pens away. How many pens are left for Ann?"
    )
    assert compare(read(STORY, lexicon), read(other, lexicon)) is None
