"""A run as JSON Lines, CSV, Parquet, a folder of Hugging Face datasets, RAGAS samples, TREC."""

from __future__ import annotations

import csv
import json
import math
from collections import deque
from collections.abc import Iterator, Sequence
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
NEEDS = {"hf": pytest.mark.extra("hf"), "parquet": pytest.mark.extra("hf")}


def forms(*names: str) -> pytest.MarkDecorator:
    """A test for each of these forms, skipped where its extra is missing."""
    params = [pytest.param(name, marks=NEEDS.get(name, ())) for name in names]
    return pytest.mark.parametrize("form", params)


EVERY = forms(*sorted(EXPORTS.builtin))
TRACES = (FULL, NOTHING_FOUND, GENERATION_FAILED, ONLY_GENERATES)


# --- every form


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder, by path."""
    files: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[str(path.relative_to(folder))] = path.read_bytes()
    return files


@EVERY
def test_the_same_run_gives_the_same_bytes(tmp_path: Path, form: str) -> None:
    export(form, TRACES, tmp_path / "one" / "out", scores=SCORES)
    export(form, iter(TRACES), tmp_path / "two" / "out", scores=SCORES)

    files = content(tmp_path / "one")
    assert files
    assert content(tmp_path / "two") == files


@EVERY
def test_an_export_replaces_another(tmp_path: Path, form: str) -> None:
    export(form, TRACES, tmp_path / "fresh" / "out", scores=SCORES)
    export(form, [FULL], tmp_path / "replaced" / "out", scores=SCORES)

    export(form, TRACES, tmp_path / "replaced" / "out", scores=SCORES)

    assert content(tmp_path / "replaced") == content(tmp_path / "fresh")


@EVERY
def test_a_run_without_cases_is_no_error(tmp_path: Path, form: str) -> None:
    exported = export(form, [], tmp_path / "out")

    assert exported.written == 0
    assert exported.left_out == {}
    for path in exported.paths:
        assert path.exists()


def broken_traces() -> Iterator[Trace]:
    yield FULL
    raise RuntimeError("the journal broke off")


@EVERY
def test_an_export_that_breaks_off_leaves_the_old_one(tmp_path: Path, form: str) -> None:
    export(form, TRACES, tmp_path / "out")
    before = content(tmp_path)

    with pytest.raises(RuntimeError, match="broke off"):
        export(form, broken_traces(), tmp_path / "out")

    assert content(tmp_path) == before


@EVERY
def test_a_path_below_a_file_is_refused(tmp_path: Path, form: str) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(InputError, match="cannot be written"):
        export(form, TRACES, tmp_path / "file" / "out")


@forms("csv", "parquet", "hf")
def test_a_lone_surrogate_is_refused_with_its_case(tmp_path: Path, form: str) -> None:
    case = Case(id="c9", query="\ud800")
    trace = Trace(case=case, retrieval=skipped("r"), generation=skipped("g"))

    with pytest.raises(InputError, match=r"case 'c9'.* lone surrogate.*jsonl"):
        export(form, [trace], tmp_path / "o")

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
    # A text may hold other marks of a line's end than \n, which splitlines would cut at.
    json_lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in json_lines]


def records_by_id(path: Path) -> dict[str, dict[str, Any]]:
    return {record["id"]: record for record in records(path)}


def test_every_case_of_a_run_is_exported(tmp_path: Path) -> None:
    exported = export("jsonl", ALL, tmp_path / "o.jsonl", scores=SCORES)

    assert exported.written == 6
    assert exported.left_out == {}
    assert list(records_by_id(tmp_path / "o.jsonl")) == ["full", "bare", "none", "rf", "gf", "og"]


def test_scores_of_json_lines_stand_beside_their_cases(tmp_path: Path) -> None:
    export("jsonl", ALL, tmp_path / "o.jsonl", scores=SCORES)

    cases = records_by_id(tmp_path / "o.jsonl")
    assert cases["full"]["scores"]["nDCG@10"]["value"] == 0.5
    assert cases["none"]["scores"]["EM"]["status"] == "abstained"
    assert list(cases["rf"]["scores"]) == ["EM"]


# --- CSV


@pytest.fixture(name="csv_rows")
def rows_of_a_csv_export(tmp_path: Path) -> dict[str, dict[str, str]]:
    """The rows by case."""
    export("csv", ALL, tmp_path / "o.csv", scores=SCORES)
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file, strict=True)}


@pytest.mark.parametrize(
    ("case_id", "cells"),
    [
        ("full", ["1.0", "measured", "0.5", "measured"]),
        ("none", ["", "abstained", "", "skipped"]),
        ("rf", ["", "failed", "", ""]),
        ("bare", ["", "", "", ""]),
        ("gf", ["", "", "", ""]),
        ("og", ["", "", "", ""]),
    ],
)
def test_scores_of_csv_stand_beside_their_cases(
    csv_rows: dict[str, dict[str, str]], case_id: str, cells: list[str]
) -> None:
    row = csv_rows[case_id]

    names = ["score:EM", "status:EM", "score:nDCG@10", "status:nDCG@10"]
    assert [row[name] for name in names] == cells


def test_values_of_csv_are_json(csv_rows: dict[str, dict[str, str]]) -> None:
    full = csv_rows["full"]

    assert json.loads(full["context_metadata"]) == [{"page": 1}, {"page": 2}]
    assert full["answerable"] == "true"
    assert full["retrieval_seconds"] == "0.25"


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


def test_in_csv_nothing_found_is_not_the_same_as_nothing_known(
    csv_rows: dict[str, dict[str, str]],
) -> None:
    assert csv_rows["none"]["retrieved_contexts"] == "[]"
    assert csv_rows["rf"]["retrieved_contexts"] == ""


def test_a_failure_in_csv_has_its_reason(csv_rows: dict[str, dict[str, str]]) -> None:
    assert csv_rows["rf"]["retrieval_reason"] == "retrieve: ValueError: boom <- KeyError: 'x'"


# --- metadata of any type


def exported_metadata(folder: Path, metadata: Any) -> Any:
    """A retrieval's metadata as an export writes it."""
    result = RetrievalResult(["a"], metadata=metadata)
    case = Case(id="c", query="q")
    trace = Trace(case=case, retrieval=measured(result), generation=skipped("g"))
    export("jsonl", [trace], folder / "o.jsonl")
    return records(folder / "o.jsonl")[0]["retrieval"]["value"]["metadata"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param(
            [float("nan"), float("inf"), -float("inf")],
            ["NaN", "Infinity", "-Infinity"],
            id="no finite numbers",
        ),
        pytest.param(
            [{"b", "a"}, {7: 1}, Model()],
            [["a", "b"], {"7": 1}, {"size": 3}],
            id="sets, keys and models",
        ),
        pytest.param(
            [Page(3, "x"), datetime(2024, 5, 1, 12, tzinfo=UTC)],
            [{"number": 3, "source": "x"}, "2024-05-01T12:00:00+00:00"],
            id="records and times",
        ),
        pytest.param(np.array([1.5, float("nan")]), [1.5, "NaN"], id="an array of numpy"),
        pytest.param([np.int64(4), np.float32(0.5)], [4, 0.5], id="numbers of numpy"),
        pytest.param([deque([1]), (1, True, None)], [[1], [1, True, None]], id="other lists"),
        pytest.param(
            [Status.FAILED, PurePosixPath("a/b"), Decimal("1.10")],
            ["failed", "a/b", "1.10"],
            id="enums, paths and decimals",
        ),
        pytest.param([2**70, "\ud800"], [2**70, "\ud800"], id="large numbers and half characters"),
    ],
)
def test_metadata_of_any_type_has_one_json_form(
    tmp_path: Path, value: object, written: object
) -> None:
    assert exported_metadata(tmp_path, {"x": value}) == {"x": written}


