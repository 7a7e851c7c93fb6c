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

arrow = pytest.mark.extra("hf")
excel = pytest.mark.extra("excel")

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


def assert_are_the_columns(path: str | Path) -> None:
    """The cases of a table with the columns above."""
    full, sparse = read_cases(path)
    assert full.id == "1"
    assert full.query == "one"
    assert full.reference == "x"
    assert full.reference_context_ids == ("a", "b")
    assert full.metadata == {
        "when": "2024-05-01",
        "price": "1.10",
        "score": 0.5,
        "picture": None,
    }
    assert sparse.reference is None
    assert sparse.reference_context_ids == ()
    assert sparse.metadata["score"] is None


# --- Parquet


@arrow
@pytest.mark.parametrize("name", ["cases.parquet", "cases"])
def test_a_parquet_file_is_recognised_with_and_without_its_suffix(
    tmp_path: Path, name: str
) -> None:
    write_table(tmp_path / name, COLUMNS)

    assert_are_the_columns(tmp_path / name)


@arrow
def test_a_problem_of_a_parquet_file_has_its_row(tmp_path: Path) -> None:
    path = tmp_path / "cases.parquet"
    write_table(path, {"query": ["a", None, "c"]})
    problems = Problems()

    cases = list(read_cases(path, problems=problems))

    assert [case.query for case in cases] == ["a", "c"]
    (problem,) = problems
    assert problem.line == 2
    assert problem.field == "query"


@arrow
def test_a_parquet_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cases.parquet"
    write_table(path, {"query": ["a", "b", "c"]})
    path.write_bytes(path.read_bytes()[:-30])

    with pytest.raises(DataError, match="not a readable Parquet file after record 0"):
        list(read_cases(path))


@arrow
def test_a_parquet_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        list(read_cases(tmp_path / "none.parquet", format="parquet"))


# --- Hugging Face datasets


@arrow
@pytest.mark.filterwarnings("ignore")
def test_a_dataset_that_was_saved_is_read(tmp_path: Path) -> None:
    datasets: Any = import_module("datasets")
    datasets.Dataset.from_dict(COLUMNS).save_to_disk(tmp_path / "saved")

    assert_are_the_columns(tmp_path / "saved")


@pytest.fixture(name="splits")
def dataset_of_two_splits(tmp_path: Path) -> Path:
    """Both rows in "test", the second one in "train"."""
    datasets: Any = import_module("datasets")
    dataset = datasets.Dataset.from_dict(COLUMNS)
    splits = datasets.DatasetDict({"test": dataset, "train": dataset.select([1])})
    splits.save_to_disk(tmp_path / "splits")
    return tmp_path / "splits"


@arrow
@pytest.mark.filterwarnings("ignore")
def test_the_test_split_is_read_by_default(splits: Path) -> None:
    assert_are_the_columns(splits)


@arrow
@pytest.mark.filterwarnings("ignore")
def test_a_split_that_is_named_is_read(splits: Path) -> None:
    (case,) = read_cases(splits, split="train")

    assert case.id == "2"


@arrow
@pytest.mark.filterwarnings("ignore")
def test_a_split_that_is_not_there_is_refused_with_those_that_are(splits: Path) -> None:
    with pytest.raises(DataError, match="no split 'dev'; there are: test, train"):
        list(read_cases(splits, split="dev"))


