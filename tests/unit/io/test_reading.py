"""Files of records: what is read of each, which problems it has, and where they are said to be."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench import Case, Document, Evidence, open_source, read_cases, read_documents
from ragbench.errors import ConfigError, DataError, MissingExtraError
from ragbench.io import json_files
from ragbench.io.encoding import guess_encoding
from ragbench.io.fields import case_fields, document_fields, entry_fields
from ragbench.io.json_files import array_elements
from ragbench.io.source import Problems, Source
from tests.unit.io.traces import lines, written

UTF8 = '{"query": "Größe?"}\r\n{"query": "大小？ 😀"}\n'
A, B = '{"query": "a"}', '{"query": "b"}'


def write(folder: Path, content: str | bytes, name: str = "cases.jsonl") -> Path:
    return written(folder / name, content)


def read(path: Path | str, **options: Any) -> tuple[list[Case], list[str]]:
    """The cases of a source, and its problems without its path."""
    problems = Problems()
    cases = list(read_cases(path, problems=problems, **options))
    return cases, [str(problem).removeprefix(str(path)) for problem in problems]


CONTAINERS = pytest.mark.parametrize(
    ("name", "content", "queries"),
    [
        pytest.param("x.jsonl", f"{A}\r\n{B}", "a b", id="JSON Lines"),
        pytest.param("x.json", f"[{A}, {B}]", "a b", id="an array of JSON"),
        pytest.param("x", f"[\n {A},\n {B}\n]", "a b", id="an array over lines"),
        pytest.param("x", f'{{"data": [{A}, {B}]}}', "a b", id="an array in an object"),
        pytest.param(
            "x.json",
            f'{{"version": 1, "cases": [{A}], "data": []}}',
            "a",
            id="the first array with cases",
        ),
        pytest.param("x.json", f"{A}\n{B}\n", "a b", id="lines in a .json"),
        pytest.param("x.json", A, "a", id="a single object"),
        pytest.param("x.csv", "query,answer\na,b\n", "a", id="CSV"),
        pytest.param("x", "query,answer\na,b\n", "a", id="CSV without a suffix"),
        pytest.param("x.tsv", "query\tanswer\na\tb\n", "a", id="TSV"),
        pytest.param("x", gzip.compress(A.encode(), mtime=0), "a", id="gzip"),
        pytest.param("x.jsonl", UTF8, "Größe? 大小？ 😀", id="UTF-8"),
        pytest.param(
            "x", codecs.BOM_UTF8 + UTF8.encode(), "Größe? 大小？ 😀", id="UTF-8 with a mark"
        ),
        pytest.param(
            "x.jsonl",
            codecs.BOM_UTF16_LE + UTF8.rstrip().encode("utf-16-le"),
            "Größe? 大小？ 😀",
            id="UTF-16, little-endian",
        ),
        pytest.param(
            "x",
            codecs.BOM_UTF16_BE + UTF8.encode("utf-16-be"),
            "Größe? 大小？ 😀",
            id="UTF-16, big-endian",
        ),
        pytest.param("x.csv", "User Input,answer\na,b\n", "a", id="a column with a space"),
        pytest.param("x.csv", "QUESTION,answer\na,b\n", "a", id="a column in capitals"),
    ],
)


@CONTAINERS
def test_a_file_is_read_whatever_its_container_encoding_and_packing(
    tmp_path: Path, name: str, content: str | bytes, queries: str
) -> None:
    path = write(tmp_path, content, name)

    cases = list(read_cases(path))

    assert " ".join(case.query for case in cases) == queries


@CONTAINERS
def test_standard_input_is_read_whatever_its_container_encoding_and_packing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str | bytes, queries: str
) -> None:
    stream = io.BytesIO(write(tmp_path, content, name).read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))

    cases = list(read_cases("-"))

    assert " ".join(case.query for case in cases) == queries


# Of each file: the queries of its good records, and how its problems begin, without its path.
FILES_WITH_PROBLEMS = pytest.mark.parametrize(
    ("name", "content", "queries", "problems"),
    [
        pytest.param(
            "x.jsonl",
            f'{A}\n{{"query": 5}}\nno\n\n{B}\n[1]\n',
            "ab",
            [":2: field", ":3", ":6"],
            id="bad lines between good ones",
        ),
        pytest.param(
            "x.jsonl",
            '{"id": true, "answerable": "perhaps", "query": "a"}',
            "",
            [
                ":1: field 'id': expected an id (text or a number), found true",
                ":1: field 'answerable': expected true or false, found 'perhaps'",
            ],
            id="two problems of a record",
        ),
        pytest.param(
            "x.jsonl",
            f'{A}\n{{"query": "b',
            "a",
            [":2: the last line is cut off"],
            id="a last line that is cut",
        ),
        pytest.param(
            "x.jsonl",
            '{"query": " "}\n{"query": null}',
            "",
            [":1: field 'query': expected the query as text, found nothing", ":2: field 'query'"],
            id="no query",
        ),
        pytest.param(
            "x.jsonl",
            '{"query": "\\u0000", "id": "\\u0000"}\n{"query": "\\ud800"}\n{"y": NaN}\n',
            "",
            [":1: field 'query': the text holds a NUL", ":2: not valid JSON", ":3: no "],
            id="characters that cannot be",
        ),
        pytest.param(
            "x.jsonl",
            '{"id": 123456789012345678901234, "query": "a"}',
            "",
            [":1: field 'id'"],
            id="an id beyond 64 bits",
        ),
        pytest.param(
            "x.jsonl",
            '{"id": "1", "query": "a"}\n{"id": 1.0, "query": "b"}',
            "a",
            [":2: field 'id': '1' is already the id of record 1; ids must be unique"],
            id="an id used twice",
        ),
        pytest.param(
            "x.jsonl",
            '{"Frage": "a", "n": 1}\n{"Frage": "b", "n": 2}\n',
            "",
            [":1: no field for the query, here and in 1 further record (the fields are: Frage, n)"],
            id="no field for the query",
        ),
        pytest.param(
            "x.jsonl",
            '{"query": "ok"}\n{"query": "Größe"}\n'.encode("latin-1"),
            "ok",
            [":2: byte 0xf6 at byte offset 29 is not UTF-8"],
            id="a line that is no UTF-8",
        ),
        pytest.param(
            "x.csv",
            "query\nok\nGröße\nfine\n".encode("latin-1"),
            "okfine",
            [":3: byte 0xf6"],
            id="a row that is no UTF-8",
        ),
        pytest.param(
            "x.json",
            '[{"query": "Größe"}]'.encode("latin-1"),
            "",
            [":1: byte 0xf6"],
            id="an array that is no UTF-8",
        ),
        pytest.param(
            "x.jsonl",
            codecs.BOM_UTF32_LE + UTF8.encode("utf-32-le"),
            "",
            [": the file is UTF-32"],
            id="UTF-32",
        ),
        pytest.param(
            "x.jsonl",
            A.encode("utf-16-le"),
            "",
            [":1: the line holds NUL bytes"],
            id="UTF-16 without a mark",
        ),
        pytest.param(
            "x.jsonl",
            codecs.BOM_UTF16_LE + A.encode("utf-16-le") + b"\x00\xdc\x00\x00",
            "",
            [": broken UTF-16 at byte offset 30"],
            id="UTF-16 that is cut",
        ),
        pytest.param("x.jsonl", "", "", [": the file is empty"], id="empty"),
        pytest.param("x.jsonl", "\n \n", "", [": the file is empty"], id="blank lines"),
        pytest.param(
            "x.jsonl.gz",
            gzip.compress(b"{}\n" * 1000, mtime=0)[:-20],
            "",
            [": the gzip data"],
            id="gzip that is cut",
        ),
        pytest.param(
            "x.xyz",
            "Hello, world; nothing here\n",
            "",
            [": the format is not"],
            id="text of no form",
        ),
        pytest.param(
            "x.json",
            '[{"query": "a"}',
            "",
            [": not valid JSON at column 16"],
            id="an array that never ends",
        ),
        pytest.param(
            "x.json",
            '{\n"rows": []\n}',
            "",
            [": expected a JSON array"],
            id="an empty array in an object",
        ),
        pytest.param("x.json", "[]", "", [": holds no cases"], id="an empty array"),
        pytest.param(
            "x.json",
            "[1]",
            "",
            [":1: expected a JSON object, found the number 1"],
            id="an array of numbers",
        ),
        pytest.param("x.json", "[" * 100_000, "", [": not valid JSON"], id="deep brackets"),
        pytest.param(
            "x.json",
            f'[{A},\n{{"query": NaN}}]',
            "a",
            [":2: field 'query'"],
            id="a bad element of an array",
        ),
        pytest.param(
            "x.csv",
            'query,answer\r\n"a\r\nb","x, ""y"""\r\n,none\r\n',
            "a\nb",
            [":4: field"],
            id="a cell over two lines, and one of none",
        ),
        pytest.param(
            "x.csv",
            'query,answer\na,1\nb\nc,3,4\n\nd,"x"y\ne,5\n',
            "ae",
            [":3: expected 2 cells as in the header, found 1", ":4", ":6: not valid CSV"],
            id="rows of other lengths",
        ),
        pytest.param(
            "x.csv",
            'query,answer\na,1\nb,"never\nended,\n',
            "a",
            [":3: not valid CSV"],
            id="quotes that never end",
        ),
        pytest.param(
            "x.csv",
            '"SEP=;"\r\nquery;answer\r\nA, b?;x\r\nB?;y;z\r\n',
            "A, b?",
            [":4: expected 2"],
            id="a line that names the separator",
        ),
        pytest.param(
            "x.csv",
            "query,a,a\nq,1,2\n",
            "",
            [":1: field 'a': the column appears twice"],
            id="a column that appears twice",
        ),
        pytest.param(
            "x.csv",
            "query,answer\ra,b\rc,d",
            "",
            [":1: not valid CSV: a lone carriage return"],
            id="carriage returns alone",
        ),
        pytest.param(
            "x.csv",
            'query,relevant_ids\nq,"a, b"\n',
            "",
            [":2: field 'relevant_ids': holds"],
            id="a cell that is no list",
        ),
        pytest.param(
            "x.tsv",
            "query\tgrades\nq\t[1, 2\n",
            "",
            [":2: field 'grades': expected a JSON object"],
            id="a cell that is no object",
        ),
    ],
)


