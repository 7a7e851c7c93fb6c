"""What headers of spreadsheets suggest."""

from __future__ import annotations

import pytest

from ragbench.io.headers import header_meaning, numbered_headers
from ragbench.io.table_head import header_position, look_at_head


@pytest.mark.parametrize(
    ("header", "meaning"),
    [
        ("Question asked", "query"),
        ("QUESTION", "query"),
        ("Qestion", "query"),
        ("Kundenfrage", "query"),
        ("Pregunta del usuario", "query"),
        ("Expected answer", "reference"),
        ("Soll-Antwort", "reference"),
        ("Réponse attendue", "reference"),
        ("Ideal", "reference"),
        ("Bot reply", "response"),
        ("Anwser of the chatbot", "response"),
        ("Réponse du modèle", "response"),
        ("Antwort", "answer"),
        ("Expected bot answer", "answer"),
        ("Right source", "reference_contexts"),
        ("Treffer", "retrieved_contexts"),
        ("Source page", "source"),
        ("Latency [ms]", "milliseconds"),
        ("Dauer (s)", "seconds"),
        ("Response time", ""),
        ("Question type", ""),
        ("Answer score", ""),
        ("What the customer wanted to know", "query"),
        ("What the assistant answered", "response"),
        ("Customer Q", "query"),
        ("Approved A", "reference"),
        ("Bot A", "response"),
        ("Source A", "source"),
        ("Ref #", ""),
        ("Asked by", ""),
        ("Owner", ""),
        ("", ""),
        ("问题", ""),
    ],
)
def test_a_header_suggests_a_field(header: str, meaning: str) -> None:
    assert header_meaning(header) == meaning


def test_headers_that_differ_in_a_number_are_grouped_in_its_order() -> None:
    names = ["Hit 10 text", "Hit 2 text", "Hit 2 score", "Answer 1", "Answer 2"]

    assert numbered_headers(names) == [["Hit 2 text", "Hit 10 text"]]


@pytest.mark.parametrize(
    "names",
    [
        ["Fundstelle A", "Fundstelle B", "Fundstelle C"],
        ["Erster Treffer", "Zweiter Treffer"],
        ["First source", "Second source", "Third source"],
        ["Passage trouvé n°1", "Passage trouvé n°2"],
    ],
    ids=["letters", "German", "English", "number sign"],
)
def test_headers_that_differ_in_a_letter_or_an_ordinal_are_grouped(names: list[str]) -> None:
    assert numbered_headers(names[::-1]) == [names]


def test_a_letter_within_a_name_is_no_position() -> None:
    assert numbered_headers(["Texte a lire", "Texte b lire"]) == []


@pytest.mark.parametrize(
    ("rows", "position"),
    [
        ([["a", "b"], ["1", "2"]], 0),
        ([["Evaluation", "", ""], ["a", "b", "c"]], 1),
        ([["Evaluation"], ["by", "Ann"], ["a", "b", "c", "d"]], 2),
        ([["", "Frage"], ["0", "Why?"], ["1", "How?"]], 0),
        ([["Question", "", "Answers", ""], ["a", "b", "c", "d"], ["1", "2", "3", "4"]], 1),
        ([["query", "answer"], ["1", "2", "3", "4"]], 0),
        ([["a", "b"], ["1", "2", "3", "4", "5"], ["1", "2"], ["1", "2"]], 0),
        ([], 0),
    ],
    ids=[
        "first",
        "title",
        "two titles",
        "row numbers",
        "groups",
        "names of fields",
        "a broken row",
        "empty",
    ],
)
def test_the_header_is_below_titles(rows: list[list[str]], position: int) -> None:
    assert header_position(rows) == position


@pytest.mark.parametrize(
    ("lines", "delimiter", "header_line"),
    [
        (["a,b\n", "1;2,3\n"], ",", 1),
        (["a;b\n", "1, 2 and 3;4\n"], ";", 1),
        (["a\tb\n", "1,2\t3\n"], "\t", 1),
        (["Title, of all\n", "\n", "a;b;c\n", "1;2, 3, 4;5\n"], ";", 3),
        (["question\n", "Why, then?\n"], ",", 1),
        ([], ",", 1),
    ],
    ids=["comma", "semicolon", "tab", "title", "one column", "empty"],
)
def test_separator_and_header_by_the_first_lines(
    lines: list[str], delimiter: str, header_line: int
) -> None:
    head = look_at_head(lines, None)

    assert (head.delimiter, head.header_line) == (delimiter, header_line)
