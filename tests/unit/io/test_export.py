"""A run as JSON Lines, CSV, Parquet, a folder of Hugging Face datasets, RAGAS samples, TREC."""

from __future__ import annotations

import csv
import json
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragbench import Case, RetrievalResult
from ragbench.core.outcome import Status
from ragbench.core.trace import SampleRow, Trace, sample_row
from ragbench.errors import InputError
from ragbench.io.export import EXPORTS, export
from ragbench.io.trec import escape_id, unescape_id
from ragbench.plugins import import_ragas, require
from ragbench.prepare import prepare, to_dataset
from tests.unit.io.traces import ALL, SCORES, as_lists, measured, skipped, trace_of

FULL, BARE, NOTHING_FOUND, RETRIEVAL_FAILED, GENERATION_FAILED, ONLY_GENERATES = ALL
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


def test_scores_stand_beside_their_cases(tmp_path: Path) -> None:
    for form in ("jsonl", "csv"):
        done = export(form, ALL, tmp_path / form, scores=SCORES)
        assert (done.written, done.left_out) == (6, {})
    by_id = {record["id"]: record["scores"] for record in records(tmp_path / "jsonl")}
    assert by_id["full"]["nDCG@10"]["value"] == 0.5
    assert by_id["none"]["EM"]["status"] == "abstained"
    assert by_id["rf"].keys() == {"EM"}
    with (tmp_path / "csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    names = ("score:EM", "status:EM", "score:nDCG@10", "status:nDCG@10")
    assert {row["id"]: [row[name] for name in names] for row in rows} == {
        "full": ["1.0", "measured", "0.5", "measured"],
        "none": ["", "abstained", "", "skipped"],
        "rf": ["", "failed", "", ""],
        **dict.fromkeys(("bare", "gf", "og"), [""] * 4),
    }
    # Lists are JSON, and what is not known is empty.
    full, _, none, failed, *_ = rows
    assert json.loads(full["context_metadata"]) == [{"page": 1}, {"page": 2}]
    assert (full["answerable"], full["retrieval_seconds"]) == ("true", "0.25")
    assert (none["retrieved_contexts"], failed["retrieved_contexts"]) == ("[]", "")
    assert failed["retrieval_reason"] == "retrieve: ValueError: boom <- KeyError: 'x'"


def test_a_table_leaves_out_embeddings(tmp_path: Path) -> None:
    result = RetrievalResult(
        ["Bees fly."],
        context_metadata=[{"page": 1, "embedding": [0.5] * 384}],
        metadata={"index": "v2", "query_embedding": [0.5] * 384},
    )
    trace = Trace(
        case=Case(id="a", query="Who flies?"), retrieval=measured(result), generation=skipped("no")
    )
    export("csv", [trace], tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file, strict=True)
    assert json.loads(row["context_metadata"]) == [{"page": 1}]
    assert json.loads(row["retrieval_metadata"]) == {"index": "v2"}


def noted(folder: Path, metadata: Any) -> Any:
    result = RetrievalResult(["a"], metadata=metadata)
    case = Case(id="c", query="q")
    trace = Trace(case=case, retrieval=measured(result), generation=skipped("g"))
    export("jsonl", [trace], folder / "o.jsonl")
    return records(folder / "o.jsonl")[0]["retrieval"]["value"]["metadata"]


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ([float("nan"), float("inf"), -float("inf")], ["NaN", "Infinity", "-Infinity"]),
        ([{"b", "a"}, {7: 1}, Model()], [["a", "b"], {"7": 1}, {"size": 3}]),
        (
            [Page(3, "x"), datetime(2024, 5, 1, 12, tzinfo=UTC)],
            [{"number": 3, "source": "x"}, "2024-05-01T12:00:00+00:00"],
        ),
        (np.array([1.5, float("nan")]), [1.5, "NaN"]),
        ([np.int64(4), np.float32(0.5)], [4, 0.5]),
        ([deque([1]), (1, True, None)], [[1], [1, True, None]]),
        ([Status.FAILED, PurePosixPath("a/b"), Decimal("1.10")], ["failed", "a/b", "1.10"]),
        ([2**70, "\ud800"], [2**70, "\ud800"]),
    ],
)
def test_metadata_of_any_type_has_one_json_form(
    tmp_path: Path, value: object, form: object
) -> None:
    assert noted(tmp_path, {"x": value}) == {"x": form}


def test_what_has_no_json_form_is_said_to_be_where(tmp_path: Path) -> None:
    for value, kind in ((object(), "a object"), (b"raw", "bytes"), (Page, "a type")):
        with pytest.raises(InputError) as caught:
            noted(tmp_path, {"deep": [1, {"x": value}]})
        place = "case 'c': 'retrieval.value.metadata.deep[1].x' holds "
        assert str(caught.value).startswith(place + kind)
    assert list(tmp_path.iterdir()) == []


# --- tables


def rows(name: str, path: Path) -> list[dict[str, Any]]:
    if name == "hf":
        table = require("datasets", extra="hf").load_from_disk(str(path)).to_list()
    else:
        table = require("pyarrow.parquet", extra="hf").read_table(path).to_pylist()
    return [*table]


@pytest.mark.extra("hf")
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


# --- RAGAS