@FILES_WITH_PROBLEMS
def test_every_problem_has_its_place_and_hides_no_good_record(
    tmp_path: Path, name: str, content: str | bytes, queries: str, problems: list[str]
) -> None:
    path = write(tmp_path, content, name)

    cases, messages = read(path)

    assert "".join(case.query for case in cases) == queries
    assert len(messages) == len(problems)
    for message, beginning in zip(messages, problems, strict=True):
        assert message.startswith(beginning)


@FILES_WITH_PROBLEMS
def test_without_a_place_for_problems_an_error_holds_all_of_them(
    tmp_path: Path, name: str, content: str | bytes, queries: str, problems: list[str]
) -> None:
    path = write(tmp_path, content, name)

    with pytest.raises(DataError) as caught:
        list(read_cases(path))

    assert len(caught.value.problems) == len(problems)


@pytest.mark.parametrize(
    ("depth", "cases_read", "problems"),
    [
        pytest.param(150, 1, 0, id="deep"),
        pytest.param(500, 0, 1, id="too deep"),
        pytest.param(5000, 0, 1, id="deeper than Python's stack"),
    ],
)
def test_deep_nesting_never_crashes(
    tmp_path: Path, depth: int, cases_read: int, problems: int
) -> None:
    path = write(tmp_path, '{"query": "a", "deep": ' + "[" * depth + "]" * depth + "}")

    cases, messages = read(path)

    assert len(cases) == cases_read
    assert len(messages) == problems


