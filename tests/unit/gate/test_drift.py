"""Main over its merges: what `baseline add` keeps, and what the gate of a later run says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from ragbench import GateConfig
from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome
from ragbench.core.history import Drift, FittedLimit, MetricDrift
from ragbench.core.metric import Direction
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.baseline_file import Baseline, baseline_bytes, baseline_from
from ragbench.gate.config import read_gate_config
from ragbench.gate.gate import gate
from ragbench.gate.history import fitted_limits
from ragbench.gate.main_runs import baseline_of, with_run
from ragbench.stats.bets import LEAST
from ragbench.views.history import limits_yaml
from tests.unit.gate.builders import SYSTEM, column, config, main_run, run, with_cases

ANY = GateConfig()
CASES = 264
CHANCE = np.random.default_rng(0).uniform(0.9, 1.0, CASES)
FALL = 0.02
"""What each merge takes where main falls: too little for any one of them to show."""


def of_main(number: int, fallen: float = 0.0, *, flipped: bool = False) -> RunScores:
    """A run of a system that is right in 95 % of the cases, less what it has fallen.

    Flipped, the metric counts what is wrong: a lower value is better.
    """
    draws = np.random.default_rng([1, number]).random(CASES)
    is_right = draws < CHANCE - fallen
    scores = (is_right != flipped).astype(float)
    direction = Direction.LOWER if flipped else Direction.HIGHER
    return run(
        {"m": scores.tolist()},
        column("m", direction=direction),
        fingerprints={"dataset": "d", "rag": "r"},
        date=f"2026-03-{number + 1:02}T10:00:00+00:00",
        commit=f"c{number}",
    )


def baselines_after_merges(
    fall: float, merges: int, *, flipped: bool = False
) -> Sequence[Baseline]:
    """The baseline before all merges and after each, where each takes so much."""
    baselines = [baseline_of([of_main(0, flipped=flipped)])]
    for number in range(1, merges + 1):
        now = of_main(number, fall * number, flipped=flipped)
        baselines.append(with_run(baselines[-1], now).baseline)
    return baselines


@pytest.fixture(scope="module")
def falling() -> Sequence[Baseline]:
    return baselines_after_merges(FALL, 10)


@pytest.fixture(scope="module")
def unchanged() -> Sequence[Baseline]:
    return baselines_after_merges(0.0, 15)


def drift_check(now: RunScores, baseline: Baseline, limits: GateConfig = ANY) -> GateCheck:
    """What the gate of a run says of main's drift."""
    checks = gate(now, baseline, limits).checks
    (check,) = [check for check in checks if check.kind is CheckKind.DRIFT]
    return check


def drift_of(baseline: Baseline) -> Drift:
    assert baseline.drift is not None
    return baseline.drift


def metric_of(baseline: Baseline) -> MetricDrift:
    (metric,) = drift_of(baseline).metrics
    return metric


# --- what the gate says


def assert_red_by_the_eighth_merge(
    baselines: Sequence[Baseline], *, flipped: bool, start: float, end: float
) -> None:
    """The first red check, which tells the whole way from the start to this run."""
    checks: list[GateCheck] = []
    for merge in range(LEAST - 1, 9):
        now = of_main(20, FALL * merge, flipped=flipped)
        checks.append(drift_check(now, baselines[merge]))
        if checks[-1].outcome is GateOutcome.FAILED:
            break

    check = checks[-1]
    merge = LEAST - 2 + len(checks)
    assert check.outcome is GateOutcome.FAILED
    assert check.trend is not None
    assert check.trend.start == pytest.approx(start, abs=0.04)
    assert check.trend.end == pytest.approx(end, abs=0.04)
    assert check.trend.runs == merge + 1
    assert len(check.trend.levels) == merge + 1
    assert check.trend.p_value <= 0.05
    assert "since 2026-03-01" in check.reason
    assert check.reason.endswith("Accept the lower level with: ragbench baseline add RUN --accept")


