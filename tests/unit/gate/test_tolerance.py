"""The tolerance that fits a dataset: its figures come true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragbench import FigureLimits, GateConfig, MetricGate
from ragbench.core.gate_result import GateOutcome
from ragbench.core.history import FittedLimit
from ragbench.core.metric import Direction
from ragbench.core.run_scores import RunScores
from ragbench.gate.config import read_gate_config
from ragbench.gate.gate import gate
from ragbench.gate.history import fitted_limits
from ragbench.gate.main_runs import baseline_of
from ragbench.views.history import limit_line, limits_yaml
from tests.unit.gate.builders import column, run

SYSTEM = {"dataset": "d1", "rag": "r", "settings": "s"}
CASES = 200


def noisy(rng: np.random.Generator, chance: np.ndarray, day: int, loss: float = 0.0) -> RunScores:
    right = (rng.random(CASES) < chance) & (rng.random(CASES) >= loss)
    return run(
        {"m": right.astype(float).tolist()},
        fingerprints=SYSTEM,
        date=f"2026-05-{day:02}T00:00:00+00:00",
    )


@pytest.mark.nightly
def test_the_drop_that_is_said_to_be_seen_is_seen_in_about_four_of_five() -> None:
    rng = np.random.default_rng(2)
    chance = np.full(CASES, 0.6)
    runs = [noisy(rng, chance, day) for day in range(1, 4)]
    (limit,) = fitted_limits(runs)
    assert limit.seen is not None
    limits = FigureLimits(max_drop=limit.tolerance)
    config = GateConfig(metrics={"m": MetricGate(limits=limits)})
    found = {0.0: 0, limit.seen: 0}
    for _ in range(40):
        baseline = baseline_of([noisy(rng, chance, day) for day in range(1, 4)]).scores("b")
        for drop in found:
            verdict = gate(noisy(rng, chance, 9, drop / 0.6), baseline, config)
            found[drop] += verdict.outcome is GateOutcome.FAILED
    assert found[0.0] <= 2
    assert 24 <= found[limit.seen] <= 40


def test_runs_that_come_out_alike_have_no_noise() -> None:
    alike = [run({"m": [1, 0, 1]}, fingerprints=SYSTEM, date=f"2026-05-0{day}") for day in (1, 2)]
    (limit,) = fitted_limits(alike)
    assert (limit.noise, limit.seen) == (0.0, None)
    assert limit.tolerance == pytest.approx(0.005)
    assert "all alike in all runs" in limit_line(limit)


def test_metrics_without_a_better_side_or_a_scale_have_no_limit() -> None:
    columns = [
        column("n", direction=Direction.NEITHER),
        column("u", high=None),
        column("a", aggregate="sum"),
    ]
    scores = {"n": [1.0, 0.0], "u": [1.0, 0.0], "a": [1.0, 0.0]}
    runs = [run(scores, *columns, fingerprints=SYSTEM, date=f"2026-05-0{d}") for d in (1, 2)]
    assert fitted_limits(runs) == ()


def test_the_file_is_a_configuration_with_its_command_and_figures(tmp_path: Path) -> None:
    limits = [
        FittedLimit(metric="recall@5", cases=300, clusters=120, noise=0.0123, tolerance=0.015,
                    seen=0.061),
        FittedLimit(metric="my: own, metric", cases=4, clusters=4, noise=0.2, tolerance=0.2,
                    seen=None),
    ]  # fmt: skip
    text = limits_yaml(limits, command="ragbench x\nrm: y", runs=3, cases=300, baseline="b.json")
    path = tmp_path / "ragbench.yaml"
    path.write_text(text, "utf-8")
    config = read_gate_config(path)
    assert config.baseline == str(tmp_path / "b.json")
    drops = {name: metric.limits.max_drop for name, metric in config.metrics.items()}
    assert drops == {"recall@5": 0.015, "my: own, metric": 0.2}
    assert text.splitlines()[0].startswith("# Written by: ragbench x")
    assert "300 cases in 120 clusters, noise 0.012; a true drop of 0.061 is shown" in text
    assert "4 cases, noise 0.200; too few to show any drop" in text


def days(*rows: list[Any], **changes: Any) -> list[RunScores]:
    """Runs of one system, a day apart."""
    return [
        run({"m": row}, fingerprints=SYSTEM, date=f"2026-05-0{day}T00:00:00+00:00", **changes)
        for day, row in enumerate(rows, start=1)
    ]


def test_a_run_that_equals_the_mean_of_the_others_counts_as_one_without_noise() -> None:
    """Against the mean of the others the runs differ by (0, 0), (3/4, -3/4) and (-3/4, 3/4).

    The variances of a cluster are 0, 9/8 and 9/8, 3/4 in the mean; from two runs in the baseline
    to three it is 3/4 * (4/3) / (3/2) = 2/3, and of two clusters half of that.
    """
    (limit,) = fitted_limits(days([0.5, 0.5], [1.0, 0.0], [0.0, 1.0]))
    assert limit.noise == pytest.approx((1 / 3) ** 0.5)
    assert limit.seen is None  # of two clusters no signs are rarer than 1/4


@pytest.mark.parametrize(("away", "tolerance"), [(0.1, 0.1), (0.1001, 0.105), (0.0999, 0.1)])
def test_the_tolerance_is_the_noise_rounded_up_to_half_percents(
    away: float, tolerance: float
) -> None:
    """Two cases differ by d, one each way: a noise of d * sqrt(3/4)."""
    d = away / 0.75**0.5
    (limit,) = fitted_limits(days([0.5, 0.5], [0.5 + d, 0.5 - d]))
    assert limit.noise == pytest.approx(away)
    assert limit.tolerance == pytest.approx(tolerance)
