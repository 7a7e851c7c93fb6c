"""What a run gives for RAGs and cases of every kind."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

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
    Counts,
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
    """A RAG whose methods return these values, whatever they are."""

    class Returning(RAGInterface):
        def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> Any:
            return retrieval

        def generate_with_metadata(self, query: str, contexts: list[str]) -> Any:
            return generation

    return Returning()


# --- kinds of RAG


@pytest.fixture(name="noted")
def rag_that_answered_two_cases() -> NotingRAG:
    return NotingRAG()


@pytest.fixture(name="report_of_two")
def report_of_two_cases(tmp_path: Path, noted: NotingRAG) -> Report:
    return run(cases("a", "b"), noted, tmp_path / "run")


def test_every_case_goes_through_every_stage(report_of_two: Report) -> None:
    assert counts(report_of_two) == {"retrieve": Counts(measured=2), "generate": Counts(measured=2)}


@pytest.mark.usefixtures("report_of_two")
def test_generation_gets_the_contexts_of_its_query(noted: NotingRAG) -> None:
    assert noted.contexts == {"a": ["text a"], "b": ["text b"]}


def test_every_case_is_scored_by_every_metric(report_of_two: Report) -> None:
    recall, exact_match = report_of_two.summaries

    assert recall.metric.name == "set_recall"
    assert (recall.score, recall.measured) == (1.0, 2)
    assert exact_match.metric.name == "exact_match"
    assert (exact_match.score, exact_match.measured) == (1.0, 2)


def test_the_row_of_a_case_has_what_the_rag_gave(report_of_two: Report) -> None:
    row = rows(report_of_two)["a"]

    assert row.retrieved_ids == ("d-a",)
    assert row.response == "A a"
    assert row.failures == ()


def test_coroutines_overlap(tmp_path: Path) -> None:
    class Meeting(AsyncRAGInterface, families=("generation",)):
        """Answers when three calls are there at the same time."""

        barrier: asyncio.Barrier | None = None

        async def generate(self, query: str, contexts: list[str]) -> str:
            self.barrier = self.barrier or asyncio.Barrier(3)
            await asyncio.wait_for(self.barrier.wait(), 30)
            return "met"

    report = run(cases("a", "b", "c"), Meeting(), tmp_path, limits=CallSettings(concurrency=3))

    assert counts(report)["generate"] == Counts(measured=3)


def test_a_rag_without_ids_is_matched_by_text(tmp_path: Path) -> None:
    report = run(cases("a", "b"), OnlyRetrieves(), tmp_path / "run")

    assert report.summaries[0].score == 1.0
    assert report.manifest["settings"]["matching"] == "text"
    assert "by their text" in "\n".join(report.notes)
    assert rows(report)["a"].retrieved_ids is None


def test_a_rag_that_only_retrieves_is_measured_by_that(tmp_path: Path) -> None:
    report = run(cases("a"), OnlyRetrieves(), tmp_path / "run")

    assert counts(report) == {"retrieve": Counts(measured=1), "generate": Counts(skipped=1)}
    recall, exact_match = report.summaries
    assert recall.score == 1.0
    assert exact_match.score is None
    assert exact_match.reasons == (("the RAG does not generate", 1),)


def test_a_rag_that_only_generates_is_measured_by_that(tmp_path: Path) -> None:
    report = run(cases("a"), OnlyGenerates(), tmp_path / "run")

    assert counts(report) == {"retrieve": Counts(skipped=1), "generate": Counts(measured=1)}
    recall, exact_match = report.summaries
    assert recall.score is None
    assert recall.reasons == (("the RAG does not retrieve", 1),)
    assert exact_match.score == 1.0


def test_a_rag_that_only_generates_gets_the_reference_contexts(tmp_path: Path) -> None:
    rag = OnlyGenerates()

    run(cases("a"), rag, tmp_path / "run")

    assert rag.calls == [("a", ["text a"])]


# --- inside of a running event loop, as in a notebook


def test_a_rag_without_coroutines_runs_inside_of_an_event_loop(tmp_path: Path) -> None:
    async def notebook() -> Report:
        return run(cases("a"), NotingRAG(), tmp_path / "run")

    report = asyncio.run(notebook())

    assert counts(report)["generate"] == Counts(measured=1)


def test_a_rag_of_coroutines_runs_inside_of_an_event_loop(tmp_path: Path) -> None:
    async def notebook() -> Report:
        return run(cases("a"), AsyncRAG(), tmp_path / "run")

    report = asyncio.run(notebook())

    assert counts(report)["generate"] == Counts(measured=1)


# --- failures


FAILING_CASES = cases("a", "lost b", "mute c")


def test_a_failed_retrieval_is_never_generated(tmp_path: Path) -> None:
    rag = NotingRAG()

    report = run(FAILING_CASES, rag, tmp_path / "run")

    assert rag.generated == ["a", "mute c"]
    assert counts(report) == {
        "retrieve": Counts(measured=2, failed=1),
        "generate": Counts(measured=1, failed=2),
    }


def test_a_failed_generation_leaves_its_retrieval_measured(tmp_path: Path) -> None:
    report = run(FAILING_CASES, NotingRAG(), tmp_path / "run")

    recall, exact_match = report.summaries
    assert recall.measured == 2
    assert recall.failed == 1
    assert recall.score == 1.0
    assert exact_match.measured == 1
    assert exact_match.failed == 2
    assert exact_match.score == 1.0


def test_a_failure_is_grouped_with_its_error_and_an_example(tmp_path: Path) -> None:
    report = run(FAILING_CASES, NotingRAG(), tmp_path / "run")

    (group,) = [group for group in report.failures if group.stage == "retrieve"]
    assert group.type == "LookupError"
    assert group.message == "nothing for lost b"
    assert group.count == 1
    assert group.examples == ("lost b",)


def test_a_failed_retrieval_fails_every_stage_and_metric_of_its_case(tmp_path: Path) -> None:
    report = run(FAILING_CASES, NotingRAG(), tmp_path / "run")

    row = rows(report)["lost b"]
    assert dict(row.stages) == {"retrieve": Status.FAILED, "generate": Status.FAILED}
    assert [cell.status for cell in row.cells] == [Status.FAILED, Status.FAILED]
    assert len(row.failures) == 1


@pytest.mark.parametrize(
    ("retrieval", "message"),
    [
        pytest.param(
            None, "must return a RetrievalResult or a list of strings, not None", id="None"
        ),
        pytest.param(
            RetrievalResult(["a"], scores=[float("nan")]), "must be a finite number", id="a score"
        ),
        pytest.param(
            RetrievalResult(["a"], context_metadata=[cast("Any", None)]),
            "must be a mapping",
            id="metadata",
        ),
        pytest.param(
            RetrievalResult(["\ud83d"]),
            "not valid Unicode: half of a surrogate pair",
            id="half a character in a text",
        ),
        pytest.param(
            RetrievalResult(["a"], context_ids=["\ud83d"]),
            "not valid Unicode",
            id="half a character in an id",
        ),
    ],
)
def test_a_retrieval_that_cannot_be_fails_its_case(
    tmp_path: Path, retrieval: Any, message: str
) -> None:
    report = run(cases("a"), returning(retrieval), tmp_path / "run")

    assert counts(report) == {"retrieve": Counts(failed=1), "generate": Counts(failed=1)}
    assert message in report.failures[0].message


@pytest.mark.parametrize(
    ("generation", "message"),
    [
        pytest.param(None, "must return a GenerationResult or a string, not None", id="None"),
        pytest.param(
            GenerationResult("so \ud83d"),
            "not valid Unicode: half of a surrogate pair",
            id="half a character",
        ),
        pytest.param(
            GenerationResult("a", multi_responses=["\udc00"]),
            "not valid Unicode",
            id="half a character in one of several answers",
        ),
    ],
)
def test_an_answer_that_cannot_be_fails_its_case(
    tmp_path: Path, generation: Any, message: str
) -> None:
    report = run(cases("a"), returning(["c"], generation), tmp_path / "run")

    assert counts(report) == {"retrieve": Counts(measured=1), "generate": Counts(failed=1)}
    assert message in report.failures[0].message


def test_a_batch_that_names_its_failures_is_checked_like_any_other(tmp_path: Path) -> None:
    class Partial(RAGInterface, families=("retrieval",)):
        """Answers a query, fails with the next one, and gives nonsense for the last."""

        def batch_retrieve_with_metadata(
            self, queries: list[str], top_k: int | None = None
        ) -> list[RetrievalResult]:
            raise PartialBatchError([["plain"], ValueError("no"), 5], "Partial.batch")

    report = run(cases("a", "b", "c"), Partial(), tmp_path / "run")

    assert counts(report)["retrieve"] == Counts(measured=1, failed=2)
    assert sorted(group.type for group in report.failures) == ["InterfaceError", "ValueError"]


class AnswersOneAtATime(RAGInterface):
    """Fails for a batch of several queries: in retrieval with an error, then with one answer."""

    def batch_retrieve(self, queries: list[str], top_k: int | None = None) -> list[list[str]]:
        if len(queries) > 1:
            raise KeyError("x" * 1_000)
        return [["text"]]

    def batch_generate(self, queries: list[str], contexts_list: list[list[str]]) -> list[str]:
        return ["A"]


def test_calls_that_fail_are_made_again_in_parts(tmp_path: Path) -> None:
    data = cases("a", "b", "c", "d")

    with pytest.warns(RagbenchWarning):
        report = run(data, AnswersOneAtATime(), tmp_path, limits=CallSettings(batch_size=4))

    assert counts(report) == {"retrieve": Counts(measured=4), "generate": Counts(measured=4)}


def test_calls_that_are_made_again_are_warned_of_once_per_stage(tmp_path: Path) -> None:
    data = cases("a", "b", "c", "d")

    with pytest.warns(RagbenchWarning) as caught:
        run(data, AnswersOneAtATime(), tmp_path, limits=CallSettings(batch_size=4))

    retrieval, generation = [str(warning.message) for warning in caught]
    assert retrieval.startswith("retrieve: a call for 4 cases failed (KeyError: 'xxx")
    assert len(retrieval) < 500
    assert generation.startswith("generate: a call for 4 cases failed (InterfaceError: ")


def test_a_query_that_hangs_fails_by_its_time_limit(tmp_path: Path) -> None:
    release = threading.Event()

    class Hanging(RAGInterface, families=("generation",)):
        def generate(self, query: str, contexts: list[str]) -> str:
            if query == "slow":
                release.wait(30)
            return query

    report = run(cases("a", "slow"), Hanging(), tmp_path / "run", limits=CallSettings(timeout=0.05))
    release.set()

    assert counts(report)["generate"] == Counts(measured=1, failed=1)
    assert report.failures[0].type == "StageTimeoutError"


def test_a_coroutine_that_catches_its_cancellation_fails_by_its_time_limit(tmp_path: Path) -> None:
    class Stubborn(AsyncRAGInterface, families=("generation",)):
        async def generate(self, query: str, contexts: list[str]) -> str:
            if query == "slow":
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
                await asyncio.Event().wait()  # until the run ends the loop
            return query

    report = run(
        cases("a", "slow"), Stubborn(), tmp_path / "run", limits=CallSettings(timeout=0.05)
    )

    assert counts(report)["generate"] == Counts(measured=1, failed=1)
    assert report.failures[0].type == "StageTimeoutError"


# --- kinds of result


def test_a_rag_that_changes_its_contexts_changes_no_score(tmp_path: Path) -> None:
    class Careless(RAGInterface):
        """Uses one list for all queries, and empties it."""

        def __init__(self) -> None:
            super().__init__()
            self.contexts: list[str] = []

        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            self.contexts[:] = [f"text {query}"]
            return self.contexts

        def generate(self, query: str, contexts: list[str]) -> str:
            contexts.clear()
            return f"A {query}"

    report = run(cases("a", "b"), Careless(), tmp_path / "run", matching=Matching.TEXT)

    assert report.summaries[0].score == 1.0


def test_results_of_the_journal_score_as_those_of_the_rag(tmp_path: Path) -> None:
    class DocumentId:
        """A value that the journal stores as a text."""

        def __str__(self) -> str:
            return "d-a"

    metadata: Any = [{"document_id": DocumentId()}]
    result = RetrievalResult(["x"], context_ids=["chunk"], context_metadata=metadata)
    data = [Case(id="a", query="a", reference_context_ids=("d-a",))]

    of_rag = run(data, returning(result), tmp_path / "run", metrics="set_recall")
    of_journal = run(data, returning(result), tmp_path / "run", metrics="set_recall, set_precision")

    assert of_journal.manifest["settings"] == of_rag.manifest["settings"]
    assert of_journal.summaries[0].score == of_rag.summaries[0].score


# --- how chunks are matched with the gold


@pytest.mark.parametrize(
    ("matching", "used", "recall"),
    [
        ("auto", "document_id", 1.0),
        ("id", "id", 1.0),
        ("text", "text", 0.0),
        ("document_id", "document_id", 1.0),
    ],
)
def test_how_chunks_are_matched(tmp_path: Path, matching: str, used: str, recall: float) -> None:
    rag = returning(RetrievalResult(["something else"], context_ids=["d-a"]))

    report = run(cases("a"), rag, tmp_path / "run", matching=Matching(matching))

    assert report.summaries[0].score == recall
    assert report.manifest["settings"]["matching"] == used


class OwnIds(RAGInterface, families=("retrieval",)):
    """Finds the right texts under ids that the gold does not know."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        return RetrievalResult([f"text {query}"], context_ids=[f"own-{query}"])