# --- ids that are derived from queries


def derived_ids(folder: Path, *queries: str) -> list[str]:
    path = lines(folder / "cases.jsonl", [{"query": query} for query in queries])
    return [case.id for case in read_cases(path)]


def test_a_case_without_an_id_has_one_of_its_query(tmp_path: Path) -> None:
    (case_id,) = derived_ids(tmp_path, "Who is it?")

    assert case_id.startswith("q-")
    assert len(case_id) == 12


def test_the_second_case_of_a_query_is_numbered(tmp_path: Path) -> None:
    """Spaces and capitals do not make it another query."""
    ids = derived_ids(tmp_path, "Who is it?", "Where?", "who is  it?")

    assert ids[2] == f"{ids[0]}-2"


def test_an_inserted_line_renames_no_other_case(tmp_path: Path) -> None:
    before = derived_ids(tmp_path, "Who is it?", "Where?", "who is it?")
    after = derived_ids(tmp_path, "Who is it?", "New", "Where?", "who is it?")

    assert [after[0], after[2], after[3]] == before


def test_an_appended_line_renames_no_other_case(tmp_path: Path) -> None:
    before = derived_ids(tmp_path, "Who is it?", "Where?", "who is it?")
    after = derived_ids(tmp_path, "Who is it?", "Where?", "who is it?", "New")

    assert after[:3] == before


