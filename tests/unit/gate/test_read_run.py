"""What ragbench wrote is read back as it was written; anything else is refused with a reason."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Case, RAGInterface, RetrievalResult, evaluate, parse_metrics, read_run
from ragbench.core.case_table import CaseTexts, ScoredCase
from ragbench.core.gate_result import GateOutcome
from ragbench.core.outcome import Cell, Status
from ragbench.core.report import Report
from ragbench.core.run_scores import RunScores
from ragbench.errors import RunMismatchError
from ragbench.gate.baseline_file import baseline_bytes, baseline_from, read_baseline, write_baseline
from ragbench.gate.compare import compare
from ragbench.gate.config import GateConfig
from ragbench.gate.gate import gate
from ragbench.gate.main_runs import baseline_of, with_run
from ragbench.ledger.folder import DatasetInfo, Manifest, MetricInfo, RagInfo, write_manifest
from ragbench.ledger.journal import Journal
from ragbench.verbs.gate import find_baseline, gate_run
from ragbench.views.write import write_reports
from tests.unit.gate.builders import column, config, run, run_of, with_cases, with_texts

WITHOUT_SCORE = [
    Cell(status=Status.SKIPPED),
    Cell(status=Status.ABSTAINED),
    Cell(status=Status.FAILED),
]
numbers = st.floats(allow_nan=False, allow_infinity=False)
cells = numbers.map(Cell.measured) | st.sampled_from(WITHOUT_SCORE)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def runs(draw: st.DrawFn) -> RunScores:
    """Runs of up to six cases with two metrics."""
    case = st.builds(
        ScoredCase,
        id=st.just(""),
        fingerprint=st.just("f"),
        cluster=st.none() | texts,
        scores=st.fixed_dictionaries({"m": cells, "n": cells}),
        language=st.none() | texts,
        tags=st.lists(texts, unique=True, max_size=3).map(sorted).map(tuple),
    )
    ids = draw(st.lists(texts, unique=True, max_size=6))
    cases = [replace(draw(case), id=id) for id in sorted(ids)]
    return run_of(cases, column("m"), column("n"))


# --- baseline files


@given(runs())
def test_a_baseline_file_reads_back(run: RunScores) -> None:
    content = baseline_bytes(baseline_of([run]))

    baseline = baseline_from(json.loads(content))

    assert baseline_bytes(baseline) == content
    assert baseline.cases == run.cases
    assert baseline.metrics == run.metrics
    assert baseline.date == run.date


@given(runs())
def test_a_baseline_file_is_the_same_whatever_the_order_of_the_cases(run: RunScores) -> None:
    reversed_run = with_cases(run, tuple(run.cases)[::-1])

    content = baseline_bytes(baseline_of([run]))
    content_of_reversed = baseline_bytes(baseline_of([reversed_run]))

    assert content_of_reversed == content


def test_a_baseline_file_holds_scores_and_no_text(tmp_path: Path) -> None:
    case = ScoredCase(
        id="q1",
        fingerprint="f",
        scores={
            "a": Cell.measured(1 / 3),
            "b": Cell.skipped("why"),
            "c": Cell.abstained("why"),
        },
    )
    texts_of_case = CaseTexts("the query", "the response", ("secret-chunk",))
    run = run_of([case], column("a"), column("b"), column("c"))
    run = with_texts(run, {"q1": texts_of_case})
    path = tmp_path / "base.json"

    write_baseline(baseline_of([run]), path)

    written = path.read_text("utf-8")
    for text in ("the query", "response", "secret-chunk", "why"):
        assert text not in written
    assert read_run(path).values("a") == {"q1": 1 / 3}


@pytest.fixture
def older_file(tmp_path: Path) -> Path:
    """A baseline file of the version before: one run of three cases with other fingerprints."""
    run = run_of_three_cases("2026-03-01")
    cases = [replace(case, fingerprint=f"of {case.id}") for case in run.cases]
    path = tmp_path / "old.json"
    write_baseline(baseline_of([with_cases(run, cases)]), path)
    text = path.read_text("utf-8")
    path.write_text(text.replace('baseline": 3', 'baseline": 2'), "utf-8")
    return path


def run_of_three_cases(date: str) -> RunScores:
    return run({"m": [1, 1, 1]}, date=date)


def test_a_baseline_of_the_version_before_is_refused_with_the_way_on(older_file: Path) -> None:
    before = read_run(older_file)
    now = run_of_three_cases("2026-03-02")

    verdict = gate(now, before, GateConfig())

    (refusal,) = verdict.refusals
    assert "an earlier version of ragbench wrote it" in refusal.reason
    assert "ragbench baseline add RUN" in refusal.remedy


def test_a_run_that_is_added_to_a_baseline_of_the_version_before_has_its_history(
    older_file: Path,
) -> None:
    added = with_run(read_baseline(older_file), run_of_three_cases("2026-03-02"))

    assert len(added.baseline.runs) == 2
    assert added.baseline.kept == 1
    assert b'"ragbench_baseline": 3' in baseline_bytes(added.baseline)


# --- what is no run


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("{", "is not JSON"),
        ("[]", "holds no JSON object"),
        ("{}", "neither a run nor a baseline file"),
        ('{"ragbench_baseline": 4}', "its format is 4, this ragbench reads 3: install"),
        ('{\n<<<<<<< HEAD\n"a": 1\n=======\n', "has a conflict of a merge in it. Take one side"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "pointer of Git LFS, not"),
        ('{"ragbench_baseline": 1}', "make it anew with ragbench baseline set RUN"),
        ('{"manifest": {}, "cases": []}', "whose report.json holds only what is shown"),
    ],
)
def test_a_file_that_is_no_run_is_refused(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content, "utf-8")

    with pytest.raises(RunMismatchError, match=rf"file\.json.*{re.escape(message)}"):
        read_run(path)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match="is not a run folder"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        # The next command does so when it begins.
        ("DELETE FROM report", "did not get to its end"),
        ("PRAGMA user_version = 1", "another version of ragbench"),
    ],
    ids=["unfinished", "another version"],
)
def test_a_folder_without_a_finished_run_is_refused(
    tmp_path: Path, statement: str, message: str
) -> None:
    evaluated(tmp_path, "a")
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as database, database:
        database.execute(statement)

    with pytest.raises(RunMismatchError, match=message):
        read_run(tmp_path)


# --- the folder of a run


class Answering(RAGInterface):
    """Fails on one question."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return ["a context"][:top_k]

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        return RetrievalResult(["a context"], context_ids=[f"of {query}"])

    def generate(self, query: str, contexts: list[str]) -> str:
        if query == "q4":
            raise ValueError("no answer")
        return self.answer


