"""Limits of a metric, of the share of failed cases and of the share of measured ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragbench import GateConfig
from ragbench.core.gate_result import CheckKind, GateOutcome, Ground
from ragbench.core.metric import Direction
from ragbench.core.outcome import Status
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.errors import ConfigError
from ragbench.gate.config import Undecided
from ragbench.gate.gate import gate
from tests.unit.gate.builders import Score, column, config, run, with_cases
from tests.unit.gate.verdicts import (
    CANNOT_TELL,
    FAILED,
    PASSED,
    check_of,
    checks_of_kind,
    drop_of,
)

# --- floors and ceilings

HALF_RIGHT: list[Score] = [1, 0] * 20
"""Forty cases with a mean of .5, whose interval reaches from .338 to .662."""


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"minimum": 0.5}, "0.500 is at least 0.500, but"),
        ({"maximum": 0.5}, "0.500 is at most 0.500, but its"),
    ],
)
def test_a_figure_that_is_exactly_its_limit_passes(limits: dict[str, float], message: str) -> None:
    verdict = gate(run({"m": HALF_RIGHT}), None, config(m=limits))

    check = check_of(verdict, "m")
    assert check.outcome is PASSED
    assert message in check.reason
    assert verdict.outcome is PASSED


def test_a_figure_fails_where_its_whole_interval_is_below_the_minimum() -> None:
    now = run({"m": HALF_RIGHT})

    verdict = gate(now, None, config(m={"minimum": 0.67}))

    check = check_of(verdict, "m")
    assert check.outcome is FAILED
    assert "0.500 is below 0.670" in check.reason
    assert verdict.outcome is FAILED


def test_a_figure_that_is_not_measured_is_no_zero() -> None:
    now = run({"m": [1.0, 1.0, "skipped", "abstained"]})

    verdict = gate(now, None, config(m={"minimum": 0.9}))

    check = check_of(verdict, "m")
    assert check.outcome is PASSED
    assert "1.000 is" in check.reason


def test_on_fewer_cases_than_demanded_a_limit_is_undecided() -> None:
    demands = config({"min_cases": 3}, m={"minimum": 0.5})

    verdict = gate(run({"m": [1, 1]}), None, demands)

    check = check_of(verdict, "m")
    assert check.outcome is CANNOT_TELL
    assert "2 cases" in check.reason
    assert verdict.outcome is CANNOT_TELL


def test_a_broken_limit_fails_even_where_nothing_compares() -> None:
    demands = config({"undecided": Undecided.PASS}, m={"minimum": 0.5, "max_drop": 0.1})

    verdict = gate(run({"m": [0]}), None, demands)

    check = check_of(verdict, "m")
    assert check.outcome is FAILED
    assert "0.000 is below 0.500" in check.reason
    assert verdict.outcome is FAILED


TWO_OF_TWENTY_FAILED: list[Score] = [1.0] * 18 + ["failed"] * 2


@pytest.mark.parametrize(
    ("scores", "limits", "subject", "message"),
    [
        pytest.param(
            HALF_RIGHT,
            {"minimum": 0.51},
            "m",
            "0.500 is below 0.510, but its",
            id="minimum",
        ),
        pytest.param(
            HALF_RIGHT,
            {"maximum": 0.49},
            "m",
            "0.500 is above 0.490, but its interval (0.338 to 0.662) lies on both sides",
            id="maximum",
        ),
        pytest.param(
            TWO_OF_TWENTY_FAILED,
            {"minimum": 0.5},
            "error rate",
            "2 of 20 cases failed (10.0%), more than 5.0%, but its interval "
            "(0.0% to 24.4%) lies on",
            id="error rate",
        ),
    ],
)
class TestAFigureBeyondItsLimitWhoseIntervalReachesBack:
    """Chance may explain it: it is warned of, and blocks where that is configured."""

    def test_passes_with_a_warning(
        self, scores: list[Score], limits: dict[str, float], subject: str, message: str
    ) -> None:
        verdict = gate(run({"m": scores}), None, config(m=limits))

        check = check_of(verdict, subject)
        assert (check.outcome, check.ground) == (CANNOT_TELL, Ground.MAY_HOLD)
        assert message in check.reason
        assert (verdict.outcome, verdict.colour) == (PASSED, "yellow")
        assert verdict.headline.startswith(f"not shown, and not ruled out: {subject} ")

    @pytest.mark.parametrize(
        ("undecided", "outcome"),
        [(Undecided.INCONCLUSIVE, CANNOT_TELL), (Undecided.FAIL, FAILED)],
    )
    def test_blocks_where_that_is_configured(
        self,
        scores: list[Score],
        limits: dict[str, float],
        subject: str,
        message: str,
        undecided: Undecided,
        outcome: GateOutcome,
    ) -> None:
        demands = config({"undecided": undecided}, m=limits)

        verdict = gate(run({"m": scores}), None, demands)

        assert verdict.outcome is outcome


def test_a_figure_that_may_hold_by_itself_fails_where_the_baseline_was_better() -> None:
    """Eight of forty cases fall from 1 to 0: below .85 by chance, perhaps, and lower for sure."""
    before = run({"m": [1.0] * 40})
    now = run({"m": [0.0] * 8 + [1.0] * 32})
    demands = config(m={"minimum": 0.85})

    alone = gate(now, None, demands)
    against_baseline = gate(now, before, demands)

    assert check_of(alone, "m").ground is Ground.MAY_HOLD
    (floor,) = checks_of_kind(against_baseline, CheckKind.FLOOR)
    assert floor.ground is Ground.BROKEN


@pytest.mark.parametrize(
    ("unmeasured", "outcome"),
    [
        pytest.param(["abstained"] * 59, CANNOT_TELL, id="most were declined"),
        pytest.param(["failed"] * 2, CANNOT_TELL, id="most failed"),
        pytest.param(["failed"], PASSED, id="half failed"),
        # What was declined or failed applies and has no figure; what was skipped does not apply.
        pytest.param(["skipped"] * 59, PASSED, id="the others do not apply"),
    ],
)
def test_a_floor_that_rests_on_less_than_half_of_its_cases_is_not_passed(
    unmeasured: list[Score], outcome: GateOutcome
) -> None:
    now = run({"m": [1.0, *unmeasured]})

    verdict = gate(now, None, config({"max_error_rate": 1.0}, m={"minimum": 0.9}))

    assert check_of(verdict, "m").outcome is outcome
    assert verdict.outcome is outcome


def test_a_floor_that_rests_on_less_than_half_of_its_cases_says_on_how_many() -> None:
    now = run({"m": [1.0, "failed", "failed"]})

    verdict = gate(now, None, config({"max_error_rate": 1.0}, m={"minimum": 0.9}))

    reason = check_of(verdict, "m").reason
    assert reason.startswith("1.000 is at least 0.900, but on 1 of the")
    assert verdict.outcome.exit_code == 3


METRICS_WITHOUT_A_MEAN = [
    column("ece", aggregate="a:b", low=-1.0, direction=Direction.LOWER),
    column("time", has_cells=False, direction=Direction.LOWER),
]


def run_with_figure(metric: MetricColumn) -> RunScores:
    """The metric's own figure is .3, whatever its cells say."""
    now = run({metric.name: [0.5, -0.5]}, metric)
    (mean,) = now.metrics
    return replace(now, metrics=(replace(mean, score=0.3),))


