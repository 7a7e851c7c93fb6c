"""Which metrics stand in a run's table: the same in the terminal, in report.md and in the page."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ragbench.core.report import Report, Summary
from ragbench.metrics.registry import default_metrics
from ragbench.views.metrics_shown import ShownMetrics, shown_metrics

SCORES = {metric.name: 0.1 + at / 100 for at, metric in enumerate(default_metrics())}


def summaries(scores: Mapping[str, float | None]) -> tuple[Summary, ...]:
    return tuple(
        Summary(
            metric=metric,
            total=20,
            measured=0 if scores[metric.name] is None else 20,
            abstained=0,
            skipped=20 if scores[metric.name] is None else 0,
            failed=0,
            score=scores[metric.name],
            interval=None,
            reasons=(("nothing given", 20),) if scores[metric.name] is None else (),
        )
        for metric in default_metrics()
        if metric.name in scores
    )


def shown(report: Report, **scores: float | None) -> ShownMetrics:
    return shown_metrics(with_scores(report, SCORES | scores), timed=False)


def with_scores(report: Report, scores: Mapping[str, float | None]) -> Report:
    made = summaries(scores)
    return replace(report, summaries=made, metrics=tuple(one.metric for one in made))


@pytest.fixture
def report() -> Report:
    return Report(
        manifest={},
        metrics=(),
        summaries=(),
        stages=(),
        failures=(),
        latencies=(),
        notes=(),
        rows=lambda: iter(()),
    )


def test_what_differs_stands_in_the_table(report: Report) -> None:
    found = shown(report)
    assert [one.metric.name for one in found.rows] == list(SCORES)
    assert found.repeated is None
    assert found.unmeasured is None


def test_what_is_another_metric_in_every_case_is_folded(report: Report) -> None:
    found = shown(
        report,
        **{"recall@5": 0.8, "hit_rate@5": 0.8, "precision@5": 0.16},
        answer_rate=0.9,
        abstention_accuracy=0.9,
    )
    assert found.repeated == (
        "precision@5 0.160 (= recall@5 / 5), hit_rate@5 0.800 (= recall@5), "
        "abstention_accuracy 0.900 (= answer_rate)"
    )
    assert {one.metric.name for one in found.rows} == SCORES.keys() - {
        "precision@5",
        "hit_rate@5",
        "abstention_accuracy",
    }


def test_no_exact_match_is_folded_where_words_are_shared(report: Report) -> None:
    assert shown(report, exact_match=0.0).repeated == (
        "exact_match 0.000 (no answer equals a reference)"
    )
    # Where no word is right, 0 is what the table has to say.
    assert shown(report, exact_match=0.0, token_f1=0.0).repeated is None


def test_other_zeros_are_shown(report: Report) -> None:
    found = shown(report, **{"recall@5": 0.0, "nDCG@10": 0.0})
    assert {"recall@5", "nDCG@10"} <= {one.metric.name for one in found.rows}


def test_metrics_that_the_user_named_are_shown(report: Report) -> None:
    named = with_scores(report, {"recall@5": 0.8, "hit_rate@5": 0.8})
    assert len(shown_metrics(named, timed=False).rows) == 2


def test_what_has_no_figure_is_one_line(report: Report) -> None:
    found = shown(report, brier=None, ECE=None)
    assert found.unmeasured == "brier, ECE: nothing given (20)"
    assert {"brier", "ECE"}.isdisjoint(one.metric.name for one in found.rows)