def test_small_losses_that_no_merge_shows_are_red_by_the_eighth(
    falling: Sequence[Baseline],
) -> None:
    assert_red_by_the_eighth_merge(falling, flipped=False, start=0.95, end=0.8)


def test_small_rises_of_a_metric_where_lower_is_better_are_red_by_the_eighth() -> None:
    rising = baselines_after_merges(FALL, 8, flipped=True)

    assert_red_by_the_eighth_merge(rising, flipped=True, start=0.05, end=0.2)


def test_a_run_that_brings_main_back_passes(falling: Sequence[Baseline]) -> None:
    back = of_main(20)

    verdict = gate(back, falling[10], ANY)

    assert verdict.outcome is GateOutcome.PASSED
    assert "and this run is back at 0.9" in drift_check(back, falling[10]).reason


def test_a_run_that_brings_main_back_by_half_fails(falling: Sequence[Baseline]) -> None:
    half_way = of_main(20, FALL * 5)

    check = drift_check(half_way, falling[10])

    assert check.outcome is GateOutcome.FAILED


def test_a_drift_within_the_tolerated_drop_passes(falling: Sequence[Baseline]) -> None:
    now = of_main(20, FALL * 10)
    tolerant = config(m={"max_drop": 0.5})

    check = drift_check(now, falling[10], tolerant)

    assert check.outcome is GateOutcome.PASSED


def test_a_gate_that_asks_for_no_drop_is_told_nothing_of_drift(
    falling: Sequence[Baseline],
) -> None:
    now = of_main(20, FALL * 10)
    floor_alone = config(m={"minimum": 0.1})

    verdict = gate(now, falling[10], floor_alone)

    assert CheckKind.DRIFT not in [check.kind for check in verdict.checks]


def test_an_unchanged_system_passes(unchanged: Sequence[Baseline]) -> None:
    assert drift_check(of_main(20), unchanged[15]).outcome is GateOutcome.PASSED


def test_a_lower_level_that_is_accepted_begins_anew(falling: Sequence[Baseline]) -> None:
    lower = of_main(11, FALL * 11)

    accepted = with_run(falling[10], lower, accept=True).baseline

    metric = metric_of(accepted)
    assert metric.since == lower.date
    assert metric.commit == "c11"
    assert metric.looks == 0
    as_low = of_main(20, FALL * 11)
    verdict = gate(as_low, accepted, ANY)
    assert verdict.outcome.exit_code == 0


# --- what a baseline keeps of each case: since when, its sums, its last score


def test_an_edited_and_a_new_case_begin_anew_and_the_others_stay_as_they_were(
    unchanged: Sequence[Baseline],
) -> None:
    """q1 was edited, q2 is gone, and one is new."""
    now = of_main(9)
    q1, q2, *others = now.cases
    edited = replace(q1, fingerprint="edited")
    new = replace(q2, id="new", fingerprint="new")
    changed = with_cases(now, [edited, *others, new])

    added = with_run(unchanged[8], changed)

    drift = drift_of(added.baseline)
    assert len(drift.cases) == CASES
    assert "q2" not in drift.cases
    begun_anew: list[str] = []
    for case_id, sums in drift.cases.items():
        first_run, *_ = sums["m"]
        if first_run > 0:
            begun_anew.append(case_id)
    assert sorted(begun_anew) == ["new", "q1"]


def test_a_run_that_is_held_is_looked_at_and_drops_no_case(unchanged: Sequence[Baseline]) -> None:
    worse = of_main(7, 0.3)
    _, *others = worse.cases
    without_q1 = with_cases(worse, others)

    added = with_run(unchanged[6], without_q1)

    assert added.is_held
    cases_before = drift_of(unchanged[6]).cases
    cases_now = drift_of(added.baseline).cases
    assert cases_now.keys() == cases_before.keys()
    assert metric_of(unchanged[6]).looks == 2
    assert metric_of(added.baseline).looks == 3


