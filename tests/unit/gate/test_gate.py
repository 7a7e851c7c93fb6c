"""Verdicts on runs whose scores can be counted on the fingers."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from ragbench import FigureLimits, GateConfig, MetricGate
from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, GateResult, Ground
from ragbench.core.metric import Direction
from ragbench.core.outcome import Status
from ragbench.core.report import Latency, StageCount
from ragbench.core.run_scores import RunScores, clustered_by_gold
from ragbench.errors import ConfigError
from ragbench.gate.config import AUTO, LatencyBudget, SliceGate, Undecided
from ragbench.gate.gate import gate
from tests.unit.gate.builders import column, run

PASSED, FAILED, CANNOT_TELL = GateOutcome.PASSED, GateOutcome.FAILED, GateOutcome.INCONCLUSIVE


def demands(**metrics: MetricGate | dict[str, Any]) -> dict[str, MetricGate]:
    return {
        name: found if isinstance(found, MetricGate) else MetricGate(limits=FigureLimits(**found))
        for name, found in metrics.items()
    }


def config(changes: dict[str, Any] | None = None, **metrics: Any) -> GateConfig:
    return replace(GateConfig(metrics=demands(**metrics)), **(changes or {}))


def check_of(verdict: GateResult, metric: str, slice: str | None = None) -> GateCheck:
    (found,) = [c for c in verdict.checks if (c.subject, c.slice) == (metric, slice)]
    return found


def measured_drop(now: RunScores, before: RunScores, wanted: GateConfig, subject: str) -> Drop:
    drop = check_of(gate(now, before, wanted), subject).drop
    assert drop is not None
    return drop


# --- drops


def test_five_losses_of_ten_cases_show_a_drop() -> None:
    """Five cases lose all: one of 2^5 sign patterns is as bad, p = 1/32."""
    verdict = gate(run({"m": [0] * 5 + [1] * 5}), run({"m": [1] * 10}), config(m={"max_drop": 0.0}))
    check = check_of(verdict, "m")
    assert (verdict.outcome, check.outcome) == (FAILED, FAILED)
    assert check.drop is not None
    assert check.drop.p_worse == 1 / 32
    assert (check.drop.before, check.drop.after, check.drop.difference) == (1.0, 0.5, -0.5)
    assert (check.drop.cases, check.drop.clusters) == (10, 10)
    assert (check.drop.better, check.drop.worse, check.drop.family) == (0, 5, 1)
    assert verdict.headline == "m down 0.500 from 1.000 to 0.500"
    assert verdict.outcome.exit_code == 1


def test_two_metrics_are_corrected_together() -> None:
    """Five losses on different cases: of 2^10 arrangements 63 have five losses in a metric."""
    now = run({"m": [0.0] * 5 + [1.0] * 5, "n": [1.0] * 5 + [0.0] * 5})
    before = run({"m": [1] * 10, "n": [1] * 10})
    both = config(m={"max_drop": 0.0}, n={"max_drop": 0.0})
    drop = measured_drop(now, before, both, "m")
    assert (drop.p_worse, drop.family) == (63 / 1024, 2)
    assert gate(now, before, both).outcome is PASSED


def test_losses_of_one_cluster_are_one_observation() -> None:
    scores, before = {"m": [0] * 8 + [1] * 2}, run({"m": [1] * 10})
    wanted = config(m={"max_drop": 0.0})
    now = run(scores, clusters=["handbook"] * 8 + [None, None])
    assert measured_drop(now, before, wanted, "m").clusters == 3
    assert check_of(gate(now, before, wanted), "m").outcome is CANNOT_TELL
    assert gate(run(scores), before, wanted).outcome is FAILED


def test_of_a_metric_where_lower_is_better_a_rise_is_the_loss() -> None:
    brier, wanted = column("brier", direction=Direction.LOWER), config(brier={"max_drop": 0.05})
    before, now = run({"brier": [0.1] * 10}, brier), run({"brier": [0.4] * 10}, brier)
    assert gate(now, before, wanted).outcome is FAILED
    assert gate(before, now, wanted).outcome is PASSED
    drop = measured_drop(now, before, wanted, "brier")
    assert drop.difference == pytest.approx(0.3)
    assert (drop.low or 0.0) <= 0.3 <= (drop.high or 0.0)


def test_what_is_undecided_passes_loudly_and_blocks_when_strict() -> None:
    before, now = run({"m": [1, 0] * 10}), run({"m": [0, 1] + [1, 0] * 9})
    verdict = gate(now, before, config(m={"max_drop": 0.05}))
    check = check_of(verdict, "m")
    assert (verdict.outcome, check.outcome, check.ground) == (PASSED, CANNOT_TELL, Ground.OPEN)
    assert verdict.headline.startswith("3 checks passed, 1 undecided: m 0.500 as before (its 20")
    assert verdict.notes == ("What is undecided passes; --strict blocks it.",)
    for undecided, outcome in ((Undecided.INCONCLUSIVE, CANNOT_TELL), (Undecided.FAIL, FAILED)):
        strict = gate(now, before, config({"undecided": undecided}, m={"max_drop": 0.05}))
        assert (strict.outcome, strict.headline) == (outcome, "m 0.500 as before")
        assert check_of(strict, "m").outcome is CANNOT_TELL


@pytest.mark.parametrize(
    ("now", "clusters", "ground", "message"),
    [
        ([0.0] * 8, ["a", "b", "c", "d"] * 2, Ground.TOO_FEW_CLUSTERS,
         "8 cases in 4 clusters can never show a drop, more are needed"),
        ([0.95] * 8, None, Ground.EXACTLY_TOLERATED, "every case lost exactly what is tolerated"),
        ([0.0], None, Ground.TOO_FEW_CLUSTERS, "1 independent case can never show a drop"),
        ([0.9] * 8, None, Ground.RARE_GAINS, "too few to rule out rare large gains"),
        ([0.96] * 8, None, Ground.OPEN, "is neither shown nor ruled out"),
        ([1.0, 0.99] * 6, None, Ground.RARE_LOSSES, "too few to rule out a rare large one"),
        ([1.0] * 8, None, Ground.UNCHANGED, "none of 8 cases changed"),
        (["abstained"] * 8, None, Ground.NOTHING_MEASURED, "no case was measured in both runs"),
    ],
)  # fmt: skip
def test_at_the_border_each_has_its_own_sentence(
    now: list[float | str], clusters: list[str] | None, ground: Ground, message: str
) -> None:
    verdict = gate(
        run({"m": now}, clusters=clusters),
        run({"m": [1.0] * len(now)}),
        config(m={"max_drop": 0.05}),
    )
    check = check_of(verdict, "m")
    assert check.ground is ground
    assert message in check.reason
    assert "tolerate more than nothing" not in check.reason


def test_a_large_sample_without_change_is_shown_to_be_not_worse() -> None:
    before = run({"m": [1, 0] * 1000})
    now = run({"m": [0, 1] + [1, 0] * 999})
    check = check_of(gate(now, before, config(m={"max_drop": 0.05})), "m")
    assert check.outcome is PASSED
    assert "is ruled out" in check.reason


def test_without_names_every_metric_with_a_better_side_is_judged() -> None:
    metrics = (
        column("m"),
        column("neither", direction=Direction.NEITHER),
        column("ece", aggregate="a:b"),
        column("seconds", high=None, has_cells=False),
    )
    scores = {"m": [0, 1], "neither": [0, 1], "ece": [0, 1]}
    both = run(scores, *metrics)
    verdict = gate(both, both, GateConfig())
    subjects = [check.subject for check in verdict.checks]
    assert subjects == ["m", "measured: ece, m and 1 more", "error rate", "cases in common"]
    assert verdict.checks[0].limit == 0.02


# --- slices


def test_a_slice_fails_the_gate_only_when_its_loss_is_shown() -> None:
    languages = ["de"] * 6 + ["en"] * 30
    before = run({"m": [1] * 36}, languages=languages)
    sliced = MetricGate(
        limits=FigureLimits(max_drop=0.3), slices=(SliceGate(by="language", value=None),)
    )
    lost = run({"m": [0] * 6 + [1] * 30}, languages=languages)
    verdict = gate(lost, before, config(m=sliced))
    assert check_of(verdict, "m").outcome is not FAILED
    check = check_of(verdict, "m", "language:de")
    assert (check.kind, check.outcome, check.cases) == (CheckKind.SLICE, FAILED, 6)
    assert check.name == "m [language:de]"
    assert verdict.outcome is FAILED
    little = run({"m": [0] + [1] * 35}, languages=languages)
    unsure = gate(little, before, config(m=sliced))
    assert check_of(unsure, "m", "language:de").outcome is CANNOT_TELL
    assert unsure.outcome is PASSED
    assert any("slices cannot be decided" in note for note in unsure.notes)


# --- floors


@pytest.mark.parametrize(
    ("limits", "outcome", "message"),
    [
        ({"minimum": 0.5}, PASSED, "0.500 is at least 0.500"),
        ({"minimum": 0.51}, FAILED, "0.500 is below 0.510"),
        ({"maximum": 0.5}, PASSED, "0.500 is at most 0.500"),
        ({"maximum": 0.49}, FAILED, "0.500 is above 0.490"),
    ],
)
def test_the_observed_figure_decides_about_a_floor(
    limits: dict[str, float], outcome: GateOutcome, message: str
) -> None:
    verdict = gate(run({"m": [1, 0] * 20}), None, config(m=limits))
    check = check_of(verdict, "m")
    assert (verdict.outcome, check.outcome) == (outcome, outcome)
    assert check.reason.startswith(message)
    assert check.reason.endswith("lies on both sides")
    assert check.interval is not None
    assert check.interval.low < 0.5 < check.interval.high


def test_failed_and_skipped_cases_are_no_zeros() -> None:
    scores: dict[str, list[float | str]] = {"m": [1.0, 1.0, "skipped", "abstained"]}
    check = check_of(gate(run(scores), None, config(m={"minimum": 0.9})), "m")
    assert (check.observed, check.cases) == (1.0, 2)


def test_fewer_cases_than_demanded_cannot_be_said() -> None:
    few = {"min_cases": 3}
    now = run({"m": [1, 1]})
    assert gate(now, None, config(few, m={"minimum": 0.5})).outcome is CANNOT_TELL
    assert gate(now, now, config(few, m={"max_drop": 0.1})).outcome is CANNOT_TELL


def test_a_figure_that_is_no_mean_has_a_floor_and_no_drop() -> None:
    ece = column("ece", aggregate="a:b", low=-1.0, direction=Direction.LOWER)
    now = run({"ece": [0.5, -0.5]}, ece)
    now = replace(now, metrics=(replace(now.metrics[0], score=0.3),))
    verdict = gate(now, None, config(ece={"maximum": 0.25}))
    assert (verdict.outcome, check_of(verdict, "ece").observed) == (FAILED, 0.3)
    with pytest.raises(ConfigError, match="not a mean over cases"):
        gate(now, now, config(ece={"max_drop": 0.1}))


# --- coverage and budgets


def test_too_many_failed_cases_fail_the_gate_whatever_the_rest_scored() -> None:
    now = run({"m": [1.0] * 18 + ["failed"] * 2})
    verdict = gate(now, None, config(m={"minimum": 0.5}))
    check = check_of(verdict, "error rate")
    assert (verdict.outcome, check.observed) == (FAILED, 0.1)
    assert check.reason == "2 of 20 cases failed (10.0%), more than 5.0%"
    allowed = gate(now, None, config({"max_error_rate": 0.1}, m={"minimum": 0.5}))
    assert allowed.outcome is PASSED


def test_times_of_cases_that_shared_a_call_are_held_to_means_alone() -> None:
    stages = (StageCount(stage="generate", measured=2, abstained=0, skipped=0, failed=0),)
    shared = Latency(
        stage="generate", count=2, mean=1.0, p50=None, p95=None, longest=None, sharing=2
    )
    timed = run({"m": [1, 1]}, stages=stages, latencies=(shared,))

    def held(figure: str, seconds: float) -> GateResult:
        budget = LatencyBudget(stage="generate", figure=figure, seconds=seconds)
        return gate(timed, None, config({"latency": (budget,)}))

    assert (held("mean", 1.5).outcome, held("total", 1.5).outcome) == (PASSED, FAILED)
    unknown = held("p95", 1.5)
    assert unknown.outcome is CANNOT_TELL
    assert check_of(unknown, "generate p95").reason == (
        "the run stores no times of single cases (up to 2 shared a call)"
    )


# --- what does not compare


def refused(now: RunScores, before: RunScores | None, **changes: Any) -> GateResult:
    verdict = gate(now, before, config(changes, m={"max_drop": 0.1}))
    assert verdict.outcome is CANNOT_TELL
    assert not any(check.kind is CheckKind.DROP for check in verdict.checks)
    return verdict


def test_without_a_baseline_a_drop_cannot_be_said() -> None:
    (refusal,) = refused(run({"m": [1]}), None).refusals
    assert refusal.what == "baseline"
    first = gate(run({"m": [1]}), None, GateConfig(baseline=AUTO))
    assert (first.outcome, first.headline) == (CANNOT_TELL, "there is no baseline")


def test_a_broken_floor_fails_even_where_nothing_compares() -> None:
    limits = {"minimum": 0.5, "max_drop": 0.1}
    assert gate(run({"m": [0]}), None, config(m=limits)).outcome is FAILED


def test_cases_that_were_added_edited_or_dropped_are_named_and_the_others_compared() -> None:
    before = run({"m": [1] * 12}, fingerprints={"dataset": "d0"})
    edited = replace(before.cases[1], fingerprint="edited")
    before = replace(before, cases=(edited, *before.cases[2:]))
    verdict = gate(run({"m": [1] * 11}), before, config(m={"max_drop": 0.1}))
    assert (verdict.outcome, check_of(verdict, "m").cases) == (PASSED, 9)
    assert verdict.notes[0].startswith("Compared on the 9 cases that both runs have unchanged.")
    assert all(part in verdict.notes[0] for part in ("1 edited (q2)", "1 new (q1)", "1 gone (q12)"))


def test_too_few_cases_in_common_fail_the_gate() -> None:
    before = run({"m": [1] * 329}, fingerprints={"dataset": "d0"})
    now = run({"m": [1] * 2})
    now = replace(now, cases=(now.cases[0], replace(now.cases[1], id="new")))
    verdict = gate(now, before, config(m={"max_drop": 0.1}))
    assert verdict.outcome is FAILED
    assert verdict.headline == (
        "cases in common 1 of 329 cases of the baseline are in this run, unchanged (0.3%), less "
        "than 50.0%"
    )
    assert gate(now, before, config({"min_common": 0.0}, m={"max_drop": 0.1})).outcome is PASSED


# --- coverage


def test_a_system_that_stops_answering_fails_however_good_the_rest_is() -> None:
    """204 right answers before; now ten, and 194 times "I don't know"."""
    before, now = run({"m": [1.0] * 204}), run({"m": [1.0] * 10 + ["abstained"] * 194})
    limits = {"max_drop": 0.02, "minimum": 0.6}
    verdict = gate(now, before, config(m=limits))
    assert verdict.outcome is FAILED
    assert verdict.headline == "measured: m down 95.1% from 100.0% to 4.9%"
    check = verdict.checks[0]
    assert (check.kind, check.ground) == (CheckKind.COVERAGE, Ground.SHOWN)
    drop = measured_drop(now, before, config(m=limits), "measured: m")
    assert (drop.low or 0.0) < -0.951 < (drop.high or 0.0)
    allowed = gate(now, before, config({"max_unmeasured": 0.99}, m=limits))
    assert allowed.outcome is FAILED  # and still it is fewer than half
    assert allowed.checks[0].reason.endswith(": fewer than half")


def test_a_metric_that_is_not_gated_is_still_to_be_measured() -> None:
    before = run({"m": [1.0] * 100, "token_f1": [0.5] * 100})
    now = run({"m": [1.0] * 100, "token_f1": ["failed"] * 3 + ["abstained"] * 97})
    assert gate(now, before, config(m={"max_drop": 0.1})).outcome is FAILED


def test_what_never_applied_to_a_case_is_not_missing() -> None:
    now = run({"m": [1.0, 1.0, "skipped", "skipped"]})
    drop = measured_drop(now, now, config(m={"max_drop": 0.1}), "measured: m")
    assert (drop.cases, drop.before) == (2, 1.0)


def test_no_case_in_common_is_refused() -> None:
    before = run({"m": [1]}, fingerprints={"dataset": "d0"})
    now = replace(run({"m": [1]}), cases=(replace(before.cases[0], id="other"),))
    verdict = gate(now, before, config(m={"max_drop": 0.1}))
    assert (verdict.outcome, verdict.refusals[0].what) == (CANNOT_TELL, "dataset")


def test_another_version_of_a_metric_is_refused_and_the_others_are_judged() -> None:
    before = run({"m": [1] * 8, "n": [1] * 8}, column("m", version=1))
    now = run({"m": [0] * 8, "n": [0] * 8}, column("m", version=2))
    verdict = gate(now, before, config(m={"max_drop": 0.1}, n={"minimum": 0.0}))
    assert (verdict.outcome, verdict.refusals[0].what) == (CANNOT_TELL, "metrics")
    assert "m (version 2, there version 1)" in verdict.refusals[0].reason
    both = gate(now, before, config(m={"max_drop": 0.1}, n={"max_drop": 0.1}))
    assert (both.outcome, check_of(both, "n").outcome) == (FAILED, FAILED)


def test_a_metric_that_the_baseline_lacks_is_refused() -> None:
    (refusal,) = refused(run({"m": [1]}), run({"n": [1]})).refusals
    assert "m (version 1, there not measured)" in refusal.reason


def test_another_judge_or_matching_is_refused() -> None:
    now = run({"m": [1]}, fingerprints={"dataset": "d1", "judge": "a"})
    before = run({"m": [1]}, fingerprints={"dataset": "d1", "judge": "b"})
    assert refused(now, before).refusals[0].what == "judge"
    by_text = run({"m": [1]}, matching="text")
    (refusal,) = refused(run({"m": [1]}), by_text).refusals
    assert refusal.what == "matching"


# --- budgets of cost and tokens, proofs, clusters


def test_cost_and_tokens_have_budgets_per_case_and_in_all() -> None:
    tokens = column("total_tokens", low=0.0, high=None, direction=Direction.LOWER)
    now = run({"total_tokens": [100, 300]}, tokens, judge_cost=0.5, currency="USD")
    budgets = {"max_tokens": {"case": 150, "all": 400}, "max_cost": {"case": 0.25, "all": 0.4}}
    verdict = gate(now, None, config(budgets))
    found = {check.subject: (check.outcome, check.observed) for check in verdict.checks}
    assert found == {
        "tokens (per case)": (FAILED, 200.0),
        "tokens (in all)": (PASSED, 400.0),
        "cost of judging (per case)": (PASSED, 0.25),
        "cost of judging (in all)": (FAILED, 0.5),
        "error rate": (PASSED, 0.0),
    }
    assert "0.5 USD is above 0.4 USD" in verdict.headline
    silent = gate(run({"m": [1]}), None, config(budgets))
    assert silent.outcome is CANNOT_TELL
    reasons = {check.reason for check in silent.checks if check.kind is CheckKind.BUDGET}
    assert reasons == {
        "the run stores no cost of judging", "the run stores no tokens (metric total_tokens)"
    }  # fmt: skip


def test_without_a_cluster_cases_of_one_document_are_one_observation() -> None:
    bare = run({"m": [0.0] * 20})
    cases = clustered_by_gold(bare.cases, [(f"doc{place // 5}",) for place in range(20)])
    verdict = gate(replace(bare, cases=cases), run({"m": [1.0] * 20}), config(m={"max_drop": 0.0}))
    drop = check_of(verdict, "m").drop
    assert drop is not None
    assert (drop.cases, drop.clusters, check_of(verdict, "m").outcome) == (20, 4, CANNOT_TELL)
    (note,) = [note for note in verdict.notes if "gold" in note]
    assert note.endswith("count as one observation: 20 cases, 4 clusters.")
    named = clustered_by_gold(cases, [("other",)] * 20)
    assert named == cases  # a cluster that is named stays


# --- which cases lost


def test_cases_that_lost_stand_with_newly_failed_ones_first() -> None:
    before = run({"m": [0.2, 1, 1, 0, 1, "failed"], "n": [1, 1, 1, 1, 1, 1]})
    now = run(
        {"m": ["failed", "abstained", 0.5, "abstained", 1, "failed"], "n": [1, 1, 0.6, 1, 1, 1]}
    )
    wanted = config(
        {"max_error_rate": 1.0, "undecided": Undecided.PASS},
        m={"max_drop": 0.1},
        n={"max_drop": 0.1},
    )
    verdict = gate(now, before, wanted)
    found = [
        (change.id, change.metric, change.status, change.loss) for change in verdict.lost_cases
    ]
    assert found == [
        ("q1", "m", "failed", 0.0),
        ("q2", "m", "abstained", 1.0),
        ("q3", "m", "measured", 0.5),
    ]
    assert verdict.lost_cases[0].reason == "why failed"


# --- what cannot be demanded


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (GateConfig(), "nothing is demanded"),
        (config(recal={"minimum": 0.5}), "does not measure 'recal'"),
        (config(M={"minimum": 1.5}), "min is 1.5, and its largest value is 1"),
        (config(m={"maximum": -1}), "max is -1, and its smallest value is 0"),
        (config(m={"max_drop": 1.0}), "nothing would ever fail"),
        (config(tokens={"max_drop": 1.0}), "neither of its sides is better"),
        (config(seconds={"max_drop": 1.0}), "no per-case values of it"),
        (
            config(seconds=MetricGate(slices=(SliceGate(by="tag", value=None, limits=None),))),
            "slices cannot be judged",
        ),
        (
            config({"latency": (LatencyBudget(stage="rank", figure="p95", seconds=1),)}),
            "the run has no stage 'rank'",
        ),
    ],
)
def test_what_can_never_be_judged_is_an_error_of_its_configuration(
    wanted: GateConfig, message: str
) -> None:
    metrics = (
        column("m"),
        column("tokens", high=None, direction=Direction.NEITHER),
        column("seconds", high=None, has_cells=False, direction=Direction.LOWER),
    )
    now = run({"m": [1], "tokens": [5], "seconds": ["skipped"]}, *metrics)
    with pytest.raises(ConfigError) as caught:
        gate(now, None, wanted)
    assert message in str(caught.value)


def test_a_measured_time_has_a_limit_on_its_figure() -> None:
    seconds = column("seconds", high=None, has_cells=False, unit="s", direction=Direction.LOWER)
    now = run({"m": [1]})
    now = replace(now, metrics=(*now.metrics, replace(seconds, score=2.0)))
    assert gate(now, None, config(seconds={"maximum": 1.0})).outcome is FAILED


# --- the edges of what decides


def test_a_metric_that_only_the_baseline_measured_is_demanded_and_not_forgotten() -> None:
    before = run({"m": [1.0, 1.0], "gone": [1.0, 0.0], "never": ["skipped"] * 2})
    now = run({"m": [1.0, 1.0], "gone": ["skipped"] * 2, "never": ["skipped"] * 2})
    verdict = gate(now, before, GateConfig())
    drops = [check.subject for check in verdict.checks if check.kind is CheckKind.DROP]
    assert sorted(drops) == ["gone", "m"]
    assert check_of(verdict, "gone").ground is Ground.NOTHING_MEASURED


@pytest.mark.parametrize(
    ("measured", "left", "outcome"),
    [(10, 4, FAILED), (10, 5, PASSED), (10, 6, PASSED), (9, 0, PASSED)],
)
def test_fewer_than_half_of_ten_measured_cases_fail_whatever_is_tolerated(
    measured: int, left: int, outcome: GateOutcome
) -> None:
    before = run({"m": [1.0] * measured})
    now = run({"m": [1.0] * left + ["abstained"] * (measured - left)})
    verdict = gate(now, before, config({"max_unmeasured": 0.99}, m={"max_drop": 0.1}))
    assert check_of(verdict, "measured: m").outcome is outcome


def test_cases_that_lost_stand_by_the_share_of_their_scale() -> None:
    """2 of 5 stars are .4 of the scale, less than .5 of 1; 3 s of an endless scale are 3."""
    stars = column("stars", high=5.0)
    seconds = column("seconds", high=None, direction=Direction.LOWER)
    before = run({"m": [1.0, 1.0, 1.0], "stars": [5, 5, 5], "seconds": [1, 1, 1]}, stars, seconds)
    now = run({"m": [1.0, 0.5, 1.0], "stars": [3, 5, 5], "seconds": [1, 1, 4]}, stars, seconds)
    names = ("m", "stars", "seconds")
    lost = gate(now, before, config(**{name: {"max_drop": 0.1} for name in names})).lost_cases
    assert [(change.id, change.metric, change.loss) for change in lost] == [
        ("q3", "seconds", 3.0),
        ("q2", "m", 0.5),
        ("q1", "stars", 0.4),
    ]


def test_only_what_is_undecided_is_noted() -> None:
    """The slice of five that lost nothing is decided, the one of one that lost is not."""
    same = run({"m": [1.0] * 3})
    assert gate(same, same, config(m={"max_drop": 0.1})).notes == ()
    languages = ["de"] + ["en"] * 5
    limits = FigureLimits(max_drop=0.1)
    sliced = MetricGate(slices=(SliceGate(by="language", value=None, limits=limits),))
    before = run({"m": [1.0] * 6}, languages=languages)
    now = run({"m": [0.0] + [1.0] * 5}, languages=languages)
    assert gate(now, before, config(m=sliced)).notes == (
        "1 of the checks on slices cannot be decided; they do not count.",
    )


# --- what a drop rests on


def test_what_the_baseline_never_measured_is_not_asked_about() -> None:
    before = run({"m": [1.0, 1.0], "never": ["skipped"] * 2, "failed": ["failed"] * 2})
    now = run({"m": [1.0, 1.0], "never": ["skipped"] * 2, "failed": [1.0, 1.0], "new": [1.0, 0.0]})
    checks = gate(now, before, config(m={"max_drop": 0.1})).checks
    assert [c.subject for c in checks if c.subject.startswith("measured")] == ["measured: m"]


def test_what_applies_no_more_is_lost_where_it_was_measured_and_left_out_where_it_was_not() -> None:
    before = run({"m": [1.0, 1.0, "abstained", "skipped"]})
    now = run({"m": [1.0, "skipped", "skipped", 1.0]})
    drop = measured_drop(now, before, config(m={"max_drop": 0.1}), "measured: m")
    assert (drop.cases, drop.before, drop.after) == (2, 1.0, 0.5)


def test_the_order_of_the_metrics_changes_no_p_value() -> None:
    """Forty cases each: too many arrangements of signs to count, so they are drawn."""
    draw, names = random.Random(4), ["m", "n", "o"]
    now, before = (
        run({name: [draw.random() for _ in range(40)] for name in names}) for _ in range(2)
    )
    one, other = (
        config(**{name: {"max_drop": 0.0} for name in way}) for way in (names, names[::-1])
    )
    for name in names:
        first, second = (measured_drop(now, before, wanted, name) for wanted in (one, other))
        assert first.p_worse == second.p_worse


def test_what_is_left_out_of_a_drop_is_counted_by_why() -> None:
    before = run({"m": [1.0, 1.0, "abstained", "failed"]})
    now = run({"m": [1.0, "failed", 1.0, "failed"]})
    assert measured_drop(now, before, config(m={"max_drop": 0.1}), "m").left_out == {
        "not measured in the baseline": 1,
        "not measured in this run": 1,
        "not measured in either": 1,
    }


# --- what is demanded, and what a budget counts


def test_what_is_tolerated_by_default_is_a_share_of_each_scale() -> None:
    """2% of five stars are .1; of seconds without an end nothing is tolerated."""
    stars = column("stars", high=5.0)
    seconds = column("seconds", high=None, direction=Direction.LOWER)
    same = run({"m": [1.0] * 2, "stars": [5.0] * 2, "seconds": [1.0] * 2}, stars, seconds)
    checks = gate(same, same, GateConfig(max_drop=0.02)).checks
    drops = {check.subject: check.limit for check in checks if check.kind is CheckKind.DROP}
    assert drops == {"m": 0.02, "stars": pytest.approx(0.1), "seconds": 0.0}


def test_a_case_whose_stage_failed_has_failed_whatever_its_metrics_say() -> None:
    now = run({"m": [1.0, 1.0]})
    broken = replace(now.cases[0], stages={"retrieve": Status.FAILED, "generate": Status.MEASURED})
    check = check_of(
        gate(replace(now, cases=(broken, now.cases[1])), None, config(m={"minimum": 0.1})),
        "error rate",
    )
    assert (check.observed, check.outcome, check.ground) == (0.5, FAILED, Ground.BROKEN)
    assert (
        check_of(gate(now, None, config(m={"minimum": 0.1})), "error rate").ground is Ground.HOLDS
    )


@pytest.mark.parametrize(
    ("figure", "seconds"), [("mean", 0.5), ("p95", 0.9), ("total", 0.5 * 8), ("longest", 1.0)]
)
def test_each_figure_of_time_has_its_budget(figure: str, seconds: float) -> None:
    times = Latency(stage="retrieve", count=8, mean=0.5, p50=0.4, p95=0.9, longest=1.0)
    stage = StageCount(stage="retrieve", measured=8, abstained=0, skipped=0, failed=0)
    now = run({"m": [1.0] * 8}, latencies=(times,), stages=(stage,))
    for limit, outcome in ((seconds, PASSED), (seconds - 0.01, FAILED)):
        budget = LatencyBudget(stage="retrieve", figure=figure, seconds=limit)
        check = check_of(gate(now, None, config({"latency": (budget,)})), f"retrieve {figure}")
        assert (check.observed, check.outcome, check.cases) == (seconds, outcome, 8)


def test_a_floor_on_a_slice_is_a_check_of_that_slice() -> None:
    """One that cannot be decided does not count; one that is broken fails."""
    limits = FigureLimits(minimum=0.5)
    sliced = MetricGate(slices=(SliceGate(by="language", value=None, limits=limits),))
    scores: list[float | str] = ["skipped", 0.0]
    verdict = gate(run({"m": scores}, languages=["de", "en"]), None, config(m=sliced))
    found = {check.slice: (check.kind, check.outcome) for check in verdict.checks if check.slice}
    assert found == {
        "language:de": (CheckKind.SLICE, CANNOT_TELL),
        "language:en": (CheckKind.SLICE, FAILED),
    }
    undecided = gate(run({"m": ["skipped", 1.0]}, languages=["de", "en"]), None, config(m=sliced))
    assert undecided.outcome is PASSED
