"""Personal data: numbers with valid checksums are found in many forms and places, look-alikes are not."""

import hashlib
import random
import uuid
from collections.abc import Callable

import pytest
from stdnum import iban, luhn, verhoeff

from policies.guardrails.pii import PiiGuard
from policies.guardrails.types import Material, Subject
from tests.policies.guardrails.shelf import asked

GUARD = PiiGuard(Material("private"))
Draw = Callable[[random.Random], str]


def digits(draw: random.Random, count: int) -> str:
    return "".join(draw.choice("0123456789") for _ in range(count))


def card(draw: random.Random) -> str:
    head, length = draw.choice([("4", 16), ("51", 16), ("55", 16), ("34", 15), ("6011", 16), ("3528", 16)])
    body = head + digits(draw, length - len(head) - 1)
    number = body + luhn.calc_check_digit(body)
    if length == 16 and draw.random() < 0.5:
        return draw.choice([" ", "-"]).join(number[start : start + 4] for start in range(0, 16, 4))
    return number


def bank_account(draw: random.Random) -> str:
    country, body = draw.choice(
        [("DE", digits(draw, 18)), ("NL", "ABNA" + digits(draw, 10)), ("AT", digits(draw, 16))]
    )
    check = iban.calc_check_digits(f"{country}00{body}")
    number = f"{country}{check}{body}"
    if not iban.is_valid(number):
        return bank_account(draw)
    return (
        number
        if draw.random() < 0.5
        else " ".join(number[start : start + 4] for start in range(0, len(number), 4))
    )


def security_number(draw: random.Random) -> str:
    area = draw.choice([number for number in range(1, 900) if number != 666])
    return f"{area:03d}-{draw.randint(1, 99):02d}-{draw.randint(1, 9999):04d}"


def email(draw: random.Random) -> str:
    name = draw.choice(["ann", "b.lee", "c_d+x", "Maria-Luz", "o'neil"]) + digits(draw, 2)
    return (
        f"{name}@{draw.choice(['mail', 'firma', 'uni-x'])}{digits(draw, 2)}.{draw.choice(['com', 'de', 'co.uk'])}"
    )


def phone(draw: random.Random) -> str:
    area = draw.choice(["212", "415", "617", "303"])
    body = f"{draw.randint(2, 4)}{digits(draw, 2)}", digits(draw, 4)
    forms = [f"+1 {area} {body[0]} {body[1]}", f"({area}) {body[0]}-{body[1]}", f"{area}-{body[0]}-{body[1]}"]
    forms += [f"+44 20 7946 {digits(draw, 4)}", f"+49 30 {draw.randint(2, 9)}{digits(draw, 6)}"]
    return draw.choice(forms)


def address_of_a_machine(draw: random.Random) -> str:
    first = draw.choice([81, 86, 145, 178, 212])
    return f"{first}.{draw.randint(20, 250)}.{draw.randint(1, 250)}.{draw.randint(1, 250)}"


def aadhaar(draw: random.Random) -> str:
    body = draw.choice("23456789") + digits(draw, 10)
    number = body + verhoeff.calc_check_digit(body)
    return " ".join(number[start : start + 4] for start in range(0, 12, 4))


