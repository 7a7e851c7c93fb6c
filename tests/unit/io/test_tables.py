"""Arrow tables: Parquet files, and what Hugging Face datasets saves and loads."""

from __future__ import annotations

import datetime
import decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ragbench import read_cases, read_documents
from ragbench.errors import DataError
from ragbench.io.source import Problems
from tests.unit.io.traces import lines

pytestmark = pytest.mark.extra("hf")

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")

COLUMNS: dict[str, list[Any]] = {
    "id": [1, 2], "question": ["one", "two"], "ground_truth": ["x", None],
    "gold_ids": [["a", "b"], []], "when": [datetime.date(2024, 5, 1), None],
    "price": [decimal.Decimal("1.10"), None], "score": [0.5, float("nan")],
    "picture": [b"\x00\xff", None],
}  # fmt: skip


def check(path: str | Path, **options: str) -> None:
    one, two = read_cases(path, **options)  # type: ignore[arg-type]
    assert (one.id, one.query, one.reference) == ("1", "one", "x")
    assert (one.reference_context_ids, two.reference_context_ids) == (("a", "b"), ())
    assert two.reference is None
    assert one.metadata == {"when": "2024-05-01", "price": "1.10", "score": 0.5}
    assert two.metadata["score"] is None


@pytest.mark.parametrize("name", ["cases.parquet", "cases"])
def test_parquet(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table(COLUMNS), tmp_path / name)
    check(tmp_path / name)


def test_parquet_problems(tmp_path: Path) -> None:
    path = tmp_path / "cases.parquet"
    pq.write_table(pa.table({"query": ["a", None, "c"]}), path)
    noted = Problems()
    assert [case.query for case in read_cases(path, problems=noted)] == ["a", "c"]
    assert [(problem.line, problem.field) for problem in noted] == [(2, "query")]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="not a readable Parquet file after record 0"):
        list(read_cases(path))
    with pytest.raises(DataError, match="no such file"):
        list(read_cases(tmp_path / "none.parquet", format="parquet"))


@pytest.mark.filterwarnings("ignore")
def test_a_folder_that_datasets_saved(tmp_path: Path) -> None:
    datasets: Any = import_module("datasets")
    one = datasets.Dataset.from_dict(COLUMNS)
    one.save_to_disk(tmp_path / "one")
    check(tmp_path / "one")
    datasets.DatasetDict({"test": one, "train": one.select([1])}).save_to_disk(tmp_path / "two")
    check(tmp_path / "two")
    assert [case.id for case in read_cases(tmp_path / "two", split="train")] == ["2"]
    with pytest.raises(DataError, match="no split 'dev'; there are: test, train"):
        list(read_cases(tmp_path / "two", split="dev"))


@pytest.mark.filterwarnings("ignore")
def test_a_dataset_named_as_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The package takes a folder of this name below the current one before it asks the hub.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team" / "qa").mkdir(parents=True)
    for split in ("train", "test"):
        row = {"id": split, "question": "q", "text": "t"}
        lines(tmp_path / "team" / "qa" / f"{split}.jsonl", [row])
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
