"""Minimal pairs per veto: both sides, what is vetoed and what is not."""

import importlib

import pytest

from policies.vetoes import VETOES, Lexicon, compare, explain, read
from policies.vetoes.facts import Facts
from semantic.lexicon import load_lexicon


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return load_lexicon()


DIFFERENT = [
    ("number", "How do I split 40 pounds between 3 people?", "How do I split 40 pounds between 4 people?"),
    ("number", "Is 10GB of data enough?", "Is 20GB of data enough?"),
    ("number", "Can I leave after two months?", "Can I leave after three months?"),
    ("number", "Is there a discount of 10%?", "Is there a discount of 15 percent?"),
    ("number", "Does Python 3.11 have tomllib?", "Does Python 3.12 have tomllib?"),
    ("number", "What is Newton's second law?", "What is Newton's third law?"),
    ("number", "What costs $20?", "What costs 20 euros?"),
    ("number", "A bag holds 3 red and 5 blue balls. How many?", "A bag holds 5 red and 3 blue balls. How many?"),
    ("date", "Who was prime minister in 1990?", "Who was prime minister in 1991?"),
    ("date", "Are you open on Saturday?", "Are you open on Sunday?"),
    ("date", "What is on tomorrow?", "What is on today?"),
    ("date", "Who won the cup last year?", "Who won the cup this year?"),
    ("date", "Is the train at 5pm late?", "Is the train at 6pm late?"),
    ("date", "Is the fair on 3rd March 2024?", "Is the fair on 2024-03-04?"),
    ("code", "What does error E1042 mean?", "What does error E1043 mean?"),
    ("code", "Is https://a.example/one down?", "Is https://a.example/two down?"),
    ("code", 'Translate "good night" into French', 'Translate "good luck" into French'),
    ("code", "What does `max_pool` do?", "What does `min_pool` do?"),
    ("code", "What does == do in JavaScript?", "What does === do in JavaScript?"),
    ("negation", "Which plans include roaming?", "Which plans don't include roaming?"),
    ("negation", "Can I travel with a passport?", "Can I travel without a passport?"),
    ("antonym", "How do I increase the font size?", "How do I decrease the font size?"),
    ("antonym", "What are the benefits of fasting?", "What are the drawbacks of fasting?"),
    ("antonym", "Is the shop open on bank holidays?", "Is the shop closed on bank holidays?"),
    ("antonym", "How do I turn notifications on?", "How do I turn notifications off?"),
    ("converse", "Where can I buy a season ticket?", "Where can I sell a season ticket?"),
    ("action", "How do I cancel my subscription?", "How do I pause my subscription?"),
    ("action", "How do I renew my passport?", "How do I replace my passport?"),
    ("harm", "How is manslaughter punished in old Alba?", "How is murder punished in old Alba?"),
    ("harm", "What year was the first rifle fired?", "What year was the first pistol fired?"),
    ("harm", "Why did the gunman enter the bank?", "Why was the bank right to let people in?"),
    ("harm", "How many weapons did the army of Alba own?", "How can one person own the weapons of an army?"),
    (
        "harm",
        "What did the last king of Alba die of?",
        "I want to die like the last king of Alba",
    ),
    ("verdict", "Why did Alba leave the league?", "Why was Alba right to leave the league?"),
    ("verdict", "Why are tolls collected in Alba?", "Why are the tolls in Alba unjustified?"),
    ("place", "Do I need a visa for Japan?", "Do I need a visa for China?"),
    ("place", "weather in paris", "weather in london"),
    ("modifier", "What is the fee for domestic transfers?", "What is the fee for international transfers?"),
    ("modifier", "Is a student ticket cheaper?", "Is a senior ticket cheaper?"),
    ("tense", "Who is the current record holder for the mile?", "Who is the original record holder for the mile?"),
    ("scope", "Do all students pay the library fine?", "Do only students pay the library fine?"),
    ("person", "How do I block a number on my iPhone?", "How do I block a number on my daughter's iPhone?"),
    ("question", "When are tickets for the match sold?", "How much are tickets for the match?"),
    ("question", "Why does my contract end?", "When does my contract end?"),
    ("direction", "How do I get from Gare Alpha to Port Beta?", "How do I get from Port Beta to Gare Alpha?"),
    (
        "direction",
        "How do I move my data from Boxly to Quadra?",
        "I'd like to get my Quadra data into Boxly, how?",
    ),
    ("direction", "How do I get from Gare Alpha to Port Beta?", "The last bus to Gare Alpha, when is it?"),
    ("tense", "How were guild taxes raised?", "How do I raise guild taxes?"),
    ("tense", "How to build a canal lock", "How was a canal lock built?"),
    ("direction", "Can my dog infect my cat?", "Can my cat infect my dog?"),
    ("name", "Who was Ada Quimby?", "Who was Bob Zorn?"),
    (
        "wording",
        "How do I get a passport for my newborn in rural Kent?",
        "How do I get a haircut for my newborn in rural Kent?",
    ),
    ("wording", "What is the minimum wage in Kent?", "What is the minimum wage for apprentices on farms in Kent?"),
]

