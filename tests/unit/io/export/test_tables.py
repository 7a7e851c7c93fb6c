"""A run as JSON Lines, CSV, Parquet and as a folder of Hugging Face datasets."""

from __future__ import annotations

import csv
import json
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

from ragbench import Case, RetrievalResult
from ragbench.core.outcome import Status
from ragbench.core.trace import Trace
from ragbench.errors import InputError
from ragbench.io.export import EXPORTS, export
from ragbench.plugins import import_ragas, require
from ragbench.prepare import prepare, to_dataset
from tests.unit.io.traces import (
    ALL,
    FULL,
    GENERATION_FAILED,
    NOTHING_FOUND,
    ONLY_GENERATES,
    SCORES,
    measured,
    skipped,
    trace_of,
)

NEEDS = {name: pytest.mark.extra("hf") for name in ("hf", "parquet")}


def forms(*names: str) -> pytest.MarkDecorator:
    marked = [pytest.param(name, marks=NEEDS.get(name, ())) for name in names]
    return pytest.mark.parametrize("name", marked)


EVERY = forms(*sorted(EXPORTS.builtin))
TRACES = (FULL, NOTHING_FOUND, GENERATION_FAILED, ONLY_GENERATES)


# --- every form


def content(folder: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@EVERY
def test_the_same_run_gives_the_same_bytes_and_replaces_another(tmp_path: Path, name: str) -> None:
    for folder, runs in (("one", [[FULL], TRACES]), ("two", [iter(TRACES)])):
        for traces in runs:
            export(name, traces, tmp_path / folder / "out", scores=SCORES)
    first = content(tmp_path / "one")
    assert first
    assert first == content(tmp_path / "two")


@EVERY
def test_nothing_is_no_error_and_what_breaks_off_leaves_the_old(tmp_path: Path, name: str) -> None:
    def broken() -> Iterator[Trace]:
        yield FULL
        raise RuntimeError("the journal broke off")

    done = export(name, [], tmp_path / "out")
    assert (done.written, done.left_out) == (0, {})
    assert all(path.exists() for path in done.paths)
    export(name, TRACES, tmp_path / "out")
    before = content(tmp_path)
    with pytest.raises(RuntimeError, match="broke off"):
        export(name, broken(), tmp_path / "out")
    assert content(tmp_path) == before
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written"):
        export(name, TRACES, tmp_path / "file" / "out")


@forms("csv", "parquet", "hf")
def test_a_lone_surrogate_is_refused_with_its_case(tmp_path: Path, name: str) -> None:
    case = Case(id="c9", query="\ud800")
    trace = Trace(case=case, retrieval=skipped("r"), generation=skipped("g"))
    with pytest.raises(InputError, match=r"case 'c9'.* lone surrogate.*jsonl"):
        export(name, [trace], tmp_path / "o")
    assert list(tmp_path.iterdir()) == []


# --- JSON Lines


class Model:
    """Dumps itself, as a pydantic model does."""

    def model_dump(self) -> dict[str, int]:
        return {"size": 3}


@dataclass
class Page:
    number: int
    source: str


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def test_a_line_holds_all_that_is_known(tmp_path: Path) -> None:
    export("jsonl", ALL, tmp_path / "o.jsonl", scores=SCORES)
    by_id = {record["id"]: record for record in records(tmp_path / "o.jsonl")}
    full = by_id["full"]
    assert full["query"] == "Where is “Zürich”?"
    span = {"text": "in Switzerland", "document_id": "ch-1", "start": 10, "end": 24}
    assert full["evidence"] == [span]
    value = {
        "contexts": ["Zürich is in Switzerland.", "Bern, the capital"],
        "context_ids": ["ch-1", "ch-9"], "scores": [0.9, 0.25],
        "context_metadata": [{"page": 1}, {"page": 2}], "metadata": {"index": "v2"},
    }  # fmt: skip
    assert full["retrieval"] == {
        "status": "measured", "value": value, "reason": None, "failure": None, "known": "asked",
        "seconds": 0.25, "sharing": 1,
    }  # fmt: skip
    assert full["scores"]["nDCG@10"]["value"] == 0.5
    assert by_id["none"]["scores"]["EM"]["status"] == "abstained"
    assert by_id["rf"]["scores"].keys() == {"EM"}


def noted(folder: Path, metadata: Any) -> Any:
    result = RetrievalResult(["a"], metadata=metadata)
    case = Case(id="c", query="q")
    trace = Trace(case=case, retrieval=measured(result), generation=skipped("g"))
    export("jsonl", [trace], folder / "o.jsonl")
    return records(folder / "o.jsonl")[0]["retrieval"]["value"]["metadata"]


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (float("nan"), "NaN"),
        ([float("inf"), -float("inf")], ["Infinity", "-Infinity"]),
        ({"b", "a"}, ["a", "b"]),
        (Page(3, "x"), {"number": 3, "source": "x"}),
        (Model(), {"size": 3}),
        (datetime(2024, 5, 1, 12, tzinfo=UTC), "2024-05-01T12:00:00+00:00"),
        (np.array([1.5, float("nan")]), [1.5, "NaN"]),
        ([np.int64(4), np.float32(0.5)], [4, 0.5]),
        ([deque([1]), (1, True, None)], [[1], [1, True, None]]),
        ([Status.FAILED, PurePosixPath("a/b"), Decimal("1.10")], ["failed", "a/b", "1.10"]),
        ([2**70, "\ud800"], [2**70, "\ud800"]),
        ({7: 1}, {"7": 1}),
    ],
)
def test_metadata_of_any_type_has_one_json_form(
    tmp_path: Path, value: object, form: object
) -> None:
    assert noted(tmp_path, {"x": value}) == {"x": form}


