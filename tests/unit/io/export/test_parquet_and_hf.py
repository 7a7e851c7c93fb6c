from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ragbench import prepare, to_dataset
from ragbench.errors import InputError
from ragbench.io.export import export
from ragbench.plugins import import_ragas, require
from tests.unit.io.traces import ALL, FULL, SCORES, trace_of

pytestmark = pytest.mark.extra("hf")

TYPES = {
    "id": "string",
    "retrieved_contexts": "list<element: string>",
    "retrieved_scores": "list<element: double>",
    "confidence": "double",
    "abstained": "bool",
    "score:nDCG@10": "double",
    "status:nDCG@10": "string",
}


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    pq: Any = require("pyarrow.parquet", extra="hf")
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def hf_rows(path: Path) -> list[dict[str, Any]]:
    datasets: Any = require("datasets", extra="hf")
    rows: list[dict[str, Any]] = datasets.load_from_disk(str(path)).to_list()
    return rows


READERS = {"parquet": parquet_rows, "hf": hf_rows}
BOTH = pytest.mark.parametrize("name", ["parquet", "hf"])


def test_parquet_types_are_the_same_whatever_the_values(tmp_path: Path) -> None:
    pq: Any = require("pyarrow.parquet", extra="hf")
    for traces in (ALL[:0], ALL):
        export("parquet", traces, tmp_path / "o.parquet", scores=SCORES)
        schema = pq.read_schema(tmp_path / "o.parquet")
        assert {name: str(schema.field(name).type) for name in TYPES} == TYPES


@BOTH
def test_nan_is_not_null(tmp_path: Path, name: str) -> None:
    traces = [trace_of(["a"], scores=[math.nan]), trace_of(["a"])]
    export(name, traces, tmp_path / "out")
    first, second = READERS[name](tmp_path / "out")
    assert math.isnan(first["retrieved_scores"][0])
    assert second["retrieved_scores"] is None


@BOTH
def test_more_rows_than_one_batch_keep_their_order(tmp_path: Path, name: str) -> None:
    export(name, (trace_of(["x"], case=str(n)) for n in range(2001)), tmp_path / "out")
    rows = READERS[name](tmp_path / "out")
    assert [row["id"] for row in rows] == [str(n) for n in range(2001)]


@pytest.mark.extra("ragas")
def test_ragas_reads_the_hugging_face_folder(tmp_path: Path) -> None:
    datasets: Any = require("datasets", extra="hf")
    export("hf", ALL, tmp_path / "out")
    folder = datasets.load_from_disk(str(tmp_path / "out"))
    loaded = import_ragas().EvaluationDataset.from_hf_dataset(folder)
    expected = to_dataset(prepare(ALL)).samples
    assert loaded.samples[1:] == expected[1:]
    assert loaded.samples[0] == expected[0].model_copy(update={"rubrics": None})


def test_a_hugging_face_folder_is_replaced_and_another_folder_is_not(tmp_path: Path) -> None:
    target = tmp_path / "out"
    export("hf", ALL, target)
    export("hf", [FULL], target)
    assert [row["id"] for row in hf_rows(target)] == ["full"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="holds something else"):
        export("hf", [FULL], other)
    assert (other / "thesis.txt").read_text() == "precious"
    with pytest.raises(InputError, match="it is a file"):
        export("hf", [FULL], other / "thesis.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]