ANSWERABLE = cases("q0", "q1", "q2", "q3", "q4")
# More than a window of 512, none of which says whether ids can be compared.
UNANSWERABLE = [
    Case(id=f"u{number}", query=f"u{number}", reference_context_ids=()) for number in range(520)
]


@pytest.mark.parametrize(
    "data",
    [ANSWERABLE + UNANSWERABLE, UNANSWERABLE + ANSWERABLE],
    ids=["answerable first", "answerable last"],
)
def test_matching_does_not_depend_on_the_order_of_the_cases(
    tmp_path: Path, data: list[Case]
) -> None:
    report = run(data, OwnIds(), tmp_path / "run", metrics="recall@5")

    assert report.manifest["settings"]["matching"] == "text"
    assert report.summaries[0].score == 1.0
    assert report.summaries[0].measured == 5
    assert "(0 of 5 retrieved ids are gold ids of some case)" in report.notes[0]
    assert rows(report)["q1"].matches["retrieve"].matches == (
        Match(rank=1, gold=0, by=MatchedBy.TEXT),
    )
    # A run that is read, or continued, matches alike.
    continued = run(data, OwnIds(), tmp_path / "run", metrics="recall@5")
    assert report_of(tmp_path / "run").summaries == report.summaries
    assert continued.summaries == report.summaries
    assert continued.notes == report.notes


