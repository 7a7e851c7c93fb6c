"""Budgets of time, tokens and cost, and their rise against the baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragbench import GateConfig
from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome, Ground
from ragbench.core.metric import Direction
from ragbench.core.run_scores import RunScores
from ragbench.gate.config import LatencyBudget
from ragbench.gate.gate import gate
from ragbench.gate.main_runs import baseline_of
from tests.unit.gate.builders import column, config, run, timed
from tests.unit.gate.verdicts import CANNOT_TELL, FAILED, PASSED, check_of, checks_of_kind

TOKENS = column("total_tokens", high=None, direction=Direction.LOWER)
COST = column("generation_cost", high=None, direction=Direction.LOWER)


def time_limit(stage: str, figure: str, seconds: float) -> GateConfig:
    return config({"latency": (LatencyBudget(stage=stage, figure=figure, seconds=seconds),)})


def run_with_times(mean: float = 0.5, **figures: Any) -> RunScores:
    """Eight cases that took .5 s in the mean and the median."""
    times = timed("retrieve", 8, mean, **figures)
    return run({"m": [1.0] * 8}, **times)


def check_of_time(now: RunScores, figure: str, seconds: float) -> GateCheck:
    """The check on the time of retrieval, whose budget is so many seconds."""
    verdict = gate(now, None, time_limit("retrieve", figure, seconds))
    return check_of(verdict, f"retrieve {figure}")


# --- time


@pytest.mark.parametrize(
    ("figure", "seconds"),
    [
        ("mean", 0.5),
        ("p95", 0.9),
        ("total", 8 * 0.5),
        ("longest", 1.0),
    ],
)
def test_a_time_that_is_exactly_its_budget_passes(figure: str, seconds: float) -> None:
    now = run_with_times(p95=0.9, longest=1.0)

    check = check_of_time(now, figure, seconds)

    assert check.observed == seconds
    assert check.outcome is PASSED
    assert check.cases == 8


@pytest.mark.parametrize(
    ("figure", "budget", "ground"),
    [
        # The median is .5 and the 95th percentile .9: eight times lie a third apart, by their logs.
        pytest.param("mean", 0.49, Ground.MAY_HOLD, id="a mean is estimated"),
        pytest.param("p95", 0.85, Ground.MAY_HOLD, id="a percentile is estimated"),
        pytest.param("mean", 0.2, Ground.BROKEN, id="a mean far above its budget"),
        pytest.param("p95", 0.5, Ground.BROKEN, id="a percentile far above its budget"),
        pytest.param("total", 3.99, Ground.BROKEN, id="a sum is what it is"),
        pytest.param("longest", 0.99, Ground.BROKEN, id="the longest time is what it is"),
    ],
)
def test_a_time_above_its_budget_fails_unless_chance_may_explain_it(
    figure: str, budget: float, ground: Ground
) -> None:
    now = run_with_times(p95=0.9, longest=1.0)

    check = check_of_time(now, figure, budget)

    assert check.ground is ground
    assert check.outcome is (FAILED if ground is Ground.BROKEN else CANNOT_TELL)


SHARED_CALLS: dict[str, Any] = {
    "p50": None,
    "p95": None,
    "longest": None,
    "sharing": 2,
}
"""Where two cases shared a call, the times of single cases are not known."""


@pytest.mark.parametrize("figure", ["p95", "longest"])
def test_the_times_of_single_cases_cannot_be_judged_where_cases_shared_calls(figure: str) -> None:
    now = run_with_times(**SHARED_CALLS)

    check = check_of_time(now, figure, 0.9)

    assert check.outcome is CANNOT_TELL
    assert check.reason == "the run stores no times of single cases (up to 2 shared a call)"


@pytest.mark.parametrize(
    ("figure", "budget", "outcome"),
    [
        ("mean", 0.5, PASSED),
        ("mean", 0.2, FAILED),
        ("total", 4.0, PASSED),
        ("total", 3.99, FAILED),
    ],
)
def test_mean_and_total_are_judged_where_cases_shared_calls(
    figure: str, budget: float, outcome: GateOutcome
) -> None:
    now = run_with_times(**SHARED_CALLS)

    check = check_of_time(now, figure, budget)

    assert check.outcome is outcome


def test_a_rise_just_above_its_budget_is_warned_of() -> None:
    """From .5 to .52 is 4%, where 2% are allowed."""
    before = run_with_times(0.5, p95=0.9, longest=1.0)
    now = run_with_times(0.52, p95=0.9, longest=1.0)

    verdict = gate(now, before, time_limit("retrieve", "rise", 0.02))

    assert check_of(verdict, "retrieve rise").ground is Ground.MAY_HOLD


# --- tokens and cost

BUDGETS = {
    "max_tokens": {"case": 150, "all": 400},
    "max_cost": {"case": 0.25, "all": 0.4},
}


def test_cost_and_tokens_have_budgets_per_case_and_in_all() -> None:
    now = run({"total_tokens": [100, 300]}, TOKENS, judge_cost=0.5, currency="USD")

    verdict = gate(now, None, config(BUDGETS))

    figures = {check.subject: (check.outcome, check.observed) for check in verdict.checks}
    assert figures == {
        "tokens (per case)": (FAILED, 200.0),
        "tokens (in all)": (PASSED, 400.0),
        "cost of judging (per case)": (PASSED, 0.25),
        "cost of judging (in all)": (FAILED, 0.5),
        "error rate": (PASSED, 0.0),
    }
    assert "0.5 USD is above 0.4 USD" in verdict.headline


def test_a_run_that_stores_no_cost_or_tokens_cannot_be_judged_by_their_budgets() -> None:
    verdict = gate(run({"m": [1]}), None, config(BUDGETS))

    assert verdict.outcome is CANNOT_TELL
    budgets = checks_of_kind(verdict, CheckKind.BUDGET)
    assert {check.reason for check in budgets} == {
        "the run stores no cost of judging",
        "the run stores no tokens (metric total_tokens)",
    }


# --- against the baseline

RISES = config(
    {
        # A little above .2, because .6 / .5 is not exactly 1.2.
        "latency": (LatencyBudget(stage="generate", figure="rise", seconds=0.2000001),),
        "max_tokens": {"rise": 0.2},
    },
    m={"max_drop": 0.1},
)
"""Time and tokens may rise by a fifth."""


def run_that_takes(seconds: float, tokens: float) -> RunScores:
    """Three cases; each costs a sixty-thousandth per token."""
    scores = {
        "m": [1.0] * 3,
        "total_tokens": [tokens] * 3,
        "generation_cost": [tokens / 60_000] * 3,
    }
    return run(scores, TOKENS, COST, **timed("generate", 3, seconds))


@pytest.mark.parametrize("from_main", [False, True], ids=["a run", "the runs of main"])
@pytest.mark.parametrize(
    ("seconds", "tokens", "outcome", "notes"),
    [
        pytest.param(0.5, 100, PASSED, [], id="unchanged"),
        # Noted is a time that rose by half, or a fifth more tokens.
        pytest.param(0.6, 119, PASSED, [], id="exactly tolerated"),
        pytest.param(
            0.8,
            130,
            FAILED,
            [
                "Time of generate per case: 0.8 s, before 0.5 s (+60%).",
                "Tokens per case: 130 tokens, before 100 tokens (+30%).",
                "Cost of the RAG per 1,000 cases: 2.167, before 1.667 (+30%).",
            ],
            id="more than tolerated",
        ),
    ],
)
def test_time_tokens_and_cost_are_held_against_those_of_the_baseline(
    seconds: float, tokens: float, outcome: GateOutcome, notes: list[str], from_main: bool
) -> None:
    before = run_that_takes(0.5, 100)
    baseline = baseline_of([before]) if from_main else before

    verdict = gate(run_that_takes(seconds, tokens), baseline, RISES)

    assert check_of(verdict, "generate rise").outcome is outcome
    assert check_of(verdict, "tokens rise").outcome is outcome
    assert [note for note in verdict.notes if "before" in note] == notes


def test_a_rise_cannot_be_judged_against_a_baseline_without_times() -> None:
    before = replace(run_that_takes(0.5, 100), latencies=())

    verdict = gate(run_that_takes(0.5, 100), before, RISES)

    assert check_of(verdict, "generate rise").ground is Ground.NOT_STORED
    assert verdict.checks[0].subject == "generate rise"


@pytest.mark.parametrize("from_main", [False, True], ids=["a run", "the runs of main"])
def test_times_of_another_concurrency_do_not_compare(from_main: bool) -> None:
    before = run_that_takes(0.1, 100)
    baseline = baseline_of([before]) if from_main else before
    slower = run_that_takes(0.9, 100)
    (latency,) = slower.latencies
    now = replace(slower, latencies=(replace(latency, concurrency="auto"),))

    verdict = gate(now, baseline, RISES)

    check = check_of(verdict, "generate rise")
    assert check.ground is Ground.NOT_STORED
    assert "no time to compare: this run's are of --concurrency auto" in check.summary
    assert not [note for note in verdict.notes if "Time of generate" in note]


def test_without_a_baseline_a_rise_does_not_pass() -> None:
    verdict = gate(run_that_takes(0.5, 100), None, RISES)

    assert verdict.outcome is CANNOT_TELL
