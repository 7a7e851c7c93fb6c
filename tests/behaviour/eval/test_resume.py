"""What a run that is started again asks anew, and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ragbench import (
    CallSettings,
    Case,
    GenerationResult,
    RAGInterface,
    RetrievalResult,
    Selection,
    report_of,
)
from ragbench.errors import DataError, InterruptedRunError, RunError
from tests.behaviour.rags import AsyncRAG, Counts, NotingRAG, cases, counts, report_files, rows, run

QUERIES = ["q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9"]
NOTHING: list[str] = []


class Calls(NamedTuple):
    """The queries that a run asked its RAG about."""

    retrieved: list[str]
    generated: list[str]


NO_CALLS = Calls(retrieved=NOTHING, generated=NOTHING)
ALL_CALLS = Calls(retrieved=QUERIES, generated=QUERIES)
ONLY_RETRIEVAL = Calls(retrieved=QUERIES, generated=NOTHING)
ONLY_GENERATION = Calls(retrieved=NOTHING, generated=QUERIES)


def ask(data: list[Case], out: Path, rag: NotingRAG | None = None, **options: Any) -> Calls:
    """Runs, with a RAG that has not been asked before."""
    rag = rag or NotingRAG()
    run(data, rag, out, **options)
    return Calls(rag.retrieved, rag.generated)


# --- the same run again


def test_a_first_run_asks_everything(tmp_path: Path) -> None:
    assert ask(cases(*QUERIES), tmp_path / "run") == ALL_CALLS


def test_the_same_run_again_asks_nothing(tmp_path: Path) -> None:
    ask(cases(*QUERIES), tmp_path / "run")

    assert ask(cases(*QUERIES), tmp_path / "run") == NO_CALLS


def test_the_same_run_again_counts_what_it_reused(tmp_path: Path) -> None:
    ask(cases(*QUERIES), tmp_path / "run")
    ask(cases(*QUERIES), tmp_path / "run")

    report = report_of(tmp_path / "run")

    assert report.reused_from is not None
    reused = {stage.stage: stage.reused for stage in report.stages}
    assert reused == {"retrieve": 10, "generate": 10}


def test_the_same_run_again_gives_the_same_files_but_for_what_it_reused(tmp_path: Path) -> None:
    ask(cases(*QUERIES), tmp_path / "run")
    before = report_files(tmp_path / "run")

    ask(cases(*QUERIES), tmp_path / "run")

    after = report_files(tmp_path / "run")
    assert after["cases.csv"] == before["cases.csv"]
    assert after["report.json"].replace(b'"reused": 10', b'"reused": 0') == before["report.json"]


# --- a run with another setting


def noting(retriever: object = "one", generator: object = "one") -> NotingRAG:
    """A RAG that says this of its stages; of None it says nothing."""
    rag = NotingRAG()
    rag.retriever = retriever
    rag.generator = generator
    return rag


@pytest.mark.parametrize(
    ("before", "after", "options", "expected"),
    [
        pytest.param(
            noting(), noting(generator="two"), {}, ONLY_GENERATION, id="another generator"
        ),
        pytest.param(
            noting(),
            noting(retriever="two"),
            {},
            ONLY_RETRIEVAL,
            id="another retriever that finds the same",
        ),
        # Retrieval may read the attribute that changed.
        pytest.param(
            noting(retriever=None),
            noting(retriever=None, generator="two"),
            {},
            ALL_CALLS,
            id="another generator, and nothing is known of the retriever",
        ),
        pytest.param(
            noting(retriever=None, generator=None),
            noting(retriever=None, generator=None),
            {"rag_description": {"version": 2}},
            ALL_CALLS,
            id="another version of the whole",
        ),
        pytest.param(noting(), noting(), {"top_k": 3}, ONLY_RETRIEVAL, id="top_k"),
    ],
)
def test_a_change_asks_for_what_depends_on_it(
    tmp_path: Path,
    before: NotingRAG,
    after: NotingRAG,
    options: dict[str, Any],
    expected: Calls,
) -> None:
    ask(cases(*QUERIES), tmp_path / "run", before)

    assert ask(cases(*QUERIES), tmp_path / "run", after, **options) == expected


def test_what_an_earlier_setting_gave_is_reused_when_it_comes_back(tmp_path: Path) -> None:
    ask(cases(*QUERIES), tmp_path / "run")
    ask(cases(*QUERIES), tmp_path / "run", top_k=3)

    assert ask(cases(*QUERIES), tmp_path / "run") == NO_CALLS


def test_what_an_earlier_setting_gave_never_passes_for_the_present_one(tmp_path: Path) -> None:
    ask(cases(*QUERIES), tmp_path)
    rag = NotingRAG()

    with pytest.raises(InterruptedRunError):
        run(cases(*QUERIES), rag, tmp_path, top_k=3, stopped=lambda: len(rag.retrieved) >= 4)

    report = report_of(tmp_path)
    assert counts(report) == {
        "retrieve": Counts(measured=4, skipped=6),
        "generate": Counts(skipped=10),
    }
    assert [summary.measured for summary in report.summaries] == [0, 0]


# --- a run of other cases


def test_a_changed_reference_is_scored_and_not_asked(tmp_path: Path) -> None:
    ask(cases(*QUERIES), tmp_path / "run")
    data = cases(*QUERIES)
    data[4] = replace(data[4], reference="something else")

    calls = ask(data, tmp_path / "run")

    assert calls == NO_CALLS
    exact_match = report_of(tmp_path / "run").summaries[1]
    assert exact_match.score == 0.9


def test_of_more_cases_only_new_ones_are_asked(tmp_path: Path) -> None:
    ask(cases(*QUERIES), tmp_path, selection=Selection(limit=4))

    calls = ask(cases(*QUERIES), tmp_path, selection=Selection(limit=7))

    assert calls.retrieved == ["q4", "q5", "q6"]
    assert calls.generated == ["q4", "q5", "q6"]


def test_of_fewer_cases_none_is_asked_in_whatever_order(tmp_path: Path) -> None:
    ask(cases(*QUERIES), tmp_path)

    calls = ask(cases("q6", "q2"), tmp_path)

    assert calls == NO_CALLS
    assert list(rows(report_of(tmp_path))) == ["q6", "q2"]


# --- failed queries


def test_failed_queries_are_not_asked_again(tmp_path: Path) -> None:
    data = cases("a", "lost b", "mute c")
    ask(data, tmp_path / "run")

    assert ask(data, tmp_path / "run") == NO_CALLS


def test_failed_queries_are_asked_again_on_request(tmp_path: Path) -> None:
    data = cases("a", "lost b", "mute c")
    ask(data, tmp_path / "run")

    calls = ask(data, tmp_path / "run", retry_failed=True)

    assert calls.retrieved == ["lost b"]
    assert calls.generated == ["mute c"]
    assert counts(report_of(tmp_path / "run"))["retrieve"] == Counts(measured=2, failed=1)


# --- a fresh run


def test_fresh_asks_everything(tmp_path: Path) -> None:
    ask(cases(*QUERIES), tmp_path / "run")

    assert ask(cases(*QUERIES), tmp_path / "run", fresh=True) == ALL_CALLS


def test_fresh_leaves_the_users_files(tmp_path: Path) -> None:
    ask(cases(*QUERIES), tmp_path / "run")
    notes = tmp_path / "run" / "notes.txt"
    notes.write_text("the user's", encoding="utf-8")

    ask(cases(*QUERIES), tmp_path / "run", fresh=True)

    assert notes.read_text(encoding="utf-8") == "the user's"


# --- cases that cannot be used


def no_cases() -> Iterator[Case]:
    return iter(())


def broken_cases() -> Iterator[Case]:
    yield from cases("x")
    raise DataError([])


@pytest.mark.parametrize("fresh", [False, True], ids=["continued", "fresh"])
@pytest.mark.parametrize("data", [no_cases, broken_cases])
def test_cases_that_cannot_be_used_leave_the_earlier_run(
    tmp_path: Path, data: Callable[[], Iterator[Case]], fresh: bool
) -> None:
    ask(cases(*QUERIES), tmp_path / "run")
    before = report_files(tmp_path / "run")

    with pytest.raises(DataError):
        run(data(), NotingRAG(), tmp_path / "run", fresh=fresh)

    assert report_files(tmp_path / "run") == before
    assert ask(cases(*QUERIES), tmp_path / "run") == NO_CALLS


@pytest.mark.parametrize("fresh", [False, True], ids=["continued", "fresh"])
def test_without_cases_no_folder_is_left_behind(tmp_path: Path, fresh: bool) -> None:
    with pytest.raises(DataError, match="there are no cases"):
        run([], NotingRAG(), tmp_path / "run", fresh=fresh)

    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_stopped_before_its_cases_leaves_no_folder_behind(tmp_path: Path) -> None:
    rag = NotingRAG()

    with pytest.raises(InterruptedRunError, match="nothing was run"):
        run(cases("a"), rag, tmp_path / "run", stopped=lambda: True)

    assert rag.retrieved == []
    assert list(tmp_path.iterdir()) == []


# --- a run that was stopped


class Batching(RAGInterface):
    """Answers whole batches; notes which queries it has answered, not which it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = NotingRAG()
        self.answered: list[str] = []

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        results = [self.plain.retrieve_with_metadata(query) for query in queries]
        self.answered += [f"retrieve {query}" for query in queries]
        return results

    def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult]:
        results = [self.plain.generate_with_metadata(query, []) for query in queries]
        self.answered += [f"generate {query}" for query in queries]
        return results


