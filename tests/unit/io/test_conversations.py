"""Conversations of other tools: a case an answer, with what was said before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import (
    Case,
    GenerationResult,
    RetrievalResult,
    Turn,
    open_source,
    read_cases,
    read_labels,
)
from ragbench.core.trace import Entry
from ragbench.errors import DataError
from tests.unit.io.traces import entries, lines, written

# A conversation of two questions; the second answer needs a tool.
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "When is the library open?"},
    {"role": "assistant", "content": "On weekdays."},
    {"role": "user", "content": [{"type": "text", "text": "And on Sunday?"}]},
    {"role": "assistant", "content": None, "tool_calls": [{}]},
    {"role": "tool", "content": "Sunday 10-16"},
    {"role": "assistant", "content": "From 10 to 16."},
]
BEFORE_SECOND = (
    Turn(role="user", text="When is the library open?"),
    Turn(role="assistant", text="On weekdays."),
)


def as_ragas(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    types = {"user": "human", "assistant": "ai"}
    turns: list[dict[str, Any]] = []
    for message in messages:
        turn = {name: value for name, value in message.items() if name != "role"}
        turn["type"] = types.get(message["role"], message["role"])
        turns.append(turn)
    return turns


def as_deepeval(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last answer with a retrieved text."""
    turns = [{**message, "retrieval_context": None} for message in messages]
    turns[-1]["retrieval_context"] = ["Sunday 10-16"]
    return turns


# As ShareGPT stores it, without the calls of tools.
SHAREGPT = [
    {"from": "human", "value": "When is the library open?"},
    {"from": "gpt", "value": "On weekdays."},
    {"from": "human", "value": "And on Sunday?"},
    {"from": "gpt", "value": "From 10 to 16."},
]


def entries_of(path: Path, record: object, **options: Any) -> list[Entry]:
    return entries(written(path, f"{json.dumps(record)}\n"), **options)


def response_of(entry: Entry) -> str:
    generation = entry.recorded["generate"].value
    assert isinstance(generation, GenerationResult)
    return generation.response


# --- every form of a conversation


DEEPEVAL_TURNS = as_deepeval(MESSAGES)
DEEPEVAL_FORMS = [
    pytest.param(
        "turns.jsonl", {"id": "c", "turns": DEEPEVAL_TURNS, "scenario": "hours"}, id="DeepEval"
    ),
    pytest.param(
        "goldens.json", [{"name": "c", "turns": DEEPEVAL_TURNS}], id="goldens of DeepEval"
    ),
    pytest.param(
        "run.json",
        {
            "testRunData": {
                "testCases": [],
                "conversationalTestCases": [
                    {"name": "c", "turns": DEEPEVAL_TURNS, "success": True}
                ],
            }
        },
        id="a run of DeepEval",
    ),
]
FORMS = [
    pytest.param("openai.jsonl", {"id": "c", "messages": MESSAGES}, id="OpenAI"),
    pytest.param(
        "multi.jsonl", {"id": "c", "user_input": as_ragas(MESSAGES), "rubrics": None}, id="Ragas"
    ),
    pytest.param("shared.json", [{"id": "c", "conversations": SHAREGPT}], id="ShareGPT"),
    *DEEPEVAL_FORMS,
]


@pytest.mark.parametrize(("name", "record"), FORMS)
def test_every_question_of_a_conversation_is_a_case_with_its_history(
    tmp_path: Path, name: str, record: object
) -> None:
    first_entry, second_entry = entries_of(tmp_path / name, record)

    assert first_entry.case.query == "When is the library open?"
    assert first_entry.case.history == ()
    assert second_entry.case.query == "And on Sunday?"
    assert second_entry.case.history == BEFORE_SECOND


@pytest.mark.parametrize(("name", "record"), FORMS)
def test_cases_of_a_conversation_share_a_cluster_and_are_numbered(
    tmp_path: Path, name: str, record: object
) -> None:
    first_entry, second_entry = entries_of(tmp_path / name, record)

    assert first_entry.case.id == "c/turn-1"
    assert first_entry.case.tags == ("turn-1",)
    assert first_entry.case.cluster == "c"
    assert second_entry.case.id == "c/turn-2"
    assert second_entry.case.tags == ("turn-2",)
    assert second_entry.case.cluster == "c"


@pytest.mark.parametrize(("name", "record"), FORMS)
def test_every_answer_of_a_conversation_is_recorded(
    tmp_path: Path, name: str, record: object
) -> None:
    first_entry, second_entry = entries_of(tmp_path / name, record)

    assert response_of(first_entry) == "On weekdays."
    assert response_of(second_entry) == "From 10 to 16."