def test_every_line_has_all_twelve_fields_and_failed_cases_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    done = export("ragas", ALL, path)
    assert done.left_out == {"retrieval failed": 1, "generation failed": 1}
    assert (done.written, done.paths) == (4, (path,))
    rows = records(path)
    assert all(list(row) == list(SampleRow().as_mapping()) for row in rows)
    assert path.read_bytes().isascii()  # ragas opens it in the locale's encoding
    written = [as_lists(sample_row(one)) for one in (FULL, BARE, NOTHING_FOUND, ONLY_GENERATES)]
    assert [as_lists(SampleRow(**row)) for row in rows] == written
    # The first of the fullest rows leads, and the others keep their order.
    export("ragas", [BARE, RETRIEVAL_FAILED, NOTHING_FOUND, FULL, ONLY_GENERATES, FULL], path)
    order = [FULL, BARE, NOTHING_FOUND, ONLY_GENERATES, FULL]
    assert [row["user_input"] for row in records(path)] == [trace.case.query for trace in order]


@pytest.mark.extra("ragas")
def test_ragas_loads_from_the_file_what_a_dataset_holds(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    traces = [FULL, NOTHING_FOUND]
    export("ragas", [*traces, GENERATION_FAILED], path)
    direct = to_dataset(prepare(iter(traces)))
    assert import_ragas().EvaluationDataset.from_jsonl(str(path)).samples == direct.samples
    rows = [as_lists(sample_row(trace)) for trace in traces]
    assert [sample.model_dump() for sample in direct.samples] == rows
    export("ragas", [ONLY_GENERATES, FULL], path)
    # What its metrics may read are the fields of the first sample.
    assert "retrieved_context_ids" in import_ragas().EvaluationDataset.from_jsonl(path).features()


# --- TREC


def write(tmp_path: Path, *traces: Trace) -> tuple[list[list[str]], list[list[str]]]:
    done = export("trec", traces, tmp_path / "out.run")
    assert done.paths == (tmp_path / "out.run", tmp_path / "out.qrels")
    run, qrels = (path.read_text(encoding="utf-8").splitlines() for path in done.paths)
    return [line.split() for line in run], [line.split() for line in qrels]


@pytest.mark.parametrize(
    ("ids", "scores", "rows"),
    [
        ("abc", None, ["a 1 3", "b 2 2", "c 3 1"]),
        ("abc", [0.5, 0.5, 0.1], ["a 1 3", "b 2 2", "c 3 1"]),  # which break the order
        ("abc", [math.nan, 0.2, 0.1], ["a 1 3", "b 2 2", "c 3 1"]),
        ("bab", [3.0, 2.0, 1.0], ["b 1 3.0", "a 2 2.0"]),  # each once, at its best rank
    ],
)
def test_a_run_holds_each_id_once_with_scores_that_fall(
    tmp_path: Path, ids: str, scores: list[float] | None, rows: list[str]
) -> None:
    run, _ = write(tmp_path, trace_of(["x", "y", "z"], ids=[*ids], scores=scores))
    assert [" ".join(line[2:5]) for line in run] == rows
    run, qrels = write(tmp_path, FULL)
    assert run[1] == ["full", "Q0", "ch-9", "2", "0.25", "ragbench"]
    assert qrels == [["full", "0", "ch-1", "1"], ["full", "0", "ch-2", "1"]]


@given(scores=st.lists(st.floats(width=32), max_size=8))
@example(scores=[1e300, 1e299, 1.0])
@example(scores=[0.3, 0.3 - 1e-12, 0.1])
def test_written_scores_fall(tmp_path_factory: pytest.TempPathFactory, scores: list[float]) -> None:
    names = [f"d{position}" for position in range(len(scores))]
    folder = tmp_path_factory.mktemp("trec")
    run, _ = write(folder, trace_of(names, ids=names, scores=scores))
    assert [line[2] for line in run] == names
    written = [float(line[4]) for line in run]
    assert all(high > low for high, low in pairwise(written))


def test_a_failure_is_in_neither_file_and_nothing_found_is_in_the_qrels(tmp_path: Path) -> None:
    found_nothing = trace_of([], case="empty", grades={"d": 2, "e": 0})
    traces = (RETRIEVAL_FAILED, ONLY_GENERATES, NOTHING_FOUND, GENERATION_FAILED, found_nothing)
    done = export("trec", traces, tmp_path / "out.run")
    assert done.left_out == {"retrieval failed": 1, "retrieval skipped": 1}
    assert done.written == 3
    assert (tmp_path / "out.run").read_text().split()[0] == "gf"
    assert (tmp_path / "out.qrels").read_text() == "gf 0 x 1\nempty 0 d 2\nempty 0 e 0\n"


def test_what_trec_cannot_hold_is_refused_and_nothing_is_left_behind(tmp_path: Path) -> None:
    for name, traces, message in (
        ("out.run", ALL, r"case 'bare': .* no ids"),
        ("out.run", [trace_of(["x"], ids=[""])], "case 'q1': the id"),
        ("out.run", [trace_of(["x"], ids=["\ud800"])], "case 'q1': the id"),
        ("out.qrels", [], "name the run file"),
    ):
        with pytest.raises(InputError, match=message):
            export("trec", traces, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@given(id_=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@example(id_="a%20b")
@example(id_="%%20 %2")
@example(id_="100% sure")
@example(id_="\ufeff\u2028\x85")
def test_an_escaped_id_is_one_column_and_comes_back(id_: str) -> None:
    text = escape_id(id_)
    assert text.split() == [text]
    assert text.splitlines() == [text]
    assert unescape_id(text) == id_
