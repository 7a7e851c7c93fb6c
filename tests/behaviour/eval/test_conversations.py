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

OPEN = (Turn(role="user", text="When is it open?"), Turn(role="assistant", text="On 5 weekdays."))
SAID = [
    {"role": "user", "content": "When is it open?"},
    {"role": "assistant", "content": "On 5 weekdays."},
]
SUNDAY = Case(id="2", query="And on Sunday?", history=OPEN, cluster="c")


def told(query: str, said: Sequence[Any]) -> str:
    return f"{query} after {len(said)}"


class Single(RAGInterface):
    def retrieve(self, query: str, top_k: Any = None, history: Any = None) -> list[str]:
        return [told(query, history)]

    def generate(self, query: str, contexts: list[str], history: Any = None) -> str:
        return f"{contexts[0]}, {told(query, history)}"


class Batch(RAGInterface):
    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: Any = None, histories: Any = ()
    ) -> list[RetrievalResult]:
        pairs = zip(queries, histories, strict=True)
        return [RetrievalResult([told(query, said)]) for query, said in pairs]

    def batch_generate(self, queries: Any, contexts_list: Any, histories: Any = ()) -> list[str]:
        given = zip(queries, contexts_list, histories, strict=True)
        return [f"{contexts[0]}, {told(query, said)}" for query, contexts, said in given]


class Coroutines(AsyncRAGInterface):
    async def retrieve(self, query: str, top_k: Any = None, history: Any = ()) -> list[str]:
        return [told(query, history)]

    async def generate(self, query: str, contexts: list[str], history: Any = ()) -> str:
        return f"{contexts[0]}, {told(query, history)}"


class Duck:
    def retrieve(self, query: str, history: Any, k: int = 3) -> list[str]:
        return [told(query, history)]

    def generate(self, query: str, contexts: list[str], chat_history: Any = None) -> str:
        return f"{contexts[0]}, {told(query, chat_history)}"


def one_call(query: str, history: Any = None) -> dict[str, Any]:
    said = told(query, history)
    return {"contexts": [said], "answer": f"{said}, {said}"}


def halves() -> Any:
    return as_rag(retrieve=Single().retrieve, generate=Single().generate, top_k=4)


@pytest.mark.parametrize(
    "make", [Single, Batch, Coroutines, lambda: as_rag(Duck()), lambda: as_rag(one_call), halves]
)
def test_a_rag_that_takes_a_history_is_told_it(make: Callable[[], Any], tmp_path: Path) -> None:
    first = Case(id="1", query="When is it open?")
    for again in (False, True):  # the second time from what is stored
        found = rows(run([first, SUNDAY], make(), tmp_path, metrics="response_tokens"))
        assert found["1"].response == "When is it open? after 0, When is it open? after 0"
        assert found["2"].response == "And on Sunday? after 2, And on Sunday? after 2", again
    # Another history is another question, though its words are the same.
    other = Case(id="2", query=SUNDAY.query, history=(*OPEN, Turn(role="user", text="Really?")))
    found = rows(run([first, other], make(), tmp_path, metrics="response_tokens"))
    assert found["2"].response == "And on Sunday? after 3, And on Sunday? after 3"


def test_top_k_is_not_taken_for_a_history() -> None:
    stage = retrieve_stage(as_rag(Duck()), b"", 2)
    assert stage.call is not None
    assert stage.call([(SUNDAY.query, SAID)])[0].contexts == ["And on Sunday? after 2"]


def spoken(chat: Scripted) -> Any:
    """What a model was asked: its orders, and the JSON of the question."""
    orders, asked = chat.asked[-1]
    return orders.content, json.loads(asked.content.partition("\n\n")[0])


def test_pipelines_and_validators_read_a_question_with_its_history() -> None:
    rewriter = Scripted('{"query": "Opening hours on Sunday"}', '{"query": "x"}')
    stage = PreRetrieval(transforms=(Rewrite(chat=rewriter),))
    assert stage.run(SUNDAY.query, SAID).queries[0].text == "Opening hours on Sunday"
    orders, asked = spoken(rewriter)
    assert asked == {"query": SUNDAY.query, "conversation": SAID}
    assert "conversation" in orders
    stage.run(SUNDAY.query)
    assert spoken(rewriter)[1] == {"query": SUNDAY.query}
    writer = Scripted("10 to 16")
    ChatGenerator(chat=writer).generate(SUNDAY.query, ["Sunday 10-16"], SAID)
    assert spoken(writer)[1]["conversation"] == SAID
    judge = Scripted('{"passages": [], "answer_present": false, "confidence": 0.9}')
    plain = LlmValidator(chat=judge)
    chunks = RetrievalResult(["Sunday 10-16"]).to_chunks()
    CascadeValidator(first=plain, second=plain).validate(SUNDAY.query, chunks, SAID)
    assert spoken(judge)[1]["conversation"] == SAID


def test_an_answer_may_rest_on_what_the_user_said_and_on_no_earlier_answer() -> None:
    asked = Turn(role="user", text="We are 12 people.")
    said = Turn(role="assistant", text="It holds 40.", contexts=("The room has 30 seats.",))
    case = Case(id="1", query="Sure?", history=(asked, said))
    assert case.told == ("We are 12 people.", "The room has 30 seats.")
    answers = {"For 12 people.": 1.0, "It has 30 seats.": 1.0, "It holds 40.": 0.0}
    assert {text: numbers_supported(case, text, []) for text in answers} == answers


# --- own turns


