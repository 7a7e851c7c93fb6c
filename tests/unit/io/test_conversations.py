"""Conversations of other tools: a case an answer, with what was said before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, Turn, evaluate, export_run, open_source, read_cases, write_cases
from ragbench.errors import DataError


def _parted(turn: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return turn["role"], {name: value for name, value in turn.items() if name != "role"}


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
    {"type": KINDS.get(role, role), **rest} for turn in ASKED for role, rest in [_parted(turn)]
]
DEEPEVAL: list[dict[str, Any]] = [{**turn, "retrieval_context": None} for turn in ASKED]
DEEPEVAL[5] |= {"retrieval_context": ["Sunday 10-16"]}
SHARED = [
    {"from": "human", "value": "When is the library open?"},
    {"from": "gpt", "value": "On weekdays."},
    {"from": "human", "value": "And on Sunday?"},
    {"from": "gpt", "value": "From 10 to 16."},
]
BEFORE = (
    Turn(role="user", text="When is the library open?"),
    Turn(role="assistant", text="On weekdays."),
)


def entries(path: Path, *records: object, **options: Any) -> list[Any]:
    whole = path.suffix == ".json"
    text = json.dumps(records[0]) if whole else "".join(f"{json.dumps(r)}\n" for r in records)
    path.write_text(text, encoding="utf-8")
    with open_source(path, **options) as source:
        return list(source)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("openai.jsonl", {"id": "c", "messages": ASKED}),
        ("multi.jsonl", {"id": "c", "user_input": RAGAS, "rubrics": None}),
        ("turns.jsonl", {"id": "c", "turns": DEEPEVAL, "scenario": "hours"}),
        ("goldens.json", [{"name": "c", "turns": DEEPEVAL}]),
        (
            "run.json",
            {"testRunData": {"testCases": [], "conversationalTestCases": [
                {"name": "c", "turns": DEEPEVAL, "success": True}]}},
        ),
        ("shared.json", [{"id": "c", "conversations": SHARED}]),
    ],
)  # fmt: skip
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
    ((case,), whole) = (
        [entry.case for entry in entries(tmp_path / "task.jsonl", record)],
        entries(tmp_path / "whole.jsonl", record | {"messages": [rules, *ASKED]}),
    )
    assert (case.id, case.query, case.history) == ("c/turn-2", "And on Sunday?", BEFORE)
    assert (case.reference, case.metadata) == (
        "10 to 16",
        {"topic": "hours", "system": "Be brief."},
    )
    assert [entry.case.reference for entry in whole] == [None, "10 to 16"]
    given = entries(
        tmp_path / "gold.jsonl", {"id": "c", "messages": ASKED}, fields={"reference": "response"}
    )
    assert [(entry.case.reference, dict(entry.recorded)) for entry in given] == [
        ("On weekdays.", {}),
        ("From 10 to 16.", {}),
    ]


@pytest.mark.parametrize(
    "history",
    [
        [["user", "When is the library open?"], ["agent", "On weekdays."]],
        [{"speaker": "Human", "text": BEFORE[0].text}, {"speaker": "bot", "text": BEFORE[1].text}],
        ASKED[:2],
    ],
)
def test_a_history_in_other_forms_travels_everywhere(tmp_path: Path, history: object) -> None:
    record = {"id": "1", "query": "And on Sunday?", "history": history, "response": "10 to 16"}
    (entry,) = entries(tmp_path / "given.jsonl", record)
    assert entry.case.history == BEFORE
    evaluate(tmp_path / "given.jsonl", out=tmp_path / "run", metrics="response_tokens")
    written = [tmp_path / "run"]
    for name in ("jsonl", "csv"):
        export_run(tmp_path / "run", name, tmp_path / f"out.{name}")
        written.append(tmp_path / f"out.{name}")
    write_cases([entry.case], tmp_path / "cases.jsonl")
    for path in (*written, tmp_path / "cases.jsonl"):
        (case,) = read_cases(path)
        assert case.history == BEFORE, path


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"query": "b", "history": "before"}, r"'history': expected turns .* found 'before'"),
        ({"query": "b", "history": [{"x": 1}]}, "'history': expected turns .* found an object"),
        ({"query": "b", "history": [["user"]]}, "'history': expected turns .* found a list in it"),
        ({"messages": [{"role": "system", "content": "x"}]}, "'messages': expected a conversation"),
        ({"messages": [{"role": "user", "content": 7}]}, "'messages': expected text"),
    ],
)  # fmt: skip
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
    judged = f"query-id\tcorpus-id\tscore\n{ID}\td1\t1\n"
    (tmp_path / "qrels" / "dev.tsv").write_text(judged, encoding="utf-8")
    ((case,),) = [[e.case for e in entries(tmp_path / f"{kind}.jsonl", {"_id": ID, "text": query})]]
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
    assert (first.id, first.reference, first.answerable) == (
        "conversation-1<::>1",
        "On weekdays.",
        True,
    )
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
    assert isinstance(entry.case, Case)