@pytest.mark.parametrize(("name", "record"), DEEPEVAL_FORMS)
def test_what_was_retrieved_for_a_turn_is_recorded(
    tmp_path: Path, name: str, record: object
) -> None:
    first_entry, second_entry = entries_of(tmp_path / name, record)

    assert "retrieve" not in first_entry.recorded
    retrieval = second_entry.recorded["retrieve"].value
    assert isinstance(retrieval, RetrievalResult)
    assert retrieval.contexts == ["Sunday 10-16"]


def test_an_output_of_a_tool_is_no_retrieval(tmp_path: Path) -> None:
    """What a tool gave need not be a text that was searched for."""
    _, second_entry = entries_of(tmp_path / "openai.jsonl", {"id": "c", "messages": MESSAGES})

    assert "retrieve" not in second_entry.recorded


# --- fields beside a conversation


SYSTEM_PROMPT = {"role": "system", "content": "Be brief."}


def test_a_conversation_that_ends_with_its_task_is_one_case(tmp_path: Path) -> None:
    record = {"id": "c", "messages": MESSAGES[:3], "reference": "10 to 16"}

    (entry,) = entries_of(tmp_path / "task.jsonl", record)

    assert entry.case.id == "c/turn-2"
    assert entry.case.query == "And on Sunday?"
    assert entry.case.history == BEFORE_SECOND


def test_a_reference_is_that_of_the_last_question(tmp_path: Path) -> None:
    record = {"id": "c", "messages": MESSAGES, "reference": "10 to 16"}

    first_entry, second_entry = entries_of(tmp_path / "whole.jsonl", record)

    assert first_entry.case.reference is None
    assert second_entry.case.reference == "10 to 16"


def test_the_systems_prompt_and_other_fields_become_metadata(tmp_path: Path) -> None:
    record = {"id": "c", "messages": [SYSTEM_PROMPT, *MESSAGES], "topic": "hours"}

    entry = entries_of(tmp_path / "task.jsonl", record)[-1]

    assert entry.case.metadata == {"topic": "hours", "system": "Be brief."}


def test_turns_and_topics_in_one_object_are_no_columns(tmp_path: Path) -> None:
    record = {"user_input": as_ragas(MESSAGES[:3]), "topics": ["hours"]}

    entry = entries_of(tmp_path / "one.json", record)[-1]

    assert entry.case.history == BEFORE_SECOND


def test_the_answers_of_a_conversation_can_be_its_references(tmp_path: Path) -> None:
    record = {"id": "c", "messages": MESSAGES}

    first_entry, second_entry = entries_of(
        tmp_path / "gold.jsonl", record, fields={"reference": "response"}
    )

    assert first_entry.case.reference == "On weekdays."
    assert first_entry.recorded == {}
    assert second_entry.case.reference == "From 10 to 16."
    assert second_entry.recorded == {}


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(
            [
                {"speaker": "Human", "text": "When is the library open?"},
                {"speaker": "bot", "text": "On weekdays."},
            ],
            id="speakers",
        ),
        pytest.param(MESSAGES[:2], id="messages"),
    ],
)
def test_a_question_may_stand_beside_its_history(tmp_path: Path, history: object) -> None:
    record = {"query": "And on Sunday?", "history": history}

    (entry,) = entries_of(tmp_path / "q.jsonl", record)

    assert entry.case.history == BEFORE_SECOND


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        pytest.param(
            {"query": "b", "history": "before"},
            r"'history': expected turns .* found 'before'",
            id="a text",
        ),
        pytest.param(
            {"query": "b", "history": [{"x": 1}]},
            "'history': expected turns .* found an object",
            id="an object that is no turn",
        ),
        pytest.param(
            {"query": "b", "history": [["user"]]},
            "'history': expected turns .* found a list in it",
            id="half a turn",
        ),
        pytest.param(
            {"messages": [{"role": "system", "content": "x"}]},
            "'messages': expected a conversation",
            id="no question",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": 7}]},
            "'messages': expected text",
            id="a number",
        ),
    ],
)
def test_a_field_that_is_no_conversation_is_a_problem_with_its_place(
    tmp_path: Path, record: object, problem: str
) -> None:
    with pytest.raises(DataError, match=rf"a\.jsonl:1: (?:field )?{problem}"):
        entries_of(tmp_path / "a.jsonl", record)


def test_lists_of_another_kind_stay_metadata(tmp_path: Path) -> None:
    (entry,) = entries_of(tmp_path / "a.jsonl", {"prompt": "b", "turns": ["b", "c"]})

    assert entry.case.metadata == {"turns": ["b", "c"]}