@pytest.mark.parametrize(
    ("value", "kind"), [(object(), "a object"), (b"raw", "bytes"), (Page, "a type")]
)
def test_a_value_without_a_json_form_is_refused_with_its_place(
    tmp_path: Path, value: object, kind: str
) -> None:
    with pytest.raises(InputError) as caught:
        exported_metadata(tmp_path, {"deep": [1, {"x": value}]})

    place = "case 'c': 'retrieval.value.metadata.deep[1].x' holds "
    assert str(caught.value).startswith(place + kind)
    assert list(tmp_path.iterdir()) == []


# --- tables


def rows(form: str, path: Path) -> list[dict[str, Any]]:
    if form == "hf":
        return list(require("datasets", extra="hf").load_from_disk(str(path)).to_list())
    return list(require("pyarrow.parquet", extra="hf").read_table(path).to_pylist())


@pytest.mark.extra("hf")
@pytest.mark.parametrize("traces", [(), ALL], ids=["no case", "all kinds of case"])
def test_parquet_types_are_the_same_whatever_the_values(
    tmp_path: Path, traces: tuple[Trace, ...]
) -> None:
    parquet: Any = require("pyarrow.parquet", extra="hf")

    export("parquet", traces, tmp_path / "o.parquet", scores=SCORES)

    schema = parquet.read_schema(tmp_path / "o.parquet")
    types = {
        "id": "string",
        "retrieved_contexts": "list<element: string>",
        "retrieved_scores": "list<element: double>",
        "abstained": "bool",
        "score:nDCG@10": "double",
        "status:nDCG@10": "string",
    }
    assert {name: str(schema.field(name).type) for name in types} == types