def test_the_line_begins_anew_with_the_second_run_that_is_shown_to_be_better(
    unchanged: Sequence[Baseline],
) -> None:
    """The first one may be luck."""
    perfect = run({"m": [1.0] * CASES}, fingerprints=of_main(7).fingerprints)

    once = with_run(unchanged[6], perfect)
    twice = with_run(once.baseline, perfect)

    assert once.is_first
    assert len(metric_of(once.baseline).steps) == 7
    assert [change.is_loss for change in twice.changes] == [False]
    assert metric_of(twice.baseline).steps == ()
    assert metric_of(twice.baseline).looks == 3
    drift = drift_of(twice.baseline)
    sums_of_cases = [sums["m"] for sums in drift.cases.values()]
    assert sums_of_cases == [(8, 1.0, 0.0, 1.0)] * CASES


def test_a_declined_answer_is_the_worst_one_and_a_failed_one_is_as_before() -> None:
    before = baseline_of([run({"m": [1.0, 1.0, 1.0]}, date="2026-03-01")])
    now = run({"m": ["abstained", "failed", 0.5]}, date="2026-03-02")

    added = with_run(before, now)

    # Number of the first run, sum of the scores, their sum weighted by the run, newest score.
    assert drift_of(added.baseline).cases == {
        "q1": {"m": (0, 1.0, 0.0, 0.0)},
        "q2": {"m": (0, 2.0, 1.0, 1.0)},
        "q3": {"m": (0, 1.5, 0.5, 0.5)},
    }


# --- in the file


def test_the_drift_is_read_as_it_was_written(falling: Sequence[Baseline]) -> None:
    content = orjson.loads(baseline_bytes(falling[3]))

    assert baseline_bytes(baseline_from(content)) == baseline_bytes(falling[3])


def test_a_file_of_a_release_without_drift_begins_one(falling: Sequence[Baseline]) -> None:
    content = orjson.loads(baseline_bytes(falling[3]))
    for key in ("drift", "sums", "followed"):
        content.pop(key, None)

    older = baseline_from(content)

    assert older.drift is None
    assert with_run(older, of_main(4)).baseline.drift is not None


@pytest.mark.parametrize(
    "sums",
    [[1], [9, 1.0, 1.0, 1.0], [-1, 1.0, 1.0, 1.0]],
    ids=["too few", "after the last run", "before the first run"],
)
def test_damaged_sums_of_a_case_are_refused(falling: Sequence[Baseline], sums: list[float]) -> None:
    content = orjson.loads(baseline_bytes(falling[3]))

    with pytest.raises(ValueError, match="its record of main's drift"):
        baseline_from({**content, "sums": {"q1": {"m": sums}}})


# --- limits that are fitted to the noise of main's runs

SIZE = 200


def drawn(rng: np.random.Generator, day: int, loss: float = 0.0) -> RunScores:
    """A run that is right in 60 % of its cases, less a share of these."""
    is_right = rng.random(SIZE) < 0.6
    is_lost = rng.random(SIZE) < loss
    scores = (is_right & ~is_lost).astype(float)
    return main_run(scores.tolist(), day=day)


def three_days(rng: np.random.Generator) -> list[RunScores]:
    return [drawn(rng, day=1), drawn(rng, day=2), drawn(rng, day=3)]


@pytest.mark.nightly
def test_the_drop_that_is_said_to_be_seen_is_seen_in_about_four_of_five() -> None:
    rng = np.random.default_rng(2)
    (limit,) = fitted_limits(three_days(rng))
    assert limit.seen is not None
    limits = config(m={"max_drop": limit.tolerance})

    false_alarms = 0
    seen = 0
    for _ in range(40):
        baseline = baseline_of(three_days(rng))
        alike = drawn(rng, day=9)
        # Of the cases that were right this share is lost.
        lower = drawn(rng, day=9, loss=limit.seen / 0.6)
        if gate(alike, baseline, limits).outcome is GateOutcome.FAILED:
            false_alarms += 1
        if gate(lower, baseline, limits).outcome is GateOutcome.FAILED:
            seen += 1

    assert false_alarms <= 2
    assert 24 <= seen <= 40


