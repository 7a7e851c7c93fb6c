"""Losses against a baseline whose scores can be counted on the fingers: shown, ruled out, open."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ragbench import Case, FigureLimits, GateConfig, MetricGate
from ragbench.core.case_table import clusters_among, clusters_of
from ragbench.core.gate_result import CheckKind, GateOutcome, Ground
from ragbench.core.metric import Direction
from ragbench.core.origin import Origin
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError
from ragbench.gate.config import SliceGate, Undecided
from ragbench.gate.gate import gate
from ragbench.gate.words import UNDECIDED_NOTE
from ragbench.views.gate import github_annotations
from tests.unit.gate.builders import Score, column, config, run, timed
from tests.unit.gate.verdicts import (
    CANNOT_TELL,
    FAILED,
    PASSED,
    check_of,
    checks_of_kind,
    drop_of,
)

ANSWERS = column("gone", group="generator")
BRIER = column("brier", direction=Direction.LOWER)
NOTHING_TOLERATED = config(m={"max_drop": 0.0})
STRICT = {"undecided": Undecided.INCONCLUSIVE}


def by_language(*, max_drop: float | None = None, **limits: float) -> MetricGate:
    """A metric with a largest drop; its languages have limits of their own, or the same drop."""
    of_slices = FigureLimits(**limits) if limits else None
    return MetricGate(
        limits=FigureLimits(max_drop=max_drop),
        slices=(SliceGate(by="language", value=None, limits=of_slices),),
    )


# --- what is shown, ruled out or open


def test_six_losses_of_ten_cases_show_a_drop() -> None:
    """Six cases lose all: one of 2^6 sign patterns is as bad, p = .016.

    An unchanged system may be called worse at .4 of the level of .05, so at .02.
    """
    before = run({"m": [1] * 10})
    now = run({"m": [0] * 6 + [1] * 4})

    verdict = gate(now, before, NOTHING_TOLERATED)

    drop = check_of(verdict, "m").drop
    assert drop is not None
    assert (drop.before, drop.after) == (1.0, 0.4)
    assert drop.difference == pytest.approx(-0.6)
    assert drop.p_worse == 1 / 64
    assert (drop.cases, drop.clusters, drop.family) == (10, 10, 1)
    assert (drop.better, drop.worse) == (0, 6)
    assert repr(verdict).startswith("failed: m down 0.600 from 1.000 to 0.400\nfailed        m:")
    assert verdict.outcome.exit_code == 1


def test_five_losses_of_ten_cases_do_not_show_a_drop() -> None:
    """One of 2^5 sign patterns is as bad: p = .031, above .02."""
    before = run({"m": [1] * 10})
    now = run({"m": [0] * 5 + [1] * 5})

    verdict = gate(now, before, NOTHING_TOLERATED)

    assert check_of(verdict, "m").outcome is CANNOT_TELL
    assert verdict.colour == "yellow"


@pytest.mark.parametrize(
    ("now", "clusters", "tolerated", "ground", "message"),
    [
        (
            [0.0] * 6 + [1.0] * 4,
            None,
            0.0,
            Ground.SHOWN,
            "is shown (p = 0.016)",
        ),
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
        (
            [0.9] * 8,
            None,
            0.05,
            Ground.RARE_GAINS,
            "too few to rule out rare large gains",
        ),
        (
            [0.96] * 8,
            None,
            0.05,
            Ground.OPEN,
            "is neither shown nor ruled out",
        ),
        (
            [1.0, 0.99] * 6,
            None,
            0.05,
            Ground.RARE_LOSSES,
            "too few to rule out a rare large one",
        ),
        (
            [1.0, 0.99] * 999,
            None,
            0.05,
            Ground.RULED_OUT,
            "is ruled out",
        ),
        (
            [1.0] * 8,
            None,
            0.05,
            Ground.UNCHANGED,
            "none of 8 cases changed",
        ),
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
    now: list[Score],
    clusters: list[str | None] | None,
    tolerated: float,
    ground: Ground,
    message: str,
) -> None:
    """From a baseline where all is right; losses of one cluster are one observation."""
    run_before = run({"m": [1.0] * len(now)})
    run_now = run({"m": now}, clusters=clusters)

    verdict = gate(run_now, run_before, config(m={"max_drop": tolerated}))

    check = check_of(verdict, "m")
    assert check.ground is ground
    assert message in check.reason


def test_of_a_metric_where_lower_is_better_a_rise_is_the_loss() -> None:
    demands = config(brier={"max_drop": 0.05})
    low = run({"brier": [0.1] * 10}, BRIER)
    high = run({"brier": [0.4] * 10}, BRIER)

    assert gate(high, low, demands).outcome is FAILED
    assert gate(low, high, demands).outcome is PASSED


def test_the_interval_of_a_rise_is_in_the_metric_s_own_direction() -> None:
    low = run({"brier": [0.1] * 10}, BRIER)
    high = run({"brier": [0.4] * 10}, BRIER)

    drop = drop_of(high, low, config(brier={"max_drop": 0.05}), "brier")

    assert drop.difference == pytest.approx(0.3)
    assert (drop.low or 0.0) <= 0.3 <= (drop.high or 0.0)


def undecided_runs() -> tuple[RunScores, RunScores]:
    """Of twenty cases one is lost and one won: the same mean."""
    now = run({"m": [0, 1] + [1, 0] * 9})
    before = run({"m": [1, 0] * 10})
    return now, before


def test_a_check_that_is_undecided_passes_with_a_note_of_it() -> None:
    now, before = undecided_runs()

    verdict = gate(now, before, config(m={"max_drop": 0.05}))

    check = check_of(verdict, "m")
    assert (check.outcome, check.ground) == (CANNOT_TELL, Ground.OPEN)
    assert verdict.outcome is PASSED
    assert verdict.headline.startswith("3 checks passed, 1 inconclusive: m 0.500 as before (its 20")
    assert verdict.notes == ("Inconclusive checks pass; --strict blocks them.",)


@pytest.mark.parametrize(
    ("undecided", "outcome"),
    [(Undecided.INCONCLUSIVE, CANNOT_TELL), (Undecided.FAIL, FAILED)],
)
def test_a_check_that_is_undecided_blocks_where_that_is_configured(
    undecided: Undecided, outcome: GateOutcome
) -> None:
    now, before = undecided_runs()
    demands = config({"undecided": undecided}, m={"max_drop": 0.05})

    verdict = gate(now, before, demands)

    assert verdict.outcome is outcome
    assert verdict.headline == "m 0.500 as before"
    assert check_of(verdict, "m").outcome is CANNOT_TELL


# --- which metrics are held


def test_without_names_the_main_metric_is_held_and_others_are_shown() -> None:
    """Shown are those that have a better side, a mean over cases and values between two ends."""
    names = ["m", "neither", "ece", "stars", "seconds", "time"]
    scores = {name: [0, 1] for name in names}
    unchanged = run(
        scores,
        column("neither", direction=Direction.NEITHER),
        column("ece", aggregate="a:b", low=-1.0, direction=Direction.LOWER),
        column("stars", high=5.0),
        column("seconds", high=None, direction=Direction.LOWER),
        column("time", high=None, has_cells=False),
    )

    verdict = gate(unchanged, unchanged, GateConfig())

    drops = checks_of_kind(verdict, CheckKind.DROP)
    limits_and_outcomes = {check.subject: (check.limit, check.outcome) for check in drops}
    assert limits_and_outcomes == {
        "m": (0.02, PASSED),
        "stars": (0.0, GateOutcome.NOT_JUDGED),
    }
    subjects = [check.subject for check in verdict.checks]
    assert "measured: m" in subjects
    assert "measured: stars" not in subjects


def test_without_names_a_metric_may_lose_a_share_of_its_scale() -> None:
    """2% of five stars are .1."""
    stars = run({"stars": [0, 1]}, column("stars", high=5.0))

    check = check_of(gate(stars, stars, GateConfig()), "stars")

    assert check.limit == pytest.approx(0.1)


def test_a_metric_that_only_the_baseline_measured_is_demanded_and_not_forgotten() -> None:
    scores_before: dict[str, list[Score]] = {
        "m": [1.0, 1.0],
        "gone": [1.0, 0.0],
        "never": ["skipped", "skipped"],
    }
    scores_now = scores_before | {"gone": ["skipped", "skipped"]}

    verdict = gate(run(scores_now, ANSWERS), run(scores_before, ANSWERS), GateConfig())

    drops = checks_of_kind(verdict, CheckKind.DROP)
    assert sorted(check.subject for check in drops) == ["gone", "m"]
    assert check_of(verdict, "gone").ground is Ground.NOTHING_MEASURED


def test_a_metric_that_nobody_named_is_not_held_however_few_cases_it_is_measured_on() -> None:
    unchanged = [1.0] * 10
    skipped: list[Score] = ["skipped"] * 8
    before = run({"m": unchanged, "rare": [1.0, 1.0, *skipped]})
    now = run({"m": unchanged, "rare": [0.0, 0.0, *skipped]})

    verdict = gate(now, before, config(m={"max_drop": 0.1}))

    assert verdict.outcome is PASSED
    assert check_of(verdict, "rare").outcome is GateOutcome.NOT_JUDGED


def drawn_scores(draw: random.Random) -> list[float]:
    return [draw.random() for _ in range(40)]


@pytest.mark.parametrize("metric", ["m", "n", "o"])
def test_the_order_of_the_metrics_changes_no_p_value(metric: str) -> None:
    """Forty cases each: too many arrangements of signs to count, so they are drawn."""
    names = ["m", "n", "o"]
    draw = random.Random(4)
    now = run({name: drawn_scores(draw) for name in names})
    before = run({name: drawn_scores(draw) for name in names})
    forward = config(**{name: {"max_drop": 0.0} for name in names})
    backward = config(**{name: {"max_drop": 0.0} for name in reversed(names)})

    drop_forward = drop_of(now, before, forward, metric)
    drop_backward = drop_of(now, before, backward, metric)

    assert drop_forward.p_worse == drop_backward.p_worse


def test_metrics_that_are_one_number_are_one_row() -> None:
    all_right = [1.0] * 20
    half_right = [1.0, 0.0] * 10
    before = run({"recall": all_right, "mrr": all_right, "other": all_right})
    now = run({"recall": half_right, "mrr": half_right, "other": all_right})
    limits = {"max_drop": 0.02}

    verdict = gate(now, before, config(mrr=limits, recall=limits, other=limits))

    mrr, other_metric = checks_of_kind(verdict, CheckKind.DROP)
    assert (mrr.subject, mrr.same) == ("mrr", ("recall",))
    assert (other_metric.subject, other_metric.same) == ("other", ())
    assert verdict.headline == "mrr (= recall) down 0.500 from 1.000 to 0.500"
    # The name of its test in JUnit does not change with its company.
    assert mrr.name == "mrr"


# --- which cases are counted, and as how many observations


def test_what_is_left_out_of_a_drop_is_counted_by_the_run_that_lacks_it() -> None:
    before = run({"m": [1.0, 1.0, "abstained", "failed"]})
    now = run({"m": [1.0, "failed", 1.0, "failed"]})

    drop = drop_of(now, before, config(m={"max_drop": 0.1}))

    assert drop.left_out == {
        "not measured in the baseline": 1,
        "not measured in this run": 1,
        "not measured in either": 1,
    }


def test_without_a_named_cluster_cases_of_one_document_are_one_observation() -> None:
    """Twenty cases on four documents, five on each."""
    gold: list[int] = []
    for case in range(20):
        gold += [case // 5, -1]  # each has one gold passage, and no second one
    clusters = clusters_of([None] * 20, gold)
    now = run({"m": [0.0] * 20}, clusters=clusters)
    before = run({"m": [1.0] * 20}, clusters=clusters)

    verdict = gate(now, before, NOTHING_TOLERATED)

    check = check_of(verdict, "m")
    assert check.ground is Ground.ALL_LOST
    assert check.drop is not None
    assert (check.drop.cases, check.drop.clusters) == (20, 4)
    note = "Cases that share gold count as one observation: 20 cases, 4 clusters."
    assert note in verdict.notes


def test_clusters_that_are_named_stay_as_they_are() -> None:
    shared_gold = [1, -1] * 2

    assert clusters_of(["one", None], shared_gold) == ["one", None]


@pytest.mark.parametrize(
    ("gold", "clusters"),
    [
        pytest.param(
            ["a", "a b", "a", "b", "b c", "b"],
            [("a",), ("b",), ("a",), ("b",), ("b",), ("b",)],
            id="four cases share b, three a, one has c",
        ),
        pytest.param(
            ["a b", "b a", "c d", "d e"],
            [("b",), ("b",), ("d",), ("d",)],
            id="two pairs of cases",
        ),
        pytest.param(
            ["a b c", "c b a", "a b d", "a", "", ""],
            [("abc",), ("abc",), None, None, None, None],
            id="of more than two passages all have to be the same",
        ),
    ],
)
@pytest.mark.parametrize("order", [1, -1], ids=["forward", "backward"])
def test_a_case_of_two_passages_joins_the_one_that_more_cases_share(
    gold: list[str], clusters: list[tuple[str] | None], order: int
) -> None:
    """Clusters are told apart by any mark: the names that the product gives them are its own."""
    cases: list[Case] = []
    for gold_ids in gold:
        cases.append(Case(id="", query="", reference_context_ids=tuple(gold_ids.split())))

    names = clusters_among(cases[::order])

    expected = clusters[::order]
    unnamed = [name is None for name in names]
    assert unnamed == [cluster is None for cluster in expected]
    # As many pairs as clusters: each name goes with one cluster alone.
    pairs = set(zip(names, expected, strict=True))
    assert len(pairs) == len(set(expected))
    assert len(pairs) == len(set(names))


# --- what fails without a test


def nine_metrics(value: float, documents: int, each: int) -> RunScores:
    """Nine metrics that move together, on so many cases of each document."""
    clusters = [f"d{number}" for number in range(documents)] * each
    names = [f"m{number}" for number in range(9)]
    scores = {name: [value] * len(clusters) for name in names}
    return run(scores, clusters=clusters)


@pytest.mark.parametrize("documents", range(1, 9))
@pytest.mark.parametrize("each", [1, 75])
def test_a_total_loss_never_passes_on_however_few_documents(documents: int, each: int) -> None:
    """Of one or two documents nobody can tell it from chance: inconclusive instead of failed."""
    before = nine_metrics(1.0, documents, each)
    now = nine_metrics(0.0, documents, each)

    verdict = gate(now, before, GateConfig())
    verdict_unchanged = gate(before, before, GateConfig())

    assert verdict.outcome.exit_code == (3 if documents < 3 else 1)
    assert verdict_unchanged.outcome is PASSED


@pytest.mark.parametrize("documents", [1, 2])
@pytest.mark.parametrize("each", [1, 75])
def test_a_drop_that_is_named_is_refused_on_fewer_than_three_documents(
    documents: int, each: int
) -> None:
    before = nine_metrics(1.0, documents, each)
    now = nine_metrics(0.0, documents, each)

    with pytest.raises(ConfigError, match="a max_drop needs 3 to be judged at all"):
        gate(now, before, config(m0={"max_drop": 0.05}))


@pytest.mark.parametrize("documents", range(3, 9))
@pytest.mark.parametrize("each", [1, 75])
def test_a_total_loss_of_a_named_metric_fails_on_three_documents_and_more(
    documents: int, each: int
) -> None:
    before = nine_metrics(1.0, documents, each)
    now = nine_metrics(0.0, documents, each)

    verdict = gate(now, before, config(m0={"max_drop": 0.05}))

    assert verdict.outcome is FAILED


@pytest.mark.parametrize("right", [1, 2])
@pytest.mark.parametrize("documents", range(3, 9))
@pytest.mark.parametrize("each", [1, 75])
def test_a_total_loss_is_inconclusive_where_only_one_or_two_documents_had_been_right(
    each: int, documents: int, right: int
) -> None:
    clusters = [f"d{number}" for number in range(documents)]
    score_of_document = [1.0] * right + [0.0] * (documents - right)
    before = run({"m0": score_of_document * each}, clusters=clusters * each)
    now = nine_metrics(0.0, documents, each)

    verdict = gate(now, before, config(m0={"max_drop": 0.05}))

    assert verdict.outcome.exit_code == 3
    assert check_of(verdict, "m0").ground is Ground.ALL_OF_FEW_LOST
    assert "are too few to tell it from chance" in verdict.headline
    assert UNDECIDED_NOTE not in verdict.notes


def of_200_right(before: int, now: int) -> tuple[RunScores, RunScores]:
    """The run and its baseline: other cases are right now, so that signs do not show the loss."""
    right_first = [1] * before + [0] * (200 - before)
    right_last = [0] * (200 - now) + [1] * now
    return run({"m": right_last}), run({"m": right_first})


@pytest.mark.parametrize(
    ("right_before", "right_now", "ground"),
    [
        # p = .09, since four others came right by themselves.
        pytest.param(10, 4, Ground.HALVED, id="less than half is left"),
        pytest.param(10, 5, Ground.OPEN, id="exactly half is left"),
        pytest.param(9, 4, Ground.OPEN, id="fewer than ten were right"),
        pytest.param(3, 0, Ground.ALL_LOST, id="three of three are lost"),
        pytest.param(2, 0, Ground.OPEN, id="two of 200 may be lost by chance"),
    ],
)
def test_a_loss_of_more_than_half_needs_no_test(
    right_before: int, right_now: int, ground: Ground
) -> None:
    now, before = of_200_right(right_before, right_now)

    verdict = gate(now, before, NOTHING_TOLERATED)

    assert check_of(verdict, "m").ground is ground


@pytest.mark.parametrize(("right_before", "right_now"), [(10, 4), (3, 0)])
def test_a_loss_of_more_than_half_passes_where_the_user_tolerates_it(
    right_before: int, right_now: int
) -> None:
    now, before = of_200_right(right_before, right_now)

    verdict = gate(now, before, config(m={"max_drop": 0.5}))

    assert verdict.outcome is PASSED


def test_on_a_scale_that_does_not_begin_at_zero_there_is_no_half() -> None:
    now, before = of_200_right(10, 4)
    from_minus_one = (column("m", low=-1.0),)

    verdict = gate(
        replace(now, metrics=from_minus_one),
        replace(before, metrics=from_minus_one),
        NOTHING_TOLERATED,
    )

    assert check_of(verdict, "m").ground is not Ground.HALVED


# --- a loss that may be chance


def fourteen_lost_and_six_won() -> tuple[RunScores, RunScores]:
    """A loss of .04 on 200 cases: where .01 is tolerated, p = .09."""
    scores_before = [1] * 100 + [0] * 100
    scores_now = [0] * 14 + [1] * 92 + [0] * 94
    before = run({"m": scores_before}, source="main")
    now = run(
        {"m": scores_now},
        source="a run",
        # Of a run that asked a system itself, ragbench can ask it again.
        origins=(Origin("retrieve", (), "closed"),),
        **timed("retrieve", 200, 0.3),
    )
    return now, before


def test_a_loss_that_may_be_chance_is_yellow_with_its_figures_and_what_settles_it() -> None:
    verdict = gate(*fourteen_lost_and_six_won(), config(m={"max_drop": 0.01}))

    assert (verdict.outcome, verdict.colour) == (PASSED, "yellow")
    assert github_annotations(verdict).startswith("::warning title=ragbench passed::not shown")
    assert verdict.headline == (
        "not shown, and not ruled out: m down 0.040 from 0.500 to 0.460 (95% interval -0.084 to "
        "0.004), more than the tolerated 0.010. Settle it: ragbench gate 'a run' --baseline main "
        "--max-drop m=0.01 --rerun-inconclusive (at most 2,000 questions to each of the two, about "
        "20 min at the run's pace)"
    )


def test_a_loss_that_may_be_chance_blocks_when_strict() -> None:
    verdict = gate(*fourteen_lost_and_six_won(), config(STRICT, m={"max_drop": 0.01}))

    assert (verdict.outcome.exit_code, verdict.colour) == (3, "yellow")


def test_a_system_that_cannot_be_asked_again_is_not_offered_to_be_asked() -> None:
    now, before = fourteen_lost_and_six_won()

    verdict = gate(replace(now, origins=()), before, config(m={"max_drop": 0.01}))

    assert "Settle it" not in verdict.headline


def test_a_loss_little_above_the_tolerated_one_is_green_with_the_drop_that_would_be_shown() -> None:
    """.04 lost and .03 tolerated: p = .33."""
    verdict = gate(*fourteen_lost_and_six_won(), config(m={"max_drop": 0.03}))

    assert (verdict.outcome, verdict.colour) == (PASSED, "green")
    assert "(its 200 cases would show a drop of" in verdict.headline


def test_a_gain_is_green() -> None:
    now, before = fourteen_lost_and_six_won()

    verdict = gate(before, now, config(m={"max_drop": 0.01}))

    assert verdict.colour == "green"


# --- slices


def test_slices_have_a_level_of_their_own_and_cost_the_metric_nothing() -> None:
    """Six losses of twelve: p = 1/64 for the metric, however many slices are looked at."""
    languages = [f"l{number}" for number in range(12)]
    before = run({"m": [1] * 12}, languages=languages)
    now = run({"m": [0] * 6 + [1] * 6}, languages=languages)

    verdict = gate(now, before, config(m=by_language(max_drop=0.0)))

    drop = check_of(verdict, "m").drop
    assert drop is not None
    assert (drop.p_worse, drop.family) == (1 / 64, 1)
    assert verdict.outcome is FAILED


def of_five_german_and_300_english_cases(lost: int) -> RunScores:
    """So many cases are lost, the German ones first."""
    languages = ["de"] * 5 + ["en"] * 300
    scores = [0] * lost + [1] * (305 - lost)
    return run({"m": scores}, languages=languages)


def test_a_slice_that_lost_everything_fails_the_gate() -> None:
    before = of_five_german_and_300_english_cases(lost=0)
    now = of_five_german_and_300_english_cases(lost=5)

    verdict = gate(now, before, config(m=by_language(max_drop=0.1)))

    assert check_of(verdict, "m").outcome is not FAILED
    check = check_of(verdict, "m", "language:de")
    assert (check.kind, check.outcome, check.cases) == (CheckKind.SLICE, FAILED, 5)
    assert (check.name, check.ground) == ("m [language:de]", Ground.ALL_LOST)
    assert verdict.outcome is FAILED
    assert verdict.headline.startswith("m [language:de] down 1.000")


def test_a_slice_whose_loss_is_not_shown_does_not_count() -> None:
    before = of_five_german_and_300_english_cases(lost=0)
    now = of_five_german_and_300_english_cases(lost=4)

    verdict = gate(now, before, config(m=by_language(max_drop=0.1)))

    assert check_of(verdict, "m", "language:de").outcome is CANNOT_TELL
    assert verdict.outcome is PASSED
    # Of the English cases, none is lost: that slice is decided.
    (note,) = [note for note in verdict.notes if "slices" in note]
    assert note == "1 of the checks on slices cannot be decided; they do not count."


def test_a_floor_on_slices_fails_for_the_slice_below_it() -> None:
    now = run({"m": ["skipped", 0.0]}, languages=["de", "en"])

    verdict = gate(now, None, config(m=by_language(minimum=0.5)))

    assert len(checks_of_kind(verdict, CheckKind.SLICE)) == 2
    assert check_of(verdict, "m", "language:de").outcome is CANNOT_TELL
    assert check_of(verdict, "m", "language:en").outcome is FAILED
    assert verdict.outcome is FAILED


def test_a_floor_on_a_slice_that_is_not_measured_does_not_count() -> None:
    now = run({"m": ["skipped", 1.0]}, languages=["de", "en"])

    verdict = gate(now, None, config(m=by_language(minimum=0.5)))

    assert verdict.outcome is PASSED
