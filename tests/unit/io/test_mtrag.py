"""MTRAG's tasks: a conversation's last question as a case."""

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, open_source
from ragbench.errors import DataError
from ragbench.io.source_info import SourceInfo

TASK: dict[str, Any] = {
    "task_id": "a<::>2",
    "turn": "2",
    "answerability": ["ANSWERABLE"],
    "multiturn": ["Follow-up"],
    "history": [["user", "Who wrote it?"], ["agent", "Ada."], ["user", "When?"]],
    "contexts": [{"pid": "d1", "text": "Ada wrote it in 1843."}],
    "targets": ["1843"],
}


def read(path: Path) -> tuple[list[Case], SourceInfo]:
    with open_source(path) as source:
        return [entry.case for entry in source], source.info


def test_a_line_a_task(tmp_path: Path) -> None:
    alone = TASK | {"task_id": "b<::>1", "history": [["user", "What?"]]}
    unknown = alone | {"task_id": "c<::>1", "answerability": ["UNDERSPECIFIED"], "contexts": []}
    without = unknown | {"task_id": "d<::>1", "answerability": ["UNANSWERABLE"]}
    path = tmp_path / "tasks.jsonl"
    lines = [json.dumps(task) for task in (TASK, alone, unknown, without)]
    path.write_text("\n".join(lines), "utf-8")
    cases, info = read(path)
    assert cases[0] == Case(
        id="a<::>2",
        query="When?",
        reference="1843",
        reference_contexts=("Ada wrote it in 1843.",),
        reference_context_ids=("d1",),
        answerable=True,
        cluster="a",
        tags=("ANSWERABLE", "Follow-up"),
        metadata={
            "history": [
                {"speaker": "user", "text": "Who wrote it?"},
                {"speaker": "agent", "text": "Ada."},
            ],
            "turn": "2",
            "answerability": ["ANSWERABLE"],
            "multiturn": ["Follow-up"],
        },
    )
    assert [case.answerable for case in cases] == [True, True, None, False]
    assert cases[2].reference_context_ids is None
    assert info.form == "mtrag"
    (note,) = info.notes
    assert "the last question of each conversation is asked alone" in note


def test_the_file_of_the_human_evaluation(tmp_path: Path) -> None:
    task = {
        "task_id": "a<::>2",
        "task_type": "rag",
        "input": [
            {"speaker": "user", "text": "Who wrote it?"},
            {"speaker": "agent", "text": "Ada."},
            {"speaker": "user", "text": "When?"},
        ],
        "contexts": [{"document_id": "d1"}],
        "targets": [{"speaker": "agent", "text": "1843"}],
        "Answerability": ["PARTIAL"],
    }
    whole = {
        "name": "Human evaluation",
        "models": [{"model_id": "m"}],
        "metrics": [],
        "documents": [{"document_id": "d1", "text": "Ada wrote it in 1843." * 5000}],
        "tasks": [task],
        "evaluations": [{"task_id": "a<::>2", "model_id": "m", "model_response": "1842"}],
    }
    path = tmp_path / "eval.json"
    path.write_text(json.dumps(whole), "utf-8")
    ((case,), info) = read(path)
    assert info.form == "mtrag"
    assert (case.query, case.reference, case.answerable) == ("When?", "1843", True)
    assert case.reference_contexts == ("Ada wrote it in 1843." * 5000,)
    assert case.metadata["history"][1] == {"speaker": "agent", "text": "Ada."}
    assert info.recorded == {}


def test_a_conversation_that_ends_with_an_answer_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(TASK | {"history": TASK["history"][:2]}), "utf-8")
    with pytest.raises(DataError, match=r"tasks\.jsonl:1: expected turns .* the user's question"):
        read(path)