@pytest.mark.parametrize(
    "metric",
    [
        column("m", direction=Direction.NEITHER),
        column("m", high=None),
        column("m", aggregate="s"),
    ],
    ids=["without a better side", "without a scale", "without a mean"],
)
def test_some_metrics_have_no_limit(metric: MetricColumn) -> None:
    runs = [
        run({"m": [1.0, 0.0]}, metric, fingerprints=SYSTEM, date="2026-05-01"),
        run({"m": [1.0, 0.0]}, metric, fingerprints=SYSTEM, date="2026-05-02"),
    ]

    assert fitted_limits(runs) == ()


def test_a_run_that_equals_the_mean_of_the_others_counts_as_one_without_noise() -> None:
    """Against the mean of the others the runs differ by (0, 0), (3/4, -3/4) and (-3/4, 3/4).

    The variances of a cluster are 0, 9/8 and 9/8, 3/4 in the mean; from two runs in the baseline
    to three it is 3/4 * (4/3) / (3/2) = 2/3, and of two clusters half of that.
    """
    runs = [
        main_run([0.5, 0.5], day=1),
        main_run([1.0, 0.0], day=2),
        main_run([0.0, 1.0], day=3),
    ]

    (limit,) = fitted_limits(runs)

    assert limit.noise == pytest.approx((1 / 3) ** 0.5)
    # Of two clusters no signs are rarer than 1/4: no drop is ever shown.
    assert limit.seen is None


@pytest.mark.parametrize(
    ("noise", "tolerance"),
    [(0.1, 0.1), (0.1001, 0.105), (0.0999, 0.1)],
)
def test_the_tolerance_is_the_noise_rounded_up_to_half_percents(
    noise: float, tolerance: float
) -> None:
    """Two cases differ by d, one each way: a noise of d * sqrt(3/4)."""
    d = noise / 0.75**0.5
    runs = [
        main_run([0.5, 0.5], day=1),
        main_run([0.5 + d, 0.5 - d], day=2),
    ]

    (limit,) = fitted_limits(runs)

    assert limit.noise == pytest.approx(noise)
    assert limit.tolerance == pytest.approx(tolerance)


LIMITS = [
    FittedLimit(
        metric="recall@5",
        cases=300,
        clusters=120,
        noise=0.0123,
        tolerance=0.015,
        seen=0.061,
    ),
    FittedLimit(
        metric="my: own, metric",
        cases=4,
        clusters=4,
        noise=0.2,
        tolerance=0.2,
        seen=None,
    ),
]


def fitted_file() -> str:
    """The file for three runs, one of which is named to break out of its comment."""
    runs = [run({"m": [0.0] * 300})] * 3
    return limits_yaml(LIMITS, runs, ["x\nrm: y"], "b.json")


def test_the_file_of_fitted_limits_is_a_configuration_of_the_gate(tmp_path: Path) -> None:
    path = tmp_path / "ragbench.yaml"
    path.write_text(fitted_file(), "utf-8")

    gate_config = read_gate_config(path)

    assert gate_config.baseline == str(tmp_path / "b.json")
    assert sorted(gate_config.metrics) == ["my: own, metric", "recall@5"]
    assert gate_config.metrics["recall@5"].limits.max_drop == 0.015
    assert gate_config.metrics["my: own, metric"].limits.max_drop == 0.2


def test_the_file_of_fitted_limits_says_its_command_and_its_figures() -> None:
    text = fitted_file()

    assert text.startswith("# Written by: ragbench 'x rm: y'")
    assert "300 cases in 120 clusters, noise 0.012; a true drop of 0.061 is shown" in text
    assert "4 cases, noise 0.200; too few to show any drop" in text
