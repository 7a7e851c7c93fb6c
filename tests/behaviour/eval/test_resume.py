"""What a run that is started again asks anew, and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from ragbench.views.write import write_reports
from tests.behaviour.rags import AsyncRAG, NotingRAG, cases, counts, rows, run

QUERIES = [f"q{n}" for n in range(10)]


def asked(
    data: list[Case], out: Path, rag: Any = None, **options: Any
) -> tuple[list[str], list[str]]:
    """Runs and tells which queries were retrieved and generated."""
    rag = rag or NotingRAG()
    run(data, rag, out, **options)
    return rag.retrieved, rag.generated


def written(out: Path) -> dict[str, bytes]:
    """The files of a run's report that must repeat byte for byte."""
    write_reports(report_of(out), out)
    return {name: (out / name).read_bytes() for name in ("report.json", "report.md", "cases.csv")}


def test_the_same_run_again_asks_nothing(tmp_path: Path) -> None:
    assert asked(cases(*QUERIES), tmp_path / "run") == (QUERIES, QUERIES)
    before = written(tmp_path / "run")
    assert asked(cases(*QUERIES), tmp_path / "run") == ([], [])
    report = report_of(tmp_path / "run")
    assert [(stage.stage, stage.reused) for stage in report.stages] == [
        (stage, 10) for stage in ("retrieve", "generate")
    ]
    assert report.reused_from is not None
    after = written(tmp_path / "run")
    assert after["cases.csv"] == before["cases.csv"]
    assert after["report.json"].replace(b'"reused": 10', b'"reused": 0') == before["report.json"]


UNSAID = {"retriever": None, "generator": None}


@pytest.mark.parametrize(
    ("first", "second", "options", "expected"),
    [
        ({}, {"generator": 2}, {}, ([], QUERIES)),
        ({}, {"retriever": "two"}, {}, (QUERIES, [])),  # it finds the same
        # Nobody says that retrieval does not read the attribute that changed.
        ({"retriever": None}, {"retriever": None, "generator": 2}, {}, (QUERIES, QUERIES)),
        (UNSAID, UNSAID, {"rag_description": {"version": 2}}, (QUERIES, QUERIES)),
        ({}, {}, {"top_k": 3}, (QUERIES, [])),
    ],
)
def test_what_changed_asks_for_what_depends_on_it(
    tmp_path: Path,
    first: dict[str, Any],
    second: dict[str, Any],
    options: dict[str, Any],
    expected: object,
) -> None:
    one, other, again = NotingRAG(), NotingRAG(), NotingRAG()
    for rag, settings in ((one, first), (other, second), (again, first)):
        vars(rag).update(settings)
    asked(cases(*QUERIES), tmp_path / "run", one)
    assert asked(cases(*QUERIES), tmp_path / "run", other, **options) == expected
    if "top_k" in options:  # what the first setting gave is still there
        assert asked(cases(*QUERIES), tmp_path / "run", again) == ([], [])


def test_a_changed_reference_is_scored_and_not_asked(tmp_path: Path) -> None:
    asked(cases(*QUERIES), tmp_path / "run")
    data = cases(*QUERIES)
    data[4] = replace(data[4], reference="something else")
    assert asked(data, tmp_path / "run") == ([], [])
    report = report_of(tmp_path / "run")
    assert report.summaries[1].score == 0.9


def test_of_other_cases_only_new_ones_are_asked_in_whatever_order(tmp_path: Path) -> None:
    for limit, new in ((4, QUERIES[:4]), (7, QUERIES[4:7])):
        assert asked(cases(*QUERIES), tmp_path, selection=Selection(limit=limit)) == (new, new)
    assert asked(cases("q6", "q2"), tmp_path) == ([], [])
    assert list(rows(report_of(tmp_path))) == ["q6", "q2"]


def test_failed_queries_are_asked_again_only_on_request(tmp_path: Path) -> None:
    data = cases("a", "lost b", "mute c")
    asked(data, tmp_path / "run")
    assert asked(data, tmp_path / "run") == ([], [])
    again = NotingRAG()
    report = run(data, again, tmp_path / "run", retry_failed=True)
    assert (again.retrieved, again.generated) == (["lost b"], ["mute c"])
    assert counts(report)["retrieve"] == (2, 0, 0, 1)


