"""Files that RAGAS writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import GenerationResult, RetrievalResult, open_source, read_cases
from ragbench.io.source import Problems

ROW = {
    "user_input": "Who?",
    "retrieved_contexts": ["said"],
    "reference_contexts": ["Ada did.", "It's 1843."],
    "retrieved_context_ids": None,
    "reference_context_ids": [1, "b"],
    "response": "Bob",
    "reference": "Ada",
    "rubrics": None,
}


def check(path: Path) -> None:
    (case,) = read_cases(path)
    assert (case.query, case.reference) == ("Who?", "Ada")
    assert case.reference_contexts == ("Ada did.", "It's 1843.")
    assert case.reference_context_ids == ("1", "b")
    # What a system said is not part of the case: another system is asked the same one.
    assert case.metadata.keys() <= {"synthesizer_name"}
    with open_source(path) as source:
        (entry,) = source
    assert entry.case == case
    assert entry.recorded["generate"].value == GenerationResult("Bob")
    assert entry.recorded["retrieve"].value == RetrievalResult(["said"])


def test_jsonl_and_json(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(ROW), encoding="utf-8")
    (tmp_path / "a.json").write_text(json.dumps([ROW], indent=1), encoding="utf-8")
    check(tmp_path / "a.jsonl")
    check(tmp_path / "a.json")


def test_a_test_set_sample_is_unpacked(tmp_path: Path) -> None:
    row = {"eval_sample": ROW, "synthesizer_name": "single_hop"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row), encoding="utf-8")
    check(tmp_path / "a.jsonl")
    (case,) = read_cases(tmp_path / "a.jsonl")
    assert case.metadata["synthesizer_name"] == "single_hop"


def test_a_conversation_is_a_problem(tmp_path: Path) -> None:
    row = {"user_input": [{"content": "hi", "type": "human"}], "reference": "x"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row), encoding="utf-8")
    noted = Problems()
    assert list(read_cases(tmp_path / "a.jsonl", problems=noted)) == []
    assert [problem.field for problem in noted] == ["user_input"]


@pytest.mark.extra("ragas")
@pytest.mark.filterwarnings("ignore")
def test_what_ragas_itself_writes(tmp_path: Path) -> None:
    schema: Any = pytest.importorskip("ragas.dataset_schema")
    dataset = schema.EvaluationDataset(samples=[schema.SingleTurnSample(**ROW)])
    dataset.to_jsonl(tmp_path / "a.jsonl")
    dataset.to_csv(tmp_path / "a.csv")
    check(tmp_path / "a.jsonl")
    check(tmp_path / "a.csv")
