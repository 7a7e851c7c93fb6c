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

FINITE = st.floats(allow_nan=False, allow_infinity=False)
OTHERS = [Cell(status=status) for status in (Status.SKIPPED, Status.ABSTAINED, Status.FAILED)]
cells = FINITE.map(Cell.measured) | st.sampled_from(OTHERS)


@st.composite
def runs(draw: st.DrawFn) -> RunScores:
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    ids = draw(st.lists(texts, unique=True, max_size=6))
    case = st.builds(
        ScoredCase,
        id=st.just(""),
        fingerprint=st.just("f"),
        cluster=st.none() | texts,
        scores=st.fixed_dictionaries({"m": cells, "n": cells}),
        language=st.none() | texts,
        tags=st.lists(texts, unique=True, max_size=3).map(sorted).map(tuple),
    )
    cases = (replace(draw(case), id=id_) for id_ in sorted(ids))
    return run_of(cases, column("m"), column("n"))


@given(runs())
def test_a_baseline_file_reads_back_whatever_the_order_of_the_cases(run: RunScores) -> None:
    baseline = baseline_of([run])
    turned = with_cases(run, tuple(run.cases)[::-1])
    assert baseline_bytes(baseline_of([turned])) == baseline_bytes(baseline)
    back = baseline_from(json.loads(baseline_bytes(baseline)))
    assert baseline_bytes(back) == baseline_bytes(baseline)
    assert (back.cases, back.metrics, back.date) == (run.cases, run.metrics, run.date)


def test_a_baseline_file_holds_no_text(tmp_path: Path) -> None:
    case = ScoredCase(
        id="q1",
        fingerprint="f",
        scores={"a": Cell.measured(1 / 3), "b": Cell.skipped("why"), "c": Cell.abstained("why")},
    )
    path = tmp_path / "base.json"
    texts = {"q1": CaseTexts("the query", "the response", ("secret-chunk",))}
    now = with_texts(run_of([case], column("a"), column("b"), column("c")), texts)
    write_baseline(baseline_of([now]), path)
    text = path.read_text("utf-8")
    assert not any(part in text for part in ("the query", "response", "secret-chunk", "why"))
    assert read_run(path).values("a") == {"q1": 1 / 3}


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


def test_a_folder_without_a_finished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match="is not a run folder"):
        read_run(tmp_path)
    evaluated(tmp_path, "a")
    for statement, reason in (
        ("DELETE FROM report", "did not get to its end"),  # as the next command when it begins
        ("PRAGMA user_version = 1", "another version of ragbench"),
    ):
        with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db, db:
            db.execute(statement)
        with pytest.raises(RunMismatchError, match=reason):
            read_run(tmp_path)


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
    cases = [
        Case(id=f"c{n}", query=f"q{n}", reference="a", tags=("t",), reference_context_ids=("g",))
        for n in range(9)
    ]
    metrics = "exact_match,recall@5,generation_latency"
    return evaluate(cases, Answering(answer), out=path, metrics=metrics)


def test_a_run_is_what_its_journal_holds(tmp_path: Path) -> None:
    report = evaluated(tmp_path, "a")
    found = read_run(tmp_path)
    assert [column.name for column in found.metrics] == [m.name for m in report.metrics]
    assert [c.score for c in found.metrics] == [one.score for one in report.summaries]
    assert [column.has_cells for column in found.metrics] == [True, True, False]
    assert (found.stages, found.latencies) == (report.stages, report.latencies)
    assert found.table.texts is not None
    texts = found.table.texts.of(range(9))
    for case, text, row in zip(found.cases, texts, report.rows(), strict=True):
        for name in ("id", "tags", "language", "stages"):
            assert getattr(case, name) == getattr(row, name)
        texts_of_row = (row.query, row.response, row.retrieved_ids)
        assert (text.query, text.response, text.retrieved_ids) == texts_of_row
        assert case.cause is row.attribution.cause
        assert [cell.value for cell in case.scores.values()] == [c.value for c in row.cells[:2]]
    assert found.cases[4].scores["exact_match"].reason == "generate: ValueError: no answer"
    assert read_run(tmp_path / "manifest.json").cases == found.cases


PASSAGE = "passage {} of the handbook, about holidays".format


@pytest.mark.parametrize(
    "gold",
    [
        lambda of: {"reference_context_ids": [f"p{of}"]},
        lambda of: {"grades": {f"p{of}": 2, "p9": 0}},
        lambda of: {"evidence": [{"document_id": "handbook", "text": PASSAGE(of)}]},
        lambda of: {"reference_contexts": [PASSAGE(of)]},
        lambda of: {"reference_context_ids": [f"p{of}"], "cluster": f"c{of}"},
    ],
)
def test_questions_of_one_passage_are_one_observation_wherever_an_interval_is_printed(
    tmp_path: Path, gold: Callable[[int], dict[str, Any]]
) -> None:
    # Of the four questions of each passage so many find it.
    cases = [
        {
            "query": f"q{of} {at}",
            "reference": "red",
            "response": "blue",
            **gold(of),
            "retrieved_contexts": [PASSAGE(place)],
            "retrieved_context_ids": [f"p{place}"],
        }
        for of, count in enumerate((4, 0, 4, 3, 4))
        for at in range(4)
        for place in [of if at < count else 7]
    ]
    report = evaluate(cases, out=tmp_path, metrics="recall@5,token_f1")
    recall, overlap = report.summaries
    assert recall.interval is not None and overlap.interval is not None
    # Residuals of the passages 1, -3, 1, 0, 1; t(0.975; 4) = 2.776445.
    assert recall.interval.low == pytest.approx(0.75 - 2.776445 * math.sqrt(5 / 4 * 12) / 20)
    assert (recall.interval.high, recall.clusters, overlap.clusters) == (1.0, 5, 5)
    known = {one.metric.name: one.interval for one in report.summaries}
    wanted = config(**{name: {"minimum": 0.5} for name in known})
    checks = gate_run(tmp_path, wanted).checks
    assert known.items() <= {one.subject: one.interval for one in checks}.items()
    assert known == {m.name: m.figures[1].interval for m in compare([tmp_path] * 2).metrics}
    write_reports(report, tmp_path)
    for name in ("report.md", "report.html", "report.json"):
        note = "count as one observation: 20 cases, 5 clusters."
        assert note in (tmp_path / name).read_text("utf-8")