@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize("answers", range(0, 18, 3))
def test_a_stopped_run_keeps_what_is_finished_and_ends_like_an_undisturbed_one(
    tmp_path: Path, answers: int, batch_size: int
) -> None:
    data = cases("q0", "q1", "q2", "q3", "lost x", "mute y", "q4", "q5", "q6", "q7")
    limits = CallSettings(batch_size=batch_size)
    run(data, Batching(), tmp_path / "whole", limits=limits)
    stopped = Batching()
    continuing = Batching()

    with pytest.raises(InterruptedRunError):
        run(
            data,
            stopped,
            tmp_path / "run",
            limits=limits,
            stopped=lambda: len(stopped.answered) >= answers,
        )
    run(data, continuing, tmp_path / "run", limits=limits)

    answered_twice = set(stopped.answered) & set(continuing.answered)
    assert answered_twice == set()
    assert report_files(tmp_path / "run") == report_files(tmp_path / "whole")


def test_a_stopped_async_run_continues(tmp_path: Path) -> None:
    stopped = AsyncRAG()
    continuing = AsyncRAG()

    with pytest.raises(InterruptedRunError):
        run(
            cases(*QUERIES),
            stopped,
            tmp_path,
            limits=CallSettings(concurrency=2),
            stopped=lambda: len(stopped.plain.retrieved) >= 5,
        )
    report = run(cases(*QUERIES), continuing, tmp_path)

    assert sorted(stopped.plain.retrieved + continuing.plain.retrieved) == QUERIES
    assert counts(report) == {"retrieve": Counts(measured=10), "generate": Counts(measured=10)}