def test_fresh_asks_everything(tmp_path: Path) -> None:
    asked(cases(*QUERIES), tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("the user's", encoding="utf-8")
    assert asked(cases(*QUERIES), tmp_path / "run", fresh=True) == (QUERIES, QUERIES)
    assert (tmp_path / "run" / "notes.txt").exists()


def broken_cases() -> Iterator[Case]:
    yield from cases("x")
    raise DataError([])


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("data", [list[Case], broken_cases])
def test_cases_that_cannot_be_used_leave_the_earlier_run(
    tmp_path: Path, data: Callable[[], Iterable[Case]], fresh: bool
) -> None:
    asked(cases(*QUERIES), tmp_path / "run")
    before = written(tmp_path / "run")
    with pytest.raises(DataError):
        run(data(), NotingRAG(), tmp_path / "run", fresh=fresh)
    assert written(tmp_path / "run") == before
    assert asked(cases(*QUERIES), tmp_path / "run") == ([], [])


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        ([], {}, DataError, "there are no cases"),
        ([], {"fresh": True}, DataError, "there are no cases"),
        (cases("a"), {"stopped": lambda: True}, InterruptedRunError, "nothing was run"),
    ],
)
def test_a_new_folder_whose_cases_never_came_is_not_left_behind(
    tmp_path: Path, data: list[Case], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    rag = NotingRAG()
    with pytest.raises(error, match=message):
        run(data, rag, tmp_path / "run", **options)
    assert rag.retrieved == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("batch", [1, 3, 64])
@pytest.mark.parametrize("after", range(0, 18, 3))
def test_a_stopped_run_keeps_what_is_finished_and_ends_like_an_undisturbed_one(
    tmp_path: Path, after: int, batch: int
) -> None:
    data = cases(*QUERIES[:4], "lost x", "mute y", *QUERIES[4:8])
    limits = CallSettings(batch_size=batch)
    run(data, Batching(), tmp_path / "whole", limits=limits)
    first, second = Batching(), Batching()
    done, out = first.answered, tmp_path / "run"
    with pytest.raises(InterruptedRunError):
        run(data, first, out, limits=limits, stopped=lambda: after <= len(done))
    run(data, second, tmp_path / "run", limits=limits)
    assert not set(first.answered) & set(second.answered)
    assert written(tmp_path / "run") == written(tmp_path / "whole")


class Batching(RAGInterface):
    """Answers whole batches; notes what it has answered, not what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = NotingRAG()
        self.answered: list[str] = []

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        found = [self.plain.retrieve_with_metadata(query) for query in queries]
        self.answered += [f"retrieve {query}" for query in queries]
        return found

    def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult]:
        found = [self.plain.generate_with_metadata(query, []) for query in queries]
        self.answered += [f"generate {query}" for query in queries]
        return found


def test_a_stopped_async_run_continues(tmp_path: Path) -> None:
    first, second, limits = AsyncRAG(), AsyncRAG(), CallSettings(concurrency=2)
    asked = first.plain.retrieved
    with pytest.raises(InterruptedRunError):
        run(cases(*QUERIES), first, tmp_path, limits=limits, stopped=lambda: len(asked) >= 5)
    report = run(cases(*QUERIES), second, tmp_path)
    assert sorted(asked + second.plain.retrieved) == QUERIES
    assert counts(report) == {"retrieve": (10, 0, 0, 0), "generate": (10, 0, 0, 0)}


def test_what_an_interrupted_run_has_scored_is_reported(tmp_path: Path) -> None:
    data = cases(*[f"q{n}" for n in range(600)])  # more than one window
    rag = NotingRAG()
    with pytest.raises(InterruptedRunError):
        run(data, rag, tmp_path / "run", stopped=lambda: len(rag.retrieved) >= 550)
    report = report_of(tmp_path / "run")
    assert counts(report) == {"retrieve": (550, 0, 50, 0), "generate": (512, 0, 88, 0)}
    assert [summary.measured for summary in report.summaries] == [512, 512]
    assert report.summaries[0].reasons == (("not scored yet: the run was interrupted", 88),)


def test_what_an_earlier_setting_gave_never_passes_for_the_present_one(tmp_path: Path) -> None:
    asked(cases(*QUERIES), tmp_path)
    rag = NotingRAG()
    with pytest.raises(InterruptedRunError):
        run(cases(*QUERIES), rag, tmp_path, top_k=3, stopped=lambda: len(rag.retrieved) >= 4)
    report = report_of(tmp_path)
    assert counts(report) == {"retrieve": (4, 0, 6, 0), "generate": (0, 0, 10, 0)}
    assert all(summary.measured == 0 for summary in report.summaries)


@pytest.mark.parametrize("kind", [NotingRAG, AsyncRAG])
def test_a_run_whose_first_calls_all_fail_asks_no_more_and_goes_on_later(
    tmp_path: Path, kind: Callable[[], Any]
) -> None:
    lost = [f"lost {n}" for n in range(5)]
    questions = cases(*lost, *(f"q{n}" for n in range(5)))
    limits = CallSettings(give_up_after=3, concurrency=1)
    rag, said = kind(), r"retrieve failed for all of the first 3 cases.*nothing for"
    with pytest.raises(RunError, match=said):
        run(questions, rag, tmp_path, limits=limits)
    asked = getattr(rag, "plain", rag).retrieved
    assert asked == lost[:3]
    report = run(questions, kind(), tmp_path, limits=replace(limits, give_up_after=0))
    assert counts(report)["retrieve"] == (5, 0, 0, 5)
    # What had failed is not asked again unless that is wanted.
    assert [row.id for row in report.rows() if row.failures] == lost


def test_failures_after_an_answer_end_no_run(tmp_path: Path) -> None:
    questions = cases("q", *(f"lost {n}" for n in range(9)))
    report = run(questions, NotingRAG(), tmp_path, limits=CallSettings(give_up_after=3))
    assert counts(report)["retrieve"] == (1, 0, 0, 9)