def conversation(*questions: str, name: str = "c") -> list[Case]:
    history: tuple[Turn, ...] = ()
    found: list[Case] = []
    for number, text in enumerate(questions, start=1):
        found.append(Case(id=f"{name}{number}", query=text, history=history, cluster=name))
        history += (Turn(role="user", text=text), Turn(role="assistant", text=f"gold {number}"))
    return found


class Echo(RAGInterface):
    def retrieve(self, query: str, top_k: Any = None, history: Any = ()) -> list[str]:
        return [query]

    def generate(self, query: str, contexts: list[str], history: Any = ()) -> str:
        if query == "fails":
            raise ValueError("no")
        heard = [one["content"] for one in history if one["role"] == "assistant"]
        return f"{query}({', '.join(heard)})"


@pytest.mark.parametrize("again", [False, True])
def test_own_turns_tell_a_rag_its_own_earlier_answers(tmp_path: Path, again: bool) -> None:
    # The order of the dataset does not matter; a conversation of another cluster is another one.
    data = [*reversed(conversation("a", "b", "c")), *conversation("a", "d", name="o")]
    found: dict[str, Any] = {}
    for _ in range(1 + again):
        found = rows(run(data, Echo(), tmp_path, metrics="response_tokens", turns="own"))
    answers = {id: row.response for id, row in found.items()}
    assert answers == {
        "c1": "a()",
        "c2": "b(a())",
        "c3": "c(a(), b(a()))",
        "o1": "a()",
        "o2": "d(a())",
    }
    stored: Any = report_of(tmp_path)
    (row,) = stored.rows(["c3"])
    story = row.story
    assert story is not None
    assert [turn.text for turn in story.history] == ["a", "a()", "b", "b(a())"]
    with open_source(tmp_path) as source:  # what failed is asked again as it was asked
        heard = {entry.id: [turn.text for turn in entry.case.history] for entry in source}
    assert heard["c2"] == ["a", "a()"]


def test_own_turns_where_an_answer_is_missing(tmp_path: Path) -> None:
    first, second = conversation("fails", "b")
    found = rows(run([first, second], Echo(), tmp_path / "1", turns="own"))
    assert found["c2"].response == "b()"
    report = run([second], Echo(), tmp_path / "2", turns="own")
    assert rows(report)["c2"].response == "b(gold 1)"
    assert any(note.startswith("1 earlier questions") for note in report.notes)
    with pytest.raises(ConfigError, match="own turns are for a RAG that takes"):
        evaluate(
            [second], lambda query: "x", out=tmp_path / "3", settings=EvalSettings(turns="own")
        )


# --- several searches

FOUND = RetrievalResult(
    ["one", "two", "three"],
    context_ids=["d1", "d2", "d3"],
    metadata={
        "hops": [
            {"query": "first", "context_ids": ["d1"]},
            {"query": "second", "context_ids": ["d3", "d2"], "seconds": 0.25},
            {"query": "third", "contexts": ["three", "elsewhere"]},
        ]
    },
)


HOPLESS: tuple[Any, ...] = (None, {}, {"hops": "x"}, {"hops": [1]}, {"hops": []})
UNSAID = RetrievalResult(["one"], metadata={"hops": [{"query": "a"}, {"query": "b"}]})


@pytest.mark.parametrize(
    ("result", "gold", "figures"),
    [
        (FOUND, ("d2",), (3, 2, 1)),
        (FOUND, ("d1", "d2"), (3, 1, 1)),
        (FOUND, ("d9",), (3, None, 1)),
        (FOUND, None, (3, None, 1)),
        (UNSAID, ("d1",), (2, None, None)),  # searches that do not say what they found
        *(
            (RetrievalResult(["one"], context_ids=["d1"], metadata=said), ("d1",), (None,) * 3)
            for said in HOPLESS
        ),
    ],
)
def test_hops_by_hand(result: Any, gold: tuple[str, ...] | None, figures: tuple[Any, ...]) -> None:
    given = {"retrieval": result, "generation": GenerationResult("a")}
    measured: dict[str, Any] = {
        name: Outcome(status=Status.MEASURED, value=one) for name, one in given.items()
    }
    trace = Trace(case=Case(id="1", query="q", reference_context_ids=gold), **measured)
    found = (hops(trace), first_gold_hop(trace), redundant_hops(trace))
    assert tuple(one if isinstance(one, (int, float)) else None for one in found) == figures


def test_recorded_hops_are_measured_and_each_is_explained(tmp_path: Path) -> None:
    case = Case(id="1", query="q", reference_context_ids=("d2",), history=OPEN)
    known: dict[str, Outcome[Any]] = {"retrieve": Outcome(status=Status.MEASURED, value=FOUND)}
    run([Entry(case=case, recorded=known)], None, tmp_path / "run")
    report: Any = evaluate(tmp_path / "run", out=tmp_path / "again")
    values = {one.metric.name: one.score for one in report.summaries}
    assert (values["hops"], values["first_gold_hop"], values["redundant_hops"]) == (3, 2, 1)
    (row,) = report.rows(["1"])
    lines = [*case_story_lines(row, report.metrics)]
    assert lines[:3] == [("user", OPEN[0].text), ("assistant", OPEN[1].text), ("question", "q")]
    assert [text for label, text in lines if label.startswith("hop ")] == [
        "first: 1 found, 1 new (d1)",
        "second: 2 found, 2 new, the first with gold, 250.0 ms (d3, d2)",
        "third: 1 found, 0 new (d3)",
    ]