@forms("parquet", "hf")
def test_rows_of_many_batches_keep_their_order(tmp_path: Path, form: str) -> None:
    traces = (trace_of(["x"], case=str(number)) for number in range(2001))

    export(form, traces, tmp_path / "out")

    ids = [row["id"] for row in rows(form, tmp_path / "out")]
    assert ids == [str(number) for number in range(2001)]


@forms("parquet", "hf")
def test_a_score_that_is_no_number_is_not_a_missing_one(tmp_path: Path, form: str) -> None:
    traces = [trace_of(["x"], case="nan", scores=[math.nan]), trace_of(["x"], case="none")]

    export(form, traces, tmp_path / "out")

    nan, none = rows(form, tmp_path / "out")
    assert math.isnan(nan["retrieved_scores"][0])
    assert none["retrieved_scores"] is None


@pytest.mark.extra("ragas")
def test_ragas_reads_the_hugging_face_folder(tmp_path: Path) -> None:
    export("hf", ALL, tmp_path / "out")
    folder = require("datasets", extra="hf").load_from_disk(str(tmp_path / "out"))

    loaded = import_ragas().EvaluationDataset.from_hf_dataset(folder)

    expected = to_dataset(prepare(ALL)).samples
    # The table holds rubrics as a text under another name: Ragas wants a mapping.
    assert loaded.samples[0] == expected[0].model_copy(update={"rubrics": None})
    assert loaded.samples[1:] == expected[1:]


@pytest.mark.extra("hf")
def test_a_hugging_face_folder_is_replaced(tmp_path: Path) -> None:
    export("hf", ALL, tmp_path / "out")

    export("hf", [FULL], tmp_path / "out")

    assert [row["id"] for row in rows("hf", tmp_path / "out")] == ["full"]
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


@pytest.mark.extra("hf")
def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("precious")

    with pytest.raises(InputError, match="holds something else"):
        export("hf", [FULL], tmp_path)

    assert thesis.read_text() == "precious"


@pytest.mark.extra("hf")
def test_a_file_is_not_replaced_by_a_folder(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("precious")

    with pytest.raises(InputError, match="it is a file"):
        export("hf", [FULL], thesis)

    assert thesis.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [thesis]


# --- RAGAS


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    return tmp_path / "samples.jsonl"


def test_failed_cases_are_left_out_of_samples_and_counted(samples: Path) -> None:
    exported = export("ragas", ALL, samples)

    assert exported.written == 4
    assert exported.left_out == {"retrieval failed": 1, "generation failed": 1}
    assert exported.paths == (samples,)


def test_every_sample_has_all_twelve_fields(samples: Path) -> None:
    export("ragas", ALL, samples)

    names = list(SampleRow().as_mapping())
    assert len(names) == 12
    for row in records(samples):
        assert list(row) == names


def test_samples_are_the_rows_of_their_cases(samples: Path) -> None:
    export("ragas", ALL, samples)

    rows = [as_lists(SampleRow(**row)) for row in records(samples)]
    measured_traces = (FULL, BARE, NOTHING_FOUND, ONLY_GENERATES)
    assert rows == [as_lists(sample_row(trace)) for trace in measured_traces]


def test_samples_are_ascii(samples: Path) -> None:
    """Ragas opens the file in the locale's encoding."""
    export("ragas", ALL, samples)

    assert samples.read_bytes().isascii()


def test_the_first_of_the_fullest_samples_leads_and_the_others_keep_their_order(
    samples: Path,
) -> None:
    """What metrics of Ragas may read are the fields of the first sample."""
    export("ragas", [BARE, RETRIEVAL_FAILED, NOTHING_FOUND, FULL, ONLY_GENERATES, FULL], samples)

    queries = [row["user_input"] for row in records(samples)]
    order = [FULL, BARE, NOTHING_FOUND, ONLY_GENERATES, FULL]
    assert queries == [trace.case.query for trace in order]


@pytest.mark.extra("ragas")
def test_ragas_loads_from_the_file_what_a_dataset_holds(samples: Path) -> None:
    export("ragas", [FULL, NOTHING_FOUND, GENERATION_FAILED], samples)

    loaded = import_ragas().EvaluationDataset.from_jsonl(str(samples)).samples

    assert loaded == to_dataset(prepare([FULL, NOTHING_FOUND])).samples
    expected = [as_lists(sample_row(FULL)), as_lists(sample_row(NOTHING_FOUND))]
    assert [sample.model_dump() for sample in loaded] == expected


@pytest.mark.extra("ragas")
def test_metrics_of_ragas_may_read_all_that_a_sample_has(samples: Path) -> None:
    export("ragas", [ONLY_GENERATES, FULL], samples)

    features = import_ragas().EvaluationDataset.from_jsonl(samples).features()

    assert "retrieved_context_ids" in features


# --- TREC


Columns = list[list[str]]


def columns_of(path: Path) -> Columns:
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]