# --- MTRAG: tasks of retrieval


TASK_ID = "a<::>2"


@pytest.mark.parametrize(
    ("name", "text", "query", "history"),
    [
        ("lastturn", "|user|: And on Sunday?", "And on Sunday?", ()),
        (
            "rewrite",
            "|user|: Is the library open on Sunday?",
            "Is the library open on Sunday?",
            (),
        ),
        (
            "questions",
            "|user|: When is the library open?\n|user|: And on Sunday?",
            "And on Sunday?",
            BEFORE_SECOND[:1],
        ),
    ],
)
def test_the_retrieval_tasks_of_mtrag(
    tmp_path: Path, name: str, text: str, query: str, history: tuple[Turn, ...]
) -> None:
    (tmp_path / "qrels").mkdir()
    written(tmp_path / "qrels/dev.tsv", f"query-id\tcorpus-id\tscore\n{TASK_ID}\td1\t1\n")

    (entry,) = entries_of(tmp_path / f"{name}.jsonl", {"_id": TASK_ID, "text": text})

    case = entry.case
    assert case.id == TASK_ID
    assert case.cluster == "a"
    assert case.tags == ("turn-2",)
    assert case.query == query
    assert case.history == history
    assert case.judgements == {"d1": 1}


# --- MTRAG: conversations


RELEVANT = {
    "document_id": "d1",
    "text": "Sunday 10-16",
    "feedback": {"relevant": {"x": {"value": "yes"}}},
}
IRRELEVANT = {
    "document_id": "d2",
    "text": "x",
    "feedback": {"relevant": {"x": {"value": "no"}}},
}
SPOKEN = [
    {
        "speaker": "user",
        "text": "When is the library open?",
        "enrichments": {"Answerability": ["PARTIAL"]},
    },
    {"speaker": "agent", "text": "On weekdays.", "contexts": [IRRELEVANT, RELEVANT]},
    {"speaker": "user", "text": "And on Sunday?"},
]


@pytest.fixture(name="mtrag")
def cases_of_a_conversation_of_mtrag(tmp_path: Path) -> list[Case]:
    answer = {"speaker": "agent", "text": "10 to 16", "contexts": []}
    record = {"author": "x", "retriever": {}, "messages": [*SPOKEN, answer]}
    return [entry.case for entry in entries_of(tmp_path / "c.json", [record])]


def test_answers_in_a_conversation_of_mtrag_are_references(mtrag: list[Case]) -> None:
    first_case, second_case = mtrag

    assert first_case.reference == "On weekdays."
    assert second_case.reference == "10 to 16"


def test_cases_of_mtrag_are_named_after_their_conversation(mtrag: list[Case]) -> None:
    first_case, second_case = mtrag

    assert first_case.id == "conversation-1<::>1"
    assert second_case.id == "conversation-1<::>2"
    assert second_case.cluster == "conversation-1"


def test_labels_of_a_turn_of_mtrag_are_those_of_its_case(mtrag: list[Case]) -> None:
    first_case, _ = mtrag

    assert first_case.answerable
    assert first_case.tags == ("PARTIAL", "turn-1")
    assert first_case.reference_context_ids == ("d1",)


def test_the_turns_before_a_question_of_mtrag_are_its_history(mtrag: list[Case]) -> None:
    _, second_case = mtrag

    texts = [turn.text for turn in second_case.history]
    assert texts == ["When is the library open?", "On weekdays."]


def test_a_prediction_for_a_task_of_mtrag_is_recorded(tmp_path: Path) -> None:
    task = {
        "conversation_id": "a",
        "task_id": "a::2",
        "input": SPOKEN,
        "contexts": [RELEVANT],
        "predictions": [{"text": "10-16"}],
        "Validity": float("nan"),
    }

    (entry,) = entries_of(tmp_path / "answered.jsonl", task)

    assert entry.case.cluster == "a"
    assert entry.case.tags == ("turn-2",)
    assert response_of(entry) == "10-16"


# --- MTRAG: a task on each line


LABELS = {"turn": "2", "answerability": ["ANSWERABLE"], "multiturn": ["Follow-up"]}
TASK: dict[str, Any] = {
    "task_id": TASK_ID,
    "history": [
        ["user", "When is the library open?"],
        ["agent", "On weekdays."],
        ["user", "And on Sunday?"],
    ],
    **LABELS,
    "targets": ["10 to 16"],
    "contexts": [{"pid": "d1", "text": "Sunday 10-16"}],
}