def test_a_report_says_nothing_to_a_gate(tmp_path: Path) -> None:
    """A copied report.json once made a failing run pass."""
    write_reports(evaluated(tmp_path / "good", "a"), tmp_path / "good")
    evaluated(tmp_path / "bad", "b")
    shutil.copy(tmp_path / "good" / "report.json", tmp_path / "bad" / "report.json")
    assert read_run(tmp_path / "bad" / "report.json").values("exact_match")["c1"] == 0.0
    for path in (tmp_path / "good").glob("*.json"):
        if path.name != "manifest.json":
            path.unlink()
    facts = {"baseline": str(tmp_path / "good"), "max_error_rate": 0.2}
    wanted = config(facts, exact_match={"minimum": 0.5})
    assert gate_run(tmp_path / "bad", wanted).outcome is GateOutcome.FAILED
    assert gate_run(tmp_path / "good", replace(wanted, baseline=None)).outcome == "passed"


def test_a_baseline_of_the_version_before_says_so_and_keeps_its_history(tmp_path: Path) -> None:
    path, now = tmp_path / "old.json", run({"m": [1] * 3}, date="2026-03-02")
    old = [replace(case, fingerprint=f"of {case.id} {case.fingerprint}") for case in now.cases]
    before = with_cases(now, tuple(old), date="2026-03-01")
    write_baseline(baseline_of([before]), path)
    path.write_text(path.read_text("utf-8").replace('baseline": 3', 'baseline": 2'), "utf-8")
    (refusal,) = gate(now, read_run(path), GateConfig()).refusals
    assert "an earlier version of ragbench wrote it" in refusal.reason
    assert "ragbench baseline add RUN" in refusal.remedy
    added = with_run(read_baseline(path), now)
    assert (len(added.baseline.runs), added.baseline.kept) == (2, 1)
    assert b'"ragbench_baseline": 3' in baseline_bytes(added.baseline)


METRIC = MetricInfo.of(parse_metrics("MRR")[0])


def store(folder: Path, name: str, time: int, **changes: str) -> Path:
    """A run folder as far as the search looks at it."""
    place = folder / name
    place.mkdir(parents=True)
    facts: dict[str, Any] = {"dataset": "d1", "metric": "m", "rag": "rag", "is_finished": True}
    facts |= changes
    manifest = Manifest(
        dataset=DatasetInfo(name="quiz", source="quiz", fingerprint=facts["dataset"], cases=1),
        rag=RagInfo(name=facts["rag"], description={}, stages={}),
        settings={},
        packages={},
        metrics=(replace(METRIC, name=facts["metric"], version=1),),
        git=None,
    )
    write_manifest(manifest, place / "manifest.json")
    with Journal(place / "journal.sqlite") as journal:
        journal.runs.begin(b"setting")
        if facts["is_finished"]:
            journal.runs.complete(b"{}")
    os.utime(place / "manifest.json", (time, time))
    return place


def found(mine: Path, *folders: Path) -> Path | None:
    return find_baseline(mine, run({"m": [1]}), folders)


def test_the_last_earlier_run_is_taken(tmp_path: Path) -> None:
    store(tmp_path, "first", 100)
    last = store(tmp_path, "last", 200)
    mine = store(tmp_path, "mine", 300)
    store(tmp_path, "later", 400)
    assert found(mine, tmp_path) == last
    assert found(mine / "manifest.json", tmp_path, tmp_path) == last
    (tmp_path / "report.json").write_text("{}", "utf-8")
    assert found(tmp_path / "report.json", tmp_path) is None


@pytest.mark.parametrize(
    ("other", "is_taken"),
    [
        ({"dataset": "d2"}, True),  # one that has grown is the same one
        ({"metric": "n"}, False),
        ({"rag": "another"}, False),
        ({"is_finished": False}, False),
        (None, False),
    ],
)
def test_another_unfinished_or_damaged_run_is_not_taken(
    tmp_path: Path, other: dict[str, Any] | None, is_taken: bool
) -> None:
    (tmp_path / "file").touch()
    place = store(tmp_path, "other", 100, **(other or {}))
    if other is None:
        (place / "manifest.json").write_text("{}", "utf-8")
    mine = store(tmp_path, "mine", 200)
    assert found(mine, tmp_path, tmp_path / "none") == (place if is_taken else None)
