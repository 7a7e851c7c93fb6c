"""Parquet, Hugging Face datasets and workbooks: cells, splits, sheets; files that are none."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source, read_cases, read_documents
from ragbench.errors import DataError
from ragbench.io.joined import open_dump
from ragbench.io.source import Problems
from tests.unit.io.traces import lines

arrow, excel = pytest.mark.extra("hf"), pytest.mark.extra("excel")

COLUMNS: dict[str, list[Any]] = {
    "id": [1, 2],
    "question": ["one", "two"],
    "ground_truth": ["x", None],
    "gold_ids": [["a", "b"], []],
    "when": [date(2024, 5, 1), None],
    "price": [Decimal("1.10"), None],
    "score": [0.5, float("nan")],
    "picture": [b"\x00\xff", None],
}


def write_table(path: Path, columns: dict[str, Any]) -> None:
    pyarrow: Any = import_module("pyarrow")
    import_module("pyarrow.parquet").write_table(pyarrow.table(columns), path)


def check_columns(path: str | Path, **options: str) -> None:
    one, two = read_cases(path, **options)  # type: ignore[arg-type]
    assert (one.id, one.query, one.reference) == ("1", "one", "x")
    assert (one.reference_context_ids, two.reference_context_ids) == (("a", "b"), ())
    assert two.reference is None
    assert one.metadata == {
        "when": "2024-05-01",
        "price": "1.10",
        "score": 0.5,
        "picture": None,
    }
    assert two.metadata["score"] is None


@arrow
def test_parquet(tmp_path: Path) -> None:
    for name in ("cases.parquet", "cases"):
        write_table(tmp_path / name, COLUMNS)
        check_columns(tmp_path / name)
    path, noted = tmp_path / "cases.parquet", Problems()
    write_table(path, {"query": ["a", None, "c"]})
    assert [case.query for case in read_cases(path, problems=noted)] == ["a", "c"]
    assert [(problem.line, problem.field) for problem in noted] == [(2, "query")]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="not a readable Parquet file after record 0"):
        list(read_cases(path))
    with pytest.raises(DataError, match="no such file"):
        list(read_cases(tmp_path / "none.parquet", format="parquet"))


@arrow
@pytest.mark.filterwarnings("ignore")
def test_a_folder_that_datasets_saved(tmp_path: Path) -> None:
    datasets: Any = import_module("datasets")
    one = datasets.Dataset.from_dict(COLUMNS)
    one.save_to_disk(tmp_path / "one")
    check_columns(tmp_path / "one")
    datasets.DatasetDict({"test": one, "train": one.select([1])}).save_to_disk(tmp_path / "two")
    check_columns(tmp_path / "two")
    assert [case.id for case in read_cases(tmp_path / "two", split="train")] == ["2"]
    with pytest.raises(DataError, match="no split 'dev'; there are: test, train"):
        list(read_cases(tmp_path / "two", split="dev"))


@arrow
@pytest.mark.filterwarnings("ignore")
def test_a_dataset_named_as_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The package takes a folder of this name below the current one before it asks the hub.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team/qa").mkdir(parents=True)
    for split in ("train", "test"):
        row = {"id": split, "question": "q", "text": "t"}
        lines(tmp_path / f"team/qa/{split}.jsonl", [row])
    assert [case.id for case in read_cases("hf:team/qa")] == ["test"]
    assert [case.id for case in read_cases("hf:team/qa:train")] == ["train"]
    assert [document.id for document in read_documents("hf:team/qa", split="train")] == ["train"]
    datasets: Any = import_module("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name, problem in (
        ("hf:team/qa:dev", "hf:team/qa:dev: no split 'dev'"),
        ("hf:", "expected a name such as hf:owner/name"),
        ("hf:no-such-owner/no-name", "hf:no-such-owner/no-name: cannot be read after record 0"),
    ):
        with pytest.raises(DataError, match=problem):
            list(read_cases(name))


# --- workbooks


def book(path: Path, **sheets: Sequence[Sequence[object]]) -> Path:
    openpyxl: Any = import_module("openpyxl")
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    made.save(path)
    return path


@excel
def test_cells_are_read_as_those_of_a_csv_file(tmp_path: Path) -> None:
    rows = [
        (None, "query", "reference", "relevant_ids", "answerable", "when"),
        (1, "How many?", 27, '["a", "b"]', True, datetime(2024, 1, 2)),
        (),
        (2, "Who?", 2.5, "c; d", None, date(2024, 1, 3)),
        (3, "What?", "NaN"),
    ]
    found = list(read_cases(book(tmp_path / "x.xlsx", A=rows)))
    assert [case.reference for case in found] == ["27", "2.5", None]
    assert [case.reference_context_ids for case in found] == [("a", "b"), ("c", "d"), None]
    assert [case.answerable for case in found] == [True, None, None]
    assert found[0].metadata == {"when": "2024-01-02"}


@excel
def test_a_sheet_is_named_or_the_first_is_said_to_be_read(tmp_path: Path) -> None:
    first, second = [("query",), ("One?",)], [("query",), ("Two?",)]
    path = book(tmp_path / "x.xlsx", First=first, Second=second)
    note = "The sheet 'First' is read; --split names another: Second"
    for split, query, notes in ((None, "One?", (note,)), ("Second", "Two?", ())):
        with open_source(path, split=split) as source:
            assert [entry.case.query for entry in source] == [query]
            assert (source.info.form, source.info.notes) == ("xlsx", notes)
    with pytest.raises(DataError, match="no sheet 'Third'; there are: First, Second"):
        list(read_cases(path, split="Third"))


@excel
def test_every_problem_has_its_row(tmp_path: Path) -> None:
    rows = [("query", "id"), ("A?", 1), (None, 2), ("B?", 1), ("C?", 3, "far out")]
    with pytest.raises(DataError) as caught:
        list(read_cases(book(tmp_path / "x.xlsx", A=rows)))
    assert [problem.line for problem in caught.value.problems] == [3, 4, 5]
    twice = book(tmp_path / "y.xlsx", A=[("query", "query"), ("A?", "B?")])
    with pytest.raises(DataError, match=r"y\.xlsx:1: field 'query': the column appears twice"):
        list(read_cases(twice))


@excel
def test_what_is_no_workbook_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.xlsx"
    for data, message in (
        (b"PK\x03\x04 cut off", "not a readable workbook: File is not a zip file"),
        (b"\xd0\xcf\x11\xe0 old", "an .xls of old or encrypted: save it as .xlsx"),
        (b"query\nA?\n", "not a readable workbook"),
    ):
        path.write_bytes(data)
        with pytest.raises(DataError, match=message):
            list(read_cases(path))
    book(path, A=[("query",), ("A?",)])
    monkeypatch.setenv("RAGBENCH_MAX_FILE", "1KB")
    with pytest.raises(DataError, match=r"it unpacks to more than 1 KB.*--max-file"):
        list(read_cases(path))


@excel
def test_a_row_behind_the_last_one_of_excel_is_refused(tmp_path: Path) -> None:
    path = book(tmp_path / "x.xlsx", A=[("query",), ("A?",)])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace(b'<row r="2"', b'<row r="999999999"')
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    with pytest.raises(DataError, match="rows behind row 1,048,576"):
        list(read_cases(path))


@excel
def test_a_sheet_with_a_chunk_a_row_is_a_dump(tmp_path: Path) -> None:
    header = ("query", "chunk_id", "text", "score")
    first = [header, ("Who?", "a", "Ada", 0.9), ("Who?", "b", "Bob", 0.5)]
    path = book(tmp_path / "log.xlsx", First=first, Second=[header, ("Where?", 7, "Bern", 1)])
    for split, query, chunks in (
        (None, "Who?", [("a", "Ada", 0.9), ("b", "Bob", 0.5)]),
        ("Second", "Where?", [("7", "Bern", 1)]),
    ):
        with open_dump(path, split=split) as dump:
            (found,) = dump
        assert (found.query, [(one.id, one.text, one.score) for one in found.chunks]) == (
            query,
            chunks,
        )
    assert dump.notes == ()