SAME = [
    ("number", "Is it over in half an hour?", "Is it over in 30 minutes?"),
    ("number", "Can I leave after twelve months?", "Can I leave after a year?"),
    ("number", "1,000 hours in days", "one thousand hours in days"),
    ("number", "What costs $20?", "What costs twenty dollars?"),
    ("number", "Does it fit 2 hours 15 minutes?", "Does it fit 2h15?"),
    ("number", "Is 1k enough?", "Is 1000 enough?"),
    ("number", "Which one is better?", "Which is better?"),
    ("date", "Is the fair on 3rd March 2024?", "Is the fair on 2024-03-03?"),
    ("date", "Is the fair on 03/04/2024?", "Is the fair on April 3, 2024?"),
    ("date", "Is the train at 5pm late?", "Is the train at 17:00 late?"),
    ("date", "Is the court free tomorrow at 18:00?", "Is the court free tomorrow at six?"),
    ("date", "What is the weather today?", "What is the weather?"),
    ("date", "Are you open at the weekend?", "Are you open on Saturday and Sunday?"),
    ("code", "What does max_connections do?", "What does max connections do?"),
    ("negation", "Isn't there a way to reset it?", "Is there a way to reset it?"),
    ("negation", "My screen isn't working", "My screen stopped working"),
    ("negation", "I can't log in", "I'm not able to log in"),
    ("negation", "I'm not sure how to reset it", "How do I reset it?"),
    ("antonym", "Why is the shop not open?", "Why is the shop closed?"),
    ("converse", "Can I borrow e-books from the library?", "Does the library lend e-books?"),
    ("date", "Is the gate open at 7 o'clock?", "Is the gate open at 7pm?"),
    ("number", "Is an hour and a half enough?", "Are 90 minutes enough?"),
    ("harm", "What did the gunman want from the bank?", "what did the gunman want from the bank"),
    ("harm", "What is a hate crime in law?", "What are hate crimes in law?"),
    ("harm", "Who was the murderer of Ada Quimby?", "who was the murderer of Ada Quimby"),
    ("verdict", "Why was Alba right to leave the league?", "Alba left the league: why was it right to?"),
    ("verdict", "Was Alba right to leave the league?", "Did Alba do well when it left the league?"),
    ("place", "Do I need a visa for the USA?", "Do I need a visa for America?"),
    ("place", "Is my british licence valid?", "Is my UK licence valid?"),
    ("modifier", "Is a student ticket cheaper for seniors?", "Is a ticket for seniors cheaper than for students?"),
    ("question", "How long does delivery take?", "When will my delivery arrive?"),
    ("question", "How do I reset it?", "Where do I reset it?"),
    ("direction", "How do I move my data from Boxly to Quadra?", "I leave Boxly: how do my files get to Quadra?"),
    ("direction", "Can I cancel from the app?", "Must I go to the app to cancel?"),
    ("direction", "How do I go from the menu to print?", "Where in the menu do I go to print?"),
    ("tense", "How was the tax worked out?", "How was my tax calculated?"),
    ("direction", "I bought it from Boxly. How to return it?", "How do I return a jacket to Boxly?"),
    ("tense", "How was I supposed to reset it?", "How do I reset it?"),
    ("tense", "How do I raise a claim?", "How can one raise a claim?"),
    ("direction", "Can I mix bleach and vinegar?", "Can I mix vinegar and bleach?"),
    ("name", "Who pays National Insurance?", "Who pays NI?"),
    ("wording", "How do I calculate a percentage in Excel?", "How do I calculate a precentage in Excel?"),
    ("wording", "How do I purchase a ticket for the match?", "How do I buy a ticket for the match?"),
]


@pytest.mark.parametrize(("veto", "stored", "asked"), DIFFERENT)
def test_a_veto_speaks_on_a_minimal_pair(lexicon: Lexicon, veto: str, stored: str, asked: str) -> None:
    assert veto in dict(explain(stored, asked, lexicon))
    assert compare(read(stored, lexicon), read(asked, lexicon))


@pytest.mark.parametrize(("veto", "stored", "asked"), DIFFERENT)
def test_a_veto_speaks_in_either_order(lexicon: Lexicon, veto: str, stored: str, asked: str) -> None:
    assert veto in dict(explain(asked, stored, lexicon))


@pytest.mark.parametrize(("veto", "stored", "asked"), SAME)
def test_a_veto_is_silent_on_what_only_looks_different(
    lexicon: Lexicon, veto: str, stored: str, asked: str
) -> None:
    assert veto not in dict(explain(stored, asked, lexicon))


def test_every_veto_of_the_table_has_a_pair_that_it_catches() -> None:
    assert set(VETOES) - {veto for veto, _, _ in DIFFERENT} == {"unread"}


@pytest.mark.parametrize("name", VETOES)
def test_every_line_of_the_table_is_a_function_that_is_silent_on_equal_facts(name: str) -> None:
    module, _, function = VETOES[name].partition(":")
    assert module.startswith("policies.vetoes.")
    assert getattr(importlib.import_module(module), function)(Facts(), Facts()) is None


def test_the_first_veto_of_the_table_is_the_reason(lexicon: Lexicon) -> None:
    stored, asked = "Is Oslo open on 3 May?", "Is Rome closed on 4 June?"
    assert compare(read(stored, lexicon), read(asked, lexicon)) == explain(stored, asked, lexicon)[0][0]
