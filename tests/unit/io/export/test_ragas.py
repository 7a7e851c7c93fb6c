"""A run as RAGAS samples, and as a TREC run with its qrels."""

from __future__ import annotations

import json
import math
from collections import UserList, deque
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragbench import Case, RetrievalResult
from ragbench.core.trace import SampleRow, Trace, sample_row
from ragbench.errors import InputError
from ragbench.io.export import export
from ragbench.io.trec import escape_id, unescape_id
from ragbench.plugins import import_ragas
from ragbench.prepare import prepare, to_dataset
from tests.unit.io.traces import (
    ALL,
    BARE,
    FULL,
    GENERATION_FAILED,
    NOTHING_FOUND,
    ONLY_GENERATES,
    RETRIEVAL_FAILED,
    as_lists,
    measured,
    skipped,
    trace_of,
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_every_line_has_all_twelve_fields_and_failed_cases_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    done = export("ragas", ALL, path)
    assert done.left_out == {"retrieval failed": 1, "generation failed": 1}
    assert (done.written, done.paths) == (4, (path,))
    rows = lines(path)
    assert all(list(row) == list(SampleRow().as_mapping()) for row in rows)
    assert path.read_bytes().isascii()  # ragas opens it in the locale's encoding
    written = [as_lists(sample_row(one)) for one in (FULL, BARE, NOTHING_FOUND, ONLY_GENERATES)]
    assert [as_lists(SampleRow(**row)) for row in rows] == written
    # The first of the fullest rows leads, and the others keep their order.
    export("ragas", [BARE, RETRIEVAL_FAILED, NOTHING_FOUND, FULL, ONLY_GENERATES, FULL], path)
    order = [FULL, BARE, NOTHING_FOUND, ONLY_GENERATES, FULL]
    assert [row["user_input"] for row in lines(path)] == [trace.case.query for trace in order]


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


def test_sequences_that_are_no_lists_are_written_as_lists(tmp_path: Path) -> None:
    contexts: Any = UserList(["a"])
    ids: Any = deque(["1"])
    trace = Trace(
        case=Case(id="c", query="q", metadata={"rubrics": MappingProxyType({"a": "b"})}),
        retrieval=measured(RetrievalResult(contexts, context_ids=ids)),
        generation=skipped("none"),
    )
    export("ragas", [trace], tmp_path / "o.jsonl")
    row = lines(tmp_path / "o.jsonl")[0]
    assert (row["retrieved_contexts"], row["retrieved_context_ids"]) == (["a"], ["1"])
    assert row["rubrics"] == {"a": "b"}


storable = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def write(tmp_path: Path, *traces: Trace) -> tuple[list[list[str]], list[list[str]]]:
    done = export("trec", traces, tmp_path / "out.run")
    assert done.paths == (tmp_path / "out.run", tmp_path / "out.qrels")
    run, qrels = (path.read_text(encoding="utf-8").splitlines() for path in done.paths)
    return [line.split() for line in run], [line.split() for line in qrels]


def test_the_lines_of_a_run_and_its_qrels(tmp_path: Path) -> None:
    run, qrels = write(tmp_path, FULL)
    assert run == [
        ["full", "Q0", "ch-1", "1", "0.9", "ragbench"],
        ["full", "Q0", "ch-9", "2", "0.25", "ragbench"],
    ]
    assert qrels == [["full", "0", "ch-1", "1"], ["full", "0", "ch-2", "1"]]


@pytest.mark.parametrize("scores", [None, [0.5, 0.5, 0.1], [math.nan, 0.2, 0.1]])
def test_scores_that_break_the_order_are_replaced(
    tmp_path: Path, scores: list[float] | None
) -> None:
    run, _ = write(tmp_path, trace_of(["x", "y", "z"], ids=["a", "b", "c"], scores=scores))
    assert [line[2:5] for line in run] == [["a", "1", "3"], ["b", "2", "2"], ["c", "3", "1"]]


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


def test_an_id_retrieved_twice_is_written_once_at_its_best_rank(tmp_path: Path) -> None:
    trace = trace_of(["x", "y", "x"], ids=["b", "a", "b"], scores=[3.0, 2.0, 1.0])
    run, _ = write(tmp_path, trace)
    assert [line[2:5] for line in run] == [["b", "1", "3.0"], ["a", "2", "2.0"]]


def test_a_failure_is_in_neither_file_and_nothing_found_is_in_the_qrels(tmp_path: Path) -> None:
    found_nothing = trace_of([], case="empty", grades={"d": 2, "e": 0})
    done = export(
        "trec",
        [RETRIEVAL_FAILED, ONLY_GENERATES, NOTHING_FOUND, GENERATION_FAILED, found_nothing],
        tmp_path / "out.run",
    )
    assert done.left_out == {"retrieval failed": 1, "retrieval skipped": 1}
    assert done.written == 3
    assert (tmp_path / "out.run").read_text().split()[0] == "gf"
    assert (tmp_path / "out.qrels").read_text() == "gf 0 x 1\nempty 0 d 2\nempty 0 e 0\n"


@pytest.mark.parametrize(
    ("name", "traces", "message"),
    [
        ("out.run", ALL, r"case 'bare': .* no ids"),
        ("out.run", [trace_of(["x"], ids=[""])], "case 'q1': the id"),
        ("out.run", [trace_of(["x"], ids=["\ud800"])], "case 'q1': the id"),
        ("out.qrels", [], "name the run file"),
    ],
)
def test_what_trec_cannot_hold_is_refused_and_nothing_is_left_behind(
    tmp_path: Path, name: str, traces: Sequence[Trace], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        export("trec", traces, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@given(id_=storable)
@example(id_="a%20b")
@example(id_="%%20 %2")
@example(id_="100% sure")
@example(id_="\ufeff\u2028\x85")
def test_an_escaped_id_is_one_column_and_comes_back(id_: str) -> None:
    text = escape_id(id_)
    assert text.split() == [text]
    assert text.splitlines() == [text]
    assert unescape_id(text) == id_