def evaluated(path: Path, answer: str) -> Report:
    """The run of nine cases of which one fails, answered always alike; "a" is right."""
    cases: list[Case] = []
    for number in range(9):
        case = Case(
            id=f"c{number}",
            query=f"q{number}",
            reference="a",
            tags=("t",),
            reference_context_ids=("g",),
        )
        cases.append(case)
    metrics = "exact_match,recall@5,generation_latency"
    return evaluate(cases, Answering(answer), out=path, metrics=metrics)


@pytest.fixture(scope="module")
def right_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """The folder of a run that is right, which no test changes, and its report."""
    folder = tmp_path_factory.mktemp("right")
    return folder, evaluated(folder, "a")


def test_a_run_has_the_metrics_of_its_report(right_run: tuple[Path, Report]) -> None:
    folder, report = right_run

    scores = read_run(folder)

    names = [column.name for column in scores.metrics]
    assert names == [metric.name for metric in report.metrics]
    figures = [column.score for column in scores.metrics]
    assert figures == [summary.score for summary in report.summaries]
    # A latency has no cells.
    assert [column.has_cells for column in scores.metrics] == [True, True, False]
    assert scores.stages == report.stages
    assert scores.latencies == report.latencies


def test_a_run_has_the_cases_of_its_report(right_run: tuple[Path, Report]) -> None:
    folder, report = right_run

    scores = read_run(folder)

    for case, row in zip(scores.cases, report.rows(), strict=True):
        assert case.id == row.id
        assert case.tags == row.tags
        assert case.language == row.language
        assert case.stages == row.stages
        assert case.cause is row.attribution.cause
        exact_match, recall, _ = row.cells
        values = [cell.value for cell in case.scores.values()]
        assert values == [exact_match.value, recall.value]
    assert scores.cases[4].scores["exact_match"].reason == "generate: ValueError: no answer"