@pytest.fixture(name="hub")
def dataset_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dataset "team/qa", with a row of the split's name in each split.

    The package takes a folder of this name below the current one before it asks the hub, which
    it cannot reach.
    """
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "team" / "qa"
    folder.mkdir(parents=True)
    for split in ("train", "test"):
        lines(folder / f"{split}.jsonl", [{"id": split, "question": "q", "text": "t"}])
    datasets: Any = import_module("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@arrow
@pytest.mark.usefixtures("hub")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "case_id"), [("hf:team/qa", "test"), ("hf:team/qa:train", "train")]
)
def test_a_dataset_of_the_hub_is_read_by_its_name(name: str, case_id: str) -> None:
    (case,) = read_cases(name)

    assert case.id == case_id


@arrow
@pytest.mark.usefixtures("hub")
@pytest.mark.filterwarnings("ignore")
def test_documents_of_the_hub_are_read_by_name_and_split() -> None:
    (document,) = read_documents("hf:team/qa", split="train")

    assert document.id == "train"


@arrow
@pytest.mark.usefixtures("hub")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("hf:team/qa:dev", "hf:team/qa:dev: no split 'dev'", id="no such split"),
        pytest.param("hf:", "expected a name such as hf:owner/name", id="no name"),
        pytest.param(
            "hf:no-such-owner/no-name",
            "hf:no-such-owner/no-name: cannot be read after record 0",
            id="no such dataset",
        ),
    ],
)
def test_a_dataset_of_the_hub_that_cannot_be_read_is_named(name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_cases(name))


# --- workbooks


def workbook(path: Path, **sheets: Sequence[Sequence[object]]) -> Path:
    openpyxl: Any = import_module("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    book.save(path)
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

    cases = list(read_cases(workbook(tmp_path / "x.xlsx", A=rows)))

    assert [case.reference for case in cases] == ["27", "2.5", None]
    assert [case.reference_context_ids for case in cases] == [("a", "b"), ("c", "d"), None]
    assert [case.answerable for case in cases] == [True, None, None]
    assert cases[0].metadata == {"when": "2024-01-02"}


@pytest.fixture(name="two_sheets")
def workbook_of_two_sheets(tmp_path: Path) -> Path:
    return workbook(
        tmp_path / "x.xlsx",
        First=[("query",), ("One?",)],
        Second=[("query",), ("Two?",)],
    )


@excel
def test_the_first_sheet_is_read_with_a_note_of_the_others(two_sheets: Path) -> None:
    with open_source(two_sheets) as source:
        (entry,) = source
        info = source.info

    assert entry.case.query == "One?"
    assert info.form == "xlsx"
    assert info.notes == ("The sheet 'First' is read; --split names another: Second",)


@excel
def test_a_sheet_that_is_named_is_read(two_sheets: Path) -> None:
    with open_source(two_sheets, split="Second") as source:
        (entry,) = source
        info = source.info

    assert entry.case.query == "Two?"
    assert info.notes == ()


@excel
def test_a_sheet_that_is_not_there_is_refused_with_those_that_are(two_sheets: Path) -> None:
    with pytest.raises(DataError, match="no sheet 'Third'; there are: First, Second"):
        list(read_cases(two_sheets, split="Third"))


@excel
def test_every_problem_of_a_sheet_has_its_row(tmp_path: Path) -> None:
    rows = [
        ("query", "id"),
        ("A?", 1),
        (None, 2),
        ("B?", 1),
        ("C?", 3, "far out"),
    ]

    with pytest.raises(DataError) as caught:
        list(read_cases(workbook(tmp_path / "x.xlsx", A=rows)))

    # No query, an id used twice, a cell beyond the header.
    assert [problem.line for problem in caught.value.problems] == [3, 4, 5]


@excel
def test_a_column_that_appears_twice_is_refused(tmp_path: Path) -> None:
    path = workbook(tmp_path / "x.xlsx", A=[("query", "query"), ("A?", "B?")])

    with pytest.raises(DataError, match=r"x\.xlsx:1: field 'query': the column appears twice"):
        list(read_cases(path))


@excel
@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            b"PK\x03\x04 cut off",
            "not a readable workbook: File is not a zip file",
            id="a workbook that was cut",
        ),
        pytest.param(
            b"\xd0\xcf\x11\xe0 old",
            "an .xls of old or encrypted: save it as .xlsx",
            id="an old workbook",
        ),
        pytest.param(b"query\nA?\n", "not a readable workbook", id="a text"),
    ],
)
def test_a_file_that_is_not_a_workbook_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "x.xlsx"
    path.write_bytes(content)

    with pytest.raises(DataError, match=message):
        list(read_cases(path))


@excel
def test_a_workbook_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workbook(tmp_path / "x.xlsx", A=[("query",), ("A?",)])
    monkeypatch.setenv("RAGBENCH_MAX_FILE", "1KB")

    with pytest.raises(DataError, match=r"it unpacks to more than 1 KB.*--max-file"):
        list(read_cases(path))


@excel
def test_a_row_behind_the_last_one_of_excel_is_refused(tmp_path: Path) -> None:
    path = workbook(tmp_path / "x.xlsx", A=[("query",), ("A?",)])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace(b'<row r="2"', b'<row r="999999999"')
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)

    with pytest.raises(DataError, match="rows behind row 1,048,576"):
        list(read_cases(path))


# --- workbooks with a chunk in each row


@pytest.fixture(name="log")
def workbook_of_retrievals(tmp_path: Path) -> Path:
    header = ("query", "chunk_id", "text", "score")
    return workbook(
        tmp_path / "log.xlsx",
        First=[header, ("Who?", "a", "Ada", 0.9), ("Who?", "b", "Bob", 0.5)],
        Second=[header, ("Where?", 7, "Bern", 1)],
    )


@excel
def test_the_rows_of_the_first_sheet_are_a_dump(log: Path) -> None:
    with open_dump(log) as dump:
        (retrieval,) = dump

    assert retrieval.query == "Who?"
    chunks = [(chunk.id, chunk.text, chunk.score) for chunk in retrieval.chunks]
    assert chunks == [("a", "Ada", 0.9), ("b", "Bob", 0.5)]


@excel
def test_the_rows_of_a_sheet_that_is_named_are_a_dump(log: Path) -> None:
    with open_dump(log, split="Second") as dump:
        (retrieval,) = dump

    assert retrieval.query == "Where?"
    chunks = [(chunk.id, chunk.text, chunk.score) for chunk in retrieval.chunks]
    assert chunks == [("7", "Bern", 1)]
    assert dump.notes == ()
