"""What ragbench wrote is read back as it was written; anything else is refused with a reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Case, RAGInterface, evaluate, read_run
from ragbench.core.outcome import Cell, Status
from ragbench.core.run_scores import RunFacts, RunScores, ScoredCase
from ragbench.errors import RunMismatchError
from ragbench.gate.baseline_file import baseline_bytes, baseline_from, write_baseline
from ragbench.gate.main_runs import baseline_of
from ragbench.views.write import write_reports
from tests.unit.gate.builders import column, run_of

cells = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(Cell.measured),
    st.sampled_from([Status.SKIPPED, Status.ABSTAINED, Status.FAILED]).map(
        lambda status: Cell(status=status)
    ),
)


@st.composite
def runs(draw: st.DrawFn) -> RunScores:
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    ids = draw(st.lists(texts, unique=True, max_size=6))
    cases = tuple(
        ScoredCase(
            id=id_,
            fingerprint="f",
            scores={"m": draw(cells), "n": draw(cells)},
            cluster=draw(st.none() | texts),
            tags=tuple(sorted(draw(st.lists(texts, unique=True, max_size=3)))),
            language=draw(st.none() | texts),
        )
        for id_ in sorted(ids)
    )
    return run_of(cases, column("m"), column("n"))


@given(runs())
def test_a_baseline_file_reads_back_as_it_was_written(run: RunScores) -> None:
    baseline = baseline_of([run])
    back = baseline_from(json.loads(baseline_bytes(baseline)))
    assert baseline_bytes(back) == baseline_bytes(baseline)
    assert back.scores(run.source) == replace(run, made_of=(RunFacts(date=None, commit=None),))


def test_the_order_of_cases_and_metrics_does_not_show() -> None:
    cases = [
        ScoredCase(id=id_, fingerprint="f", scores={"a": Cell.measured(0.1), "b": Cell.measured(1)})
        for id_ in ("x", "y")
    ]
    one = run_of(cases, column("a"), column("b"))
    other = run_of(reversed(cases), column("b"), column("a"))
    assert baseline_bytes(baseline_of([one])) == baseline_bytes(baseline_of([other]))


def test_a_baseline_file_holds_no_text(tmp_path: Path) -> None:
    case = ScoredCase(
        id="q1",
        fingerprint="f",
        scores={"a": Cell.measured(1 / 3), "b": Cell.skipped("why"), "c": Cell.abstained("why")},
        query="the query",
        response="the response",
        retrieved_ids=("secret-chunk",),
    )
    path = tmp_path / "base.json"
    write_baseline(baseline_of([run_of([case], column("a"), column("b"), column("c"))]), path)
    text = path.read_text("utf-8")
    assert not any(part in text for part in ("the query", "response", "secret-chunk", "why"))
    assert read_run(path).values("a") == {"q1": 1 / 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("{", "is not JSON"),
        ("[]", "holds no JSON object"),
        ("{}", "neither a report.json nor a baseline file"),
        ('{"ragbench_baseline": 3}', "its format is 3, this ragbench reads 2"),
        ('{"ragbench_baseline": 1}', "make it anew with ragbench baseline set RUN"),
        ('{"manifest": {}, "cases": [], "schema_version": 9}', "it has schema version 9"),
        ('{"manifest": {}, "cases": []}', "it lacks 'schema_version'"),
    ],
)
def test_a_file_that_is_no_run_is_refused(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content, "utf-8")
    with pytest.raises(RunMismatchError) as caught:
        read_run(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_folder_without_a_report_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match="is not a run folder"):
        read_run(tmp_path)
    (tmp_path / "journal.sqlite").touch()
    with pytest.raises(RunMismatchError, match="ragbench report"):
        read_run(tmp_path)


class Answering(RAGInterface):
    """Fails on one question."""

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return ["a context"][:top_k]

    def generate(self, query: str, contexts: list[str]) -> str:
        if query == "q4":
            raise ValueError("no answer")
        return "a"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """The report of a run in which one question is not answered."""
    cases = [Case(id=f"c{n}", query=f"q{n}", reference="a") for n in range(9)]
    metrics = "exact_match,token_f1"
    run = evaluate(cases, Answering(), out=tmp_path / "run", metrics=metrics)
    write_reports(run, tmp_path / "run")
    return tmp_path / "run" / "report.json"


def indented(report: Path) -> Path:
    """The same as another program writes it."""
    path = report.with_name("indented.json")
    path.write_text(json.dumps(json.loads(report.read_bytes()), indent=4), encoding="utf-8")
    return path


def test_a_report_is_read_case_by_case_however_large_it_is(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, other = read_run(report), indented(report)
    assert [case.id for case in found.cases] == [f"c{number}" for number in range(9)]
    assert read_run(other).cases == found.cases
    monkeypatch.setenv("RAGBENCH_MAX_FILE", "2KB")
    assert read_run(report) == found
    with pytest.raises(RunMismatchError, match="2 KB"):
        read_run(other)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: lines[:-3], "is not JSON"),
        (lambda lines: [*lines[:-4], b"\n", *lines[-4:]], "is not what this ragbench writes"),
        (lambda lines: [*lines[:-4], lines[-4][:40] + b"\n", *lines[-3:]],
         "is not what this ragbench writes"),
    ],
)  # fmt: skip
def test_a_report_that_is_damaged_among_its_cases_loses_none_silently(
    report: Path, damage: Callable[[list[bytes]], list[bytes]], message: str
) -> None:
    report.write_bytes(b"".join(damage(report.read_bytes().splitlines(keepends=True))))
    with pytest.raises(RunMismatchError, match=message):
        read_run(report)
