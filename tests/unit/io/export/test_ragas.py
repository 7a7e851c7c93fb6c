from __future__ import annotations

import json
from collections import UserList, deque
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from ragbench import Case, RetrievalResult
from ragbench.core.trace import SampleRow, Trace, sample_row
from ragbench.io.export import export
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
