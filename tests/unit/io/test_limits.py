"""Small files that unpack to much, endless lines and cells: one error that names the option."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench import RagbenchError, open_dump, read_cases, read_documents, read_labels
from ragbench.core.sizes import size_of
from ragbench.errors import ConfigError, DataError, InputError, Problem
from ragbench.gate.baseline_file import read_baseline
from ragbench.io.yaml_file import read_yaml
from ragbench.validators.calibration import read_calibration
from tests.unit.io.traces import entries, written

RECORD_OPTION = "--max-record SIZE"
FILE_OPTION = "--max-file SIZE"


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "2KB")
    monkeypatch.setenv("RAGBENCH_MAX_FILE", "20KB")


Reader = Callable[..., Iterable[Any]]


def retrievals(path: Path) -> Iterator[Any]:
    with open_dump(path) as dump:
        yield from dump
        dump.problems.raise_if_any()


def problem_of(read: Reader, path: Path, **options: Any) -> Problem:
    """The first problem of a file, which names it."""
    with pytest.raises(DataError) as caught:
        list(read(path, **options))
    problem = caught.value.problems[0]
    assert problem.path == str(path)
    return problem


# --- sizes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("7", 7),
        ("7B", 7),
        ("2 kb", 2048),
        ("1.5KiB", 1536),
        ("3MB", 3 << 20),
        ("1tb", 1 << 40),
    ],
)
def test_a_size_may_have_a_unit(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["much", "-1", "0", "1e3", "5XB", "0.1", "KB"])
def test_a_text_that_is_no_size_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_FILE", text)

    with pytest.raises(ConfigError, match="is not a size"):
        read_cases("x.jsonl")


# --- records and files that are too large


LONG = "x" * 2048
"""A text that makes its record longer than the limit."""
ROW = json.dumps({"query": "a", "response": "b", "contexts": ["c"]})
LONG_ROW = json.dumps({"query": LONG, "response": "b", "contexts": ["c"]})
LINE_TOO_LONG = "the line is longer than 2 KB"


@pytest.mark.parametrize("read", [read_cases, entries, retrievals])
@pytest.mark.parametrize(
    ("name", "content", "line", "message"),
    [
        pytest.param(
            "x.jsonl", f"{ROW}\n{LONG_ROW}\n{ROW}\n", 2, LINE_TOO_LONG, id="a line of JSON"
        ),
        pytest.param("x.jsonl", ROW + "\n" + " " * 5000, 2, LINE_TOO_LONG, id="blanks"),
        pytest.param(
            "x.csv",
            f"query,response,contexts\na,b,['c']\n{LONG},b,['c']\n",
            3,
            "2 KB",
            id="a cell",
        ),
        pytest.param(
            "x.csv",
            "query,response,contexts\na,b,['c']\na,b,\"" + "c\n" * 2000,
            1024,
            "2 KB",
            id="a cell over many lines",
        ),
        pytest.param(
            "x.tsv",
            f"query\tresponse\tcontexts\na\tb\t['c']\na\tb\t{LONG}\n",
            3,
            "2 KB",
            id="a cell behind tabs",
        ),
    ],
)
def test_a_record_that_is_too_long_is_refused_with_its_line(
    tmp_path: Path, read: Reader, name: str, content: str, line: int, message: str
) -> None:
    problem = problem_of(read, written(tmp_path / name, content))

    assert problem.line == line
    assert message in problem.message
    assert RECORD_OPTION in problem.message


HALF_LONG_ROW = ROW + "\n" + '{"query": "' + "é" * 4000


@pytest.mark.parametrize(
    ("encoding", "options"), [("utf-16", {}), ("cp1252", {"encoding": "cp1252"})]
)
def test_a_line_in_another_encoding_that_is_too_long_is_refused(
    tmp_path: Path, encoding: str, options: dict[str, str]
) -> None:
    path = written(tmp_path / "x.jsonl", HALF_LONG_ROW.encode(encoding))

    problem = problem_of(entries, path, **options)

    assert problem.line == 2
    assert LINE_TOO_LONG in problem.message
    assert RECORD_OPTION in problem.message


def test_an_element_of_an_array_that_is_too_long_is_refused_with_its_line(tmp_path: Path) -> None:
    array = [
        {"query": "a", "chunks": [{"id": 1, "text": "t", "score": 0.5}]},
        {"query": "b", "chunks": [{"id": 1, "text": LONG, "score": 0.5}]},
    ]

    problem = problem_of(retrievals, written(tmp_path / "x.json", array, indent=1))

    assert problem.line == 12
    assert "the element is longer" in problem.message
    assert RECORD_OPTION in problem.message


def test_an_array_that_is_read_whole_is_limited(tmp_path: Path) -> None:
    rows = [{"query": f"q{number}", "reference": "r" * 100} for number in range(300)]

    problem = problem_of(read_cases, written(tmp_path / "x.json", rows))

    assert problem.line is None
    assert "it is larger than 20 KB" in problem.message
    assert FILE_OPTION in problem.message


def test_a_text_of_a_corpus_is_limited(tmp_path: Path) -> None:
    problem = problem_of(read_documents, written(tmp_path / "x.txt", "word\n" * 500))

    assert problem.line is None
    assert "the text is longer than 2 KB" in problem.message
    assert RECORD_OPTION in problem.message


def test_longer_records_are_read_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "x.jsonl", f"{ROW}\n{LONG_ROW}\n")
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "3KB")

    cases = list(read_cases(path))

    assert [len(case.query) for case in cases] == [1, 2048]


# --- compressed files


def test_a_compressed_file_of_data_may_be_larger_than_a_file(tmp_path: Path) -> None:
    """It is read line by line, and no line is long."""
    rows: list[str] = []
    for number in range(2000):
        row = {"query": f"question {number}", "reference": str(number**5)}
        rows.append(json.dumps(row))
    content = "\n".join(rows).encode()
    assert len(content) > 5 * (20 << 10)

    cases = list(read_cases(written(tmp_path / "x.jsonl.gz", gzip.compress(content))))

    assert len(cases) == 2000


@pytest.mark.parametrize("filler", [b"\n", b" ", b"0", b'"', b"["])
@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.csv.gz", "x.json.gz", "x.txt.gz"])
@pytest.mark.parametrize("read", [read_cases, read_documents, entries, retrievals])
def test_a_gzip_bomb_is_a_problem(tmp_path: Path, read: Reader, name: str, filler: bytes) -> None:
    path = written(tmp_path / name, gzip.compress(b'{"query": "a"}\n' + filler * 60_000))

    assert problem_of(read, path).message


# --- files that are held whole


def read_lexical_calibration(path: Path) -> object:
    return read_calibration(str(path), "lexical")


@pytest.mark.parametrize(
    ("read", "option"),
    [
        (read_yaml, RECORD_OPTION),
        (read_lexical_calibration, RECORD_OPTION),
        (read_labels, FILE_OPTION),
        (read_baseline, FILE_OPTION),
    ],
)
def test_files_held_whole_are_limited(
    tmp_path: Path, read: Callable[[Path], object], option: str
) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(8 << 30)  # takes no place on the disk

    with pytest.raises(RagbenchError) as caught:
        read(path)

    assert str(path) in str(caught.value)
    assert option in str(caught.value)


# --- Parquet


@pytest.fixture
def parquet() -> Any:
    return pytest.importorskip("pyarrow.parquet")


def table(**columns: Any) -> Any:
    return import_module("pyarrow").table(columns)


@pytest.mark.extra("hf")
@pytest.mark.parametrize("read", [read_cases, entries, retrievals])
def test_a_long_cell_of_parquet_is_refused_with_its_row(
    tmp_path: Path, parquet: Any, read: Reader
) -> None:
    path = tmp_path / "x.parquet"
    contexts = [["c"], ["c", LONG + "!"]]
    parquet.write_table(table(query=["a", "b"], response=["x", "y"], contexts=contexts), path)

    problem = problem_of(read, path)

    assert problem.line == 2
    assert "a cell is longer than 2 KB" in problem.message


@pytest.mark.extra("hf")
def test_a_table_of_parquet_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, parquet: Any
) -> None:
    path = tmp_path / "x.parquet"
    parquet.write_table(table(query=["x" * 30_000]), path, compression="zstd")
    assert path.stat().st_size < 2000

    assert FILE_OPTION in problem_of(read_cases, path).message


@pytest.mark.extra("hf")
@pytest.mark.parametrize("read", [read_cases, entries, retrievals])
def test_a_text_of_parquet_that_many_rows_share_is_refused_before_a_row_is_made(
    tmp_path: Path, parquet: Any, read: Reader
) -> None:
    """It is stored once: forty rows would hold forty of it."""
    path = tmp_path / "x.parquet"
    pyarrow = import_module("pyarrow")
    shared = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0] * 40, pyarrow.int32()), pyarrow.array(["x" * 19_000])
    )
    parquet.write_table(table(query=shared), path, compression="zstd")

    problem = problem_of(read, path)

    assert problem.line is None
    assert "a column that unpacks to more than 200 times its size" in problem.message


@pytest.mark.extra("hf")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    codec=st.sampled_from(["none", "snappy", "zstd"]),
    # Where a byte is replaced, as a share of the file, and by which.
    damage=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=4),
    remaining=st.floats(0.5, 1),
)
def test_damaged_parquet_never_crashes(
    tmp_path: Path, parquet: Any, codec: str, damage: list[tuple[float, int]], remaining: float
) -> None:
    path = tmp_path / "fuzzed.parquet"
    columns = {"query": ["a", "b"], "contexts": [["c"], []], "score": [1.5, None]}
    parquet.write_table(table(**columns), path, compression=codec)
    content = bytearray(path.read_bytes())
    for place, value in damage:
        content[int(place * len(content))] = value
    path.write_bytes(content[: int(remaining * len(content))])

    for read in (read_cases, read_documents, entries, retrievals):
        with contextlib.suppress(InputError):
            list(read(path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cases.csv", "query,{names}\nq,{values}\n"),
        ("cases.tsv", "query\t{tabs}\n"),
        ("cases.jsonl", '{{"query": "q", {members}}}\n'),
        ("cases.json", '[{{"query": "q", {members}}}]\n'),
    ],
)
def test_a_record_of_too_many_fields_is_refused(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "64MB")
    monkeypatch.setenv("RAGBENCH_MAX_FILE", "64MB")
    names = [f"c{number}" for number in range(16_384)]
    path = tmp_path / name
    content = text.format(
        names=",".join(names),
        values=",".join("1" * len(names)),
        tabs="\t".join(names),
        members=", ".join(f'"{field}": 1' for field in names),
    )
    path.write_text(content, encoding="utf-8")

    with pytest.raises(DataError, match=r"it has 16,385 fields; the most are 16,384"):
        list(read_cases(path))