# --- what cannot be opened


def test_a_path_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    assert read(tmp_path / "none.jsonl")[1] == [": no such file or folder"]


def test_a_folder_without_a_file_of_a_known_form_is_a_problem(tmp_path: Path) -> None:
    (message,) = read(tmp_path)[1]

    assert "in a form that is recognised" in message


def test_a_folder_in_the_place_of_a_file_is_a_problem(tmp_path: Path) -> None:
    assert read(tmp_path, format="jsonl")[1] == [": expected a file, found a folder"]


def test_a_misspelled_format_is_refused_with_a_proposal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'jsonl'"):
        read_cases(tmp_path, format="jsnl")


def test_a_misspelled_field_is_refused_with_a_proposal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'query'"):
        read_cases(tmp_path, fields={"qery": "Frage"})


def test_a_problem_of_standard_input_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"query": 1}\n')))

    with pytest.raises(DataError, match=r"^<stdin>:1: field 'query'"):
        list(read_cases("-", format="jsonl"))


def test_a_file_that_may_not_be_read_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, A)

    # The tests may run as a user who may read everything.
    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)

    assert read(path)[1] == [": cannot be read: Permission denied"]


def test_a_database_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, b"SQLite format 3\x00" + bytes(80), "x.db")

    (message,) = read(path)[1]

    assert "it is an SQLite file" in message


def test_a_file_that_needs_a_package_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write(tmp_path, b"PAR1" + bytes(80) + b"PAR1", "x.parquet")

    with pytest.raises(MissingExtraError, match=r"pip install 'ragbench\[hf\]'"):
        read(path)


# --- reading as far as somebody asks


def test_the_first_case_is_read_without_those_after_it(tmp_path: Path) -> None:
    path = write(tmp_path, f"{A}\n" + '{"query": 1}\n' * 5000)

    cases = read_cases(path)

    assert next(cases).query == "a"
    del cases  # an unclosed file would be a ResourceWarning, which fails the test


def test_every_problem_is_noted(tmp_path: Path) -> None:
    path = write(tmp_path, f"{A}\n" + '{"query": 1}\n' * 5000)

    assert len(read(path)[1]) == 5000


# --- fields: names of other tools, those the user gives, and disagreement

Row = Mapping[str, object]


def read_row(folder: Path, row: Row, fields: Mapping[str, str] | None = None) -> Case:
    path = lines(folder / "row.jsonl", [{"query": "q", **row}])
    (case,) = read_cases(path, fields=fields, format="jsonl")
    return case


def fields_of(record: type[Case]) -> set[str]:
    return {field.name for field in fields(record) if field.init}


def test_every_field_of_a_case_can_be_read() -> None:
    # The last three are read into fields of other names.
    other_targets = {"answers", "unanswerable", "expected_behavior"}

    assert case_fields().keys() == fields_of(Case) | other_targets


def test_every_field_of_a_document_can_be_read() -> None:
    assert document_fields().keys() == set(Document.__dataclass_fields__)


@pytest.mark.parametrize("fields_by_target", [entry_fields(), document_fields()])
def test_every_field_is_recognised_by_its_own_name(
    fields_by_target: Mapping[str, Sequence[str]],
) -> None:
    for target, names in fields_by_target.items():
        assert target in names


@pytest.mark.parametrize("fields_by_target", [entry_fields(), document_fields()])
def test_no_name_means_two_fields(fields_by_target: Mapping[str, Sequence[str]]) -> None:
    all_names: list[str] = []
    for names in fields_by_target.values():
        all_names += names

    assert len(set(all_names)) == len(all_names)