def test_a_run_has_the_texts_of_its_report(right_run: tuple[Path, Report]) -> None:
    folder, report = right_run

    texts_of_cases = read_run(folder).table.texts

    assert texts_of_cases is not None
    all_nine = texts_of_cases.of(range(9))
    for texts_of_case, row in zip(all_nine, report.rows(), strict=True):
        assert texts_of_case.query == row.query
        assert texts_of_case.response == row.response
        assert texts_of_case.retrieved_ids == row.retrieved_ids


def test_a_run_can_be_named_by_its_manifest(right_run: tuple[Path, Report]) -> None:
    folder, _ = right_run

    named_by_manifest = read_run(folder / "manifest.json")

    assert named_by_manifest.cases == read_run(folder).cases


# --- clusters

PASSAGE = "passage {} of the handbook, about holidays".format
# Of the four questions about each of five passages so many find it.
HITS = (4, 0, 4, 3, 4)


def questions_of_passages(gold: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for passage, hits in enumerate(HITS):
        for question in range(4):
            retrieved = passage if question < hits else 7
            row = {
                "query": f"q{passage} {question}",
                "reference": "red",
                "response": "blue",
                "retrieved_contexts": [PASSAGE(retrieved)],
                "retrieved_context_ids": [f"p{retrieved}"],
            }
            rows.append(row | gold(passage))
    return rows


@pytest.mark.parametrize(
    "gold",
    [
        lambda passage: {"reference_context_ids": [f"p{passage}"]},
        lambda passage: {"grades": {f"p{passage}": 2, "p9": 0}},
        lambda passage: {"evidence": [{"document_id": "handbook", "text": PASSAGE(passage)}]},
        lambda passage: {"reference_contexts": [PASSAGE(passage)]},
        lambda passage: {"reference_context_ids": [f"p{passage}"], "cluster": f"c{passage}"},
    ],
    ids=["ids", "grades", "evidence", "contexts", "clusters"],
)
def test_questions_of_one_passage_are_one_observation_wherever_an_interval_is_printed(
    tmp_path: Path, gold: Callable[[int], dict[str, Any]]
) -> None:
    questions = questions_of_passages(gold)

    report = evaluate(questions, out=tmp_path, metrics="recall@5,token_f1")

    recall, overlap = report.summaries
    assert recall.interval is not None
    assert overlap.interval is not None
    # Residuals of the passages 1, -3, 1, 0, 1, whose squares add up to 12; t(0.975; 4) = 2.776445.
    half_width = 2.776445 * math.sqrt(5 / 4 * 12) / 20
    assert recall.interval.low == pytest.approx(0.75 - half_width)
    assert recall.interval.high == 1.0
    assert recall.clusters == 5
    assert overlap.clusters == 5

    limits = config(**{"recall@5": {"minimum": 0.5}, "token_f1": {"minimum": 0.5}})
    verdict = gate_run(tmp_path, limits)
    interval_of_check = {check.subject: check.interval for check in verdict.checks}
    assert interval_of_check["recall@5"] == recall.interval
    assert interval_of_check["token_f1"] == overlap.interval

    of_recall, of_overlap = compare([tmp_path, tmp_path]).metrics
    assert of_recall.figures[1].interval == recall.interval
    assert of_overlap.figures[1].interval == overlap.interval

    write_reports(report, tmp_path)
    for name in ("report.md", "report.html", "report.json"):
        text = (tmp_path / name).read_text("utf-8")
        assert "count as one observation: 20 cases, 5 clusters." in text


# --- a report says nothing to a gate: a copied report.json once made a failing run pass

FLOOR = {"exact_match": {"minimum": 0.5}}


@pytest.fixture
def good_and_bad(tmp_path: Path) -> tuple[Path, Path]:
    """A run that is right and one that is wrong, which has the report of the right one."""
    good = tmp_path / "good"
    bad = tmp_path / "bad"
    write_reports(evaluated(good, "a"), good)
    evaluated(bad, "b")
    shutil.copy(good / "report.json", bad / "report.json")
    return good, bad


def test_a_run_that_is_named_by_its_report_is_read_from_its_journal(
    good_and_bad: tuple[Path, Path],
) -> None:
    _, bad = good_and_bad

    scores = read_run(bad / "report.json")

    assert scores.values("exact_match")["c1"] == 0.0


def test_a_run_with_the_report_of_another_one_fails(good_and_bad: tuple[Path, Path]) -> None:
    good, bad = good_and_bad
    limits = config({"baseline": str(good), "max_error_rate": 0.2}, **FLOOR)

    assert gate_run(bad, limits).outcome is GateOutcome.FAILED


def test_a_run_without_its_reports_passes(good_and_bad: tuple[Path, Path]) -> None:
    good, _ = good_and_bad
    for path in good.glob("*.json"):
        if path.name != "manifest.json":
            path.unlink()
    limits = config({"max_error_rate": 0.2}, **FLOOR)

    assert gate_run(good, limits).outcome is GateOutcome.PASSED


# --- the baseline that is found where none is named

METRIC = MetricInfo.of(parse_metrics("MRR")[0])


def write_run_folder(
    folder: Path,
    time: int,
    *,
    dataset: str = "d1",
    metric: str = "m",
    rag: str = "rag",
    is_finished: bool = True,
) -> Path:
    """A run folder as far as the search looks at it."""
    folder.mkdir(parents=True)
    manifest = Manifest(
        dataset=DatasetInfo(name="quiz", source="quiz", fingerprint=dataset, cases=1),
        rag=RagInfo(name=rag, description={}, stages={}),
        settings={},
        packages={},
        metrics=(replace(METRIC, name=metric, version=1),),
        git=None,
    )
    write_manifest(manifest, folder / "manifest.json")
    with Journal(folder / "journal.sqlite") as journal:
        journal.runs.begin(b"setting")
        if is_finished:
            journal.runs.complete(b"{}")
    os.utime(folder / "manifest.json", (time, time))
    return folder


def baseline_for(run_path: Path, *folders: Path) -> Path | None:
    """The run that the search finds in these folders."""
    return find_baseline(run_path, run({"m": [1]}), folders)


def test_the_last_earlier_run_is_the_baseline(tmp_path: Path) -> None:
    write_run_folder(tmp_path / "first", 100)
    last = write_run_folder(tmp_path / "last", 200)
    mine = write_run_folder(tmp_path / "mine", 300)
    write_run_folder(tmp_path / "later", 400)

    assert baseline_for(mine, tmp_path) == last
    # Named by its manifest, and in a folder that is named twice.
    assert baseline_for(mine / "manifest.json", tmp_path, tmp_path) == last


def test_a_file_that_is_no_run_has_no_baseline(tmp_path: Path) -> None:
    write_run_folder(tmp_path / "first", 100)
    path = tmp_path / "report.json"
    path.write_text("{}", "utf-8")

    assert baseline_for(path, tmp_path) is None


def test_a_run_of_the_dataset_before_it_grew_is_the_baseline(tmp_path: Path) -> None:
    earlier = write_run_folder(tmp_path / "earlier", 100, dataset="d2")
    mine = write_run_folder(tmp_path / "mine", 200)

    assert baseline_for(mine, tmp_path) == earlier


@pytest.mark.parametrize(
    "facts",
    [{"metric": "n"}, {"rag": "another"}, {"is_finished": False}],
    ids=["another metric", "another system", "unfinished"],
)
def test_a_run_that_does_not_compare_is_no_baseline(tmp_path: Path, facts: dict[str, Any]) -> None:
    write_run_folder(tmp_path / "earlier", 100, **facts)
    mine = write_run_folder(tmp_path / "mine", 200)

    assert baseline_for(mine, tmp_path) is None


def test_what_is_damaged_or_no_run_is_no_baseline(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    damaged = write_run_folder(tmp_path / "damaged", 100)
    (damaged / "manifest.json").write_text("{}", "utf-8")
    mine = write_run_folder(tmp_path / "mine", 200)

    assert baseline_for(mine, tmp_path, tmp_path / "no-such-folder") is None
