"""Conversations of other tools: a case an answer, with what was said before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from ragbench import Case, Turn, open_source, read_cases, read_labels
from ragbench.errors import DataError
from tests.unit.io.traces import entries, lines, written

ASKED: list[dict[str, Any]] = [
    {"role": "user", "content": "When is the library open?"},
    {"role": "assistant", "content": "On weekdays."},
    {"role": "user", "content": [{"type": "text", "text": "And on Sunday?"}]},
    {"role": "assistant", "content": None, "tool_calls": [{}]},
    {"role": "tool", "content": "Sunday 10-16"},
    {"role": "assistant", "content": "From 10 to 16."},
]
KINDS = {"user": "human", "assistant": "ai"}
RAGAS = [
    {"type": KINDS.get(turn["role"], turn["role"])} | {k: turn[k] for k in turn if k != "role"}
    for turn in ASKED
]
DEEPEVAL: list[dict[str, Any]] = [{**turn, "retrieval_context": None} for turn in ASKED]
DEEPEVAL[5] |= {"retrieval_context": ["Sunday 10-16"]}
SHARED = [
    {"from": who, "value": text}
    for who, text in (
        ("human", "When is the library open?"),
        ("gpt", "On weekdays."),
        ("human", "And on Sunday?"),
        ("gpt", "From 10 to 16."),
    )
]
BEFORE = (
    Turn(role="user", text="When is the library open?"),
    Turn(role="assistant", text="On weekdays."),
)


def entries_of(path: Path, record: object, **options: Any) -> list[Any]:
    return entries(written(path, f"{json.dumps(record)}\n"), **options)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("openai.jsonl", {"id": "c", "messages": ASKED}),
        ("multi.jsonl", {"id": "c", "user_input": RAGAS, "rubrics": None}),
        ("turns.jsonl", {"id": "c", "turns": DEEPEVAL, "scenario": "hours"}),
        ("goldens.json", [{"name": "c", "turns": DEEPEVAL}]),
        (
            "run.json",
            {
                "testRunData": {
                    "testCases": [],
                    "conversationalTestCases": [{"name": "c", "turns": DEEPEVAL, "success": True}],
                }
            },
        ),
        ("shared.json", [{"id": "c", "conversations": SHARED}]),
    ],
)
def test_every_answer_of_a_conversation_is_a_case(
    tmp_path: Path, name: str, record: object
) -> None:
    first, second = entries_of(tmp_path / name, record)
    assert [first.case.query, second.case.query] == ["When is the library open?", "And on Sunday?"]
    assert (first.case.history, second.case.history) == ((), BEFORE)
    for number, entry in enumerate((first, second), start=1):
        assert entry.case.id == f"c/turn-{number}"
        assert (entry.case.cluster, entry.case.tags) == ("c", (f"turn-{number}",))
    answers = [entry.recorded["generate"].value.response for entry in (first, second)]
    assert answers == ["On weekdays.", "From 10 to 16."]
    contexts = second.recorded.get("retrieve")
    assert (contexts is not None) == ("turns" in json.dumps(record))
    assert contexts is None or contexts.value.contexts == ["Sunday 10-16"]


def test_what_a_record_says_belongs_to_its_last_question(tmp_path: Path) -> None:
    rules = {"role": "system", "content": "Be brief."}
    record = {"id": "c", "messages": [rules, *ASKED[:3]], "reference": "10 to 16", "topic": "hours"}
    (case,) = (entry.case for entry in entries_of(tmp_path / "task.jsonl", record))
    assert (case.id, case.query, case.history) == ("c/turn-2", "And on Sunday?", BEFORE)
    assert case.reference == "10 to 16"
    assert case.metadata == {"topic": "hours", "system": "Be brief."}
    found = entries_of(tmp_path / "whole.jsonl", record | {"messages": [rules, *ASKED]})
    assert [entry.case.reference for entry in found] == [None, "10 to 16"]
    alone = entries_of(tmp_path / "one.json", {"user_input": RAGAS[:3], "topics": ["hours"]})
    assert alone[-1].case.history == BEFORE  # turns and topics are no columns
    gold, fields = {"id": "c", "messages": ASKED}, {"reference": "response"}
    found = entries_of(tmp_path / "gold.jsonl", gold, fields=fields)
    assert [entry.case.reference for entry in found] == ["On weekdays.", "From 10 to 16."]
    assert not any(entry.recorded for entry in found)


@pytest.mark.parametrize(
    "history",
    [
        [{"speaker": "Human", "text": BEFORE[0].text}, {"speaker": "bot", "text": BEFORE[1].text}],
        ASKED[:2],
    ],
)
def test_a_history_has_other_forms(tmp_path: Path, history: object) -> None:
    (entry,) = entries_of(tmp_path / "given.jsonl", {"query": "And on Sunday?", "history": history})
    assert entry.case.history == BEFORE


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"query": "b", "history": "before"}, r"'history': expected turns .* found 'before'"),
        ({"query": "b", "history": [{"x": 1}]}, "'history': expected turns .* found an object"),
        ({"query": "b", "history": [["user"]]}, "'history': expected turns .* found a list in it"),
        ({"messages": [{"role": "system", "content": "x"}]}, "'messages': expected a conversation"),
        ({"messages": [{"role": "user", "content": 7}]}, "'messages': expected text"),
    ],
)
def test_what_is_no_conversation_is_said_with_its_place(
    tmp_path: Path, record: object, problem: str
) -> None:
    with pytest.raises(DataError, match=rf"a\.jsonl:1: (?:field )?{problem}"):
        entries_of(tmp_path / "a.jsonl", record)


def test_lists_of_another_kind_stay_metadata(tmp_path: Path) -> None:
    (entry,) = entries_of(tmp_path / "a.jsonl", {"prompt": "b", "turns": ["b", "c"]})
    assert entry.case.metadata == {"turns": ["b", "c"]}


# --- MTRAG

ID = "a<::>2"
GOLD = {
    "document_id": "d1",
    "text": "Sunday 10-16",
    "feedback": {"relevant": {"x": {"value": "yes"}}},
}
NOT = {"document_id": "d2", "text": "x", "feedback": {"relevant": {"x": {"value": "no"}}}}


@pytest.mark.parametrize(
    ("kind", "query", "history"),
    [
        ("lastturn", "|user|: And on Sunday?", ()),
        ("rewrite", "|user|: Is the library open on Sunday?", ()),
        ("questions", "|user|: When is the library open?\n|user|: And on Sunday?", BEFORE[:1]),
    ],
)
def test_the_retrieval_tasks_of_mtrag(
    tmp_path: Path, kind: str, query: str, history: tuple[Turn, ...]
) -> None:
    (tmp_path / "qrels").mkdir()
    written(tmp_path / "qrels/dev.tsv", f"query-id\tcorpus-id\tscore\n{ID}\td1\t1\n")
    (entry,) = entries_of(tmp_path / f"{kind}.jsonl", {"_id": ID, "text": query})
    case = entry.case
    assert (case.id, case.cluster, case.tags) == (ID, "a", ("turn-2",))
    assert (case.query, case.history) == (query.rpartition("|user|: ")[2], history)
    assert case.judgements == {"d1": 1}


SPOKEN = [
    {"speaker": "user", "text": BEFORE[0].text, "enrichments": {"Answerability": ["PARTIAL"]}},
    {"speaker": "agent", "text": "On weekdays.", "contexts": [NOT, GOLD]},
    {"speaker": "user", "text": "And on Sunday?"},
]


def test_the_conversations_and_answered_tasks_of_mtrag(tmp_path: Path) -> None:
    last = {"speaker": "agent", "text": "10 to 16", "contexts": []}
    record = {"author": "x", "retriever": {}, "messages": [*SPOKEN, last]}
    first, second = [entry.case for entry in entries_of(tmp_path / "c.json", [record])]
    assert (first.id, first.reference) == ("conversation-1<::>1", "On weekdays.")
    assert first.answerable
    assert (first.reference_context_ids, first.tags) == (("d1",), ("PARTIAL", "turn-1"))
    assert [turn.text for turn in second.history] == [turn.text for turn in BEFORE]
    assert (second.reference, second.cluster) == ("10 to 16", "conversation-1")
    task = {
        "conversation_id": "a",
        "task_id": "a::2",
        "input": SPOKEN,
        "contexts": [GOLD],
        "predictions": [{"text": "10-16"}],
        "Validity": float("nan"),
    }
    (entry,) = entries_of(tmp_path / "answered.jsonl", task)
    assert (entry.case.cluster, entry.case.tags) == ("a", ("turn-2",))
    assert entry.recorded["generate"].value.response == "10-16"


def test_a_line_a_task_of_mtrag(tmp_path: Path) -> None:
    said = [["user", BEFORE[0].text], ["agent", BEFORE[1].text], ["user", "And on Sunday?"]]
    labels = {"turn": "2", "answerability": ["ANSWERABLE"], "multiturn": ["Follow-up"]}
    task: dict[str, Any] = {
        "task_id": ID,
        "history": said,
        **labels,
        "targets": ["10 to 16"],
        "contexts": [{"pid": "d1", "text": "Sunday 10-16"}],
    }
    alone = task | {"task_id": "b<::>1", "history": [["user", "What?"]]}
    unknown = alone | {"task_id": "c<::>1", "answerability": ["UNDERSPECIFIED"], "contexts": []}
    without = unknown | {"task_id": "d<::>1", "answerability": ["UNANSWERABLE"]}
    path = lines(tmp_path / "tasks.jsonl", (task, alone, unknown, without))
    with open_source(path) as source:
        cases = [entry.case for entry in source]
    assert cases[0] == Case(
        id=ID,
        query="And on Sunday?",
        reference="10 to 16",
        cluster="a",
        answerable=True,
        reference_contexts=("Sunday 10-16",),
        reference_context_ids=("d1",),
        tags=("ANSWERABLE", "Follow-up", "turn-2"),
        metadata=labels,
        history=BEFORE,
    )
    assert [case.answerable for case in cases] == [True, True, None, False]
    assert cases[2].reference_context_ids is None
    assert (source.info.form, source.info.notes) == ("mtrag", ())
    lines(path, [task | {"history": said[:2]}])
    with pytest.raises(DataError, match=r"tasks\.jsonl:1: expected turns .* the user's question"):
        list(read_cases(path))


def test_mtrags_human_evaluation_holds_cases_answers_of_models_and_labels(tmp_path: Path) -> None:
    def answer(model: str, grades: str) -> dict[str, Any]:
        people = {str(n): {"value": grade} for n, grade in enumerate(grades)}
        known = {"model_response": f"{model} says", "annotations": {"faithfulness": people}}
        return {"task_id": ID, "model_id": model, **known}

    text = "Sunday 10-16" * 5000
    task = {
        "task_id": ID,
        "task_type": "rag",
        "Answerability": ["PARTIAL"],
        "input": SPOKEN,
        "contexts": [{"document_id": "d1"}],
        "targets": [{"speaker": "agent", "text": "10 to 16"}],
    }
    path = written(
        tmp_path / "eval.json",
        {
            "name": "Human evaluation",
            "models": [{"model_id": "m"}],
            "metrics": [],
            "documents": [{"document_id": "d1", "text": text}],
            "tasks": [task],
            "evaluations": [answer("a", "441"), answer("b", "243"), answer("c", "114")],
        },
    )
    with open_source(path) as source:
        ((entry,), info) = [*source], source.info
    assert (info.form, info.recorded, entry.recorded) == ("mtrag", {}, {})
    assert "it holds 3 answers of a, b, c; --split MODEL" in " ".join(info.notes)
    case = entry.case
    assert (case.query, case.reference, case.answerable) == ("And on Sunday?", "10 to 16", True)
    assert case.reference_contexts == (text,)
    assert [(turn.role, turn.text) for turn in case.history] == [(t.role, t.text) for t in BEFORE]
    (entry,) = entries(path, split="b")
    assert cast("Any", entry.recorded["generate"].value).response == "b says"
    with pytest.raises(DataError, match="no model 'z'"):
        entries(path, split="z")
    labels = read_labels(path)
    assert [label.level for label in labels] == [2, 1, 0]  # the median of three people
    assert {(label.cluster, label.question) for label in labels} == {("a", "And on Sunday?")}