@pytest.mark.parametrize(
    ("row", "references"),
    [
        ({"answer": "Ada"}, ("Ada",)),
        ({"ideal": "Ada"}, ("Ada",)),
        ({"ground_truth": "Ada"}, ("Ada",)),
        ({"answer": 42}, ("42",)),
        ({"answers": ["a", "b", "a"]}, ("a", "b")),
        ({"ground_truths": ["a", "b"]}, ("a", "b")),
        ({"golden_answers": ["a", "b"]}, ("a", "b")),
        ({"answer": "a", "answers": ["b", "a"]}, ("a", "b")),
        ({"answers": [{"text": "a", "answer_start": 3}, {"text": "b"}]}, ("a", "b")),
        ({"reference": "a", "alternative_references": ["b"]}, ("a", "b")),
        ({"alternative_references": "b"}, ("b",)),
        ({"answer": [["July 21", "21 July"]]}, ("July 21", "21 July")),
        ({"answer": [["Ada", "A. M."], ["1843"]]}, ("Ada, 1843", "A. M., 1843")),
        ({"answers": []}, ()),
        ({"reference": None}, ()),
        ({"reference": " "}, ()),
        ({"reference": math.nan}, ()),
    ],
    ids=str,
)
def test_which_references_a_row_has(tmp_path: Path, row: Row, references: tuple[str, ...]) -> None:
    assert read_row(tmp_path, row).references == references


