"""Reports and comparisons as DataFrames: what they hold, and NA for what is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import pandas
import pytest

from ragbench import Case, RAGInterface, compare, evaluate, metric, read_run
from ragbench.core.comparison import Comparison
from ragbench.core.report import Counted
from ragbench.errors import MissingExtraError

pytestmark = pytest.mark.extra("pandas")

CASES = [
    Case(id="leave", query="How long is the leave?", reference="27 days"),
    Case(id="pool", query="When does the pool open?", reference="At seven"),
    Case(id="bike", query="Where is the bike shed?", reference="Behind the pool"),
]


class Desk(RAGInterface):
    """Answers the first question rightly and the second wrongly; for the third it fails."""

    answers: ClassVar = {
        "How long is the leave?": "27 days",
        "When does the pool open?": "At nine",
    }

    def stage_identity(self, stage: str) -> object:
        return self.answers

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        if query not in self.answers:
            raise LookupError("no shed")
        return ["Everyone has 27 days.", "The pool opens at seven."]

    def generate(self, query: str, contexts: list[str]) -> str:
        return self.answers[query]


class LaterDesk(Desk):
    """Answers the first two questions the other way round: wrongly, and rightly."""

    answers: ClassVar = {
        "How long is the leave?": "3 weeks",
        "When does the pool open?": "At seven",
    }


def test_a_report_is_a_frame_with_a_case_per_row(tmp_path: Path) -> None:
    report = evaluate(CASES, Desk(), out=tmp_path, metrics="exact_match")

    leave, pool, bike = report.to_pandas().to_dict("records")

    assert leave["id"] == "leave"
    assert leave["answer"] == "27 days"
    assert leave["contexts"] == ["Everyone has 27 days.", "The pool opens at seven."]
    assert leave["exact_match"] == 1.0
    assert leave["decided_by"] == "words"
    assert pool["id"] == "pool"
    assert pool["answer"] == "At nine"
    assert pool["exact_match"] == 0.0
    assert bike["id"] == "bike"
    assert bike["cause"] == "failed"


def test_what_a_failed_case_lacks_is_na(tmp_path: Path) -> None:
    report = evaluate(CASES, Desk(), out=tmp_path, metrics="exact_match")

    failed = report.to_pandas().iloc[2]

    assert failed["answer"] is pandas.NA
    assert failed["contexts"] is pandas.NA
    assert failed["exact_match"] is pandas.NA
    assert failed["failure"] == "retrieve: LookupError: no shed"


def test_the_mean_of_a_frame_s_column_is_the_score_of_the_report(tmp_path: Path) -> None:
    report = evaluate(CASES, Desk(), out=tmp_path, metrics="exact_match")

    scores = report.to_pandas()["exact_match"].dropna().tolist()

    mean = sum(scores) / len(scores)
    assert mean == 0.5
    assert report.summaries[0].score == 0.5


def test_a_metric_with_the_name_of_a_column_gets_a_column_of_its_own(tmp_path: Path) -> None:
    @metric
    def cause(response: str) -> float:
        return 0.25

    report = evaluate(CASES[:1], Desk(), out=tmp_path, metrics=[cause])

    frame = report.to_pandas()

    assert list(frame["cause (metric)"]) == [0.25]
    assert list(frame["cause"]) == ["right"]


def test_the_summaries_are_a_frame_with_a_metric_per_row(tmp_path: Path) -> None:
    report = evaluate(CASES, Desk(), out=tmp_path, metrics="exact_match, brier")

    frame = report.summaries_frame().set_index("metric")

    exact_match = frame.loc["exact_match"]
    assert exact_match["score"] == 0.5
    assert exact_match["measured"] == 2
    assert exact_match["total"] == 3
    assert exact_match["failed"] == 1
    brier = frame.loc["brier"]
    assert brier["score"] is pandas.NA
    assert brier["measured"] == 0


def comparison_of_desks(folder: Path, metrics: str) -> Comparison:
    evaluate(CASES, Desk(), out=folder / "a", metrics=metrics)
    evaluate(CASES, LaterDesk(), out=folder / "b", metrics=metrics)
    return compare([read_run(folder / "a"), read_run(folder / "b")])


def test_a_comparison_is_a_frame_of_the_cases_that_went_another_way(tmp_path: Path) -> None:
    comparison = comparison_of_desks(tmp_path, "exact_match")

    frame = comparison.to_pandas().set_index("id")

    assert frame["kind"].to_dict() == {"leave": "newly failing", "pool": "newly fixed"}
    assert frame.loc["leave", "answer_before"] == "27 days"
    assert frame.loc["leave", "answer_after"] == "3 weeks"


def test_the_differences_of_a_comparison_are_a_frame(tmp_path: Path) -> None:
    comparison = comparison_of_desks(tmp_path, "exact_match, ECE")

    frame = comparison.summaries_frame().set_index("metric")

    exact_match = frame.loc["exact_match"]
    assert exact_match["before"] == 0.5
    assert exact_match["after"] == 0.5
    assert exact_match["difference"] == 0.0
    assert exact_match["cases"] == 2
    assert exact_match["higher"] == 1
    assert exact_match["lower"] == 1
    calibration_error = frame.loc["ECE"]
    assert calibration_error["difference"] is pandas.NA
    assert calibration_error["untested"] == "its figure is not a mean over cases"


def test_without_pandas_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = evaluate(CASES, Desk(), out=tmp_path, metrics="exact_match")
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(MissingExtraError, match=r"ragbench\[pandas\]"):
        report.to_pandas()


def test_every_figure_of_a_summary_is_a_column_or_left_out_for_a_reason(tmp_path: Path) -> None:
    report = evaluate(CASES, Desk(), out=tmp_path / "run", metrics="exact_match")
    columns = set(report.summaries_frame().columns)
    # "low" and "high" are the interval; "decided_by" is made of labels and by_document; the others
    # have no place in one cell.
    left_out = {"interval", "labels", "by_document", "reasons", "slices", "clusters"}

    assert set(Counted.__struct_fields__) - columns == left_out