@pytest.mark.parametrize("metric", METRICS_WITHOUT_A_MEAN, ids=lambda metric: metric.name)
def test_a_figure_that_is_no_mean_has_a_limit(metric: MetricColumn) -> None:
    demands = config(**{metric.name: {"maximum": 0.25}})

    verdict = gate(run_with_figure(metric), None, demands)

    assert check_of(verdict, metric.name).observed == 0.3
    assert verdict.outcome is FAILED


@pytest.mark.parametrize("metric", METRICS_WITHOUT_A_MEAN, ids=lambda metric: metric.name)
def test_a_figure_that_is_no_mean_has_no_drop(metric: MetricColumn) -> None:
    now = run_with_figure(metric)
    demands = config(**{metric.name: {"max_drop": 0.1}})

    with pytest.raises(ConfigError, match=r"not a mean over cases|no per-case values"):
        gate(now, now, demands)


# --- the share of cases that failed


@pytest.mark.parametrize(
    ("scores", "largest_rate", "outcome", "message"),
    [
        (
            [1.0] * 12 + ["failed"] * 8,
            0.05,
            FAILED,
            "8 of 20 cases failed (40.0%), more than 5.0%",
        ),
        (
            TWO_OF_TWENTY_FAILED,
            0.1,
            PASSED,
            "2 of 20 cases failed (10.0%), at most 10.0%",
        ),
    ],
)
def test_the_share_of_failed_cases_has_a_limit(
    scores: list[Score], largest_rate: float, outcome: GateOutcome, message: str
) -> None:
    demands = config({"max_error_rate": largest_rate}, m={"minimum": 0.5})

    verdict = gate(run({"m": scores}), None, demands)

    check = check_of(verdict, "error rate")
    assert check.outcome is outcome
    assert message in check.reason
    assert verdict.outcome is outcome


def test_an_error_rate_that_may_hold_by_itself_fails_where_the_baseline_had_none() -> None:
    before = run({"m": [1.0] * 40})
    now = run({"m": ["failed"] * 8 + [1.0] * 32})
    demands = config({"max_error_rate": 0.15}, m={"minimum": 0.5})

    alone = gate(now, None, demands)
    against_baseline = gate(now, before, demands)

    assert check_of(alone, "error rate").ground is Ground.MAY_HOLD
    assert check_of(against_baseline, "error rate").ground is Ground.BROKEN