def test_ids_of_one_corpus_are_comparable_though_nothing_was_found(tmp_path: Path) -> None:
    data = [Case(id="c", query="c", reference_context_ids=("d-x",))]
    documents = [Document(id="d-x", text="x"), Document(id="d-c", text="c")]

    report = run(data, NotingRAG(), tmp_path / "run", metrics="recall@5", corpus=lambda: documents)

    assert report.is_comparable
    assert report.summaries[0].score == 0.0


# --- times


def recorded_retrieval(seconds: float) -> Entry:
    recorded = {"retrieve": retrieved("x", seconds=seconds)}
    return Entry(case=Case(id=str(seconds), query="q"), recorded=recorded)


def test_latencies_are_times_that_were_measured(tmp_path: Path) -> None:
    """By the nearest rank: of 20 times the 10th, and the 19th."""
    entries = [recorded_retrieval(float(seconds)) for seconds in range(20, 0, -1)]

    (latency,) = run(entries, None, tmp_path / "run").latencies

    assert latency.p50 == 10.0
    assert latency.p95 == 19.0
    assert latency.longest == 20.0
    assert latency.mean == 10.5


def test_a_single_time_is_every_quantile(tmp_path: Path) -> None:
    (latency,) = run([recorded_retrieval(3.0)], None, tmp_path / "run").latencies

    assert latency.p50 == 3.0
    assert latency.p95 == 3.0


