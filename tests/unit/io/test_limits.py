"""Small files that unpack to much, endless lines and cells: one error that names the option."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench import RagbenchError, open_dump, read_cases, read_documents, read_labels
from ragbench.errors import ConfigError, DataError, InputError
from ragbench.gate.baseline_file import read_baseline
from ragbench.io.limits import size_of
from ragbench.io.yaml_file import read_yaml
from ragbench.validators.calibration import read_calibration
from tests.unit.io.traces import entries, written

RECORD, FILE = "--max-record SIZE", "--max-file SIZE"


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "2KB")
    monkeypatch.setenv("RAGBENCH_MAX_FILE", "20KB")


def retrievals(path: Path) -> Iterator[Any]:
    with open_dump(path) as dump:
        yield from dump
        dump.problems.raise_if_any()


def problem_of(read: Callable[[Path], Iterable[Any]], path: Path) -> tuple[int | None, str]:
    """The first problem: its line and its words."""
    with pytest.raises(DataError) as caught:
        list(read(path))
    first = caught.value.problems[0]
    assert first.path == str(path)
    return first.line, first.message


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, size in (
        ("7", 7),
        ("7B", 7),
        ("2 kb", 2048),
        ("1.5KiB", 1536),
        ("3MB", 3 << 20),
        ("1tb", 1 << 40),
    ):
        assert size_of(text) == size
    for text in ("much", "-1", "0", "1e3", "5XB", "0.1", "KB"):
        monkeypatch.setenv("RAGBENCH_MAX_FILE", text)
        with pytest.raises(ConfigError, match="is not a size"):
            read_cases("x.jsonl")


LONG = "x" * 2048
"""A text that makes its record longer than the limit."""
ROW = json.dumps({"query": "a", "response": "b", "contexts": ["c"]})
LONG_ROW = json.dumps({"query": LONG, "response": "b", "contexts": ["c"]})
MANY = json.dumps([{"query": f"q{n}", "reference": "r" * 100} for n in range(300)])
HIT = {"id": 1, "text": LONG, "score": 0.5}
ARRAY = [{"query": "a", "chunks": [{**HIT, "text": "t"}]}, {"query": "b", "chunks": [HIT]}]
OTHER = ROW + "\n" + '{"query": "' + "é" * 4000
LINE = "the line is longer than 2 KB"
ALL = (read_cases, entries, retrievals)


@pytest.mark.parametrize(
    ("reads", "name", "content", "line", "words"),
    [
        (ALL, "x.jsonl", f"{ROW}\n{LONG_ROW}\n{ROW}\n", 2, LINE),
        (ALL, "x.jsonl", ROW + "\n" + " " * 5000, 2, LINE),
        (ALL, "x.csv", f"query,response,contexts\na,b,['c']\n{LONG},b,['c']\n", 3, "2 KB"),
        (ALL, "x.csv", "query,response,contexts\na,b,['c']\na,b,\"" + "c\n" * 2000, 1024, "2 KB"),
        (ALL, "x.tsv", f"query\tresponse\tcontexts\na\tb\t['c']\na\tb\t{LONG}\n", 3, "2 KB"),
        ([retrievals], "x.json", json.dumps(ARRAY, indent=1), 12, "the element is longer"),
        ([read_cases], "x.json", MANY, None, "it is larger than 20 KB"),
        ([read_documents], "x.txt", "word\n" * 500, None, "the text is longer than 2 KB"),
        ([entries], "x.jsonl", OTHER.encode("utf-16"), 2, LINE),
        ([partial(entries, encoding="cp1252")], "x.jsonl", OTHER.encode("cp1252"), 2, LINE),
    ],
)
def test_what_is_too_large(
    tmp_path: Path, reads: Any, name: str, content: str | bytes, line: int | None, words: str
) -> None:
    path = written(tmp_path / name, content)
    for read in reads:
        found, message = problem_of(read, path)
        assert found == line
        assert words in message
        assert RECORD in message or FILE in message


def test_more_is_allowed_on_request_and_in_a_packed_file_of_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [json.dumps({"query": f"question {n}", "reference": str(n**5)}) for n in range(2000)]
    data = "\n".join(rows).encode()
    assert len(data) > 5 * (20 << 10)
    packed = written(tmp_path / "x.jsonl.gz", gzip.compress(data))
    assert sum(1 for _ in read_cases(packed)) == 2000
    path = written(tmp_path / "x.jsonl", f"{ROW}\n{LONG_ROW}\n")
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "3KB")
    assert [len(case.query) for case in read_cases(path)] == [1, 2048]


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.csv.gz", "x.json.gz", "x.txt.gz"])
@pytest.mark.parametrize("read", [read_cases, read_documents, entries, retrievals])
def test_a_gzip_bomb(tmp_path: Path, read: Any, name: str) -> None:
    path = tmp_path / name
    for filler in (b"\n", b" ", b"0", b'"', b"["):
        path.write_bytes(gzip.compress(b'{"query": "a"}\n' + filler * 60_000))
        with pytest.raises(DataError) as caught:
            list(read(path))
        assert caught.value.problems


@pytest.mark.parametrize(
    ("read", "limit"),
    [
        (read_yaml, RECORD),
        (lambda path: read_calibration(str(path), "lexical"), RECORD),
        (read_labels, FILE),
        (read_baseline, FILE),
    ],
)
def test_files_held_whole_are_limited(
    tmp_path: Path, read: Callable[[Path], Any], limit: str
) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(8 << 30)  # takes no place on the disk

    with pytest.raises(RagbenchError, match=rf"(?s)(?=.*{path}).*{limit}"):
        read(path)


# --- Parquet


@pytest.fixture
def parquet() -> Any:
    return pytest.importorskip("pyarrow.parquet")


def table(**columns: Any) -> Any:
    return import_module("pyarrow").table(columns)


@pytest.mark.extra("hf")
@pytest.mark.parametrize("read", [read_cases, entries, retrievals])
def test_a_long_cell_of_parquet(tmp_path: Path, parquet: Any, read: Any) -> None:
    path = tmp_path / "x.parquet"
    texts = [["c"], ["c", LONG + "!"]]
    parquet.write_table(table(query=["a", "b"], response=["x", "y"], contexts=texts), path)
    line, message = problem_of(read, path)
    assert line == 2
    assert "a cell is longer than 2 KB" in message
    parquet.write_table(table(query=["x" * 30_000]), path, compression="zstd")
    assert path.stat().st_size < 2000
    assert FILE in problem_of(read_cases, path)[1]
    # A text that is stored once, for many rows: refused before a row is made.
    pa = import_module("pyarrow")
    shared = pa.DictionaryArray.from_arrays(
        pa.array([0] * 40, pa.int32()), pa.array(["x" * 19_000])
    )
    parquet.write_table(table(query=shared), path, compression="zstd")
    line, message = problem_of(read, path)
    assert line is None and "a column that unpacks to more than 200 times its size" in message


@pytest.mark.extra("hf")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    codec=st.sampled_from(["none", "snappy", "zstd"]),
    damage=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=4),
    kept=st.floats(0.5, 1),
)
def test_damaged_parquet_never_crashes(
    tmp_path: Path, parquet: Any, codec: str, damage: list[tuple[float, int]], kept: float
) -> None:
    path = tmp_path / "fuzzed.parquet"
    columns = {"query": ["a", "b"], "contexts": [["c"], []], "score": [1.5, None]}
    parquet.write_table(table(**columns), path, compression=codec)
    raw = bytearray(path.read_bytes())
    for place, value in damage:
        raw[int(place * len(raw))] = value
    path.write_bytes(raw[: int(kept * len(raw))])
    for read in (read_cases, read_documents, entries, retrievals):
        with contextlib.suppress(InputError):
            list(read(path))
