"""Main over its merges: what `baseline add` keeps, and what the gate of a later run says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragbench import GateConfig
from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome
from ragbench.core.history import FittedLimit
from ragbench.core.metric import Direction
from ragbench.core.run_scores import RunScores
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


def of_main(number: int, fallen: float = 0.0, *, flipped: bool = False) -> RunScores:
    """A run of a system that is mostly right, less what it has fallen."""
    right = np.random.default_rng([1, number]).random(CASES) < CHANCE - fallen
    scores = (right != flipped).astype(float)
    metric = column("m", direction=Direction.LOWER if flipped else Direction.HIGHER)
    facts = {"date": f"2026-03-{number + 1:02}T10:00:00+00:00", "commit": f"c{number}"}
    return run({"m": scores.tolist()}, metric, fingerprints={"dataset": "d", "rag": "r"}, **facts)


def drift_of(now: RunScores, baseline: Baseline, wanted: GateConfig = ANY) -> GateCheck:
    found = gate(now, baseline, wanted).checks
    (check,) = [check for check in found if check.kind is CheckKind.DRIFT]
    return check


def merged(fall: float, merges: int, *, flipped: bool = False) -> list[Baseline]:
    """The baseline after each merge, each of which takes a little."""
    found = [baseline_of([of_main(0, flipped=flipped)])]
    for number in range(1, merges + 1):
        now = of_main(number, fall * number, flipped=flipped)
        found.append(with_run(found[-1], now).baseline)
    return found


@pytest.mark.parametrize("flipped", [False, True])
def test_small_losses_that_no_merge_shows_are_red_by_the_eighth(flipped: bool) -> None:
    """Of a metric where lower is better the same rise is the loss."""
    checks = [
        drift_of(of_main(20, 0.02 * merge, flipped=flipped), baseline)
        for merge, baseline in enumerate(merged(0.02, 8, flipped=flipped))
        if merge >= LEAST - 1
    ]
    red = [check.outcome is GateOutcome.FAILED for check in checks]
    assert any(red)
    merge = LEAST - 1 + red.index(True)
    check = checks[red.index(True)]
    assert check.trend is not None
    ends = (0.05, 0.2) if flipped else (0.95, 0.8)
    assert (check.trend.start, check.trend.end) == pytest.approx(ends, abs=0.04)
    assert len(check.trend.levels) == check.trend.runs == merge + 1
    assert check.trend.p_value <= 0.05
    assert "since 2026-03-01" in check.reason
    assert check.reason.endswith("Accept the lower level with: ragbench baseline add RUN --accept")


def test_what_brings_main_back_passes_and_what_does_not_fails() -> None:
    baseline = merged(0.02, 10)[-1]
    assert gate(of_main(20), baseline, GateConfig()).outcome is GateOutcome.PASSED
    assert "and this run is back at 0.9" in drift_of(of_main(20), baseline).reason
    assert drift_of(of_main(20, 0.1), baseline).outcome is GateOutcome.FAILED
    # Whoever tolerates more is not bothered, nor who asks about other metrics.
    wide, floor = config(m={"max_drop": 0.5}), config(m={"minimum": 0.1})
    assert drift_of(of_main(20, 0.2), baseline, wide).outcome is GateOutcome.PASSED
    kinds = {c.kind for c in gate(of_main(20, 0.2), baseline, floor).checks}
    assert CheckKind.DRIFT not in kinds


def test_an_unchanged_system_is_not_marked_and_a_lower_level_that_is_accepted_begins_anew() -> None:
    assert drift_of(of_main(20), merged(0.0, 15)[-1]).outcome is GateOutcome.PASSED
    baseline = merged(0.02, 10)[-1]
    accepted = with_run(baseline, of_main(11, 0.22), accept=True).baseline
    assert accepted.drift is not None
    (metric,) = accepted.drift.metrics
    assert (metric.since, metric.commit, metric.looks) == (of_main(11).date, "c11", 0)
    assert gate(of_main(20, 0.22), accepted, GateConfig()).outcome.exit_code == 0


def test_cases_that_come_go_or_are_edited_leave_the_others_as_they_were() -> None:
    baseline = merged(0.0, 8)[-1]
    now = of_main(9)
    edited = replace(now.cases[0], fingerprint="edited")
    new = replace(now.cases[1], id="new", fingerprint="new")
    added = with_run(baseline, with_cases(now, (edited, *[*now.cases][2:], new))).baseline
    assert added.drift is not None
    first = {id_: known["m"][0] for id_, known in added.drift.cases.items()}
    assert {id_ for id_, number in first.items() if number} == {"q1", "new"}
    assert "q2" not in first and len(first) == CASES


def test_a_run_that_is_held_keeps_the_cases_and_one_that_rose_begins_anew() -> None:
    baseline = merged(0.0, 6)[-1]
    now = of_main(7, 0.3)
    added = with_run(baseline, with_cases(now, [*now.cases][1:]))
    assert added.is_held
    before, after = baseline.drift, added.baseline.drift
    assert before is not None and after is not None
    assert before.cases.keys() == after.cases.keys()
    assert (before.metrics[0].looks, after.metrics[0].looks) == (2, 3)
    better = replace(run({"m": [1.0] * CASES}), fingerprints=now.fingerprints)
    first = with_run(baseline, better)
    assert first.is_first and first.baseline.drift is not None
    assert len(first.baseline.drift.metrics[0].steps) == 7  # one may be luck
    risen = with_run(first.baseline, better)
    assert [change.is_loss for change in risen.changes] == [False]
    drift = risen.baseline.drift
    assert drift is not None and (drift.metrics[0].steps, drift.metrics[0].looks) == ((), 3)
    assert {known["m"] for known in drift.cases.values()} == {(8, 1.0, 0.0, 1.0)}


def test_a_declined_answer_is_the_worst_one_and_a_failed_one_is_as_before() -> None:
    before = baseline_of([run({"m": [1.0, 1.0, 1.0]}, date="2026-03-01")])
    now = run({"m": ["abstained", "failed", 0.5]}, date="2026-03-02")
    drift = with_run(before, now).baseline.drift
    assert drift is not None
    sums = [(0, 1.0, 0.0, 0.0), (0, 2.0, 1.0, 1.0), (0, 1.5, 0.5, 0.5)]
    assert [drift.cases[id_]["m"] for id_ in ("q1", "q2", "q3")] == sums


def test_a_file_with_and_without_it_is_read_and_a_damaged_one_is_refused() -> None:
    import orjson

    baseline = merged(0.02, 3)[-1]
    content = orjson.loads(baseline_bytes(baseline))
    assert baseline_bytes(baseline_from(content)) == baseline_bytes(baseline)
    older = {k: v for k, v in content.items() if k not in ("drift", "sums", "followed")}
    old = baseline_from(older)
    assert old.drift is None
    assert with_run(old, of_main(4)).baseline.drift is not None
    for sums in ([1], [9, 1.0, 1.0, 1.0], [-1, 1.0, 1.0, 1.0]):
        with pytest.raises(ValueError, match="its record of main's drift"):
            baseline_from({**content, "sums": {"q1": {"m": sums}}})


SIZE = 200


def days(*rows: list[float]) -> list[RunScores]:
    """Runs of one system, a day apart."""
    return [main_run(row, day=day) for day, row in enumerate(rows, start=1)]


def drawn(rng: np.random.Generator, chance: np.ndarray, day: int, loss: float = 0.0) -> RunScores:
    right = (rng.random(SIZE) < chance) & (rng.random(SIZE) >= loss)
    return main_run(right.astype(float).tolist(), day=day)


@pytest.mark.nightly
def test_the_drop_that_is_said_to_be_seen_is_seen_in_about_four_of_five() -> None:
    rng = np.random.default_rng(2)
    chance = np.full(SIZE, 0.6)
    runs = [drawn(rng, chance, day) for day in range(1, 4)]
    (limit,) = fitted_limits(runs)
    assert limit.seen is not None
    wanted = config(m={"max_drop": limit.tolerance})
    found = {0.0: 0, limit.seen: 0}
    for _ in range(40):
        baseline = baseline_of([drawn(rng, chance, day) for day in range(1, 4)])
        for drop in found:
            verdict = gate(drawn(rng, chance, 9, drop / 0.6), baseline, wanted)
            found[drop] += verdict.outcome is GateOutcome.FAILED
    assert found[0.0] <= 2
    assert 24 <= found[limit.seen] <= 40


def test_metrics_without_a_better_side_or_a_scale_have_no_limit() -> None:
    columns = [
        column("n", direction=Direction.NEITHER),
        column("u", high=None),
        column("a", aggregate="s"),
    ]
    scores = {name: [1.0, 0.0] for name in "nua"}
    runs = [run(scores, *columns, fingerprints=SYSTEM, date=f"2026-05-0{d}") for d in (1, 2)]
    assert fitted_limits(runs) == ()


def test_the_file_is_a_configuration_with_its_command_and_figures(tmp_path: Path) -> None:
    limits = [
        FittedLimit(
            metric="recall@5", cases=300, clusters=120, noise=0.0123, tolerance=0.015, seen=0.061
        ),
        FittedLimit(
            metric="my: own, metric", cases=4, clusters=4, noise=0.2, tolerance=0.2, seen=None
        ),
    ]
    text = limits_yaml(limits, [run({"m": [0.0] * 300})] * 3, ["x\nrm: y"], "b.json")
    path = tmp_path / "ragbench.yaml"
    path.write_text(text, "utf-8")
    found = read_gate_config(path)
    assert found.baseline == str(tmp_path / "b.json")
    drops = {name: metric.limits.max_drop for name, metric in found.metrics.items()}
    assert drops == {"recall@5": 0.015, "my: own, metric": 0.2}
    assert text.splitlines()[0].startswith("# Written by: ragbench 'x rm: y'")
    assert "300 cases in 120 clusters, noise 0.012; a true drop of 0.061 is shown" in text
    assert "4 cases, noise 0.200; too few to show any drop" in text


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