@pytest.mark.parametrize(
    ("row", "answerable"),
    [
        ({}, None),
        ({"answerable": 1.0}, True),
        ({"answerable": "UNANSWERABLE"}, False),
        ({"unanswerable": 0}, True),
        ({"is_impossible": True}, False),
    ],
    ids=str,
)
def test_whether_a_row_can_be_answered(tmp_path: Path, row: Row, answerable: bool | None) -> None:
    assert read_row(tmp_path, row).answerable is answerable


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        ({"expectedAnswer": "Ada"}, "reference", "Ada"),
        ({"relevant_ids": [1, 2.0, "c"]}, "reference_context_ids", ("1", "2", "c")),
        ({"relevant_ids": []}, "reference_context_ids", ()),  # known to be none
        ({"gold_contexts": ["Ada did."]}, "reference_contexts", ("Ada did.",)),
        (
            {"evidence": [{"text": "Ada", "document_id": 1, "start": 0, "end": 3}]},
            "evidence",
            (Evidence(text="Ada", document_id="1", start=0, end=3),),
        ),
        ({"cluster": 4}, "cluster", "4"),
        ({"grades": {"1": 2, "9": 0}}, "grades", {"1": 2, "9": 0}),
        ({"id": 1, "qid": "1", "question": "q"}, "id", "1"),
        ({"a": 1, "b": 2, "metadata": {"b": 2, "c": 3}}, "metadata", {"a": 1, "b": 2, "c": 3}),
    ],
    ids=str,
)
def test_what_a_field_means(tmp_path: Path, row: Row, field: str, value: object) -> None:
    assert getattr(read_row(tmp_path, row), field) == value


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"answers": True}, "field 'answers': expected"),
        ({"answers": {"a": 1}}, "field 'answers': expected"),
        ({"answers": [[["a"]]]}, "field 'answers': expected"),
        ({"answers": [["a"], 1]}, "field 'answers': expected"),
        ({"answers": [{"txt": "a"}]}, "field 'answers': expected"),
        ({"grades": {"a": 1.5}}, "field 'grades'"),
        ({"grades": {"a": True}}, "field 'grades'"),
        ({"grades": {"a": "high"}}, "field 'grades'"),
        ({"grades": ["a"]}, "field 'grades'"),
        ({"evidence": [{"txt": "a"}]}, "found unknown key 'txt'"),
        ({"evidence": [{"start": 1}]}, "found no text"),
        ({"evidence": [{"text": "a", "start": 5, "end": 2}]}, "0 <= start <= end"),
        ({"evidence": [[1]]}, "expected text, found a list"),
        ({"answerable": True, "is_impossible": True}, "contradict"),
        ({"answer": "a", "ground_truth": "b"}, "both hold the reference"),
        (
            {"b": 2, "a": 1, "c": 3, "metadata": {"a": 5, "b": 5, "c": 5}},
            r"(?s)field 'b': stands in the record and in its 'metadata'.*'a': .*'c': ",
        ),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_a_problem(tmp_path: Path, row: Row, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_row(tmp_path, row)


def test_names_that_the_user_gives_take_precedence(tmp_path: Path) -> None:
    row = {"Frage": "Wer?", "pid": 3, "answer": "a", "ground_truth": "b"}
    fields = {
        "query": "Frage",
        "reference_context_ids": "pid",
        "reference": "ground_truth",
    }

    case = read_row(tmp_path, row, fields)

    assert case.query == "Wer?"
    assert case.reference_context_ids == ("3",)
    assert case.reference == "b"
    assert case.metadata == {"query": "q", "answer": "a"}


def test_an_empty_name_switches_a_field_off(tmp_path: Path) -> None:
    case = read_row(tmp_path, {"evidence": [[1, 2]]}, {"evidence": ""})

    assert case.evidence == ()
    assert case.metadata == {"evidence": [[1, 2]]}


def test_a_name_that_no_record_has_is_refused(tmp_path: Path) -> None:
    message = "no record has the field that the mapping reference=x"

    with pytest.raises(DataError, match=message):
        read_row(tmp_path, {}, {"reference": "x"})


def test_what_a_system_answered_is_not_taken_for_gold(tmp_path: Path) -> None:
    row = {"answer": "said", "contexts": ["c"], "ground_truth": "right"}

    case = read_row(tmp_path, row)

    assert case.reference == "right"
    assert case.reference_contexts is None
    assert case.metadata == {}


# --- documents


def test_documents_are_read_from_lines(tmp_path: Path) -> None:
    rows = [
        {"pid": 1, "contents": "text", "title": "", "year": 2023},
        {"_id": "b", "text": "", "title": "Empty"},
    ]

    numbered, empty = read_documents(lines(tmp_path / "corpus.jsonl", rows))

    assert numbered == Document(id="1", text="text", title=None, metadata={"year": 2023})
    assert empty == Document(id="b", text="", title="Empty")


def test_a_document_without_an_id_has_one_of_its_text(tmp_path: Path) -> None:
    (document,) = read_documents(lines(tmp_path / "corpus.jsonl", [{"text": "no id"}]))

    assert document.id.startswith("d-")


def test_a_document_without_a_text_is_a_problem(tmp_path: Path) -> None:
    path = lines(tmp_path / "corpus.jsonl", [{"id": "a", "text": "x"}, {"id": "c"}])
    problems = Problems()

    documents = list(read_documents(path, problems=problems))

    assert [document.id for document in documents] == ["a"]
    (problem,) = problems
    assert problem.line == 2
    assert "no field for the text" in problem.message


def test_documents_are_read_from_a_table(tmp_path: Path) -> None:
    table = 'id\ttitle\ttext\n1\t\tone "quoted"\n2\tT\t\n'

    quoted, empty = read_documents(write(tmp_path, table, "corpus.tsv"))

    assert quoted == Document(id="1", text='one "quoted"', title=None)
    assert empty == Document(id="2", text="", title="T")


def test_documents_are_read_from_an_array_in_an_object(tmp_path: Path) -> None:
    content = '{"documents": [{"document_id": "a", "text": "one"}]}'

    (document,) = read_documents(write(tmp_path, content, "corpus.json"))

    assert document.id == "a"


# --- cells of tables


@pytest.mark.parametrize(
    ("cell", "ids"),
    [
        ('["a", "b,c"]', ("a", "b,c")),
        ("['a', 'b']", ("a", "b")),
        ("[]", ()),
        ("", None),
        ("['a' 'b'\n 'c']", ("a", "b", "c")),
        ("""["it's" 'b']""", ("it's", "b")),
        ("[1, 'b', None]", ("1", "b")),
        ("[1 2]", ("1", "2")),
        ("a; b", ("a", "b")),
        ("a|b", ("a", "b")),
        ("a", ("a",)),
    ],
)
def test_lists_of_ids_in_a_cell(tmp_path: Path, cell: str, ids: tuple[str, ...] | None) -> None:
    quoted = cell.replace('"', '""')
    path = write(tmp_path, f'query,relevant_ids\nq,"{quoted}"\n', "x.csv")

    (case,) = read_cases(path)

    assert case.reference_context_ids == ids


def test_every_field_can_be_a_cell(tmp_path: Path) -> None:
    # The first column, of row numbers and without a name, is that of pandas.
    table = (
        ";query;answer;grades;answerable;tags;evidence;metadata;note\n"
        '0;q;[citation needed];"{""d1"": 2}";no;a, b;"[{""text"": ""x""}]";"{""n"": 1}";hi\n'
    )

    (case,) = read_cases(write(tmp_path, table, "x.csv"))

    assert case == Case(
        id=case.id,
        query="q",
        reference="[citation needed]",
        grades={"d1": 2},
        answerable=False,
        tags=("a", "b"),
        evidence=(Evidence(text="x"),),
        metadata={"n": 1, "note": "hi"},
    )


def test_a_cell_of_megabytes_is_read_whole(tmp_path: Path) -> None:
    (case,) = read_cases(write(tmp_path, f"query;answer\nr;{'x' * 3_000_000}\n", "x.csv"))

    assert case.reference == "x" * 3_000_000


# --- arrays of JSON in blocks, keys that stand twice

KEYS = st.sampled_from(["k", '"', "\\", "]", '{"'])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, -17, 1.5]) | st.text(alphabet='a"\\[]{},: \n€', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=6,
)