def test_a_case_whose_stage_failed_has_failed_whatever_its_metrics_say() -> None:
    whole = run({"m": [1.0] * 20})
    stages = {"retrieve": Status.FAILED, "generate": Status.MEASURED}
    cases = list(whole.cases)
    broken = [replace(case, stages=stages) for case in cases[:10]]
    now = with_cases(whole, [*broken, *cases[10:]])

    verdict = gate(now, None, config(m={"minimum": 0.1}))

    check = check_of(verdict, "error rate")
    assert check.observed == 0.5
    assert (check.outcome, check.ground) == (FAILED, Ground.BROKEN)


def test_a_run_without_a_failed_stage_has_an_error_rate_that_holds() -> None:
    now = run({"m": [1.0] * 20})

    verdict = gate(now, None, config(m={"minimum": 0.1}))

    assert check_of(verdict, "error rate").ground is Ground.HOLDS


# --- the share of cases that are measured


@pytest.mark.parametrize(
    ("measured_before", "measured_now", "outcome", "is_half_lost"),
    [
        (10, 4, FAILED, True),
        (10, 5, PASSED, False),
        (10, 6, PASSED, False),
        (9, 0, CANNOT_TELL, False),
    ],
)
def test_fewer_than_half_of_ten_measured_cases_fail_whatever_is_tolerated(
    measured_before: int, measured_now: int, outcome: GateOutcome, is_half_lost: bool
) -> None:
    before = run({"m": [1.0] * measured_before})
    abstained: list[Score] = ["abstained"] * (measured_before - measured_now)
    now = run({"m": [1.0] * measured_now + abstained})
    demands = config({"max_unmeasured": 0.99}, m={"max_drop": 0.1})

    verdict = gate(now, before, demands)

    check = check_of(verdict, "measured: m")
    assert check.outcome is outcome
    assert check.reason.endswith(": fewer than half") is is_half_lost


@pytest.mark.parametrize(
    "demands",
    [
        pytest.param(config(token_f1={"max_drop": 0.02, "minimum": 0.6}), id="the metric is named"),
        pytest.param(config(n={"max_drop": 0.1}), id="another metric is named"),
        pytest.param(GateConfig(), id="no metric is named"),
    ],
)
def test_a_system_that_stops_answering_fails_however_good_the_rest_is(demands: GateConfig) -> None:
    """204 right answers before; now ten, and 194 times "I don't know"."""
    all_right = [1.0] * 204
    answers_now: list[Score] = [1.0] * 10 + ["abstained"] * 194
    words = column("token_f1", group="generator")
    before = run({"n": all_right, "token_f1": all_right}, words)
    now = run({"n": all_right, "token_f1": answers_now}, words)

    verdict = gate(now, before, demands)

    assert verdict.outcome is FAILED
    assert set(verdict.headline.split("; ")) == {
        "measured: token_f1 down 95.1% from 100.0% to 4.9%",
        "answered down 0.951 from 1.000 to 0.049",
    }
    assert verdict.checks[0].ground is Ground.SHOWN
    drop = drop_of(now, before, demands, "answered")
    assert (drop.low or 0.0) < -0.951 < (drop.high or 0.0)


@pytest.mark.parametrize(
    ("before", "now", "cases", "share_before", "share_now"),
    [
        pytest.param(
            [1.0, 1.0, "skipped", "skipped"],
            [1.0, 1.0, "skipped", "skipped"],
            2,
            1.0,
            1.0,
            id="cases that it never applied to are not missing",
        ),
        pytest.param(
            [1.0, 1.0, "abstained", "skipped"],
            [1.0, "skipped", "skipped", 1.0],
            3,
            2 / 3,
            2 / 3,
            id="cases that only one of the runs measured count in either direction",
        ),
    ],
)
def test_of_the_cases_that_either_run_measured_the_shares_are_compared(
    before: list[Score], now: list[Score], cases: int, share_before: float, share_now: float
) -> None:
    scores_before: dict[str, list[Score]] = {
        "never": ["skipped"] * 4,
        "failed": ["failed"] * 4,
        "m": before,
    }
    scores_now: dict[str, list[Score]] = {
        "never": ["skipped"] * 4,
        "failed": [1.0] * 4,
        "m": now,
        "new": [1.0] * 4,
    }
    demands = config(m={"max_drop": 0.1})

    drop = drop_of(run(scores_now), run(scores_before), demands, "measured: m")

    assert drop.cases == cases
    assert (drop.before, drop.after) == (share_before, share_now)
