"""What a run gives for RAGs and cases of every kind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ragbench import (
    AsyncRAGInterface,
    CallSettings,
    Case,
    Document,
    Entry,
    GenerationResult,
    Matching,
    PartialBatchError,
    RAGInterface,
    Report,
    RetrievalResult,
    Status,
    report_of,
)
from ragbench.core.matched import Match, MatchedBy
from ragbench.errors import RagbenchWarning
from ragbench.stages.stage import Progress
from ragbench.validators.validator import build_validator
from ragbench.views.write import CaseFiles, write_reports
from tests.behaviour.rags import (
    AsyncRAG,
    NotingRAG,
    OnlyGenerates,
    OnlyRetrieves,
    cases,
    counts,
    rows,
    run,
)
from tests.unit.metrics.builders import retrieved


def returning(retrieval: Any, generation: Any = "answer") -> RAGInterface[Any]:
    """A RAG whose methods return what is given, whatever it is."""

    class Returning(RAGInterface):
        def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> Any:
            return retrieval

        def generate_with_metadata(self, query: str, contexts: list[str]) -> Any:
            return generation

    return Returning()


# --- kinds of RAG


def test_every_case_goes_through_every_stage(tmp_path: Path) -> None:
    rag = NotingRAG()
    report = run(cases("a", "b"), rag, tmp_path / "run")
    assert rag.given == {"a": ["text a"], "b": ["text b"]}
    assert counts(report) == {"retrieve": (2, 0, 0, 0), "generate": (2, 0, 0, 0)}
    assert [(s.metric.name, s.score, s.measured) for s in report.summaries] == [
        (name, 1.0, 2) for name in ("set_recall", "exact_match")
    ]
    row = rows(report)["a"]
    assert (row.retrieved_ids, row.response, row.failures) == (("d-a",), "A a", ())


def test_coroutines_overlap(tmp_path: Path) -> None:
    class Meeting(AsyncRAGInterface, families=("generation",)):
        together: asyncio.Barrier | None = None

        async def generate(self, query: str, contexts: list[str]) -> str:
            self.together = self.together or asyncio.Barrier(3)
            await asyncio.wait_for(self.together.wait(), 30)
            return "met"

    report = run(cases(*"abc"), Meeting(), tmp_path, limits=CallSettings(concurrency=3))
    assert counts(report)["generate"] == (3, 0, 0, 0)


def test_a_rag_without_ids_is_matched_by_text(tmp_path: Path) -> None:
    report = run(cases("a", "b"), OnlyRetrieves(), tmp_path / "run")
    assert report.summaries[0].score == 1.0
    assert report.manifest["settings"]["matching"] == "text"
    assert any("by their text" in note for note in report.notes)
    assert rows(report)["a"].retrieved_ids is None


@pytest.mark.parametrize(
    ("rag", "present", "absent"),
    [(OnlyRetrieves(), "retrieve", "generate"), (OnlyGenerates(), "generate", "retrieve")],
)
def test_a_rag_of_one_ability_is_measured_by_that(
    tmp_path: Path, rag: Any, present: str, absent: str
) -> None:
    report = run(cases("a"), rag, tmp_path / "run")
    assert counts(report) == {present: (1, 0, 0, 0), absent: (0, 0, 1, 0)}
    measured, skipped = report.summaries[:: 1 if present == "retrieve" else -1]
    assert (measured.score, skipped.score, skipped.skipped) == (1.0, None, 1)
    assert skipped.reasons == ((f"the RAG does not {absent}", 1),)
    if isinstance(rag, OnlyGenerates):  # it is given the reference contexts
        assert rag.asked == [("a", ["text a"])]


@pytest.mark.parametrize("rag", [NotingRAG, AsyncRAG])
def test_inside_of_a_running_event_loop(
    tmp_path: Path, rag: Callable[[], NotingRAG | AsyncRAG]
) -> None:
    async def notebook() -> None:
        report = run(cases("a"), rag(), tmp_path / "run")
        assert counts(report)["generate"] == (1, 0, 0, 0)

    asyncio.run(notebook())


# --- failures


def test_a_failed_retrieval_is_never_generated_and_a_failed_generation_leaves_it_measured(
    tmp_path: Path,
) -> None:
    rag = NotingRAG()
    report = run(cases("a", "lost b", "mute c"), rag, tmp_path / "run")
    assert rag.generated == ["a", "mute c"]
    assert counts(report) == {"retrieve": (2, 0, 0, 1), "generate": (1, 0, 0, 2)}
    assert [(s.measured, s.failed, s.score) for s in report.summaries] == [(2, 1, 1.0), (1, 2, 1.0)]
    group = next(group for group in report.failures if group.stage == "retrieve")
    assert (group.type, group.message) == ("LookupError", "nothing for lost b")
    assert (group.count, group.examples) == (1, ("lost b",))
    row = rows(report)["lost b"]
    assert {*row.stages.values(), *(cell.status for cell in row.cells)} == {Status.FAILED}
    assert len(row.failures) == 1


@pytest.mark.parametrize(
    ("retrieval", "generation", "message"),
    [
        (None, "a", "must return a RetrievalResult or a list of strings, not None"),
        (RetrievalResult(["a"], scores=[float("nan")]), "a", "must be a finite number"),
        (RetrievalResult(["a"], context_metadata=[cast("Any", None)]), "a", "must be a mapping"),
        (RetrievalResult(["\ud83d"]), "a", "not valid Unicode: half of a surrogate pair"),
        (RetrievalResult(["a"], context_ids=["\ud83d"]), "a", "not valid Unicode"),
        (["c"], None, "must return a GenerationResult or a string, not None"),
        (["c"], GenerationResult("so \ud83d"), "not valid Unicode: half of a surrogate pair"),
        (["c"], GenerationResult("a", multi_responses=["\udc00"]), "not valid Unicode"),
    ],
)
def test_what_a_stage_must_not_return_fails_its_case(
    tmp_path: Path, retrieval: Any, generation: Any, message: str
) -> None:
    report = run(cases("a"), returning(retrieval, generation), tmp_path / "run")
    found = (1, 0, 0, 0) if retrieval == ["c"] else (0, 0, 0, 1)
    assert counts(report) == {"retrieve": found, "generate": (0, 0, 0, 1)}
    assert message in report.failures[0].message


def test_a_batch_that_names_its_failures_is_checked_like_any_other(tmp_path: Path) -> None:
    class Partial(RAGInterface, families=("retrieval",)):
        def batch_retrieve_with_metadata(
            self, queries: list[str], top_k: int | None = None
        ) -> list[RetrievalResult]:
            raise PartialBatchError([["plain"], ValueError("no"), 5], "Partial.batch")

    report = run(cases("a", "b", "c"), Partial(), tmp_path / "run")
    assert counts(report)["retrieve"] == (1, 0, 0, 2)
    assert sorted(group.type for group in report.failures) == ["InterfaceError", "ValueError"]


def test_calls_that_are_made_again_in_parts_are_warned_of_once_per_stage(tmp_path: Path) -> None:
    class Single(RAGInterface):
        def batch_retrieve(self, queries: list[str], top_k: int | None = None) -> list[list[str]]:
            if len(queries) > 1:
                raise KeyError("x" * 1_000)
            return [["text"]]

        def batch_generate(self, queries: list[str], contexts_list: list[list[str]]) -> list[str]:
            return ["A"]

    with pytest.warns(RagbenchWarning) as caught:
        report = run(cases(*"abcd"), Single(), tmp_path, limits=CallSettings(batch_size=4))
    assert counts(report) == {"retrieve": (4, 0, 0, 0), "generate": (4, 0, 0, 0)}
    first, second = (str(one.message) for one in caught)
    assert first.startswith("retrieve: a call for 4 cases failed (KeyError: 'xxx")
    assert len(first) < 500
    assert second.startswith("generate: a call for 4 cases failed (InterfaceError: ")


def test_a_query_that_hangs_fails_by_its_time_limit(tmp_path: Path) -> None:
    release = threading.Event()

    class Hanging(RAGInterface, families=("generation",)):
        def generate(self, query: str, contexts: list[str]) -> str:
            if query == "slow":
                release.wait(30)
            return query

    report = run(cases("a", "slow"), Hanging(), tmp_path / "run", limits=CallSettings(timeout=0.05))
    release.set()
    assert counts(report)["generate"] == (1, 0, 0, 1)
    assert report.failures[0].type == "StageTimeoutError"


# --- kinds of result


def test_what_a_rag_does_to_its_contexts_changes_no_score(tmp_path: Path) -> None:
    class Careless(RAGInterface):
        def __init__(self) -> None:
            super().__init__()
            self.kept: list[str] = []

        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            self.kept[:] = [f"text {query}"]  # one list for all queries
            return self.kept

        def generate(self, query: str, contexts: list[str]) -> str:
            contexts.clear()
            return f"A {query}"

    data = cases("a", "b")
    report = run(data, Careless(), tmp_path / "run", matching=Matching.TEXT)
    assert report.summaries[0].score == 1.0


def test_the_second_look_sees_what_the_first_saw(tmp_path: Path) -> None:
    """Scores do not depend on whether results come from the RAG or from the journal."""

    class Odd:
        def __str__(self) -> str:
            return "d-a"

    metadata: Any = [{"document_id": Odd()}]
    result = RetrievalResult(["x"], context_ids=["chunk"], context_metadata=metadata)
    data = [Case(id="a", query="a", reference_context_ids=("d-a",))]
    first = run(data, returning(result), tmp_path / "run", metrics="set_recall")
    again = run(data, returning(result), tmp_path / "run", metrics="set_recall, set_precision")
    assert first.manifest["settings"] == again.manifest["settings"]
    assert first.summaries[0].score == again.summaries[0].score


# --- kinds of case


@pytest.mark.parametrize(
    ("matching", "recall"), [("auto", 1.0), ("id", 1.0), ("text", 0.0), ("document_id", 1.0)]
)
def test_how_chunks_are_matched(tmp_path: Path, matching: str, recall: float) -> None:
    rag = returning(RetrievalResult(["something else"], context_ids=["d-a"]))
    report = run(cases("a"), rag, tmp_path / "run", matching=Matching(matching))
    assert report.summaries[0].score == recall
    used = "document_id" if matching == "auto" else matching
    assert report.manifest["settings"]["matching"] == used


@pytest.mark.parametrize("order", [1, -1])
def test_matching_does_not_depend_on_the_order_of_the_cases(tmp_path: Path, order: int) -> None:
    """More unanswerable cases than a window holds stand before or behind those that tell."""
    answerable = cases(*(f"q{n}" for n in range(5)))
    unanswerable = [Case(id=f"u{n}", query=f"u{n}", reference_context_ids=()) for n in range(520)]
    data = [*answerable, *unanswerable][::order]

    class Own(RAGInterface, families=("retrieval",)):
        def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
            return RetrievalResult([f"text {query}"], context_ids=[f"own-{query}"])

    report, again = (run(data, Own(), tmp_path / "run", metrics="recall@5") for _ in range(2))
    assert report.manifest["settings"]["matching"] == "text"
    assert [report.summaries[0].score, report.summaries[0].measured] == [1.0, 5]
    assert "(0 of 5 retrieved ids are gold ids of some case)" in report.notes[0]
    assert rows(report)["q1"].matches["retrieve"].matches == (
        Match(rank=1, gold=0, by=MatchedBy.TEXT),
    )
    assert report_of(tmp_path / "run").summaries == report.summaries
    assert (again.summaries, again.notes) == (report.summaries, report.notes)


def test_ids_of_one_corpus_are_comparable_though_nothing_was_found(tmp_path: Path) -> None:
    data = [Case(id="c", query="c", reference_context_ids=("d-x",))]
    documents = [Document(id="d-x", text="x"), Document(id="d-c", text="c")]
    report = run(data, NotingRAG(), tmp_path / "run", metrics="recall@5", corpus=lambda: documents)
    assert report.is_comparable
    assert report.summaries[0].score == 0.0


def test_latencies_are_times_that_were_measured(tmp_path: Path) -> None:
    """Nearest rank: of 20 times the 10th, and the 19th."""

    def entry(seconds: float) -> Entry:
        recorded = {"retrieve": retrieved("x", seconds=seconds)}
        return Entry(case=Case(id=str(seconds), query="q"), recorded=recorded)

    report = run([entry(float(n)) for n in range(20, 0, -1)], None, tmp_path / "run")
    (latency,) = report.latencies
    assert (latency.p50, latency.p95, latency.longest, latency.mean) == (10.0, 19.0, 20.0, 10.5)
    (alone,) = run([entry(3.0)], None, tmp_path / "one").latencies
    assert (alone.p50, alone.p95) == (3.0, 3.0)


def test_the_time_of_a_case_in_a_batch_is_not_known(tmp_path: Path) -> None:
    class Batches(RAGInterface, families=("retrieval",)):
        def batch_retrieve(self, queries: list[str], top_k: int | None = None) -> list[list[str]]:
            return [["x"] for _ in queries]

    data = [Case(id=str(number), query="q") for number in range(5)]

    def asked(name: str, size: int) -> Report:
        limits = CallSettings(batch_size=size)
        return run(data, Batches(), tmp_path / name, metrics="retrieval_latency", limits=limits)

    for report in (asked("four", 4), asked("four", 4)):  # a run that is read again knows it, too
        (latency,) = report.latencies
        assert (latency.count, latency.sharing, latency.mean > 0) == (5, 4, True)
        assert (latency.p50, latency.p95, latency.longest) == (None, None, None)
        (figure,) = report.summaries
        assert (figure.measured, figure.skipped) == (1, 4)
        assert figure.reasons == (("cases shared a call: the time of one is not known", 4),)
    (latency,) = asked("one", 1).latencies
    assert latency.sharing == 1
    assert latency.longest is not None


def test_progress_adds_up(tmp_path: Path) -> None:
    shown: dict[str, list[int]] = {}

    def advance(event: Progress) -> None:
        assert event.cases == 4
        sums = shown.setdefault(event.stage, [0, 0, 0])
        for place, number in enumerate((event.done, event.failed, event.reused)):
            sums[place] += number

    data = cases("a", "b", "lost c", "mute d")
    run(data, NotingRAG(), tmp_path / "run", advance=advance)
    assert shown == {"retrieve": [4, 1, 0], "generate": [4, 2, 0], "score": [4, 0, 0]}
    shown.clear()
    run(data, NotingRAG(), tmp_path / "run", advance=advance)
    assert shown == {"retrieve": [4, 1, 4], "generate": [4, 2, 3], "score": [4, 0, 4]}


def test_cutoffs_behind_the_end_of_every_list_are_named(tmp_path: Path) -> None:
    rag = NotingRAG()  # retrieves one chunk
    names = "recall@1, recall@5, precision@3, set_recall, exact_match"
    notes = run(cases("a", "b"), rag, tmp_path, metrics=names).notes
    said = "No case has more than 1 retrieved chunk: recall@5, precision@3 look no further; "
    assert f"{said}precision@3 still divides by its cutoff." in notes


def test_files_of_collected_cases_are_those_of_cases_that_are_read_again(tmp_path: Path) -> None:
    """Also where all were counted again, since no retrieved id is one of the gold's."""
    data = [replace(one, id=f"={one.id}", reference_contexts=None) for one in cases(*"ab")]
    rag = returning(RetrievalResult(["a b"], context_ids=["y"]))
    more: Any = {"validator": build_validator("lexical"), "metrics": "recall@5, exact_match"}
    with CaseFiles() as files:
        report = run(data, rag, tmp_path, collect=files.begin, **more)
        collected = [path.read_bytes() for path in write_reports(report, tmp_path, files)]
    assert not report.is_comparable
    assert collected == [path.read_bytes() for path in write_reports(report, tmp_path)]
    assert collected[1].count(b"\r\n") == 3