class Batches(RAGInterface, families=("retrieval",)):
    def batch_retrieve(self, queries: list[str], top_k: int | None = None) -> list[list[str]]:
        return [["x"] for _ in queries]


def run_in_batches(out: Path, batch_size: int) -> Report:
    """Five cases: with a size of four, a batch of four and one alone."""
    data = [Case(id=str(number), query="q") for number in range(5)]
    limits = CallSettings(batch_size=batch_size)
    return run(data, Batches(), out, metrics="retrieval_latency", limits=limits)


@pytest.fixture(name="batched", params=["asked", "read again"])
def report_of_batches(request: pytest.FixtureRequest, tmp_path: Path) -> Report:
    """Of a batch of four cases and one alone."""
    report = run_in_batches(tmp_path / "run", batch_size=4)
    if request.param == "read again":
        report = run_in_batches(tmp_path / "run", batch_size=4)
    return report


def test_of_cases_that_share_a_call_a_mean_time_is_reported_and_no_quantile(
    batched: Report,
) -> None:
    (latency,) = batched.latencies

    assert latency.count == 5
    assert latency.sharing == 4
    assert latency.mean > 0
    assert latency.p50 is None
    assert latency.p95 is None
    assert latency.longest is None


def test_the_time_of_a_case_that_shared_a_call_is_not_measured(batched: Report) -> None:
    (summary,) = batched.summaries

    assert summary.measured == 1
    assert summary.skipped == 4
    assert summary.reasons == (("cases shared a call: the time of one is not known", 4),)


