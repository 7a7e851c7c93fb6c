"""Spreadsheets with headers written for people are read with the line that ragbench prints."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import Ragbench, read_lines

ENGLISH = """\
Question asked,Expected answer,Bot reply,Hit 1,Hit 2,OK?
How many days of leave do I get?,27 days,27 days.,You get 27 days of leave.,Lunch is at noon.,y
When does the desk open?,At 8,It opens at 9.,Lunch is at noon.,The desk opens at 8 sharp.,n
"""
GERMAN = """\
Auswertung Chatbot, drittes Quartal;;;;;;
;;;;;;
FRAGE DES KUNDEN;Musterantwort;Botantwort;Treffer 1;Treffer 2;Dauer (s);Richtig?
Wie viel Urlaub habe ich, bitte?;27 Tage;27 Tage.;Jeder hat 27 Tage Urlaub.;Mittag ist um 12.;1.5;ja
Wann beginnt der Mittag?;Um 12;Um 13 Uhr.;Mittag ist um 12.;Jeder hat 27 Tage Urlaub.;0.5;nein
"""
FRENCH = """\
Qestion posée\tRéponse attendue\tRéponse du chatbot\tExtrait 1\tExtrait 2\tCorrect (o/n)
Combien de jours ai-je ?\t27 jours\t27 jours.\tVous avez 27 jours.\tLe midi est à 12 h.\to
Quand est le midi ?\t12 h\t13 h\tLe midi est à 12 h.\tVous avez 27 jours.\tn
"""


TICKETS = """\
Ticket text,Assistant output,Expected (SME),Top Hit,2nd Hit,Correct (y/n)
How many days of leave?,27 days.,27 days,You get 27 days of leave.,Lunch is at noon.,y
When does the desk open?,It opens at 9.,At 8,Lunch is at noon.,The desk opens at 8 sharp.,n
"""


def printed_options(error: str) -> list[str]:
    """The options of the line below "Check them, and add", as a shell splits them."""
    match = re.search(r"Check them, and add:\n\s*(.+)", error)
    assert match is not None, error
    return shlex.split(match[1])


@pytest.mark.parametrize(
    ("name", "text", "texts_of_first"),
    [
        ("english.csv", ENGLISH, ["You get 27 days of leave.", "Lunch is at noon."]),
        ("german.csv", "\ufeff" + GERMAN, ["Jeder hat 27 Tage Urlaub.", "Mittag ist um 12."]),
        ("french.tsv", FRENCH, ["Vous avez 27 jours.", "Le midi est à 12 h."]),
        ("tickets.csv", TICKETS, ["You get 27 days of leave.", "Lunch is at noon."]),
    ],
    ids=["english", "german", "french", "question by its values"],
)
def test_the_printed_line_reads_the_table(
    ragbench: Ragbench, name: str, text: str, texts_of_first: list[str]
) -> None:
    Path(name).write_text(text, encoding="utf-8")

    refused = ragbench("eval", name, "-m", "answer_correct")
    options = printed_options(refused.err)
    done = ragbench("eval", name, "-m", "answer_correct", "-o", "run", *options)

    assert refused.code == 2
    assert done.code == 0
    assert "corrected by labels of people" in done.out
    assert "2 of 2" in done.out
    ragbench("export", "run", "--to", "jsonl", "-o", "cases.jsonl").ok()
    first_case = read_lines("cases.jsonl")[0]
    assert first_case["retrieval"]["value"]["contexts"] == texts_of_first


def test_a_column_is_proposed_for_one_field(ragbench: Ragbench) -> None:
    Path("tickets.csv").write_text(TICKETS, encoding="utf-8")

    refused = ragbench("eval", "tickets.csv")

    options = printed_options(refused.err)
    headers = [option.partition("=")[2] for option in options if "=" in option]
    assert "query=Ticket text" in options
    assert len(headers) == len(set(headers))


def test_labels_are_read_in_the_encoding_of_the_table(ragbench: Ragbench) -> None:
    table = GERMAN.replace("Jeder hat 27 Tage", "Fünf von 27 Tagen")
    Path("german.csv").write_bytes(table.encode("cp1252"))

    options = printed_options(ragbench("eval", "german.csv").err)
    done = ragbench("eval", "german.csv", "-m", "answer_correct", "-o", "run", *options)

    assert "corrected by labels of people" in done.out
    assert "1 right, 1 wrong. Decided by labels of people." in done.out


def test_ratings_are_labels_with_the_bound_that_is_printed(ragbench: Ragbench) -> None:
    Path("rated.csv").write_text(
        "question,reference,Chatbot output,Note /5\n"
        "When is noon?,At 12,At midnight.,1\n"
        "When is lunch?,At noon,At noon.,5\n",
        encoding="utf-8",
    )

    refused = ragbench("eval", "rated.csv")
    options = printed_options(refused.err)
    done = ragbench("eval", "rated.csv", *options, "-o", "run")

    assert "from 1 to 5, of which 4 and more count as right" in refused.err
    assert options[-2:] == ["--labels", "answer_correct>=4=rated.csv"]
    assert "Of 2 cases: 1 right, 1 wrong. Decided by labels of people." in done.out


def test_ratings_beside_recorded_answers_are_a_hint_and_never_guessed(ragbench: Ragbench) -> None:
    Path("rated.csv").write_text(
        "question,reference,response,rating\nWhen is lunch?,At noon,At noon.,1\n"
        "When is noon?,At 12,At 12.,5\n",
        encoding="utf-8",
    )

    done = ragbench("eval", "rated.csv", "-o", "run")
    refused = ragbench("report", "run", "--labels", "answer_correct=rated.csv")

    assert 'add --labels "answer_correct>=4=rated.csv"' in done.err
    assert "by words" in done.out
    assert refused.code == 2
    assert "is 5, and answer_correct is at most 1" in refused.err


@pytest.mark.parametrize(("bound", "side"), [(">=6", "wrong"), ("<=5", "right"), (">=1", "right")])
def test_a_bound_beyond_the_scale_is_reported(ragbench: Ragbench, bound: str, side: str) -> None:
    Path("rated.csv").write_text(
        "question,reference,response,rating\nWhen is lunch?,At noon,At noon.,1\n"
        "When is noon?,At 12,At 12.,5\n",
        encoding="utf-8",
    )

    done = ragbench("eval", "rated.csv", "--labels", f"answer_correct{bound}=rated.csv")

    note = f"labels: By answer_correct{bound} all 2 rated answers are {side}: the number may lie"
    assert note in done.err


def test_an_answer_whose_side_is_open_is_not_in_the_line(ragbench: Ragbench) -> None:
    Path("cases.csv").write_text("Frage,Antwort\nWann ist Mittag?,Um 12 Uhr\n", encoding="utf-8")

    refused = ragbench("eval", "cases.csv")

    assert printed_options(refused.err) == ["--field", "query=Frage"]
    assert "--field reference=Antwort   if it is the right answer" in refused.err
    assert "--field response=Antwort   if it is your system's answer" in refused.err


def test_unread_columns_beside_a_known_question_are_proposed(ragbench: Ragbench) -> None:
    Path("cases.csv").write_text(
        "question,ground_truth,Bot reply\nWhen is noon?,At 12,At twelve.\n", encoding="utf-8"
    )

    done = ragbench("eval", "cases.csv", "-o", "run")

    assert printed_options(done.err) == ["--field", "response=Bot reply"]


@pytest.mark.parametrize(
    "header", ["Question type", "Question ID", "Answered?", "Topic", "Date of the question"]
)
def test_a_column_about_the_question_is_not_proposed(ragbench: Ragbench, header: str) -> None:
    Path("cases.csv").write_text(f"{header},Comment\nyes,fine\n", encoding="utf-8")

    refused = ragbench("eval", "cases.csv")

    assert refused.code == 2
    assert "no field for the query" in refused.err


def test_a_misspelled_verdict_hides_no_right_answer(ragbench: Ragbench) -> None:
    Path("cases.csv").write_text(
        "Quetsion;Exepcted anwser;Corect?\nWhen is lunch?;At noon;yes\n", encoding="utf-8"
    )

    refused = ragbench("eval", "cases.csv")

    options = ["--field", "query=Quetsion", "--field", "reference=Exepcted anwser"]
    assert printed_options(refused.err) == options


@pytest.mark.extra("excel")
def test_a_workbook_with_a_title_and_merged_cells_is_read_with_the_printed_line(
    ragbench: Ragbench,
) -> None:
    openpyxl: Any = import_module("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet["B1"] = "Evaluation of the bot"
    sheet.merge_cells("B1:F1")
    sheet.append([])
    sheet.append([None, "Question\nasked", "Ideal answer", "Chatbot says", "Source 1", "Source 2"])
    sheet.append(
        [None, "When is lunch?", "At noon", "At 12.", "Lunch is at noon.", "The desk opens at 8."]
    )
    book.save("cases.xlsx")

    refused = ragbench("eval", "cases.xlsx")
    options = printed_options(refused.err)
    done = ragbench("eval", "cases.xlsx", "-o", "run", *options)

    assert "query=Question asked" in options
    assert "context_2=Source 2" in options
    assert done.code == 0
    assert "recorded: retrieve 1, generate 1" in done.err


@pytest.mark.extra("excel")
def test_a_sheet_of_notes_before_the_table_is_skipped_with_a_note(ragbench: Ragbench) -> None:
    openpyxl: Any = import_module("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Read me"
    book.active.append(["Results of our pilot."])
    sheet = book.create_sheet("Results")
    sheet.append(["question", "ground_truth", "response"])
    sheet.append(["When is lunch?", "At noon", "At noon."])
    book.save("cases.xlsx")

    done = ragbench("eval", "cases.xlsx", "-o", "run")

    assert done.code == 0
    assert "The sheet 'Results' is read; --split names another: Read me" in done.err + done.out


def test_a_utf_16_table_of_a_spreadsheet_has_its_header_below_the_title(ragbench: Ragbench) -> None:
    Path("cases.csv").write_bytes(GERMAN.encode("utf-16"))

    refused = ragbench("eval", "cases.csv")

    assert "query=FRAGE DES KUNDEN" in printed_options(refused.err)


def test_doctor_prints_the_line_that_it_reads(ragbench: Ragbench) -> None:
    Path("german.csv").write_text(GERMAN, encoding="utf-8")

    refused = ragbench("doctor", "--dataset", "german.csv")
    done = ragbench("doctor", "--dataset", "german.csv", *printed_options(refused.out))

    assert refused.code == 2
    assert "data reads       2 cases" in done.out


def test_a_field_without_a_dataset_is_refused_by_doctor(ragbench: Ragbench) -> None:
    refused = ragbench("doctor", "--field", "query=Frage")

    assert refused.code == 2
    assert "--field goes with --dataset" in refused.err


def test_a_hint_quotes_a_header_with_spaces(ragbench: Ragbench) -> None:
    Path("cases.csv").write_text(
        "question,response,supporting pages\nWhen is noon?,At 12.,d1\n", encoding="utf-8"
    )

    done = ragbench("eval", "cases.csv", "-o", "run")

    assert '--field reference_context_ids="supporting pages"' in done.err