@pytest.mark.parametrize(
    ("value", "kind"), [(object(), "a object"), (b"raw", "bytes"), (Page, "a type")]
)
def test_what_has_no_json_form_is_said_to_be_where(
    tmp_path: Path, value: object, kind: str
) -> None:
    with pytest.raises(InputError) as caught:
        noted(tmp_path, {"deep": [1, {"x": value}]})
    text = str(caught.value)
    assert text.startswith("case 'c': 'retrieval.value.metadata.deep[1].x' holds " + kind)
    assert list(tmp_path.iterdir()) == []


# --- tables


def test_a_case_a_row_with_lists_as_json_and_what_is_unknown_empty(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    done = export("csv", ALL, path, scores=SCORES)
    assert (done.written, done.left_out) == (6, {})
    with path.open(encoding="utf-8", newline="") as file:
        by_id = {row["id"]: row for row in csv.DictReader(file, strict=True)}
    assert list(by_id) == [trace.case.id for trace in ALL]
    full, failed = by_id["full"], by_id["rf"]
    lists = {
        "retrieved_contexts": ["Zürich is in Switzerland.", "Bern, the capital"],
        "context_metadata": [{"page": 1}, {"page": 2}],
        "rubrics_json": {"score1": "wrong"},
    }
    assert {name: json.loads(full[name]) for name in lists} == lists
    plain = {"answerable": "true", "confidence": "0.75", "retrieval_seconds": "0.25"}
    assert {name: full[name] for name in plain} == plain
    assert by_id["none"]["retrieved_contexts"] == "[]"
    assert (failed["retrieved_contexts"], failed["retrieval_status"]) == ("", "failed")
    assert failed["retrieval_reason"] == "retrieve: ValueError: boom <- KeyError: 'x'"
    names = ("score:EM", "status:EM", "score:nDCG@10", "status:nDCG@10")
    assert {id: [row[name] for name in names] for id, row in by_id.items()} == {
        "full": ["1.0", "measured", "0.5", "measured"],
        "none": ["", "abstained", "", "skipped"],
        "rf": ["", "failed", "", ""],
        **dict.fromkeys(("bare", "gf", "og"), [""] * 4),
    }


def rows(name: str, path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]]
    if name == "hf":
        found = require("datasets", extra="hf").load_from_disk(str(path)).to_list()
    else:
        found = require("pyarrow.parquet", extra="hf").read_table(path).to_pylist()
    return found


@pytest.mark.extra("hf")
def test_parquet_types_are_the_same_whatever_the_values(tmp_path: Path) -> None:
    pq: Any = require("pyarrow.parquet", extra="hf")
    types = {
        "id": "string", "retrieved_contexts": "list<element: string>",
        "retrieved_scores": "list<element: double>", "abstained": "bool",
        "score:nDCG@10": "double", "status:nDCG@10": "string",
    }  # fmt: skip
    for traces in (ALL[:0], ALL):
        export("parquet", traces, tmp_path / "o.parquet", scores=SCORES)
        schema = pq.read_schema(tmp_path / "o.parquet")
        assert {name: str(schema.field(name).type) for name in types} == types


@forms("parquet", "hf")
def test_rows_of_many_batches_keep_their_order_and_nan_is_not_null(
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
    export("hf", ALL, tmp_path / "out")
    folder = require("datasets", extra="hf").load_from_disk(str(tmp_path / "out"))
    loaded = import_ragas().EvaluationDataset.from_hf_dataset(folder)
    expected = to_dataset(prepare(ALL)).samples
    assert loaded.samples[1:] == expected[1:]
    assert loaded.samples[0] == expected[0].model_copy(update={"rubrics": None})


@pytest.mark.extra("hf")
def test_a_hugging_face_folder_is_replaced_and_another_folder_is_not(tmp_path: Path) -> None:
    target, other = tmp_path / "out", tmp_path / "other"
    export("hf", ALL, target)
    export("hf", [FULL], target)
    assert [row["id"] for row in rows("hf", target)] == ["full"]
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    for path, why in ((other, "holds something else"), (other / "thesis.txt", "it is a file")):
        with pytest.raises(InputError, match=why):
            export("hf", [FULL], path)
    assert (other / "thesis.txt").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]