def test_a_task_of_mtrag_is_a_case(tmp_path: Path) -> None:
    with open_source(lines(tmp_path / "tasks.jsonl", [TASK])) as source:
        (entry,) = source
        info = source.info

    assert info.form == "mtrag"
    assert info.notes == ()
    assert entry.case == Case(
        id=TASK_ID,
        query="And on Sunday?",
        reference="10 to 16",
        cluster="a",
        answerable=True,
        reference_contexts=("Sunday 10-16",),
        reference_context_ids=("d1",),
        tags=("ANSWERABLE", "Follow-up", "turn-2"),
        metadata=LABELS,
        history=BEFORE_SECOND,
    )


@pytest.mark.parametrize(
    ("label", "answerable"),
    [("ANSWERABLE", True), ("UNDERSPECIFIED", None), ("UNANSWERABLE", False)],
)
def test_whether_a_task_of_mtrag_can_be_answered(
    tmp_path: Path, label: str, answerable: bool | None
) -> None:
    task = TASK | {"answerability": [label]}

    (case,) = read_cases(lines(tmp_path / "tasks.jsonl", [task]))

    assert case.answerable is answerable


def test_a_task_of_mtrag_without_contexts_has_no_gold(tmp_path: Path) -> None:
    task = TASK | {"answerability": ["UNDERSPECIFIED"], "contexts": []}

    (case,) = read_cases(lines(tmp_path / "tasks.jsonl", [task]))

    assert case.reference_context_ids is None


def test_a_task_of_mtrag_that_ends_with_an_answer_is_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "tasks.jsonl", [TASK | {"history": TASK["history"][:2]}])

    with pytest.raises(DataError, match=r"tasks\.jsonl:1: expected turns .* the user's question"):
        list(read_cases(path))


# --- MTRAG: its evaluation by people


LONG_TEXT = "Sunday 10-16" * 5000


def evaluated_answer(model: str, grades: list[str]) -> dict[str, Any]:
    """An answer of a model with the grades of three people."""
    people = {str(number): {"value": grade} for number, grade in enumerate(grades)}
    return {
        "task_id": TASK_ID,
        "model_id": model,
        "model_response": f"{model} says",
        "annotations": {"faithfulness": people},
    }


@pytest.fixture(name="evaluation")
def human_evaluation_of_mtrag(tmp_path: Path) -> Path:
    """A task that three models answered."""
    task = {
        "task_id": TASK_ID,
        "task_type": "rag",
        "Answerability": ["PARTIAL"],
        "input": SPOKEN,
        "contexts": [{"document_id": "d1"}],
        "targets": [{"speaker": "agent", "text": "10 to 16"}],
    }
    content = {
        "name": "Human evaluation",
        "models": [{"model_id": "m"}],
        "metrics": [],
        "documents": [{"document_id": "d1", "text": LONG_TEXT}],
        "tasks": [task],
        "evaluations": [
            evaluated_answer("a", ["4", "4", "1"]),
            evaluated_answer("b", ["2", "4", "3"]),
            evaluated_answer("c", ["1", "1", "4"]),
        ],
    }
    return written(tmp_path / "eval.json", content)


def test_a_task_of_the_evaluation_is_a_case(evaluation: Path) -> None:
    (entry,) = entries(evaluation)

    case = entry.case
    assert case.query == "And on Sunday?"
    assert case.reference == "10 to 16"
    assert case.answerable
    assert case.reference_contexts == (LONG_TEXT,)
    assert [turn.text for turn in case.history] == ["When is the library open?", "On weekdays."]


def test_answers_of_several_models_are_not_mixed(evaluation: Path) -> None:
    with open_source(evaluation) as source:
        (entry,) = source
        info = source.info

    assert entry.recorded == {}
    assert info.form == "mtrag"
    assert "it holds 3 answers of a, b, c; --split MODEL" in " ".join(info.notes)


def test_the_answers_of_a_model_that_is_named_are_recorded(evaluation: Path) -> None:
    (entry,) = entries(evaluation, split="b")

    assert response_of(entry) == "b says"


def test_a_model_that_is_not_there_is_refused(evaluation: Path) -> None:
    with pytest.raises(DataError, match="no model 'z'"):
        entries(evaluation, split="z")


def test_grades_of_people_are_labels_by_their_median(evaluation: Path) -> None:
    labels = read_labels(evaluation)

    # Of 4, 4, 1; of 2, 4, 3; of 1, 1, 4; on the three levels of a label.
    assert [label.level for label in labels] == [2, 1, 0]


def test_labels_of_a_conversation_share_its_cluster(evaluation: Path) -> None:
    labels = read_labels(evaluation)

    assert [label.cluster for label in labels] == ["a", "a", "a"]
    assert [label.question for label in labels] == ["And on Sunday?"] * 3
