"""Runs whose metrics are not installed where they are read."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from ragbench import compare, evaluate, export_run, gate_run, parse_metrics, read_run, report_of
from ragbench.core.metric import metric_of
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.ledger.folder import RunFolder
from ragbench.metrics.registry import computable
from ragbench.views.write import write_reports
from tests.behaviour.rags import NotingRAG, cases
from tests.unit.gate.builders import config

MODULE = '''
from ragbench import metric

def largest(values, *, loud):
    return max(values) * loud

@metric(direction="lower", low=None, high=None, unit="letters", cutoff="k")
def shout(response: str, *, k: int | None = None, loud: int = 1) -> float:
    """How long the answer is."""
    return len(response)

@metric(aggregate=largest, high=None)
def loudest(response: str, *, loud: int = 1) -> float:
    """How long the longest answer is."""
    return len(response)
'''
SPELLED = "shouting.py:shout(loud=2)@3, shouting.py:loudest, recall@5"
SHALLOW = "No case has more than 1 retrieved chunk: shout(loud=2)@3, recall@5 look no further."
NAMES = ["shout(loud=2)@3", "loudest", "recall@5"]


@pytest.fixture
def run(own_modules: Path) -> Path:
    """A finished run whose own metrics, shout and loudest, are deleted from the machine."""
    module = own_modules / "shouting.py"
    module.write_text(MODULE, encoding="utf-8")
    queries = [replace(case, tags=("x",)) for case in cases("one", "three")]
    folder = own_modules / "run"
    report = evaluate(queries, NotingRAG(), out=folder, metrics=parse_metrics(SPELLED))
    assert [summary.score for summary in report.summaries] == [6.0, 7.0, 1.0]
    write_reports(report, folder)
    module.unlink()
    del sys.modules["shouting"]
    return folder


def test_metrics_that_are_gone_are_reported_as_they_were(run: Path) -> None:
    before = summaries_written(run)

    report = report_of(run)

    assert [metric.name for metric in report.metrics] == NAMES
    shout, loudest, _ = report.metrics
    assert shout.definition.direction == "lower"
    assert loudest.definition.direction == "higher"
    assert [summary.score for summary in report.summaries] == [6.0, 7.0, 1.0]
    assert [part.score for part in report.summaries[1].slices] == [7.0]
    assert report.notes == (SHALLOW,)

    write_reports(report, run)

    assert summaries_written(run) == before


def summaries_written(run: Path) -> object:
    return orjson.loads((run / "report.json").read_bytes())["summaries"]


def test_a_figure_that_nobody_stored_is_missing_and_the_report_says_so(run: Path) -> None:
    with sqlite3.connect(RunFolder(path=run).journal) as journal:
        journal.execute("DELETE FROM report")  # as after an interrupted run
    journal.close()

    report = report_of(run)

    assert [summary.score for summary in report.summaries] == [6.0, None, 1.0]
    assert report.summaries[1].measured == 2
    assert report.notes == (
        "loudest: there is no figure over the run, which shouting:largest makes: the run was not "
        "finished.",
        SHALLOW,
    )


def test_it_can_be_exported_gated_and_compared(run: Path, tmp_path: Path) -> None:
    written = export_run(run, "jsonl", tmp_path / "out.jsonl").paths[0]
    assert written.read_text("utf-8").count("shout(loud=2)@3") == 2

    before = shutil.copytree(run, run.with_name("before"))
    limits = {"shout(loud=2)@3": {"maximum": 5.0}, "loudest": {"maximum": 8.0}}
    verdict = gate_run(run, config({"baseline": str(before)}, **limits))
    checks = {check.subject: (check.outcome, check.observed) for check in verdict.checks}
    assert checks["shout(loud=2)@3"] == ("inconclusive", 6.0)
    assert checks["loudest"] == ("passed", 7.0)

    comparison = compare([read_run(run), read_run(run)])
    scores = {metric.name: metric.figures[0].score for metric in comparison.metrics}
    assert scores == {"shout(loud=2)@3": 6.0, "loudest": 7.0, "recall@5": 1.0}


def test_nothing_that_lies_in_a_run_is_executed(run: Path) -> None:
    (run / "shouting.py").write_text(MODULE, encoding="utf-8")
    manifest = orjson.loads(RunFolder(path=run).manifest.read_bytes())
    definition = manifest["metrics"][0]["definition"] | {"scorer": "run/shouting.py:shout"}

    with pytest.raises(ConfigError, match=r"run/shouting\.py lies in the folder of a run"):
        computable(metric_of(definition))

    assert "shouting" not in sys.modules


def test_a_run_that_kept_names_only_is_refused_in_one_line(run: Path) -> None:
    folder = RunFolder(path=run)
    manifest = orjson.loads(folder.manifest.read_bytes())
    manifest["metrics"] = [{"name": name, "version": 1} for name in NAMES]
    folder.manifest.write_bytes(orjson.dumps(manifest))

    with pytest.raises(RunMismatchError, match=r"is not a manifest of ragbench: .*definition"):
        report_of(run)


def test_a_report_that_another_version_kept_is_counted_again(tmp_path: Path) -> None:
    report = evaluate(cases("one", "two"), NotingRAG(), out=tmp_path, metrics=["recall@5"])
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db, db:
        (body,) = db.execute("SELECT body FROM report").fetchone()
        stored = orjson.loads(body)
        del stored["summaries"][0]["metric"]
        db.execute("UPDATE report SET body = ?", [orjson.dumps(stored)])

    assert report_of(tmp_path).summaries == report.summaries
