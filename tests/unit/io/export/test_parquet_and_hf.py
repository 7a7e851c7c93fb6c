from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import InputError
from ragbench.io.export import export
from ragbench.plugins import import_ragas, require
from ragbench.prepare import prepare, to_dataset
from tests.unit.io.traces import ALL, FULL, SCORES, trace_of

pytestmark = pytest.mark.extra("hf")


def rows(name: str, path: Path) -> list[dict[str, Any]]:
    if name == "hf":
        table: Any = require("datasets", extra="hf").load_from_disk(str(path)).to_list()
    else:
        table = require("pyarrow.parquet", extra="hf").read_table(path).to_pylist()
    found: list[dict[str, Any]] = table
    return found


def test_parquet_types_are_the_same_whatever_the_values(tmp_path: Path) -> None:
    pq: Any = require("pyarrow.parquet", extra="hf")
    types = {
        "id": "string",
        "retrieved_contexts": "list<element: string>",
        "retrieved_scores": "list<element: double>",
        "abstained": "bool",
        "score:nDCG@10": "double",
        "status:nDCG@10": "string",
    }
    for traces in (ALL[:0], ALL):
        export("parquet", traces, tmp_path / "o.parquet", scores=SCORES)
        schema = pq.read_schema(tmp_path / "o.parquet")
        assert {name: str(schema.field(name).type) for name in types} == types


@pytest.mark.parametrize("name", ["parquet", "hf"])
def test_more_rows_than_one_batch_keep_their_order_and_nan_is_not_null(
    tmp_path: Path, name: str
) -> None:
    many = (trace_of(["x"], case=str(n), scores=[math.nan]) for n in range(2001))
    export(name, (*many, trace_of(["x"], case="2001")), tmp_path / "out")
    found = rows(name, tmp_path / "out")
    assert [row["id"] for row in found] == [str(n) for n in range(2002)]
    assert math.isnan(found[0]["retrieved_scores"][0])
    assert found[-1]["retrieved_scores"] is None


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
    assert [row["id"] for row in rows("hf", target)] == ["full"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="holds something else"):
        export("hf", [FULL], other)
    assert (other / "thesis.txt").read_text() == "precious"
    with pytest.raises(InputError, match="it is a file"):
        export("hf", [FULL], other / "thesis.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]
