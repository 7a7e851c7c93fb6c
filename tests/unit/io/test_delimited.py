"""CSV and TSV: cells that spell lists, lines that are wrong, what pandas writes."""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, read_cases, read_documents
from ragbench.io.source import Problems


def read(folder: Path, text: str, name: str = "cases.csv") -> tuple[list[Case], list[str]]:
    path = folder / name
    path.write_bytes(text.encode())
    noted = Problems()
    cases = list(read_cases(path, problems=noted))
    return cases, [str(problem).removeprefix(str(path)) for problem in noted]


def test_quoted_cells_over_several_lines_keep_their_line_numbers(tmp_path: Path) -> None:
    text = 'query,answer\r\n"a\r\nb","x, ""y"""\r\n,missing\r\n'
    cases, problems = read(tmp_path, text)
    assert (cases[0].query, cases[0].reference) == ("a\r\nb", 'x, "y"')
    assert problems == [":4: field 'query': expected the query as text, found nothing"]


@pytest.mark.parametrize(
    ("cell", "ids"),
    [
        ('["a", "b,c"]', ("a", "b,c")),
        ("['a', 'b']", ("a", "b")),
        ("['a' 'b'\n 'c']", ("a", "b", "c")),
        ("""["it's" 'b']""", ("it's", "b")),
        ("[1, 2]", ("1", "2")),
        ("[1, 'b', None]", ("1", "b")),
        ("[1 2]", ("1", "2")),
        ("[]", ()),
        ("a; b", ("a", "b")),
        ("a|b", ("a", "b")),
        ("a", ("a",)),
        ("", None),
    ],
)
def test_lists_of_ids(tmp_path: Path, cell: str, ids: tuple[str, ...] | None) -> None:
    quoted = cell.replace('"', '""')
    cases, problems = read(tmp_path, f'query,relevant_ids\nq,"{quoted}"\n')
    assert problems == []
    assert cases[0].reference_context_ids == ids


def test_a_comma_between_ids_is_not_guessed_at(tmp_path: Path) -> None:
    cases, problems = read(tmp_path, 'query,relevant_ids\nq,"a, b"\n')
    assert cases == []
    assert "field 'relevant_ids': holds a comma" in problems[0]


def test_other_fields_of_cells(tmp_path: Path) -> None:
    text = (
        "query;answer;grades;answerable;tags;evidence;metadata;note\n"
        'q;[citation needed];"{""d1"": 2}";no;a, b;"[{""text"": ""x""}]";"{""n"": 1}";hi\n'
    )
    (case,), problems = read(tmp_path, text)
    assert problems == []
    assert (case.reference, case.grades, case.answerable) == ("[citation needed]", {"d1": 2}, False)
    assert (case.tags, case.evidence[0].text) == (("a", "b"), "x")
    assert case.metadata == {"n": 1, "note": "hi"}


@pytest.mark.parametrize("cell", ["[1, 2", "{'a': 1}", "['a', b]"])
def test_cells_that_spell_nothing(tmp_path: Path, cell: str) -> None:
    _, problems = read(tmp_path, f"query\tgrades\tgold_contexts\nq\t{cell}\t{cell}\n", "cases.tsv")
    assert any("field 'grades': expected a JSON object" in problem for problem in problems)


def test_wrong_lines_are_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    text = 'query,answer\na,1\nb\nc,3,4\n\nd,"x"y\ne,5\n'
    cases, problems = read(tmp_path, text)
    assert [case.query for case in cases] == ["a", "e"]
    assert [problem.partition(": ")[0] for problem in problems] == [":3", ":4", ":6"]
    assert "expected 2 cells as in the header, found 1" in problems[0]


def test_a_quote_that_never_ends_is_a_problem(tmp_path: Path) -> None:
    cases, problems = read(tmp_path, 'query,answer\na,1\nb,"never\nended,\n')
    assert [case.query for case in cases] == ["a"]
    assert problems == [":3: not valid CSV: a quoted cell begins in this record and never ends"]


def test_wrong_headers(tmp_path: Path) -> None:
    assert "field 'a': the column appears twice" in read(tmp_path, "query,a,a\nq,1,2\n")[1][0]
    assert read(tmp_path, "query,answer\n")[1] == [": holds no cases"]
    assert "lone carriage return" in read(tmp_path, "query,answer\ra,b\rc,d")[1][0]


def test_a_cell_longer_than_the_modules_own_limit(tmp_path: Path) -> None:
    (case,), _ = read(tmp_path, f"query,answer\nq,{'x' * 300_000}\n")
    assert len(case.reference or "") == 300_000


@pytest.mark.extra("hf")
def test_what_pandas_writes(tmp_path: Path) -> None:
    pd: Any = import_module("pandas")
    frame = pd.DataFrame(
        {
            "question": ["a", "b"],
            "answer": ["x", None],
            "gold_contexts": [["c1", "it's"], ["c2"]],
            "n": [1.0, float("nan")],
        }
    )
    text = io.StringIO()
    frame.to_csv(text)
    cases, problems = read(tmp_path, text.getvalue())
    assert problems == []
    assert cases[0].reference_contexts == ("c1", "it's")
    assert (cases[1].reference, cases[1].metadata) == (None, {"n": ""})


def test_documents_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "corpus.tsv").write_text(
        'id\ttitle\ttext\n1\t\tone "quoted"\n2\tT\t\n', encoding="utf-8"
    )
    first, second = read_documents(tmp_path / "corpus.tsv")
    assert (first.id, first.title, first.text) == ("1", None, 'one "quoted"')
    assert (second.title, second.text) == ("T", "")


@pytest.mark.parametrize("told", ["sep=;", "SEP=;", '"sep=;"'])
def test_a_line_for_excel_says_the_separator(tmp_path: Path, told: str) -> None:
    cases, problems = read(tmp_path, f"{told}\r\nquery;reference\r\nA, b?;x\r\nB?;y;z\r\n")
    assert [(case.query, case.reference) for case in cases] == [("A, b?", "x")]
    assert problems == [":4: expected 2 cells as in the header, found 3"]


def test_answers_of_several_parts_have_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"query": "When?", "answer": [["July 21", "21 July"]]}\n'
        '{"query": "Who and when?", "answer": [["Ada", "Ada Moran"], ["1843"]]}\n',
        "utf-8",
    )
    first, second = read_cases(path)
    assert (first.reference, first.alternative_references) == ("July 21", ("21 July",))
    assert (second.reference, second.alternative_references) == (
        "Ada, 1843",
        ("Ada Moran, 1843",),
    )