def write_trec(folder: Path, *traces: Trace) -> tuple[Columns, Columns]:
    """The columns of the run, and those of its judgements."""
    exported = export("trec", traces, folder / "out.run")
    run, qrels = exported.paths
    assert run == folder / "out.run"
    assert qrels == folder / "out.qrels"
    return columns_of(run), columns_of(qrels)


def test_a_run_and_its_judgements_have_the_columns_of_trec(tmp_path: Path) -> None:
    run, qrels = write_trec(tmp_path, FULL)

    assert run[1] == ["full", "Q0", "ch-9", "2", "0.25", "ragbench"]
    assert qrels == [["full", "0", "ch-1", "1"], ["full", "0", "ch-2", "1"]]


@pytest.mark.parametrize(
    ("ids", "scores", "rows"),
    [
        pytest.param("abc", None, ["a 1 3", "b 2 2", "c 3 1"], id="no scores"),
        pytest.param("abc", [0.5, 0.5, 0.1], ["a 1 3", "b 2 2", "c 3 1"], id="equal scores"),
        pytest.param("abc", [math.nan, 0.2, 0.1], ["a 1 3", "b 2 2", "c 3 1"], id="no number"),
        pytest.param("bab", [3.0, 2.0, 1.0], ["b 1 3.0", "a 2 2.0"], id="an id twice"),
    ],
)
def test_a_run_holds_each_id_once_with_scores_that_fall(
    tmp_path: Path, ids: str, scores: list[float] | None, rows: list[str]
) -> None:
    """Scores that would change the order are replaced by ranks from below."""
    run, _ = write_trec(tmp_path, trace_of(["x", "y", "z"], ids=list(ids), scores=scores))

    assert [" ".join(columns[2:5]) for columns in run] == rows


@given(scores=st.lists(st.floats(width=32), max_size=8))
@example(scores=[1e300, 1e299, 1.0])
@example(scores=[0.3, 0.3 - 1e-12, 0.1])
def test_written_scores_fall(tmp_path_factory: pytest.TempPathFactory, scores: list[float]) -> None:
    names = [f"d{position}" for position in range(len(scores))]
    folder = tmp_path_factory.mktemp("trec")

    run, _ = write_trec(folder, trace_of(names, ids=names, scores=scores))

    assert [columns[2] for columns in run] == names
    written_scores = [float(columns[4]) for columns in run]
    for score, next_score in pairwise(written_scores):
        assert score > next_score


def test_a_retrieval_that_failed_is_in_neither_file(tmp_path: Path) -> None:
    traces = (RETRIEVAL_FAILED, ONLY_GENERATES, GENERATION_FAILED)

    exported = export("trec", traces, tmp_path / "out.run")

    assert exported.written == 1
    assert exported.left_out == {"retrieval failed": 1, "retrieval skipped": 1}
    assert (tmp_path / "out.run").read_text().split()[0] == "gf"
    assert (tmp_path / "out.qrels").read_text() == "gf 0 x 1\n"


def test_a_case_that_found_nothing_is_in_the_judgements_alone(tmp_path: Path) -> None:
    found_nothing = trace_of([], case="empty", grades={"d": 2, "e": 0})

    export("trec", [found_nothing], tmp_path / "out.run")

    assert (tmp_path / "out.run").read_text() == ""
    assert (tmp_path / "out.qrels").read_text() == "empty 0 d 2\nempty 0 e 0\n"


@pytest.mark.parametrize(
    ("name", "traces", "message"),
    [
        pytest.param("out.run", ALL, r"case 'bare': .* no ids", id="no ids"),
        pytest.param("out.run", [trace_of(["x"], ids=[""])], "case 'q1': the id", id="an empty id"),
        pytest.param(
            "out.run", [trace_of(["x"], ids=["\ud800"])], "case 'q1': the id", id="half a character"
        ),
        pytest.param("out.qrels", [], "name the run file", id="the name of the judgements"),
    ],
)
def test_a_run_that_trec_cannot_hold_is_refused_and_nothing_is_left_behind(
    tmp_path: Path, name: str, traces: Sequence[Trace], message: str
) -> None:
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