def test_what_an_interrupted_run_has_scored_is_reported(tmp_path: Path) -> None:
    # More than a window of 512, of which the first is scored whole.
    data = cases(*[f"q{number}" for number in range(600)])
    rag = NotingRAG()

    with pytest.raises(InterruptedRunError):
        run(data, rag, tmp_path / "run", stopped=lambda: len(rag.retrieved) >= 550)

    report = report_of(tmp_path / "run")
    assert counts(report) == {
        "retrieve": Counts(measured=550, skipped=50),
        "generate": Counts(measured=512, skipped=88),
    }
    assert [summary.measured for summary in report.summaries] == [512, 512]
    assert report.summaries[0].reasons == (("not scored yet: the run was interrupted", 88),)


# --- a run whose first calls all fail


LOST = ["lost 0", "lost 1", "lost 2", "lost 3", "lost 4"]
LOST_AND_FOUND = cases(*LOST, "q0", "q1", "q2", "q3", "q4")
ONE_BY_ONE = CallSettings(give_up_after=3, concurrency=1)


def retrieved_queries(rag: NotingRAG | AsyncRAG) -> list[str]:
    noting = rag.plain if isinstance(rag, AsyncRAG) else rag
    return noting.retrieved


@pytest.mark.parametrize("kind", [NotingRAG, AsyncRAG])
def test_a_run_whose_first_calls_all_fail_asks_no_more(
    tmp_path: Path, kind: Callable[[], Any]
) -> None:
    rag = kind()

    message = r"retrieve failed for all of the first 3 cases.*nothing for"
    with pytest.raises(RunError, match=message):
        run(LOST_AND_FOUND, rag, tmp_path, limits=ONE_BY_ONE)

    assert retrieved_queries(rag) == LOST[:3]


@pytest.mark.parametrize("kind", [NotingRAG, AsyncRAG])
def test_a_run_that_gave_up_goes_on_where_it_may_fail_more(
    tmp_path: Path, kind: Callable[[], Any]
) -> None:
    with pytest.raises(RunError):
        run(LOST_AND_FOUND, kind(), tmp_path, limits=CallSettings(give_up_after=3))
    rag = kind()

    report = run(LOST_AND_FOUND, rag, tmp_path, limits=CallSettings(give_up_after=0))

    assert counts(report)["retrieve"] == Counts(measured=5, failed=5)
    assert [row.id for row in report.rows() if row.failures] == LOST
    # What had failed is not asked again unless that is wanted.
    assert LOST[0] not in retrieved_queries(rag)


def test_failures_after_an_answer_end_no_run(tmp_path: Path) -> None:
    questions = cases("q", *LOST)

    report = run(questions, NotingRAG(), tmp_path, limits=CallSettings(give_up_after=3))

    assert counts(report)["retrieve"] == Counts(measured=1, failed=5)