IDS: dict[str, Draw] = {
    "card": card,
    "iban": bank_account,
    "us_ssn": security_number,
    "email": email,
    "phone": phone,
    "ip": address_of_a_machine,
    "in_aadhaar": aadhaar,
}
PLACES = [
    "{}",
    "It is {}.",
    "Please use {} for this.",
    "({})",
    "Details:\n- {}\n- none",
    '{{"value": "{}"}}',
    "first {}, then the rest",
    "<b>{}</b>",
    "Grüße! Meine Angabe: {} - danke.",
    "a\t{}\tb",
]
LOOK_ALIKES: dict[str, Draw] = {
    "order": lambda draw: f"Your order number is {digits(draw, draw.choice([8, 10, 12, 16]))}.",
    "order with hyphens": lambda draw: f"Order {digits(draw, 3)}-{digits(draw, 7)}-{digits(draw, 7)} has left.",
    "hash": lambda draw: f"commit {hashlib.sha256(digits(draw, 9).encode()).hexdigest()}",
    "short hash": lambda draw: f"see {hashlib.sha256(digits(draw, 9).encode()).hexdigest()[:12]}",
    "uuid": lambda draw: f"id {uuid.UUID(int=draw.getrandbits(128), version=4)} failed",
    "version": lambda draw: (
        f"To version {draw.randint(1, 30)}.{draw.randint(0, 99)}.{draw.randint(0, 99)}.{draw.randint(0, 9)}"
    ),
    "price": lambda draw: f"It costs ${draw.randint(1, 99)},{digits(draw, 3)}.{digits(draw, 2)} a year",
    "population": lambda draw: (
        f"About {draw.randint(1, 99)},{digits(draw, 3)},{digits(draw, 3)} people live there"
    ),
    "date": lambda draw: (
        f"On {draw.randint(1990, 2029)}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d} it rained"
    ),
    "time": lambda draw: (
        f"at {draw.randint(1990, 2029)}-11-{draw.randint(1, 28):02d}T12:30:{draw.randint(10, 59)}Z"
    ),
    "years": lambda draw: (
        f"from {draw.randint(1800, 1899)} to {draw.randint(1900, 1999)}, {draw.randint(1, 99)} years"
    ),
    "seconds": lambda draw: f"timestamp {draw.randint(1_600_000_000, 1_900_000_000)} was logged",
    "isbn": lambda draw: f"ISBN 978-{digits(draw, 1)}-{digits(draw, 4)}-{digits(draw, 4)}-{digits(draw, 1)}",
    "code": lambda draw: f"x = [{digits(draw, 3)}, {digits(draw, 4)}, {digits(draw, 5)}]",
    "float": lambda draw: f"pi is about 3.{digits(draw, 12)}",
    "private network": lambda draw: f"listen on 192.168.{draw.randint(0, 255)}.{draw.randint(1, 254)}",
    "reserved mail": lambda draw: f"write to user{digits(draw, 3)}@example.com",
}


@pytest.mark.parametrize("kind", IDS)
def test_valid_numbers_are_found_in_any_place(kind: str) -> None:
    draw = random.Random(7)
    texts = [place.format(IDS[kind](draw)) for place in PLACES for _ in range(40)]
    missed = [text for text in texts if kind not in GUARD.kinds(text)]
    assert len(missed) <= len(texts) // 100, missed[:3]


@pytest.mark.parametrize("kind", LOOK_ALIKES)
def test_look_alikes_are_let_pass(kind: str) -> None:
    draw = random.Random(11)
    texts = [LOOK_ALIKES[kind](draw) for _ in range(400)]
    found = [(text, GUARD.kinds(text)) for text in texts if GUARD.kinds(text)]
    assert len(found) <= len(texts) // 100, found[:3]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("My name is Ágnes Kovács and I need help.", "person"),
        ("She lives at Lindenstraße 14", "address"),
        ("je m'appelle Zoé Martin", "person"),
        ("Date of birth: 12/04/1987", "birth"),
        ("I was born on April 3, 1990 in Leeds.", "birth"),
        ("my driver's license number is D1234567", "licence"),
        ("Passport No. C01X00T47", "licence"),
        ("Ship it to 742 Evergreen Terrace please", "address"),
        ("Send it to P.O. Box 1234", "address"),
        ("CPF 529.982.247-25", "br_cpf"),
        ("RSSMRA85T10A562S", "it_codice"),
        ("client 2001:4860:1234::8844 connected", "ip"),
    ],
)
def test_words_around_tell_what_a_value_is(text: str, kind: str) -> None:
    assert kind in GUARD.kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        "Queen Elizabeth II was born on April 21, 1926.",
        "Hamlet was written by William Shakespeare.",
        "Call us free of charge at 1-800-275-2273.",
        "The test card is 4111 1111 1111 1111.",
        "Ping 8.8.8.8 to see whether you are online.",
        "git clone git@github.com:user/repo.git",
        "He was president during 1971 and left.",
    ],
)
def test_public_facts_are_nobodys(text: str) -> None:
    assert GUARD.kinds(text) == []


def test_what_the_operator_calls_public_is_let_pass() -> None:
    public = PiiGuard(Material("private", public=("help@shop.example.de", "firma.de", "+49 30 901820")))
    assert public.check(asked("Write to help@shop.example.de or a@firma.de, call +49 30 901820.")) is None
    assert public.check(asked("Write to me@elsewhere.de.")) is not None


def test_system_texts_and_answers_are_read_too() -> None:
    for subject in (
        Subject("q", system_texts=("The user is ann@mail-x.de.",)),
        Subject("q", answer_texts=("Mail ann@mail-x.de.",)),
    ):
        verdict = GUARD.check(subject)
        assert verdict is not None
        assert (verdict.reason, verdict.action, dict(verdict.spans)) == ("pii_email", "private", {"email": 1})