# One file that every example writes anew: a folder an example costs more than the example.
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.dictionaries(KEYS, JSON, max_size=2), max_size=3),
    indent=st.sampled_from([None, 1]),
    block_size=st.integers(1, 40),
    nested=st.booleans(),
)
def test_elements_are_those_of_the_array_in_blocks_of_any_size(
    tmp_path: Path, rows: list[Any], indent: int | None, block_size: int, nested: bool
) -> None:
    value: Any = rows
    name = None
    if nested:
        name = "rows"
        value = {"other": [[1], {"rows": []}], "rows": rows, "time": 1}
    path = write(tmp_path, json.dumps(value, indent=indent, ensure_ascii=False))
    problems = Problems()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_files, "_BLOCK_BYTES", block_size)
        elements = list(array_elements(Source.of(path), name, problems))

    assert problems.count == 0
    assert [json.loads(element.raw) for element in elements] == rows


# --- encodings that are guessed

GERMAN = "query;reference\nWie lange dauert die Kündigungsfrist?;drei Monate\nWie groß?;20 m²\n"
CHINESE = "query,reference\n员工每年有多少天年假？,二十天\n公司成立于哪一年？,1998年\n"
TAIWANESE = "query\n公司成立於哪一年？由誰成立？\n費用由誰負擔？何時可以退貨？\n"
JAPANESE = "query\n会社はいつ設立されましたか？\n保証期間はどのくらいですか？\n"
RUSSIAN = "query\nКогда была основана компания?\nСколько длится гарантия?\n"


@pytest.mark.parametrize(
    ("head", "guess"),
    [
        pytest.param(GERMAN.encode("cp1252"), "cp1252", id="German"),
        pytest.param(
            "query\nWhat’s the price – in total?,20 €\n".encode("cp1252"),
            "cp1252",
            id="English with typographic signs",
        ),
        pytest.param(
            "query\n¿Cuándo se fundó la compañía?\n".encode("cp1252"), "cp1252", id="Spanish"
        ),
        pytest.param(CHINESE.encode("gbk"), "gb18030", id="Chinese"),
        pytest.param(TAIWANESE.encode("big5") * 2, "big5", id="Taiwanese"),
        pytest.param(JAPANESE.encode("sjis"), "shift_jis", id="Japanese"),
        pytest.param(RUSSIAN.encode("cp1251"), "cp1251", id="Russian"),
        pytest.param(b"", None, id="nothing"),
        pytest.param(GERMAN.encode(), None, id="UTF-8"),
        pytest.param("\ufeffquery\nü\n".encode("utf-16"), None, id="UTF-16"),
        pytest.param('{"query": "Wie groß?"}'.encode("cp1252"), None, id="JSON is UTF-8"),
        pytest.param(
            "query\n大小？\n".encode("gbk"), None, id="too short to choose between encodings"
        ),
        pytest.param(GERMAN.encode()[:-12] + "ü".encode()[:1], None, id="cut within a letter"),
        pytest.param(GERMAN.encode() + b"\xff\n", None, id="damaged UTF-8"),
        pytest.param(b"PK\x03\x04\x00\xff", None, id="a zip"),
    ],
)
def test_an_old_encoding_is_guessed(head: bytes, guess: str | None) -> None:
    assert guess_encoding(head) == guess


@pytest.fixture(name="chinese")
def table_in_an_old_encoding(tmp_path: Path) -> Path:
    return write(tmp_path, CHINESE.encode("gbk"), "x.csv")


def test_a_guess_is_reported(chinese: Path) -> None:
    with open_source(chinese) as source:
        queries = [entry.case.query for entry in source]
        notes = source.info.notes

    assert queries[0] == "员工每年有多少天年假？"
    assert len(notes) == 1


def test_an_encoding_that_is_named_is_no_guess(chinese: Path) -> None:
    with open_source(chinese, encoding="gbk") as source:
        queries = [entry.case.query for entry in source]
        notes = source.info.notes

    assert queries[0] == "员工每年有多少天年假？"
    assert notes == ()
