"""What is proposed for the columns of a spreadsheet, by their headers and their values."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench.errors import DataError
from ragbench.io.proposals import Proposal, propose
from ragbench.io.read import read_cases


def proposal_of(*rows: dict[str, object]) -> Proposal:
    return propose(rows, list(rows[0]), ())


def names_of(proposal: Proposal) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for field, columns in proposal.fields.items():
        names[field] = [column.name for column in columns]
    return names


@pytest.mark.parametrize("mark", ["?", " ?", "\uff1f", "\u061f"])
def test_the_only_column_of_questions_is_the_query_whatever_its_header(mark: str) -> None:
    proposal = proposal_of({"Item": f"When is noon{mark}", "Bot reply": "At twelve."})

    assert names_of(proposal) == {"query": ["Item"], "response": ["Bot reply"]}


def test_of_two_columns_of_questions_none_is_proposed() -> None:
    proposal = proposal_of({"Item": "When is noon?", "Next": "And lunch?", "Bot reply": "At 12."})

    assert "query" not in proposal.fields
    assert proposal.options("cases.csv") == '--field query=NAME --field response="Bot reply"'


def test_a_count_of_the_rows_is_no_answer() -> None:
    proposal = proposal_of(
        {"Frage": "Wann?", "Soll": "1", "Gold answer": "Um 12"},
        {"Frage": "Wo?", "Soll": "2", "Gold answer": "Im Saal"},
    )

    assert names_of(proposal)["reference"] == ["Gold answer"]


def test_two_columns_with_one_meaning_are_both_in_doubt() -> None:
    proposal = proposal_of({"Frage": "Wann?", "Bot A": "Um 12", "Bot B": "Um 13 Uhr"})
    lines = list(proposal.lines("cases.csv"))

    assert "response" not in proposal.fields
    assert lines[-2:] == [
        '  --field response="Bot A"   if it is your system\'s answer',
        '  --field response="Bot B"   if it is your system\'s answer',
    ]


def test_verdicts_go_before_ratings() -> None:
    proposal = proposal_of(
        {"Frage": "Wann?", "Soll": "Um 12", "Bot": "Um 13 Uhr", "OK?": "nein", "Sterne": "2"}
    )

    assert proposal.verdicts is not None
    assert proposal.verdicts.name == "OK?"
    assert proposal.scale is None


def test_read_cases_proposes_the_fields_and_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("Frage;Soll;Botantwort;OK?\nWann?;Um 12;Um 13 Uhr;nein\n", encoding="utf-8")

    with pytest.raises(DataError) as caught:
        list(read_cases(path))

    options = str(caught.value).splitlines()[-1].strip()
    assert options == "--field query=Frage --field reference=Soll --field response=Botantwort"


def test_read_cases_of_documents_names_the_option_for_them(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_text("text,title\nBees fly.,Bees\n", encoding="utf-8")

    with pytest.raises(DataError, match="are named with --corpus"):
        list(read_cases(path))
