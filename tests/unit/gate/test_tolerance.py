"""The tolerance that fits a dataset: its figures come true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragbench.core.gate_result import CheckKind, GateOutcome
from ragbench.core.history import FittedLimit
from ragbench.core.metric import Direction
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.config import FigureLimits, GateConfig, MetricGate, read_gate_config
from ragbench.gate.gate import gate
from ragbench.gate.main_runs import baseline_of
from ragbench.gate.tolerance import fitted_limits
from ragbench.views.limits_yaml import limit_line, limits_yaml
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


def test_the_noise_is_that_of_one_run_against_the_mean_of_all() -> None:
    rng = np.random.default_rng(1)
    chance = np.full(CASES, 0.5)
    (limit,) = fitted_limits([noisy(rng, chance, day) for day in range(1, 5)])
    # Each score has variance 1/4; a difference to a mean of four, a quarter more.
    assert limit.noise == pytest.approx((0.25 * 1.25 / CASES) ** 0.5, rel=0.1)
    assert limit.noise <= limit.tolerance < limit.noise + 0.005
    assert limit.tolerance / 0.005 == pytest.approx(round(limit.tolerance / 0.005))
    assert (limit.cases, limit.clusters) == (CASES, CASES)


def test_the_drop_that_is_said_to_be_seen_is_seen_in_about_four_of_five() -> None:
    rng = np.random.default_rng(2)
    chance = np.full(CASES, 0.6)
    runs = [noisy(rng, chance, day) for day in range(1, 4)]
    (limit,) = fitted_limits(runs)
    assert limit.seen is not None
    limits = FigureLimits(max_drop=limit.tolerance)
    config = GateConfig(metrics={"m": MetricGate(limits=limits)}, resamples=400)
    found = {0.0: 0, limit.seen: 0}
    for _ in range(40):
        baseline = baseline_of([noisy(rng, chance, day) for day in range(1, 4)]).scores("b")
        for drop in found:
            verdict = gate(noisy(rng, chance, 9, drop / 0.6), baseline, config)
            found[drop] += verdict.outcome is GateOutcome.FAILED
    assert found[0.0] <= 2
    assert 24 <= found[limit.seen] <= 40


def test_an_unchanged_run_is_decided_at_the_tolerance_for_releases() -> None:
    rng = np.random.default_rng(3)
    chance = np.full(CASES, 0.7)
    (limit,) = fitted_limits([noisy(rng, chance, day) for day in range(1, 4)])
    assert limit.strict is not None
    limits = FigureLimits(max_drop=limit.strict)
    config = GateConfig(metrics={"m": MetricGate(limits=limits)}, resamples=400)
    decided = 0
    for _ in range(40):
        baseline = baseline_of([noisy(rng, chance, day) for day in range(1, 4)]).scores("b")
        verdict = gate(noisy(rng, chance, 9), baseline, config)
        (check,) = [check for check in verdict.checks if check.kind is CheckKind.DROP]
        decided += check.outcome is GateOutcome.PASSED
    assert decided >= 24


def test_runs_that_come_out_alike_have_no_noise() -> None:
    alike = [run({"m": [1, 0, 1]}, fingerprints=SYSTEM, date=f"2026-05-0{day}") for day in (1, 2)]
    (limit,) = fitted_limits(alike)
    assert (limit.noise, limit.seen, limit.strict) == (0.0, None, None)
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


def test_what_cannot_be_measured_is_refused() -> None:
    rng = np.random.default_rng(4)
    one = noisy(rng, np.full(CASES, 0.5), 1)
    with pytest.raises(ConfigError, match="two or more runs"):
        fitted_limits([one])
    other = run({"m": [1] * CASES}, fingerprints={**SYSTEM, "rag": "x"}, date="2026-05-02")
    with pytest.raises(RunMismatchError, match="not runs of one unchanged system"):
        fitted_limits([one, other])


def test_the_file_is_a_configuration_with_its_command_and_figures(tmp_path: Path) -> None:
    limits = [
        FittedLimit(metric="recall@5", cases=300, clusters=120, noise=0.0123, tolerance=0.015,
                    seen=0.061, strict=0.05),
        FittedLimit(metric="my: own, metric", cases=4, clusters=4, noise=0.2, tolerance=0.2,
                    seen=None, strict=None),
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


def test_on_another_scale_every_figure_is_that_much_larger() -> None:
    rng = np.random.default_rng(5)
    plain = [noisy(rng, np.full(CASES, 0.6), day) for day in range(1, 4)]
    stars = [
        run(
            {"m": [5.0 * (value or 0.0) for value in each.values("m").values()]},
            column("m", high=5.0),
            fingerprints=SYSTEM,
            date=each.date,
        )
        for each in plain
    ]
    (one,), (five,) = fitted_limits(plain), fitted_limits(stars)
    assert one.seen is not None
    assert one.strict is not None
    figures = [five.noise, five.tolerance, five.seen, five.strict]
    assert figures == pytest.approx([5 * each for each in (one.noise, one.tolerance, one.seen,
                                                           one.strict)])  # fmt: skip


@pytest.mark.parametrize(("documents", "noise"), [(1, 0.0), (2, 0.5)])
def test_two_documents_are_the_fewest_that_have_noise(documents: int, noise: float) -> None:
    """Both lose all or nothing: 1 of 2 differs, by 1, from run to run.

    The differences of a document are 1 and 0, of both runs against the other: a spread of
    sqrt(1/2) a document, shrunk by sqrt((1 + 1/2) / (1 + 1/1)), over sqrt(2): 0.433.
    """
    clusters = [f"d{place % documents}" for place in range(4)]
    runs = [
        run(
            {"m": [value, 1.0] * 2},
            clusters=clusters,
            fingerprints=SYSTEM,
            date=f"2026-05-0{day}T00:00:00+00:00",
        )
        for day, value in ((1, 0.0), (2, 1.0))
    ]
    (limit,) = fitted_limits(runs)
    assert limit.clusters == documents
    assert limit.noise == pytest.approx(noise * 0.75**0.5)
