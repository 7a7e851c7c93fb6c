"""What was said before a question: who is told of it, and what it is read with."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragbench import (
    AsyncRAGInterface,
    Case,
    EvalSettings,
    GenerationResult,
    RAGInterface,
    RetrievalResult,
    Skip,
    Turn,
    as_rag,
    evaluate,
    open_source,
    report_of,
)
from ragbench.core.outcome import Outcome, Status
from ragbench.core.trace import Entry, Trace
from ragbench.errors import ConfigError
from ragbench.metrics.citations import numbers_supported
from ragbench.metrics.hops import first_gold_hop, hops, redundant_hops
from ragbench.search.pipeline.chat import ChatGenerator
from ragbench.search.pipeline.pre_retrieval import PreRetrieval, Rewrite
from ragbench.stages.rag import retrieve_stage
from ragbench.validators.llm import LlmValidator
from ragbench.validators.validator import CascadeValidator
from ragbench.views.explain import case_story_lines
from tests.behaviour.rags import rows, run
from tests.unit.post.builders import Scripted

HISTORY = (
    Turn(role="user", text="When is it open?"),
    Turn(role="assistant", text="On 5 weekdays."),
)
MESSAGES = [
    {"role": "user", "content": "When is it open?"},
    {"role": "assistant", "content": "On 5 weekdays."},
]
OPENING = Case(id="1", query="When is it open?")
SUNDAY = Case(id="2", query="And on Sunday?", history=HISTORY, cluster="c")


# --- RAGs that take a history


def echo(query: str, history: Sequence[Any]) -> str:
    """The query, and how many turns came before it."""
    return f"{query} after {len(history)}"


class Single(RAGInterface):
    def retrieve(self, query: str, top_k: Any = None, history: Any = None) -> list[str]:
        return [echo(query, history)]

    def generate(self, query: str, contexts: list[str], history: Any = None) -> str:
        return f"{contexts[0]}, {echo(query, history)}"


class Batch(RAGInterface):
    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: Any = None, histories: Any = ()
    ) -> list[RetrievalResult]:
        pairs = zip(queries, histories, strict=True)
        return [RetrievalResult([echo(query, history)]) for query, history in pairs]

    def batch_generate(self, queries: Any, contexts_list: Any, histories: Any = ()) -> list[str]:
        answers = []
        for query, contexts, history in zip(queries, contexts_list, histories, strict=True):
            answers.append(f"{contexts[0]}, {echo(query, history)}")
        return answers


class Coroutines(AsyncRAGInterface):
    async def retrieve(self, query: str, top_k: Any = None, history: Any = ()) -> list[str]:
        return [echo(query, history)]

    async def generate(self, query: str, contexts: list[str], history: Any = ()) -> str:
        return f"{contexts[0]}, {echo(query, history)}"


class Duck:
    """Has the methods of a RAG and no base class."""

    def retrieve(self, query: str, history: Any, k: int = 3) -> list[str]:
        return [echo(query, history)]

    def generate(self, query: str, contexts: list[str], chat_history: Any = None) -> str:
        return f"{contexts[0]}, {echo(query, chat_history)}"


def wrapped_duck() -> Any:
    return as_rag(Duck())


def one_call() -> Any:
    """A RAG of one function that retrieves and answers."""

    def ask(query: str, history: Any = None) -> dict[str, Any]:
        text = echo(query, history)
        return {"contexts": [text], "answer": f"{text}, {text}"}

    return as_rag(ask)


def two_functions() -> Any:
    return as_rag(retrieve=Single().retrieve, generate=Single().generate, top_k=4)


MAKERS = [Single, Batch, Coroutines, wrapped_duck, one_call, two_functions]


def answers(data: Sequence[Case], rag: Any, out: Path, **options: Any) -> dict[str, str | None]:
    """The response to each case, by id."""
    report = run(data, rag, out, metrics="response_tokens", **options)
    return {id: row.response for id, row in rows(report).items()}


@pytest.mark.parametrize("make", MAKERS)
def test_a_rag_that_takes_a_history_is_told_it(make: Callable[[], Any], tmp_path: Path) -> None:
    assert answers([OPENING, SUNDAY], make(), tmp_path) == {
        "1": "When is it open? after 0, When is it open? after 0",
        "2": "And on Sunday? after 2, And on Sunday? after 2",
    }


@pytest.mark.parametrize("make", MAKERS)
def test_stored_answers_are_those_of_their_history(make: Callable[[], Any], tmp_path: Path) -> None:
    computed = answers([OPENING, SUNDAY], make(), tmp_path)

    assert answers([OPENING, SUNDAY], make(), tmp_path) == computed


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_words_after_another_history_are_another_question(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    answers([OPENING, SUNDAY], make(), tmp_path)
    longer = (*HISTORY, Turn(role="user", text="Really?"))
    doubted = Case(id="2", query=SUNDAY.query, history=longer)

    responses = answers([OPENING, doubted], make(), tmp_path)

    assert responses["2"] == "And on Sunday? after 3, And on Sunday? after 3"


def test_top_k_is_not_taken_for_a_history() -> None:
    stage = retrieve_stage(as_rag(Duck()), b"", 2)
    assert stage.call is not None

    (result,) = stage.call([(SUNDAY.query, MESSAGES)])

    assert result.contexts == ["And on Sunday? after 2"]


# --- models that read a question with its history


def last_question(chat: Scripted) -> Any:
    """What a model was asked last, without its orders: a JSON object."""
    _, question = chat.asked[-1]
    return json.loads(question.content.partition("\n\n")[0])


def test_a_rewriter_reads_a_question_with_its_history() -> None:
    chat = Scripted('{"query": "Opening hours on Sunday"}')

    result = PreRetrieval(transforms=(Rewrite(chat=chat),)).run(SUNDAY.query, MESSAGES)

    assert result.queries[0].text == "Opening hours on Sunday"
    assert last_question(chat) == {"query": SUNDAY.query, "conversation": MESSAGES}
    orders, _ = chat.asked[-1]
    assert "conversation" in orders.content


def test_a_rewriter_is_told_of_no_conversation_where_there_is_none() -> None:
    chat = Scripted('{"query": "x"}')

    PreRetrieval(transforms=(Rewrite(chat=chat),)).run(SUNDAY.query)

    assert last_question(chat) == {"query": SUNDAY.query}


def test_a_generator_reads_a_question_with_its_history() -> None:
    chat = Scripted("10 to 16")

    ChatGenerator(chat=chat).generate(SUNDAY.query, ["Sunday 10-16"], MESSAGES)

    assert last_question(chat)["conversation"] == MESSAGES


def test_a_cascade_of_validators_reads_a_question_with_its_history() -> None:
    chat = Scripted('{"passages": [], "answer_present": false, "confidence": 0.9}')
    validator = LlmValidator(chat=chat)
    chunks = RetrievalResult(["Sunday 10-16"]).to_chunks()

    CascadeValidator(first=validator, second=validator).validate(SUNDAY.query, chunks, MESSAGES)

    assert last_question(chat)["conversation"] == MESSAGES


# --- what an answer may rest on


ROOM = Case(
    id="1",
    query="Sure?",
    history=(
        Turn(role="user", text="We are 12 people."),
        Turn(role="assistant", text="It holds 40.", contexts=("The room has 30 seats.",)),
    ),
)


def test_a_case_tells_what_the_user_said_and_earlier_contexts_and_no_earlier_answer() -> None:
    assert ROOM.told == ("We are 12 people.", "The room has 30 seats.")


@pytest.mark.parametrize(
    ("answer", "share_supported"),
    [
        pytest.param("For 12 people.", 1.0, id="the user said it"),
        pytest.param("It has 30 seats.", 1.0, id="an earlier context has it"),
        pytest.param("It holds 40.", 0.0, id="only an earlier answer has it"),
    ],
)
def test_a_number_is_supported_by_what_was_told_and_by_no_earlier_answer(
    answer: str, share_supported: float
) -> None:
    assert numbers_supported(ROOM, answer, []) == share_supported


# --- own turns


def conversation(*questions: str, name: str = "c") -> list[Case]:
    """A case for each question, with the questions before it and their gold answers."""
    history: tuple[Turn, ...] = ()
    data: list[Case] = []
    for number, text in enumerate(questions, start=1):
        data.append(Case(id=f"{name}{number}", query=text, history=history, cluster=name))
        history += (Turn(role="user", text=text), Turn(role="assistant", text=f"gold {number}"))
    return data


class Recites(RAGInterface):
    """Answers with the query and, in parentheses, the earlier answers that it was told."""

    def retrieve(self, query: str, top_k: Any = None, history: Any = ()) -> list[str]:
        return [query]

    def generate(self, query: str, contexts: list[str], history: Any = ()) -> str:
        if query == "fails":
            raise ValueError("no")
        earlier = [message["content"] for message in history if message["role"] == "assistant"]
        return f"{query}({', '.join(earlier)})"


# The order of the dataset does not matter; a conversation of another cluster is another one.
TWO_CONVERSATIONS = [
    *reversed(conversation("a", "b", "c")),
    *conversation("a", "d", name="o"),
]
OWN_ANSWERS = {
    "c1": "a()",
    "c2": "b(a())",
    "c3": "c(a(), b(a()))",
    "o1": "a()",
    "o2": "d(a())",
}


def test_own_turns_tell_a_rag_its_own_earlier_answers(tmp_path: Path) -> None:
    assert answers(TWO_CONVERSATIONS, Recites(), tmp_path, turns="own") == OWN_ANSWERS


def test_own_turns_are_the_same_from_what_is_stored(tmp_path: Path) -> None:
    answers(TWO_CONVERSATIONS, Recites(), tmp_path, turns="own")

    assert answers(TWO_CONVERSATIONS, Recites(), tmp_path, turns="own") == OWN_ANSWERS


def test_a_report_shows_a_question_after_own_turns(tmp_path: Path) -> None:
    answers(TWO_CONVERSATIONS, Recites(), tmp_path, turns="own")

    report: Any = report_of(tmp_path)  # its type does not say that rows take ids
    (row,) = report.rows(["c3"])

    assert row.story is not None
    assert [turn.text for turn in row.story.history] == ["a", "a()", "b", "b(a())"]


def test_a_stored_run_gives_its_cases_with_own_turns(tmp_path: Path) -> None:
    """What failed is asked again as it was asked."""
    answers(TWO_CONVERSATIONS, Recites(), tmp_path, turns="own")

    with open_source(tmp_path) as source:
        cases_by_id = {entry.id: entry.case for entry in source}

    assert [turn.text for turn in cases_by_id["c2"].history] == ["a", "a()"]


def test_an_own_turn_that_failed_is_left_out(tmp_path: Path) -> None:
    data = conversation("fails", "b")

    report = run(data, Recites(), tmp_path, turns="own")

    assert rows(report)["c2"].response == "b()"


def test_a_turn_that_is_no_case_keeps_its_gold_answer_and_is_noted(tmp_path: Path) -> None:
    _, second = conversation("a", "b")

    report = run([second], Recites(), tmp_path, turns="own")

    assert rows(report)["c2"].response == "b(gold 1)"
    assert [note for note in report.notes if note.startswith("1 earlier questions")] != []


def test_own_turns_are_refused_for_a_rag_that_takes_no_history(tmp_path: Path) -> None:
    def takes_no_history(query: str) -> str:
        return "x"

    with pytest.raises(ConfigError, match="own turns are for a RAG that takes"):
        evaluate(
            conversation("a", "b"),
            takes_no_history,
            out=tmp_path,
            settings=EvalSettings(turns="own"),
        )


# --- several searches

THREE_HOPS = RetrievalResult(
    ["one", "two", "three"],
    context_ids=["d1", "d2", "d3"],
    metadata={
        "hops": [
            {"query": "first", "context_ids": ["d1"]},
            {"query": "second", "context_ids": ["d3", "d2"], "seconds": 0.25},
            # Nothing that is new: its only text in the result is that of d3.
            {"query": "third", "contexts": ["three", "elsewhere"]},
        ]
    },
)
HOPS_WITHOUT_RESULTS = RetrievalResult(["one"], metadata={"hops": [{"query": "a"}, {"query": "b"}]})


def trace_of(retrieval: RetrievalResult, gold_ids: tuple[str, ...] | None) -> Trace:
    return Trace(
        case=Case(id="1", query="q", reference_context_ids=gold_ids),
        retrieval=Outcome(status=Status.MEASURED, value=retrieval),
        generation=Outcome(status=Status.MEASURED, value=GenerationResult("a")),
    )


@pytest.mark.parametrize(
    ("gold_ids", "hop"),
    [
        pytest.param(("d2",), 2, id="found by the second hop"),
        pytest.param(("d1", "d2"), 1, id="found by the first and the second hop"),
    ],
)
def test_the_first_hop_with_gold_by_hand(gold_ids: tuple[str, ...], hop: int) -> None:
    assert first_gold_hop(trace_of(THREE_HOPS, gold_ids)) == hop


@pytest.mark.parametrize(
    "gold_ids", [pytest.param(("d9",), id="not found"), pytest.param(None, id="unknown")]
)
def test_gold_that_no_hop_found_has_no_first_hop(gold_ids: tuple[str, ...] | None) -> None:
    assert isinstance(first_gold_hop(trace_of(THREE_HOPS, gold_ids)), Skip)


@pytest.mark.parametrize("gold_ids", [("d2",), ("d1", "d2"), ("d9",), None])
def test_hops_are_counted_whatever_the_gold(gold_ids: tuple[str, ...] | None) -> None:
    trace = trace_of(THREE_HOPS, gold_ids)

    assert hops(trace) == 3
    assert redundant_hops(trace) == 1


def test_hops_that_do_not_say_what_they_found_are_only_counted() -> None:
    trace = trace_of(HOPS_WITHOUT_RESULTS, ("d1",))

    assert hops(trace) == 2
    assert isinstance(first_gold_hop(trace), Skip)
    assert isinstance(redundant_hops(trace), Skip)


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(None, id="no metadata"),
        pytest.param({}, id="no hops"),
        pytest.param({"hops": "x"}, id="hops are a text"),
        pytest.param({"hops": [1]}, id="a hop is a number"),
        pytest.param({"hops": []}, id="an empty list"),
    ],
)
def test_a_retrieval_without_hops_has_no_figures_of_them(metadata: Any) -> None:
    trace = trace_of(RetrievalResult(["one"], context_ids=["d1"], metadata=metadata), ("d1",))

    assert isinstance(hops(trace), Skip)
    assert isinstance(first_gold_hop(trace), Skip)
    assert isinstance(redundant_hops(trace), Skip)


@pytest.fixture
def recorded_hops(tmp_path: Path) -> Any:
    """The report of a run whose only case has a recorded retrieval of three hops."""
    case = Case(id="1", query="q", reference_context_ids=("d2",), history=HISTORY)
    recorded: dict[str, Outcome[Any]] = {
        "retrieve": Outcome(status=Status.MEASURED, value=THREE_HOPS)
    }
    run([Entry(case=case, recorded=recorded)], None, tmp_path / "run")
    return evaluate(tmp_path / "run", out=tmp_path / "again")


def test_recorded_hops_are_measured(recorded_hops: Any) -> None:
    scores = {summary.metric.name: summary.score for summary in recorded_hops.summaries}

    assert scores["hops"] == 3
    assert scores["first_gold_hop"] == 2
    assert scores["redundant_hops"] == 1


def test_each_recorded_hop_is_explained(recorded_hops: Any) -> None:
    (row,) = recorded_hops.rows(["1"])

    lines = list(case_story_lines(row, recorded_hops.metrics))

    assert lines[:3] == [
        ("user", "When is it open?"),
        ("assistant", "On 5 weekdays."),
        ("question", "q"),
    ]
    assert [text for label, text in lines if label.startswith("hop ")] == [
        "first: 1 found, 1 new (d1)",
        "second: 2 found, 2 new, the first with gold, 250.0 ms (d3, d2)",
        "third: 1 found, 0 new (d3)",
    ]
