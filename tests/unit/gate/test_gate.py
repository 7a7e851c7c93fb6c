"""Verdicts on runs whose scores can be counted on the fingers."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragbench import Case, FigureLimits, GateConfig, MetricGate
from ragbench.core.case_table import clusters_among, clusters_of
from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, GateResult, Ground
from ragbench.core.metric import Direction
from ragbench.core.origin import Origin
from ragbench.core.outcome import Cell, Repeats, Status
from ragbench.core.report import Latency, StageCount
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError
from ragbench.gate.config import AUTO, LatencyBudget, SliceGate, Undecided
from ragbench.gate.gate import gate
from ragbench.gate.main_runs import baseline_of
from ragbench.gate.words import UNDECIDED_NOTE
from ragbench.verbs.settle import lost_once, with_must_pass
from ragbench.views.gate import github_annotations
from tests.unit.gate.builders import Score, column, config, run, with_cases

PASSED, FAILED, CANNOT_TELL = GateOutcome.PASSED, GateOutcome.FAILED, GateOutcome.INCONCLUSIVE
ANSWERS = column("gone", group="generator")
BRIER = column("brier", direction=Direction.LOWER)
ECE = column("ece", aggregate="a:b", low=-1.0, direction=Direction.LOWER)
STARS = column("stars", high=5.0)
SECONDS = column("seconds", high=None, direction=Direction.LOWER)
TOKENS = column("total_tokens", high=None, direction=Direction.LOWER)


def sliced(by: str = "language", *, max_drop: float | None = None, **limits: float) -> MetricGate:
    own = FigureLimits(**limits) if limits else None
    return MetricGate(
        limits=FigureLimits(max_drop=max_drop), slices=(SliceGate(by=by, value=None, limits=own),)
    )


def check_of(verdict: GateResult, metric: str, slice: str | None = None) -> GateCheck:
    (found,) = [c for c in verdict.checks if (c.subject, c.slice) == (metric, slice)]
    return found


def timed(stage: str, cases: int, seconds: float, **changes: Any) -> dict[str, Any]:
    """The facts of a run whose stage took so long of each case."""
    times: dict[str, Any] = dict.fromkeys(("mean", "p50", "p95", "longest"), seconds) | changes
    counts = {"measured": cases, "abstained": 0, "skipped": 0, "failed": 0}
    return {
        "latencies": (Latency(stage=stage, count=cases, **times),),
        "stages": (StageCount(stage=stage, **counts),),
    }


def drop_of(now: RunScores, before: RunScores, wanted: GateConfig, subject: str = "m") -> Drop:
    drop = check_of(gate(now, before, wanted), subject).drop
    assert drop is not None
    return drop


# --- drops


def test_six_losses_of_ten_cases_show_a_drop() -> None:
    """Six cases lose all: one of 2^6 sign patterns is as bad, p = 1/64; of 2^5 it would be .031."""
    now, before, wanted = run({"m": [0] * 6 + [1] * 4}), run({"m": [1] * 10}), {"max_drop": 0.0}
    verdict, drop = gate(now, before, config(m=wanted)), drop_of(now, before, config(m=wanted))
    assert (drop.before, drop.after) == (1.0, 0.4)
    assert drop.difference == pytest.approx(-0.6)
    assert (drop.p_worse, drop.cases, drop.clusters) == (1 / 64, 10, 10)
    assert (drop.better, drop.worse, drop.family) == (0, 6, 1)
    assert repr(verdict).startswith("failed: m down 0.600 from 1.000 to 0.400\nfailed        m:")
    assert verdict.outcome.exit_code == 1
    five = gate(run({"m": [0] * 5 + [1] * 5}), before, config(m=wanted))
    assert (check_of(five, "m").outcome, five.colour) == (CANNOT_TELL, "yellow")


@pytest.mark.parametrize(
    ("now", "clusters", "tolerated", "ground", "message"),
    [
        ([0.0] * 6 + [1.0] * 4, None, 0.0, Ground.SHOWN, "is shown (p = 0.016)"),
        (
            [0.0] * 8 + [1.0] * 2,
            ["a"] * 8 + [None, None],
            0.0,
            Ground.TOO_FEW_CLUSTERS,
            "10 cases in 3 clusters can never show a drop",
        ),
        (
            [0.6] * 8,
            ["a", "b", "c", "d"] * 2,
            0.05,
            Ground.TOO_FEW_CLUSTERS,
            "8 cases in 4 clusters can never show a drop, more are needed",
        ),
        (
            [0.0] * 8,
            ["a", "b", "c", "d"] * 2,
            0.05,
            Ground.ALL_LOST,
            "down 1.000 from 1.000 to 0.000 (95% interval",
        ),
        (
            [0.05] * 8,
            ["a", "b", "c"] * 2 + ["c"] * 2,
            0.05,
            Ground.ALL_LOST,
            ": next to nothing is left, which needs no test",
        ),
        (
            [0.95] * 8,
            None,
            0.05,
            Ground.EXACTLY_TOLERATED,
            "every case lost exactly what is tolerated",
        ),
        (
            [0.0] * 4 + [1.0] * 8,
            ["a"] * 4 + ["b", "c"] + ["d"] * 6,
            0.05,
            Ground.TOO_FEW_CLUSTERS,
            "12 cases in 4 clusters can never show a drop",
        ),
        ([0.9] * 8, None, 0.05, Ground.RARE_GAINS, "too few to rule out rare large gains"),
        ([0.96] * 8, None, 0.05, Ground.OPEN, "is neither shown nor ruled out"),
        ([1.0, 0.99] * 6, None, 0.05, Ground.RARE_LOSSES, "too few to rule out a rare large one"),
        ([1.0, 0.99] * 999, None, 0.05, Ground.RULED_OUT, "is ruled out"),
        ([1.0] * 8, None, 0.05, Ground.UNCHANGED, "none of 8 cases changed"),
        (
            ["abstained"] * 8,
            None,
            0.05,
            Ground.NOTHING_MEASURED,
            "no case was measured in both runs",
        ),
    ],
)
def test_each_ground_of_a_drop_has_its_own_sentence(
    now: list[float | str],
    clusters: list[str | None] | None,
    tolerated: float,
    ground: Ground,
    message: str,
) -> None:
    """From a baseline where all is right; losses of one cluster are one observation."""
    before = run({"m": [1.0] * len(now)})
    verdict = gate(run({"m": now}, clusters=clusters), before, config(m={"max_drop": tolerated}))
    check = check_of(verdict, "m")
    assert check.ground is ground and message in check.reason


def test_of_a_metric_where_lower_is_better_a_rise_is_the_loss() -> None:
    wanted = config(brier={"max_drop": 0.05})
    before, now = (run({"brier": [each] * 10}, BRIER) for each in (0.1, 0.4))
    assert gate(now, before, wanted).outcome is FAILED
    assert gate(before, now, wanted).outcome is PASSED
    drop = drop_of(now, before, wanted, "brier")
    assert drop.difference == pytest.approx(0.3)
    assert (drop.low or 0.0) <= 0.3 <= (drop.high or 0.0)


def test_what_is_undecided_passes_loudly_and_blocks_when_strict() -> None:
    before, now = run({"m": [1, 0] * 10}), run({"m": [0, 1] + [1, 0] * 9})
    verdict = gate(now, before, config(m={"max_drop": 0.05}))
    check = check_of(verdict, "m")
    assert (verdict.outcome, check.outcome, check.ground) == (PASSED, CANNOT_TELL, Ground.OPEN)
    assert verdict.headline.startswith("3 checks passed, 1 inconclusive: m 0.500 as before (its 20")
    assert verdict.notes == ("Inconclusive checks pass; --strict blocks them.",)
    for undecided, outcome in ((Undecided.INCONCLUSIVE, CANNOT_TELL), (Undecided.FAIL, FAILED)):
        strict = gate(now, before, config({"undecided": undecided}, m={"max_drop": 0.05}))
        assert (strict.outcome, strict.headline) == (outcome, "m 0.500 as before")
        assert check_of(strict, "m").outcome is CANNOT_TELL


def test_without_names_the_main_metric_is_held_by_a_share_of_its_scale_and_others_are_shown() -> (
    None
):
    """2% of five stars are .1; of seconds without an end there is no share."""
    metrics = (
        column("neither", direction=Direction.NEITHER),
        ECE,
        STARS,
        SECONDS,
        column("time", high=None, has_cells=False),
    )
    scores = {name: [0, 1] for name in ("m", "neither", "ece", "stars", "seconds", "time")}
    both = run(scores, *metrics)
    checks = gate(both, both, GateConfig()).checks
    drops = {c.subject: (c.limit, c.outcome) for c in checks if c.kind is CheckKind.DROP}
    assert drops == {"m": (0.02, PASSED), "stars": (0.0, GateOutcome.NOT_JUDGED)}
    assert [c.subject for c in checks if c.subject.startswith("measured")] == ["measured: m"]
    stars = run({"stars": [0, 1]}, STARS)
    assert check_of(gate(stars, stars, GateConfig()), "stars").limit == pytest.approx(0.1)


def test_a_metric_that_only_the_baseline_measured_is_demanded_and_not_forgotten() -> None:
    before = run({"m": [1.0, 1.0], "gone": [1.0, 0.0], "never": ["skipped"] * 2}, ANSWERS)
    now = run({"m": [1.0, 1.0], "gone": ["skipped"] * 2, "never": ["skipped"] * 2}, ANSWERS)
    verdict = gate(now, before, GateConfig())
    drops = [check.subject for check in verdict.checks if check.kind is CheckKind.DROP]
    assert sorted(drops) == ["gone", "m"]
    assert check_of(verdict, "gone").ground is Ground.NOTHING_MEASURED


def test_the_order_of_the_metrics_changes_no_p_value() -> None:
    """Forty cases each: too many arrangements of signs to count, so they are drawn."""
    draw, names = random.Random(4), ["m", "n", "o"]
    scores = [{name: [draw.random() for _ in range(40)] for name in names} for _ in range(2)]
    now, before = map(run, scores)
    ways = [config(**{key: {"max_drop": 0.0} for key in way}) for way in (names, names[::-1])]
    for name in names:
        first, second = (drop_of(now, before, wanted, name) for wanted in ways)
        assert first.p_worse == second.p_worse


def test_what_is_left_out_of_a_drop_is_counted_by_why() -> None:
    before = run({"m": [1.0, 1.0, "abstained", "failed"]})
    now = run({"m": [1.0, "failed", 1.0, "failed"]})
    places = ("the baseline", "this run", "either")
    left_out = {f"not measured in {place}": 1 for place in places}
    assert drop_of(now, before, config(m={"max_drop": 0.1})).left_out == left_out


def test_without_a_cluster_cases_of_one_document_are_one_observation() -> None:
    clusters = clusters_of([None] * 20, [at for place in range(20) for at in (place // 5, -1)])
    now, before = run({"m": [0.0] * 20}, clusters=clusters), run({"m": [1.0] * 20})
    verdict = gate(now, before, config(m={"max_drop": 0.0}))
    check = check_of(verdict, "m")
    assert check.drop is not None and check.ground is Ground.ALL_LOST
    assert (check.drop.cases, check.drop.clusters) == (20, 4)
    note = "Cases that share gold count as one observation: 20 cases, 4 clusters."
    assert note in verdict.notes
    assert clusters_of(["one", None], [1, -1] * 2) == ["one", None]  # one that is named stays


@pytest.mark.parametrize(
    ("gold", "groups"),
    [
        (["a", "a b", "a", "b", "b c", "b"], "121222"),  # b has four, a three, c one
        (["a b", "b a", "c d", "d e"], "1122"),
        (["a b c", "c b a", "a b d", "a", "", ""], "11...."),
    ],
)
def test_a_case_of_two_passages_joins_the_one_that_more_cases_share(
    gold: list[str], groups: str
) -> None:
    cases = [Case(id="", query="", reference_context_ids=tuple(ids.split())) for ids in gold]
    for turned in (1, -1):
        found, wanted = clusters_among(cases[::turned]), groups[::turned]
        assert [name is None for name in found] == [one == "." for one in wanted]
        assert len({*zip(found, wanted, strict=True)}) == len({*wanted})


# --- red without a test, yellow, one row


@pytest.mark.parametrize("documents", range(1, 9))
@pytest.mark.parametrize("each", [1, 75])
def test_a_total_loss_never_passes_on_however_few_documents(documents: int, each: int) -> None:
    """Nine metrics that move together; of one or two documents nobody can tell it from chance.

    Nor where only so many had been right.
    """
    names, clusters = [f"m{number}" for number in range(9)], [f"d{n}" for n in range(documents)]
    before, now = (
        run({name: [value] * documents * each for name in names}, clusters=clusters * each)
        for value in (1.0, 0.0)
    )
    verdict = gate(now, before, GateConfig())
    assert verdict.outcome.exit_code == (3 if documents < 3 else 1)
    assert gate(before, before, GateConfig()).outcome is PASSED
    named = config(m0={"max_drop": 0.05})
    if documents < 3:
        with pytest.raises(ConfigError, match="a max_drop needs 3 to be judged at all"):
            gate(now, before, named)
    else:
        assert gate(now, before, named).outcome is FAILED
        for right in (1, 2):
            scores = ([1.0] * right + [0.0] * (documents - right)) * each
            some = run({"m0": scores}, clusters=clusters * each)
            verdict = gate(now, some, named)
            assert verdict.outcome.exit_code == 3
            assert check_of(verdict, "m0").ground is Ground.ALL_OF_FEW_LOST
            assert "are too few to tell it from chance" in verdict.headline
            assert UNDECIDED_NOTE not in verdict.notes


@pytest.mark.parametrize(
    ("right_before", "right_now", "ground"),
    [
        (10, 4, Ground.HALVED),  # p = .09, since four others came right by themselves
        (10, 5, Ground.OPEN),  # exactly half
        (9, 4, Ground.OPEN),  # ten right ones are needed before
        (3, 0, Ground.ALL_LOST),
        (2, 0, Ground.OPEN),  # of 200 cases; chance does that
    ],
)
def test_what_lost_more_than_half_needs_no_test(
    right_before: int, right_now: int, ground: Ground
) -> None:
    """Other cases are right now, so that flips of signs do not show it."""
    before = run({"m": [1] * right_before + [0] * (200 - right_before)})
    now = run({"m": [0] * (200 - right_now) + [1] * right_now})
    check = check_of(gate(now, before, config(m={"max_drop": 0.0})), "m")
    assert check.ground is ground
    # What may be lost is for the user to say; nor is half of a scale from 1 to 5 half of anything.
    assert gate(now, before, config(m={"max_drop": 0.5})).outcome is PASSED
    other, earlier = (replace(each, metrics=(column("m", low=-1.0),)) for each in (now, before))
    verdict = gate(other, earlier, config(m={"max_drop": 0.0}))
    assert check_of(verdict, "m").ground is not Ground.HALVED


def test_slices_have_a_level_of_their_own_and_cost_the_metric_nothing() -> None:
    """Six losses of twelve: p = 1/64 for the metric, whatever slices are looked at."""
    languages = [f"l{number}" for number in range(12)]
    before, now = (run({"m": [value] * 6 + [1] * 6}, languages=languages) for value in (1.0, 0.0))
    drop = drop_of(now, before, config(m=sliced(max_drop=0.0)))
    assert (drop.p_worse, drop.family) == (1 / 64, 1)
    assert gate(now, before, config(m=sliced(max_drop=0.0))).outcome is FAILED


def test_metrics_that_are_one_number_are_one_row() -> None:
    scores = {"recall": [1.0, 0.0] * 10, "mrr": [1.0, 0.0] * 10, "other": [1.0] * 20}
    before = run({**scores, "recall": [1.0] * 20, "mrr": [1.0] * 20})
    named = {name: {"max_drop": 0.02} for name in ("mrr", "recall", "other")}
    verdict = gate(run(scores), before, config(**named))
    drops = [check for check in verdict.checks if check.kind is CheckKind.DROP]
    assert [(check.subject, check.same) for check in drops] == [("mrr", ("recall",)), ("other", ())]
    assert verdict.headline == "mrr (= recall) down 0.500 from 1.000 to 0.500"
    assert drops[0].name == "mrr"  # the name of its test in JUnit does not change with its company


def test_a_loss_that_may_be_chance_is_yellow_with_its_figures_and_what_settles_it() -> None:
    """Fourteen lost and six won of 200: .04 beyond .01 tolerated, p = .125; .02 has p = .4."""
    before = run({"m": [1] * 100 + [0] * 100}, source="main")
    scores = {"m": [0] * 14 + [1] * 92 + [0] * 94}
    asked = (Origin("retrieve", (), "closed"),)
    now = run(scores, source="a run", origins=asked, **timed("retrieve", 200, 0.3))
    wanted = config(m={"max_drop": 0.01})
    verdict = gate(now, before, wanted)
    assert (verdict.outcome, verdict.colour) == (PASSED, "yellow")
    assert github_annotations(verdict).startswith("::warning title=ragbench passed::not shown")
    assert verdict.headline == (
        "not shown, and not ruled out: m down 0.040 from 0.500 to 0.460 (95% interval -0.084 to "
        "0.004), more than the tolerated 0.010. Settle it: ragbench gate 'a run' --baseline main "
        "--max-drop m=0.01 --rerun-inconclusive (at most 2,000 questions to each of the two, about "
        "20 min at the run's pace)"
    )
    strict = gate(now, before, replace(wanted, undecided=Undecided.INCONCLUSIVE))
    assert (strict.outcome.exit_code, strict.colour) == (3, "yellow")
    recorded = gate(replace(now, origins=()), before, wanted)  # of whom nobody can be asked again
    assert "Settle it" not in recorded.headline
    little = gate(now, before, config(m={"max_drop": 0.03}))
    assert (little.outcome, little.colour) == (PASSED, "green")
    assert "(its 200 cases would show a drop of" in little.headline
    assert gate(before, now, wanted).colour == "green"


def test_a_metric_that_nobody_named_is_no_demand_however_few_cases_it_is_measured_on() -> None:
    skipped: list[float | str] = ["skipped"] * 8
    now = run({"m": [1.0] * 10, "rare": [0.0, 0.0, *skipped]})
    before = run({"m": [1.0] * 10, "rare": [1.0, 1.0, *skipped]})
    verdict = gate(now, before, config(m={"max_drop": 0.1}))
    assert verdict.outcome is PASSED
    assert check_of(verdict, "rare").outcome is GateOutcome.NOT_JUDGED


@pytest.mark.parametrize(
    ("left", "outcome"),
    [
        (["abstained"] * 59, CANNOT_TELL),
        (["failed"] * 2, CANNOT_TELL),
        (["failed"], PASSED),
        (["skipped"] * 59, PASSED),
    ],
)
def test_a_floor_that_rests_on_less_than_half_of_its_cases_is_not_passed(
    left: list[float | str], outcome: GateOutcome
) -> None:
    """What was declined or failed applies and has no figure; what was skipped does not apply."""
    now, lenient = run({"m": [1.0, *left]}), {"max_error_rate": 1.0}
    check = check_of(gate(now, None, config(lenient, m={"minimum": 0.9})), "m")
    assert check.outcome is outcome
    if outcome is CANNOT_TELL:
        assert check.reason.startswith("1.000 is at least 0.900, but on 1 of the")
        assert gate(now, None, config(lenient, m={"minimum": 0.9})).outcome.exit_code == 3


# --- slices


def test_a_slice_fails_the_gate_only_when_its_loss_is_shown_or_total() -> None:
    languages, wanted = ["de"] * 5 + ["en"] * 300, config(m=sliced(max_drop=0.1))
    before, lost, little = (
        run({"m": [0] * lost + [1] * (305 - lost)}, languages=languages) for lost in (0, 5, 4)
    )
    verdict = gate(lost, before, wanted)
    assert check_of(verdict, "m").outcome is not FAILED
    check = check_of(verdict, "m", "language:de")
    assert (check.kind, check.outcome, check.cases) == (CheckKind.SLICE, FAILED, 5)
    assert (check.name, check.ground) == ("m [language:de]", Ground.ALL_LOST)
    assert verdict.outcome is FAILED and verdict.headline.startswith("m [language:de] down 1.000")
    little_lost = gate(little, before, wanted)
    assert check_of(little_lost, "m", "language:de").outcome is CANNOT_TELL
    assert little_lost.outcome is PASSED
    # That of thirty that lost nothing is decided.
    (note,) = [note for note in little_lost.notes if "slices" in note]
    assert note == "1 of the checks on slices cannot be decided; they do not count."


def test_a_floor_on_a_slice_is_a_check_of_that_slice() -> None:
    """One that cannot be decided does not count; one that is broken fails."""
    wanted = config(m=sliced(minimum=0.5))
    verdict = gate(run({"m": ["skipped", 0.0]}, languages=["de", "en"]), None, wanted)
    found = {c.slice: c.outcome for c in verdict.checks if c.kind is CheckKind.SLICE}
    assert found == {"language:de": CANNOT_TELL, "language:en": FAILED}
    undecided = gate(run({"m": ["skipped", 1.0]}, languages=["de", "en"]), None, wanted)
    assert undecided.outcome is PASSED


# --- limits, errors, coverage


@pytest.mark.parametrize(
    ("scores", "changes", "limits", "subject", "outcome", "message"),
    [
        ([1, 0] * 20, {}, {"minimum": 0.5}, "m", PASSED, "0.500 is at least 0.500, but"),
        ([1, 0] * 20, {}, {"minimum": 0.51}, "m", CANNOT_TELL, "0.500 is below 0.510, but its"),
        ([1, 0] * 20, {}, {"minimum": 0.67}, "m", FAILED, "0.500 is below 0.670"),
        ([1, 0] * 20, {}, {"maximum": 0.5}, "m", PASSED, "0.500 is at most 0.500, but its"),
        (
            [1, 0] * 20,
            {},
            {"maximum": 0.49},
            "m",
            CANNOT_TELL,
            "0.500 is above 0.490, but its interval (0.338 to 0.662) lies on both sides",
        ),
        # What is not measured is no zero.
        ([1.0, 1.0, "skipped", "abstained"], {}, {"minimum": 0.9}, "m", PASSED, "1.000 is"),
        ([1, 1], {"min_cases": 3}, {"minimum": 0.5}, "m", CANNOT_TELL, "2 cases"),
        (
            [1.0] * 18 + ["failed"] * 2,
            {},
            {"minimum": 0.5},
            "error rate",
            CANNOT_TELL,
            "2 of 20 cases failed (10.0%), more than 5.0%, but its interval "
            "(0.0% to 24.4%) lies on",
        ),
        (
            [1.0] * 12 + ["failed"] * 8,
            {},
            {"minimum": 0.5},
            "error rate",
            FAILED,
            "8 of 20 cases failed (40.0%), more than 5.0%",
        ),
        (
            [1.0] * 18 + ["failed"] * 2,
            {"max_error_rate": 0.1},
            {"minimum": 0.5},
            "error rate",
            PASSED,
            "2 of 20 cases failed (10.0%), at most 10.0%",
        ),
        # Fails even where nothing compares.
        (
            [0],
            {"undecided": Undecided.PASS},
            {"minimum": 0.5, "max_drop": 0.1},
            "m",
            FAILED,
            "0.000 is below 0.500",
        ),
    ],
)
def test_a_limit_is_broken_where_the_interval_lies_beyond_it_and_else_warned_of(
    scores: list[float | str],
    changes: dict[str, Any],
    limits: dict[str, float],
    subject: str,
    outcome: GateOutcome,
    message: str,
) -> None:
    wanted = config(changes, m=limits)
    verdict = gate(run({"m": scores}), None, wanted)
    check = check_of(verdict, subject)
    assert check.outcome is outcome
    assert message in check.reason
    if check.ground is not Ground.MAY_HOLD:
        assert verdict.outcome is outcome
        return
    assert (verdict.outcome, verdict.colour) == (PASSED, "yellow")
    assert verdict.headline.startswith(f"not shown, and not ruled out: {subject} ")
    for undecided, blocked in ((Undecided.INCONCLUSIVE, CANNOT_TELL), (Undecided.FAIL, FAILED)):
        assert gate(run({"m": scores}), None, replace(wanted, undecided=undecided)).outcome is (
            blocked
        )


def test_a_figure_near_its_limit_fails_where_the_baseline_was_better() -> None:
    """Eight of forty cases fall from 1 to 0: below .85 by chance, perhaps, and lower for sure."""
    before, now = run({"m": [1.0] * 40}), run({"m": [0.0] * 8 + [1.0] * 32})
    wanted = config(m={"minimum": 0.85})
    assert check_of(gate(now, None, wanted), "m").ground is Ground.MAY_HOLD
    floors = [c for c in gate(now, before, wanted).checks if c.kind is CheckKind.FLOOR]
    assert [check.ground for check in floors] == [Ground.BROKEN]
    broken = run({"m": ["failed"] * 8 + [1.0] * 32})
    share = config({"max_error_rate": 0.15}, m={"minimum": 0.5})
    assert check_of(gate(broken, None, share), "error rate").ground is Ground.MAY_HOLD
    assert check_of(gate(broken, before, share), "error rate").ground is Ground.BROKEN


@pytest.mark.parametrize(
    "metric", [ECE, column("time", has_cells=False, direction=SECONDS.direction)]
)
def test_a_figure_that_is_no_mean_has_a_floor_and_no_drop(metric: Any) -> None:
    name = metric.name
    now = run({name: [0.5, -0.5]}, metric)
    now = replace(now, metrics=(replace(now.metrics[0], score=0.3),))
    verdict = gate(now, None, config(**{name: {"maximum": 0.25}}))
    assert (verdict.outcome, check_of(verdict, name).observed) == (FAILED, 0.3)
    with pytest.raises(ConfigError, match=r"not a mean over cases|no per-case values"):
        gate(now, now, config(**{name: {"max_drop": 0.1}}))


def test_a_case_whose_stage_failed_has_failed_whatever_its_metrics_say() -> None:
    now, wanted = run({"m": [1.0] * 20}), config(m={"minimum": 0.1})
    stages = {"retrieve": Status.FAILED, "generate": Status.MEASURED}
    cases = [*now.cases]
    broken = [replace(case, stages=stages) for case in cases[:10]]
    check = check_of(gate(with_cases(now, (*broken, *cases[10:])), None, wanted), "error rate")
    assert (check.observed, check.outcome, check.ground) == (0.5, FAILED, Ground.BROKEN)
    assert check_of(gate(now, None, wanted), "error rate").ground is Ground.HOLDS


@pytest.mark.parametrize(
    ("measured", "left", "outcome"),
    [(10, 4, FAILED), (10, 5, PASSED), (10, 6, PASSED), (9, 0, CANNOT_TELL)],
)
def test_fewer_than_half_of_ten_measured_cases_fail_whatever_is_tolerated(
    measured: int, left: int, outcome: GateOutcome
) -> None:
    before = run({"m": [1.0] * measured})
    now = run({"m": [1.0] * left + ["abstained"] * (measured - left)})
    wanted = config({"max_unmeasured": 0.99}, m={"max_drop": 0.1})
    check = check_of(gate(now, before, wanted), "measured: m")
    assert check.outcome is outcome
    assert check.reason.endswith(": fewer than half") is (outcome is FAILED)


def test_a_system_that_stops_answering_fails_however_good_the_rest_is() -> None:
    """204 right answers before; now ten, and 194 times "I don't know"; named or not."""
    scores: list[list[float | str]] = [[1.0] * 204, [1.0] * 10 + ["abstained"] * 194]
    words = column("token_f1", group="generator")
    before, now = (run({"n": [1.0] * 204, "token_f1": each}, words) for each in scores)
    shares, down = "measured: token_f1 down 95.1% from 100.0% to 4.9%", "down 0.951 from 1.000"
    for wanted in (
        config(token_f1={"max_drop": 0.02, "minimum": 0.6}),
        config(n={"max_drop": 0.1}),
        GateConfig(),
    ):
        verdict = gate(now, before, wanted)
        assert verdict.outcome is FAILED
        assert {shares, f"answered {down} to 0.049"} == {*verdict.headline.split("; ")}
        assert verdict.checks[0].ground is Ground.SHOWN
        drop = drop_of(now, before, wanted, "answered")
        assert (drop.low or 0.0) < -0.951 < (drop.high or 0.0)


@pytest.mark.parametrize(
    ("before", "now", "cases", "shares"),
    [
        # What never applied is not missing; what one of the runs measured is, in either direction.
        ([1.0, 1.0, "skipped", "skipped"], [1.0, 1.0, "skipped", "skipped"], 2, (1.0, 1.0)),
        ([1.0, 1.0, "abstained", "skipped"], [1.0, "skipped", "skipped", 1.0], 3, (2 / 3, 2 / 3)),
    ],
)
def test_of_the_cases_that_either_run_measured_the_shares_are_compared(
    before: list[float | str], now: list[float | str], cases: int, shares: tuple[float, float]
) -> None:
    never: dict[str, list[float | str]] = {"never": ["skipped"] * 4, "failed": ["failed"] * 4}
    old = run({**never, "m": before})
    new = run({**never, "m": now, "failed": [1.0] * 4, "new": [1.0] * 4})
    drop = drop_of(new, old, config(m={"max_drop": 0.1}), "measured: m")
    assert (drop.cases, (drop.before, drop.after)) == (cases, shares)


# --- budgets


@pytest.mark.parametrize(
    ("figure", "seconds"), [("mean", 0.5), ("p95", 0.9), ("total", 0.5 * 8), ("longest", 1.0)]
)
def test_each_figure_of_time_has_its_budget(figure: str, seconds: float) -> None:
    """Of cases that shared a call, only mean and total are known."""
    times = {"p95": 0.9, "longest": 1.0}, {"p50": None, "p95": None, "longest": None, "sharing": 2}
    runs = [run({"m": [1.0] * 8}, **timed("retrieve", 8, 0.5, **each)) for each in times]
    far = {"mean": 0.2, "p95": 0.5}.get(figure, seconds - 0.01)
    for limit, outcome in ((seconds, PASSED), (far, FAILED)):
        budget = LatencyBudget(stage="retrieve", figure=figure, seconds=limit)
        verdicts = [gate(each, None, config({"latency": (budget,)})) for each in runs]
        one, other = (check_of(verdict, f"retrieve {figure}") for verdict in verdicts)
        assert (one.observed, one.outcome, one.cases) == (seconds, outcome, 8)
        is_known = figure in ("mean", "total")
        assert other.outcome is (outcome if is_known else CANNOT_TELL)
        missing = "the run stores no times of single cases (up to 2 shared a call)"
        assert (other.reason == missing) is not is_known


def test_a_time_just_above_its_budget_is_warned_of_and_the_sum_is_what_it_is() -> None:
    """The median is .5 and the 95th percentile .9: eight times lie a third apart, by their logs."""
    now = run({"m": [1.0] * 8}, **timed("retrieve", 8, 0.5, p95=0.9, longest=1.0))
    for figure, limit, ground in (
        ("mean", 0.49, Ground.MAY_HOLD),
        ("p95", 0.85, Ground.MAY_HOLD),
        ("total", 3.9, Ground.BROKEN),
        ("longest", 0.9, Ground.BROKEN),
    ):
        budget = LatencyBudget(stage="retrieve", figure=figure, seconds=limit)
        check = check_of(gate(now, None, config({"latency": (budget,)})), f"retrieve {figure}")
        assert check.ground is ground
    slow = run({"m": [1.0] * 8}, **timed("retrieve", 8, 0.52, p95=0.9, longest=1.0))
    rise = LatencyBudget(stage="retrieve", figure="rise", seconds=0.02)
    found = gate(slow, now, config({"latency": (rise,)}))
    assert check_of(found, "retrieve rise").ground is Ground.MAY_HOLD


def test_cost_and_tokens_have_budgets_per_case_and_in_all() -> None:
    now = run({"total_tokens": [100, 300]}, TOKENS, judge_cost=0.5, currency="USD")
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
    assert {check.reason for check in silent.checks if check.kind is CheckKind.BUDGET} == {
        "the run stores no cost of judging",
        "the run stores no tokens (metric total_tokens)",
    }


@pytest.mark.parametrize(
    ("seconds", "tokens", "outcomes", "noted"),
    [
        (0.5, 100, (PASSED, PASSED), []),
        (0.6, 119, (PASSED, PASSED), []),  # exactly tolerated; no note below half as much again
        (
            0.8,
            130,
            (FAILED, FAILED),
            [
                "Time of generate per case: 0.8 s, before 0.5 s (+60%).",
                "Tokens per case: 130 tokens, before 100 tokens (+30%).",
                "Cost of the RAG per 1,000 cases: 2.167, before 1.667 (+30%).",
            ],
        ),
    ],
)
def test_time_tokens_and_cost_are_held_against_those_of_the_baseline(
    seconds: float, tokens: float, outcomes: tuple[GateOutcome, GateOutcome], noted: list[str]
) -> None:
    def taking(mean: float, used: float) -> RunScores:
        scores = {"m": [1.0] * 3, "total_tokens": [used] * 3, "generation_cost": [used / 6e4] * 3}
        cost = replace(TOKENS, name="generation_cost")
        return run(scores, TOKENS, cost, **timed("generate", 3, mean))

    rise = LatencyBudget(stage="generate", figure="rise", seconds=0.2000001)
    wanted = config({"latency": (rise,), "max_tokens": {"rise": 0.2}}, m={"max_drop": 0.1})
    now, before = taking(seconds, tokens), taking(0.5, 100)
    for baseline in (before, baseline_of([before])):
        verdict = gate(now, baseline, wanted)
        found = [check_of(verdict, name) for name in ("generate rise", "tokens rise")]
        assert tuple(check.outcome for check in found) == outcomes
        assert [note for note in verdict.notes if "before" in note] == noted
    # Without a baseline, or times of it, nobody can tell.
    silent = gate(now, replace(before, latencies=()), wanted)
    assert check_of(silent, "generate rise").ground is Ground.NOT_STORED
    assert silent.checks[0].subject == "generate rise" or silent.outcome is FAILED
    assert gate(now, None, wanted).outcome is not PASSED


# --- what does not compare


def judged_by(judge: str, models: str) -> RunScores:
    return run({"m": [1]}, fingerprints={"dataset": "d1", "judge": judge}, judge=models)


@pytest.mark.parametrize(
    ("now", "before", "what", "reason"),
    [
        (run({"m": [1]}), None, "baseline", "there is no baseline, so drops of m cannot be judged"),
        (
            with_cases(run({"m": [1]}), (replace(run({"m": [1]}).cases[0], fingerprint="other"),)),
            run({"m": [1]}, fingerprints={"dataset": "d0"}),
            "dataset",
            "no case of run is in run",
        ),
        (
            run({"m": [1]}, column("m", version=2)),
            run({"m": [1]}),
            "metrics",
            "m (version 2, there version 1)",
        ),
        (run({"m": [1]}), run({"n": [1]}), "metrics", "m (version 1, there not measured)"),
        (
            judged_by("a" * 32, "gpt-4o"),
            judged_by("b" * 32, "gpt-4o-mini"),
            "judge",
            "graded by gpt-4o (aaaaaaaa), the baseline by gpt-4o-mini (bbbbbbbb);",
        ),
        (
            judged_by("a" * 32, ""),
            run({"m": [1]}),
            "judge",
            "by a judge (aaaaaaaa), the baseline by no judge;",
        ),
        (run({"m": [1]}), run({"m": [1]}, matching="text"), "matching", ""),
    ],
)
def test_what_does_not_compare_is_refused(
    now: RunScores, before: RunScores | None, what: str, reason: str
) -> None:
    verdict = gate(now, before, config(m={"max_drop": 0.1}))
    (refusal,) = verdict.refusals
    assert (verdict.outcome, refusal.what) == (CANNOT_TELL, what)
    assert reason in refusal.reason
    assert not any(check.kind is CheckKind.DROP for check in verdict.checks)


def test_a_baseline_that_is_not_found_and_a_metric_that_differs_leave_the_rest_judged() -> None:
    first = gate(run({"m": [1]}), None, GateConfig(baseline=AUTO))
    assert (first.outcome, first.headline) == (CANNOT_TELL, "there is no baseline")
    before = run({"m": [1] * 8, "n": [1] * 8})
    now = run({"m": [0] * 8, "n": [0] * 8}, column("m", version=2))
    both = gate(now, before, config(m={"max_drop": 0.1}, n={"max_drop": 0.1}))
    assert (both.outcome, check_of(both, "n").outcome) == (FAILED, FAILED)


@pytest.mark.parametrize(
    ("before", "now", "renamed", "edited", "added", "gone"),
    [
        ("a1 b2 c3", "x1 y2 c3", "a>x b>y", "", "", ""),
        # A row was inserted, and ids count rows.
        ("a1 b2 c3", "a9 b1 c2 d3", "a>b b>c c>d", "", "a", ""),
        # The first row was removed: its id is another case's now.
        ("a1 b2 c3", "a2 b3", "b>a c>b", "", "", "a (before)"),
        ("a1 b2", "b1 a2", "a>b b>a", "", "", ""),
        # Two that are the same question keep their order.
        ("a1 b1 c2", "x1 y1 c2", "a>x b>y", "", "", ""),
        ("a1 b2 c3", "a1 b9 d4", "", "b", "d", "c"),
    ],
)
def test_cases_are_recognised_under_other_ids(
    before: str, now: str, renamed: str, edited: str, added: str, gone: str
) -> None:
    def of(cases: str) -> RunScores:
        known = run({"m": [int(each[1]) / 10 for each in cases.split()]})
        named = zip(known.cases, cases.split(), strict=True)
        return with_cases(known, tuple(replace(c, id=n[0], fingerprint=n[1]) for c, n in named))

    verdict = gate(of(now), of(before), config({"min_common": 0}, m={"max_drop": 0}))
    change = verdict.dataset
    assert change is not None and " ".join(f"{old}>{new}" for old, new in change.renamed) == renamed
    assert tuple(map(" ".join, (change.edited, change.added))) == (edited, added)
    assert ", ".join(change.gone) == gone
    assert change.common == check_of(verdict, "m").cases
    # Each is compared with itself, whatever it is called.
    assert check_of(verdict, "m").ground is Ground.UNCHANGED


def test_the_dataset_s_changes_are_counted_by_tag_and_the_new_cases_scored() -> None:
    def of(tags: str, scores: list[float]) -> RunScores:
        known = run({"recall@5": scores}, languages=["de"] * len(scores))
        labelled = zip(known.cases, tags, strict=True)
        return with_cases(known, tuple(replace(case, tags=(tag,)) for case, tag in labelled))

    wanted = config(**{"recall@5": {"max_drop": 0.1}})
    before, now = of("aaabbbcc", [1.0] * 8), of("aaabbbdddd", [1.0] * 8 + [0.0, 1.0])
    kept = tuple(replace(case, fingerprint=f"new {case.id}") for case in [*now.cases][6:])
    now = with_cases(now, (*[*now.cases][:6], *kept))
    verdict = gate(now, before, wanted)
    change = verdict.dataset
    assert change is not None
    assert [(one.label, one.before, one.now) for one in change.labels] == [
        ("language:de", 8, 10),
        ("tag:c", 2, 0),
        ("tag:d", 0, 4),
    ]
    (score,) = change.scores
    assert (score.new, score.new_cases, score.common, score.common_cases) == (0.75, 4, 1.0, 6)
    assert verdict.headline.endswith("8 cases are gone or edited; no case has tag:c any more")
    assert "Nothing is checked on tag:c: no case has it any more (2 before)." in verdict.notes
    assert gate(before, before, wanted).dataset is None


def test_too_few_cases_in_common_fail_the_gate() -> None:
    before = run({"m": [1] * 329}, fingerprints={"dataset": "d0"})
    now = run({"m": [1] * 2})
    now = with_cases(now, (now.cases[0], replace(now.cases[1], fingerprint="new")))
    verdict = gate(now, before, config(m={"max_drop": 0.1}))
    assert verdict.outcome is FAILED
    assert verdict.headline.startswith("cases in common 1 of 329 cases of the baseline are in this")
    assert gate(now, before, config({"min_common": 0.0}, m={"max_drop": 0.1})).outcome is PASSED


# --- which cases lost


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        # Newly failed ones first, then by the loss.
        (
            {"m": [0.2, 1, 1, 0, 1, "failed"], "n": [1] * 6},
            {
                "m": ["failed", "abstained", 0.5, "abstained", 1, "failed"],
                "n": [1, 1, 0.6, 1, 1, 1],
            },
            [
                ("q1", "m", "failed", 0.0),
                ("q2", "m", "abstained", 1.0),
                ("q3", "m", "measured", 0.5),
            ],
        ),
        # 2 of 5 stars are .4 of the scale, less than .5 of 1; 3 s of an endless scale are 3.
        (
            {"m": [1.0, 1.0, 1.0], "stars": [5, 5, 5], "seconds": [1, 1, 1]},
            {"m": [1.0, 0.5, 1.0], "stars": [3, 5, 5], "seconds": [1, 1, 4]},
            [
                ("q3", "seconds", "measured", 3.0),
                ("q2", "m", "measured", 0.5),
                ("q1", "stars", "measured", 0.4),
            ],
        ),
    ],
)
def test_cases_that_lost_stand_by_the_share_of_their_scale(
    before: dict[str, Any], now: dict[str, Any], expected: list[tuple[str, str, str, float]]
) -> None:
    wanted = config({"max_error_rate": 1.0}, **{name: {"max_drop": 0.5} for name in now})
    lost = gate(run(now, STARS, SECONDS), run(before, STARS, SECONDS), wanted).lost_cases
    assert [(change.id, change.metric, change.status, change.loss) for change in lost] == expected
    assert lost[0].reason == ("why failed" if lost[0].status == "failed" else None)


# --- what cannot be demanded


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (GateConfig(), "no checks are configured"),
        (config(recal={"minimum": 0.5}), "does not measure 'recal'"),
        (config(M={"minimum": 1.5}), "min is 1.5, and its largest value is 1"),
        (config(m={"maximum": -1}), "max is -1, and its smallest value is 0"),
        (config(m={"max_drop": 1.0}), "nothing would ever fail"),
        (config(tokens={"max_drop": 1.0}), "neither of its sides is better"),
        (config(time={"max_drop": 1.0}), "no per-case values of it"),
        (config(time=sliced("tag")), "slices cannot be judged"),
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
        column("tokens", high=None, direction=Direction.NEITHER),
        column("time", high=None, has_cells=False, direction=Direction.LOWER),
    )
    now = run({"m": [1], "tokens": [5], "time": ["skipped"]}, *metrics)
    with pytest.raises(ConfigError, match=re.escape(message)):
        gate(now, None, wanted)


RECALL = column("recall@5")
ANSWER = column("answer_correct", group="generator")


def golden(recall: Sequence[Score], answers: Sequence[Score]) -> RunScores:
    """A run whose first three cases have the tag golden."""
    found = run({"recall@5": recall, "answer_correct": answers}, RECALL, ANSWER)
    tagged = [replace(case, tags=("golden",)) for case in [*found.cases][:3]]
    return with_cases(found, (*tagged, *[*found.cases][3:]))


def must(now: RunScores, before: RunScores | None, *selectors: str) -> GateCheck:
    verdict = gate(now, before, GateConfig(max_error_rate=1.0, must_pass=selectors))
    (check,) = [check for check in verdict.checks if check.kind is CheckKind.MUST_PASS]
    return check


RIGHT = golden([1.0] * 40, [1.0] * 40)


def test_a_case_that_is_lost_in_most_of_three_asks_fails_the_gate_and_in_one_is_named() -> None:
    now = golden([1.0] * 40, [1.0, 0.4, *[1.0] * 38])
    assert gate(now, RIGHT, GateConfig()).outcome is GateOutcome.PASSED
    wanted = GateConfig(must_pass=("tag:golden",))
    verdict = gate(now, RIGHT, wanted)
    lost = "must pass 1 of 3 cases lost: q2 (answer_correct 1.000, now 0.400)"
    assert (verdict.outcome, verdict.colour) == (GateOutcome.PASSED, "yellow")
    assert verdict.headline == (
        f"not shown, and not ruled out: {lost}, which chance may explain: asked three times, most "
        "of them decide"
    )
    assert gate(now, RIGHT, replace(wanted, undecided=Undecided.INCONCLUSIVE)).outcome is (
        CANNOT_TELL
    )
    assert must(now, RIGHT, "q1", "q3").outcome is GateOutcome.PASSED
    cells = Repeats(cells=(Cell.measured(0.0), Cell.measured(0.0), Cell.measured(1.0)))
    thrice = replace(now.cases[1], repeats={"answer_correct": cells})
    often = with_cases(now, (now.cases[0], thrice, *[*now.cases][2:]))
    verdict = gate(often, RIGHT, wanted)
    assert (verdict.outcome, verdict.headline) == (FAILED, lost)


@pytest.mark.parametrize(
    ("again", "outcome"), [((1.0, 1.0), PASSED), ((1.0, 0.0), FAILED), ((0.0, 0.0), FAILED)]
)
def test_a_case_that_was_lost_once_is_asked_twice_more_and_most_decide(
    again: tuple[float, float], outcome: GateOutcome
) -> None:
    now, wanted = golden([1.0] * 40, [1.0, 0.4, *[1.0] * 38]), GateConfig(must_pass=("q2",))
    verdict = gate(now, RIGHT, wanted)
    assert lost_once(verdict) == ["q2"]
    answers = run({"recall@5": [1.0, 1.0], "answer_correct": [*again]}, RECALL, ANSWER)
    cases = [replace(case, id=str(at)) for at, case in enumerate(answers.cases)]
    found = with_must_pass(verdict, with_cases(answers, cases), wanted)
    assert found.outcome is outcome
    assert found.is_warned is False


@pytest.mark.parametrize(
    ("recall", "answer", "before", "lost"),
    [
        (1.0, 0.5, None, False),  # half of the scale passes
        (0.4, 1.0, None, True),  # each of the main metrics must
        (1.0, "abstained", None, True),
        (1.0, "failed", None, True),
        ("skipped", 1.0, None, False),  # does not apply
        (1.0, 0.0, (1.0, 0.0), False),  # failed before as well
        (0.0, 0.0, (1.0, 0.0), True),  # one more way
        (0.0, 1.0, ("skipped", 1.0), True),  # nobody knew before
    ],
)
def test_a_case_is_lost_when_it_fails_and_did_not_before(
    recall: Score, answer: Score, before: tuple[Score, Score] | None, lost: bool
) -> None:
    now = golden([recall, 1.0, 1.0], [answer, 1.0, 1.0])
    old = None if before is None else golden([before[0], 1.0, 1.0], [before[1], 1.0, 1.0])
    check = must(now, old, "tag:golden")
    assert [change.id for change in check.lost] == (["q1"] if lost else [])
    assert check.failed_before == int(not lost and answer == 0.0)
    assert ("; 1 fail as before" in check.reason) is bool(check.failed_before)
    # A question that was edited since is a new one, which must pass.
    if old is not None:
        edited = with_cases(old, (replace(old.cases[0], fingerprint="e"), *[*old.cases][1:]))
        assert [one.id for one in must(now, edited, "tag:golden").lost] == ["q1"]


@pytest.mark.parametrize(("right", "lost"), [(1, True), (2, False), (3, False)])
def test_of_a_case_that_was_asked_repeatedly_most_times_decide(right: int, lost: bool) -> None:
    """Of four times; the mean of one that is right half of the time lies at the threshold."""
    cells = Repeats(cells=tuple(Cell.measured(float(n < right)) for n in range(4)))
    once = golden([1.0] * 3, [right / 4, 1.0, 1.0])
    first = replace(once.cases[0], repeats={"answer_correct": cells})
    now = with_cases(once, (first, *[*once.cases][1:]))
    assert bool(must(now, RIGHT, "q1").lost) is lost


def test_a_case_that_is_gone_is_lost_and_so_is_one_that_lost_its_tag() -> None:
    bare = with_cases(RIGHT, tuple(replace(case, tags=()) for case in RIGHT.cases))
    assert must(bare, RIGHT, "tag:golden").cases == 3
    gone = with_cases(bare, [*bare.cases][1:])
    check = must(gone, RIGHT, "tag:golden")
    assert check.summary == "1 of 3 cases lost: q1 (not in this run)"
    assert must(gone, RIGHT, "q1").outcome is GateOutcome.FAILED


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("tag:gold", "'tag:gold' names no case of this run"),
        ("q111", "Did you mean 'q11'?"),
        ("language:de", "names no case"),
        ("q4", "q4: none of answer_correct, recall@5 decides whether it passes"),
    ],
)
def test_what_can_never_be_judged_is_an_error(selector: str, message: str) -> None:
    now = golden([1.0] * 3 + ["skipped"] + [1.0] * 36, [1.0] * 3 + ["skipped"] + [1.0] * 36)
    with pytest.raises(ConfigError, match=re.escape(message)):
        must(now, RIGHT, selector)
