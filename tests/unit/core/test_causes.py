"""The table of causes: one name for what became of a case, wherever it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from ragbench.core.attribution import LOSSES, Cause, CauseCount

ROOT = Path(__file__).parents[3]
STYLES = (ROOT / "ragbench" / "views" / "html" / "report.css").read_text("utf-8")


@pytest.mark.parametrize("cause", Cause)
def test_the_label_is_the_name_in_words(cause: Cause) -> None:
    assert cause.label == cause.value.replace("_", " ")
    assert cause.name == cause.value.upper()


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_says_its_meaning_in_a_sentence(cause: Cause) -> None:
    assert re.fullmatch(r"[A-Z].*\.", cause.meaning)


@pytest.mark.parametrize("cause", sorted(LOSSES))
def test_every_loss_says_how_to_mend_it(cause: Cause) -> None:
    assert re.fullmatch(r"[A-Z].*\.", cause.remedy)


def test_the_page_of_causes_is_the_table() -> None:
    page = (ROOT / "docs" / "causes.md").read_text("utf-8")

    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", page, re.MULTILINE)

    assert rows[: len(Cause)] == [(cause.value, cause.meaning, cause.remedy) for cause in Cause]


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_a_colour_on_the_page(cause: Cause) -> None:
    assert f".c-{cause.value},[data-c={cause.value}]{{--c:var(" in STYLES


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("not_used", Cause.NOT_USED),
        ("not used", Cause.NOT_USED),
        ("Not used", Cause.NOT_USED),
        ("shown, answered wrongly", Cause.NOT_USED),
        ("cannot_tell", Cause.UNCHECKED),
        ("unknown", Cause.UNCHECKED),
        ("answered_without", Cause.ANSWERED_WITHOUT_EVIDENCE),
    ],
)
def test_a_cause_is_read_by_name_by_label_and_by_what_it_was_called(
    text: str, cause: Cause
) -> None:
    assert Cause(text) is cause


def test_a_stored_run_of_an_earlier_release_is_read() -> None:
    stored = msgspec.json.encode({"cause": "cannot_tell", "cases": 2})

    count = msgspec.json.decode(stored, type=CauseCount)

    assert count.cause is Cause.UNCHECKED


def test_no_page_has_a_name_that_a_cause_had_before() -> None:
    former = re.compile(
        r"shown, (answered|declined)|cannot_tell|nothing was there|answered_without\b"
    )
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]

    places = [page.name for page in pages if former.search(page.read_text("utf-8"))]

    assert places == []
