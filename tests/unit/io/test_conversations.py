"""Conversations of other tools: a case an answer, with what was said before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import Turn, open_source
from ragbench.errors import DataError
from tests.unit.io.traces import written

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
    for who, text in (("human", "When is the library open?"), ("gpt", "On weekdays."),
                      ("human", "And on Sunday?"), ("gpt", "From 10 to 16."))
]  # fmt: skip
BEFORE = (
    Turn(role="user", text="When is the library open?"),
    Turn(role="assistant", text="On weekdays."),
)


def entries(path: Path, record: object, **options: Any) -> list[Any]:
    written(path, f"{json.dumps(record)}\n")
    with open_source(path, **options) as source:
        return list(source)


@pytest.mark.parametrize(("name", "record"), [
    ("openai.jsonl", {"id": "c", "messages": ASKED}),
    ("multi.jsonl", {"id": "c", "user_input": RAGAS, "rubrics": None}),
    ("turns.jsonl", {"id": "c", "turns": DEEPEVAL, "scenario": "hours"}),
    ("goldens.json", [{"name": "c", "turns": DEEPEVAL}]),
    ("run.json", {"testRunData": {"testCases": [], "conversationalTestCases": [
        {"name": "c", "turns": DEEPEVAL, "success": True}]}}),
    ("shared.json", [{"id": "c", "conversations": SHARED}]),
])  # fmt: skip
def test_every_answer_of_a_conversation_is_a_case(
    tmp_path: Path, name: str, record: object
) -> None:
    first, second = entries(tmp_path / name, record)
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
    (case,) = (entry.case for entry in entries(tmp_path / "task.jsonl", record))
    assert (case.id, case.query, case.history) == ("c/turn-2", "And on Sunday?", BEFORE)
    assert case.reference == "10 to 16"
    assert case.metadata == {"topic": "hours", "system": "Be brief."}
    whole = record | {"messages": [rules, *ASKED]}
    found = entries(tmp_path / "whole.jsonl", whole)
    assert [entry.case.reference for entry in found] == [None, "10 to 16"]
    gold, fields = {"id": "c", "messages": ASKED}, {"reference": "response"}
    found = entries(tmp_path / "gold.jsonl", gold, fields=fields)
    assert [entry.case.reference for entry in found] == ["On weekdays.", "From 10 to 16."]
    assert not any(entry.recorded for entry in found)


@pytest.mark.parametrize("history", [
    [["user", "When is the library open?"], ["agent", "On weekdays."]],
    [{"speaker": "Human", "text": BEFORE[0].text}, {"speaker": "bot", "text": BEFORE[1].text}],
    ASKED[:2],
])  # fmt: skip
def test_a_history_has_other_forms(tmp_path: Path, history: object) -> None:
    (entry,) = entries(tmp_path / "given.jsonl", {"query": "And on Sunday?", "history": history})
    assert entry.case.history == BEFORE


@pytest.mark.parametrize(("record", "problem"), [
    ({"query": "b", "history": "before"}, r"'history': expected turns .* found 'before'"),
    ({"query": "b", "history": [{"x": 1}]}, "'history': expected turns .* found an object"),
    ({"query": "b", "history": [["user"]]}, "'history': expected turns .* found a list in it"),
    ({"messages": [{"role": "system", "content": "x"}]}, "'messages': expected a conversation"),
    ({"messages": [{"role": "user", "content": 7}]}, "'messages': expected text"),
])  # fmt: skip
def test_what_is_no_conversation_is_said_with_its_place(
    tmp_path: Path, record: object, problem: str
) -> None:
    with pytest.raises(DataError, match=rf"a\.jsonl:1: (?:field )?{problem}"):
        entries(tmp_path / "a.jsonl", record)


def test_lists_of_another_kind_stay_metadata(tmp_path: Path) -> None:
    (entry,) = entries(tmp_path / "a.jsonl", {"prompt": "b", "turns": ["b", "c"]})
    assert entry.case.metadata == {"turns": ["b", "c"]}


# --- MTRAG

ID = "a<::>2"
GOLD = {"document_id": "d1", "text": "Sunday 10-16",
        "feedback": {"relevant": {"x": {"value": "yes"}}}}  # fmt: skip
NOT = {"document_id": "d2", "text": "x", "feedback": {"relevant": {"x": {"value": "no"}}}}


@pytest.mark.parametrize(("kind", "query", "history"), [
    ("lastturn", "|user|: And on Sunday?", ()),
    ("rewrite", "|user|: Is the library open on Sunday?", ()),
    ("questions", "|user|: When is the library open?\n|user|: And on Sunday?", BEFORE[:1]),
])  # fmt: skip
def test_the_retrieval_tasks_of_mtrag(
    tmp_path: Path, kind: str, query: str, history: tuple[Turn, ...]
) -> None:
    (tmp_path / "qrels").mkdir()
    written(tmp_path / "qrels/dev.tsv", f"query-id\tcorpus-id\tscore\n{ID}\td1\t1\n")
    (entry,) = entries(tmp_path / f"{kind}.jsonl", {"_id": ID, "text": query})
    case = entry.case
    assert (case.id, case.cluster, case.tags) == (ID, "a", ("turn-2",))
    assert (case.query, case.history) == (query.rpartition("|user|: ")[2], history)
    assert case.judgements == {"d1": 1}


def test_the_conversations_and_answered_tasks_of_mtrag(tmp_path: Path) -> None:
    messages = [
        {"speaker": "user", "text": BEFORE[0].text, "enrichments": {"Answerability": ["PARTIAL"]}},
        {"speaker": "agent", "text": "On weekdays.", "contexts": [NOT, GOLD]},
        {"speaker": "user", "text": "And on Sunday?"},
        {"speaker": "agent", "text": "10 to 16", "contexts": []},
    ]
    record = {"author": "x", "retriever": {}, "messages": messages}
    first, second = [entry.case for entry in entries(tmp_path / "c.json", [record])]
    assert (first.id, first.reference) == ("conversation-1<::>1", "On weekdays.")
    assert first.answerable
    assert (first.reference_context_ids, first.tags) == (("d1",), ("PARTIAL", "turn-1"))
    assert [turn.text for turn in second.history] == [turn.text for turn in BEFORE]
    assert (second.reference, second.cluster) == ("10 to 16", "conversation-1")
    task = {
        "conversation_id": "a", "task_id": "a::2", "input": messages[:3], "contexts": [GOLD],
        "predictions": [{"text": "10-16"}], "Validity": float("nan"),
    }  # fmt: skip
    (entry,) = entries(tmp_path / "answered.jsonl", task)
    assert (entry.case.cluster, entry.case.tags) == ("a", ("turn-2",))
    assert entry.recorded["generate"].value.response == "10-16"