def test_the_time_of_a_call_for_one_case_is_measured(tmp_path: Path) -> None:
    (latency,) = run_in_batches(tmp_path / "run", batch_size=1).latencies

    assert latency.sharing == 1
    assert latency.longest is not None


# --- progress, notes and files


class Progressed(NamedTuple):
    """How many cases of a stage were done, and of those how many failed or were reused."""

    done: int = 0
    failed: int = 0
    reused: int = 0


class Sums:
    """Adds up the events of each stage."""

    def __init__(self) -> None:
        self.by_stage: dict[str, Progressed] = {}

    def advance(self, event: Progress) -> None:
        assert event.cases == 4
        so_far = self.by_stage.get(event.stage, Progressed())
        self.by_stage[event.stage] = Progressed(
            done=so_far.done + event.done,
            failed=so_far.failed + event.failed,
            reused=so_far.reused + event.reused,
        )


def test_progress_adds_up_to_the_cases(tmp_path: Path) -> None:
    sums = Sums()

    run(cases("a", "b", "lost c", "mute d"), NotingRAG(), tmp_path, advance=sums.advance)

    assert sums.by_stage == {
        "retrieve": Progressed(done=4, failed=1),
        "generate": Progressed(done=4, failed=2),
        "score": Progressed(done=4),
    }


def test_progress_of_a_run_again_counts_what_is_reused(tmp_path: Path) -> None:
    data = cases("a", "b", "lost c", "mute d")
    run(data, NotingRAG(), tmp_path)
    sums = Sums()

    run(data, NotingRAG(), tmp_path, advance=sums.advance)

    assert sums.by_stage == {
        "retrieve": Progressed(done=4, failed=1, reused=4),
        "generate": Progressed(done=4, failed=2, reused=3),
        "score": Progressed(done=4, reused=4),
    }


def test_cutoffs_behind_the_end_of_every_list_are_named(tmp_path: Path) -> None:
    metrics = "recall@1, recall@5, precision@3, set_recall, exact_match"

    report = run(cases("a", "b"), NotingRAG(), tmp_path, metrics=metrics)

    assert (
        "No case has more than 1 retrieved chunk: recall@5, precision@3 look no further; "
        "precision@3 still divides by its cutoff."
    ) in report.notes


def test_files_of_collected_cases_are_those_of_cases_that_are_read_again(tmp_path: Path) -> None:
    """Also where all were counted again, since no retrieved id is one of the gold's."""
    data: list[Case] = []
    for case in cases("a", "b"):
        data.append(replace(case, id=f"={case.id}", reference_contexts=None))
    rag = returning(RetrievalResult(["a b"], context_ids=["y"]))
    validator = build_validator("lexical")

    with CaseFiles() as files:
        report = run(
            data,
            rag,
            tmp_path,
            collect=files.begin,
            validator=validator,
            metrics="recall@5, exact_match",
        )
        collected = [path.read_bytes() for path in write_reports(report, tmp_path, files)]
    read_again = [path.read_bytes() for path in write_reports(report, tmp_path)]

    assert not report.is_comparable
    assert collected == read_again
    # A header and two cases.
    assert collected[1].count(b"\n") == 3
