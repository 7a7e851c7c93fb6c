"""compare(): numbers that can be checked by hand, and what must not change them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import compare, parse_metrics
from ragbench.core.ablation import VariantEffect
from ragbench.core.attribution import Cause
from ragbench.core.case_table import CaseTexts, ScoredCase
from ragbench.core.comparison import Against, CaseDifference, CaseKind, Comparison, Difference
from ragbench.core.metric import Direction, Metric
from ragbench.core.outcome import Cell, Status
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.cases import id_change
from ragbench.gate.compare import cases_beside
from ragbench.gate.pairwise import Measured, variant_effects, what_to_keep
from tests.unit.gate.builders import Score, column, run, run_of, with_texts

GENERATOR = column("token_f1", group="generator")


def only_difference(comparison: Comparison, metric: str) -> Difference:
    """The difference of two runs on a metric."""
    (compared,) = [compared for compared in comparison.metrics if compared.name == metric]
    (difference,) = compared.differences
    return difference


def case(name: str, recall: float | None, **facts: Any) -> ScoredCase:
    """A case with a value of recall@5, or skipped by it."""
    cell = Cell.skipped("no gold") if recall is None else Cell.measured(recall)
    plain = ScoredCase(id=name, fingerprint=f"f-{name}", scores={"recall@5": cell})
    return replace(plain, **facts)


def recall_run(*cases: ScoredCase) -> RunScores:
    return run_of(cases, column("recall@5"))


# --- figures and differences


def test_a_difference_that_can_be_checked_by_hand() -> None:
    scores_before = [1.0] * 8 + [0.0, 0.0]
    scores_after = [0.0] * 6 + [1.0] * 2 + [0.0, 1.0]
    before = run({"recall@5": scores_before})
    after = run({"recall@5": scores_after})

    comparison = compare([before, after])

    difference = only_difference(comparison, "recall@5")

    assert (difference.first, difference.second) == ("a", "b")
    assert difference.before == 0.8
    assert difference.after == pytest.approx(0.3)
    assert difference.difference == pytest.approx(-0.5)
    assert difference.cases == 10
    assert (difference.lower, difference.higher) == (6, 1)
    # Seven cases changed, six of them for the worse: 2 * (1 + 7) / 2 ** 7.
    assert difference.p_value == pytest.approx(16 / 128)
    # One metric and one pair: nothing to correct for.
    assert difference.p_corrected == difference.p_value
    assert not difference.is_significant


@pytest.mark.parametrize(
    ("direction", "better_than"),
    [
        pytest.param(Direction.HIGHER, [("b",), ()], id="higher is better"),
        pytest.param(Direction.LOWER, [(), ("a",)], id="lower is better"),
    ],
)
def test_the_better_run_is_marked_with_the_letter_of_the_worse(
    direction: Direction, better_than: list[tuple[str, ...]]
) -> None:
    metric = column("m", direction=direction)
    before = run({"m": [1.0] * 10}, metric)
    after = run({"m": [0.0] * 10}, metric)

    (compared,) = compare([before, after]).metrics

    assert [figure.better_than for figure in compared.figures] == better_than
    # Second minus first, whichever direction is better.
    assert compared.differences[0].difference == -1.0


def three_runs() -> list[RunScores]:
    """Of each case, x and y are equal: 0 in the first run, 0.5 in the second, 1 in the third."""
    runs: list[RunScores] = []
    for value in (0.0, 0.5, 1.0):
        scores = [value] * 12
        runs.append(run({"x": scores, "y": scores}))
    return runs


def test_metrics_are_tested_jointly_and_pairs_corrected_by_their_number() -> None:
    """Two equal metrics are one test; three pairs of runs are three."""
    comparison = compare(three_runs())

    # All twelve cases rise: of 2 ** 12 sign patterns, two are as extreme.
    by_chance = 2 / 2**12
    for compared in comparison.metrics:
        assert len(compared.differences) == 3
        for difference in compared.differences:
            assert difference.p_value == pytest.approx(by_chance)
            assert difference.p_corrected == pytest.approx(3 * by_chance)
    assert comparison.settings["family"] == 6
    figures = comparison.metrics[0].figures
    assert [figure.better_than for figure in figures] == [(), ("a",), ("a", "b")]


def test_only_the_metrics_that_are_named_are_compared_and_corrected_for() -> None:
    comparison = compare(three_runs(), metrics=["y"])

    assert [compared.name for compared in comparison.metrics] == ["y"]
    assert comparison.settings["family"] == 3


def test_unmeasured_cases_are_counted_and_not_zero() -> None:
    before = run({"token_f1": [1.0, 1.0, 1.0, "failed"]}, GENERATOR)
    after = run({"token_f1": [1.0, "abstained", "failed", "failed"]}, GENERATOR)

    comparison = compare([before, after])

    difference = only_difference(comparison, "token_f1")
    assert (difference.before, difference.after) == (1.0, 1.0)
    assert difference.cases == 1
    assert difference.left_out == {"b": 2, "a, b": 1}
    figure = comparison.metrics[0].figures[1]
    assert figure.score == 1.0
    assert (figure.measured, figure.abstained, figure.failed) == (1, 1, 2)
    assert "token_f1: 2 cases were measured in a and not in b" in comparison.notes[0]


@pytest.mark.parametrize(
    ("facts_before", "facts_after", "reason"),
    [
        pytest.param(
            {"aggregate": "m:ece"},
            {"aggregate": "m:ece"},
            "its figure is not a mean over cases",
            id="not a mean",
        ),
        pytest.param(
            {"has_cells": False},
            {"has_cells": False},
            "a report holds no per-case values of it",
            id="no values per case",
        ),
        pytest.param(
            {"version": 1},
            {"version": 2},
            "the runs measured it by formulas of different versions",
            id="another version",
        ),
        pytest.param(
            {"digest": "d1"},
            {"digest": "d2"},
            "the code that computes it has changed between the runs",
            id="other code",
        ),
    ],
)
def test_a_metric_without_a_mean_or_with_another_formula_is_shown_and_not_tested(
    facts_before: dict[str, Any], facts_after: dict[str, Any], reason: str
) -> None:
    own_before = column("own", **facts_before)
    own_after = column("own", **facts_after)
    before = run({"own": [0.1, 0.2], "x": [1.0, 0.0]}, own_before)
    after = run({"own": [0.8, 0.9], "x": [1.0, 0.0]}, own_after)

    comparison = compare([before, after])

    own, _ = comparison.metrics
    assert own.name == "own"
    assert own.figures[0].score == pytest.approx(0.15)
    assert own.differences == ()
    assert own.untested == reason
    notes = [note for note in comparison.notes if "of different formulas: own. Score" in note]
    assert bool(notes) == ("version" in reason or "code" in reason)
    # It decides of no case whether it passes.
    assert comparison.main == ("x",)
    assert comparison.changed == ()


def test_only_runs_that_measured_a_metric_are_compared_on_it() -> None:
    with_n = run({"m": [1.0, 0.0], "n": [1.0, 0.0]})
    without_n = run({"m": [1.0, 0.0]})

    of_m, of_n = compare([with_n, without_n, with_n]).metrics

    assert (of_m.name, of_n.name) == ("m", "n")
    pairs_of_m = [(difference.first, difference.second) for difference in of_m.differences]
    assert pairs_of_m == [("a", "b"), ("a", "c"), ("b", "c")]
    pairs_of_n = [(difference.first, difference.second) for difference in of_n.differences]
    assert pairs_of_n == [("a", "c")]


def test_notes_warn_of_what_changes_scores_by_itself() -> None:
    by_id = run({"x": [1.0]})
    by_text = run({"x": [1.0]}, fingerprints={"dataset": "d1", "judge": "j"}, matching="text")

    matching_note, judge_note, *_ = compare([by_id, by_text]).notes

    assert "a by id, b by text" in matching_note
    assert "different judges" in judge_note


# --- which metrics decide whether a case passes


@pytest.mark.parametrize(
    ("measured", "main"),
    [
        pytest.param(
            ["MRR@10", "recall@5", "abstention_accuracy", "exact_match", "token_f1", "answer_rate"],
            ("token_f1", "recall@5", "answer_rate"),
            id="a generator, a retriever and an overall metric",
        ),
        pytest.param(
            ["MRR@10", "recall@5", "abstention_accuracy", "exact_match", "token_f1"],
            ("token_f1", "recall@5"),
            id="no answer rate",
        ),
    ],
)
def test_main_metrics_are_one_per_group(measured: list[str], main: tuple[str, ...]) -> None:
    columns = [
        column("exact_match", group="generator"),
        GENERATOR,
        column("answer_rate", group="overall"),
    ]
    one_case = run({name: [1.0] for name in measured}, *columns)

    assert compare([one_case, one_case]).main == main


def test_a_metric_without_a_better_side_cannot_be_a_main_metric() -> None:
    neither = column("Judged", direction=Direction.NEITHER)
    judged = run({"Judged": [1.0]}, neither)

    with pytest.raises(ConfigError, match="neither of its sides is better"):
        compare([judged, judged], main=["judged"])


# --- which cases are compared


def run_before() -> RunScores:
    return recall_run(
        case("q1", 1.0),
        case("q2", 1.0),
        case("q3", 1.0),
    )


def run_with_one_case_in_common() -> RunScores:
    """q1 is the same, q2 was edited, q3 is gone and q4 is new."""
    return recall_run(
        case("q1", 0.0),
        case("q2", 0.0, fingerprint="edited"),
        case("q4", 0.0),
    )


def test_runs_over_different_cases_are_refused() -> None:
    with pytest.raises(RunMismatchError, match=r"1 the same, 1 changed, 2 not in"):
        compare([run_before(), run_with_one_case_in_common()])


def test_runs_over_different_cases_are_compared_on_the_common_ones_where_that_is_asked_for() -> (
    None
):
    comparison = compare([run_before(), run_with_one_case_in_common()], only_common_cases=True)

    assert comparison.cases == 1
    assert only_difference(comparison, "recall@5").cases == 1
    assert comparison.metrics[0].figures[0].score == 1.0
    assert comparison.notes[0].startswith("Compared on 1 case,")


def test_runs_without_a_common_case_are_refused_even_where_common_ones_are_asked_for() -> None:
    with pytest.raises(RunMismatchError, match="no case in common"):
        compare([run_before(), recall_run(case("q9", 1.0))], only_common_cases=True)


def run_asked_plainly() -> RunScores:
    asked_plainly = recall_run(
        case("q1", 1.0),
        case("q2", 0.0),
        case("q3", 0.0),
    )
    return with_texts(asked_plainly, {"q2": CaseTexts(right="x")})


def test_cases_that_are_asked_in_another_way_are_joined_by_id() -> None:
    """q1 stays, q2 rises by 1, q3 by 0.5: together 1.5 of 3 more."""
    rewritten = recall_run(
        case("q1", 1.0),
        case("q2", 1.0, fingerprint="rewrite"),
        case("q3", 0.5, fingerprint="rewrite"),
    )

    comparison = compare([run_asked_plainly(), rewritten], same="id")

    assert only_difference(comparison, "recall@5").difference == pytest.approx(0.5)
    assert comparison.notes == ("Joined by id: 2 of 3 cases are asked in another way.",)
    assert comparison.systems[0].changes[0] == "how 2 cases are asked"


def run_with_another_reference() -> RunScores:
    """Shares q2 with the run that is asked plainly, with another right answer."""
    rewritten = recall_run(
        case("q2", 1.0, fingerprint="rewrite"),
        case("q4", 1.0),
    )
    return with_texts(rewritten, {"q2": CaseTexts(right="y")})


def test_joined_by_id_runs_with_different_ids_are_refused() -> None:
    with pytest.raises(RunMismatchError, match=r"share 1 id, and 3 are not in every run"):
        compare([run_asked_plainly(), run_with_another_reference()], same="id")


def test_joined_by_id_other_references_are_counted_in_a_note() -> None:
    runs = [run_asked_plainly(), run_with_another_reference()]

    (note,) = compare(runs, same="id", only_common_cases=True).notes

    assert note.endswith(
        "3 are not in every run: left out. 1 have another reference or relevance, "
        "which changes scores by itself."
    )


def test_joined_by_id_runs_without_a_common_id_are_refused() -> None:
    runs = [run_asked_plainly(), recall_run(case("q9", 1.0))]

    with pytest.raises(RunMismatchError, match="share 0 ids"):
        compare(runs, same="id", only_common_cases=True)


# --- which cases changed


def changed_cases(before: ScoredCase, after: ScoredCase) -> tuple[CaseDifference, ...]:
    return compare([recall_run(before), recall_run(after)]).changed


@pytest.mark.parametrize(
    ("before", "after", "newly_fails"),
    [
        pytest.param(1.0, 0.0, True, id="from all to nothing"),
        pytest.param(0.5, 0.49, True, id="from the middle to below"),
        pytest.param(0.49, 0.5, False, id="from below to the middle"),
    ],
)
def test_a_case_fails_below_the_middle_of_the_scale(
    before: float, after: float, newly_fails: bool
) -> None:
    (difference,) = changed_cases(case("q", before), case("q", after))

    (flip,) = difference.flips
    assert flip.newly_fails is newly_fails


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(1.0, 0.5, id="passes in both runs"),
        pytest.param(0.4, 0.0, id="fails in both runs"),
        pytest.param(None, 0.0, id="not measured before"),
        pytest.param(1.0, None, id="not measured after"),
    ],
)
def test_a_case_that_does_not_cross_the_middle_of_the_scale_is_unchanged(
    before: float | None, after: float | None
) -> None:
    assert changed_cases(case("q", before), case("q", after)) == ()


def test_a_stage_that_failed_is_named_and_its_metrics_are_not() -> None:
    before = case("q", 1.0, stages={"retrieve": Status.MEASURED})
    failed_cell = Cell(status=Status.FAILED, reason="gone")
    after = replace(before, scores={"recall@5": failed_cell}, stages={"retrieve": Status.FAILED})

    (difference,) = changed_cases(before, after)

    assert difference.kind is CaseKind.FAILING
    (flip,) = difference.flips
    assert (flip.subject, flip.after_status) == ("retrieve", "failed")
    assert flip.reason is None


def test_a_metric_that_abstained_is_named_with_its_reason() -> None:
    before = case("q", 1.0, stages={"retrieve": Status.MEASURED})
    after = replace(before, scores={"recall@5": Cell.abstained("why")})

    (difference,) = changed_cases(before, after)

    assert difference.kind is CaseKind.FAILING
    (flip,) = difference.flips
    assert (flip.subject, flip.after_status) == ("recall@5", "abstained")
    assert flip.reason == "why"


def runs_that_changed_four_cases() -> list[RunScores]:
    """q1 is found now, q2 and q3 are lost, and q4 is lost and answered rightly."""
    scores_before = {
        "recall@5": [0.0, 0.6, 1.0, 1.0],
        "token_f1": [1.0, 1.0, 1.0, 0.0],
    }
    scores_after = {
        "recall@5": [1.0, 0.4, 0.0, 0.0],
        "token_f1": [1.0, 1.0, 1.0, 1.0],
    }
    return [run(scores_before, GENERATOR), run(scores_after, GENERATOR)]


def test_a_case_passes_by_its_answer_where_no_main_metrics_are_named() -> None:
    (right,) = compare(runs_that_changed_four_cases()).changed

    assert (right.id, right.kind) == ("q4", CaseKind.FIXED)


def test_newly_failing_cases_come_first_and_the_largest_loss_first() -> None:
    comparison = compare(runs_that_changed_four_cases(), main=["recall@5", "token_f1"])

    ids_and_kinds = [(difference.id, difference.kind) for difference in comparison.changed]
    assert ids_and_kinds == [
        ("q3", CaseKind.FAILING),
        ("q2", CaseKind.FAILING),
        ("q4", CaseKind.MIXED),
        ("q1", CaseKind.FIXED),
    ]
    (pair,) = comparison.pairs
    assert pair.cases == 4
    assert (pair.newly_failing, pair.mixed, pair.newly_fixed) == (2, 1, 1)


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        pytest.param(
            (1.0, 1.0),
            ("abstained", 0.0),
            ["newly failing"],
            id="declines wrongly now",
        ),
        pytest.param(
            ("abstained", 1.0),
            ("skipped", 0.0),
            ["newly failing"],
            id="answers what has no answer",
        ),
        pytest.param(
            ("abstained", 0.0),
            (0.1, 1.0),
            [],
            id="from declined to a wrong answer",
        ),
        pytest.param(
            ("abstained", 0.0),
            (0.9, 1.0),
            ["newly fixed"],
            id="from declined to a right answer",
        ),
    ],
)
def test_declining_is_right_where_there_is_no_answer(
    before: tuple[Score, float], after: tuple[Score, float], kinds: list[str]
) -> None:
    """Each side: the answer's token_f1, and whether declining was the right choice."""
    columns = (GENERATOR, column("abstention_accuracy", group="overall"))
    runs: list[RunScores] = []
    for answer, declining in (before, after):
        scores: dict[str, list[Score]] = {"token_f1": [answer], "abstention_accuracy": [declining]}
        runs.append(run(scores, *columns))

    comparison = compare(runs)

    assert [difference.kind for difference in comparison.changed] == kinds


def test_a_stage_that_broke_comes_before_a_larger_loss() -> None:
    before = recall_run(
        case("q1", 1.0, stages={"generate": Status.MEASURED}),
        case("q2", 1.0, stages={"generate": Status.MEASURED}),
    )
    after = recall_run(
        case("q1", 0.0, stages={"generate": Status.MEASURED}),
        case("q2", 1.0, stages={"generate": Status.FAILED}),
    )

    comparison = compare([before, after])

    assert [difference.id for difference in comparison.changed] == ["q2", "q1"]


# --- how causes flow from one run to the other


def run_with_causes(causes: list[Cause]) -> RunScores:
    """A run of the cases q0, q1 ..., one for each cause."""
    cases: list[ScoredCase] = []
    for number, cause in enumerate(causes):
        cases.append(case(f"q{number}", 1.0, cause=cause))
    return recall_run(*cases)


def runs_with_causes() -> tuple[RunScores, RunScores]:
    """q0 is right and then declined, q1 right and then lost, q2 to q7 lost and then right."""
    before = run_with_causes([Cause.RIGHT, Cause.RIGHT] + [Cause.NOT_RETRIEVED] * 6)
    after = run_with_causes([Cause.DECLINED, Cause.NOT_RETRIEVED] + [Cause.RIGHT] * 6)
    return before, after


def test_causes_flow_the_most_frequent_way_first() -> None:
    flows = compare(runs_with_causes()).flows

    ways_and_cases = [(flow.before, flow.after, flow.cases) for flow in flows]
    # Of equally frequent ones as causes follow each other in the report.
    assert ways_and_cases == [
        (Cause.NOT_RETRIEVED, Cause.RIGHT, 6),
        (Cause.RIGHT, Cause.NOT_RETRIEVED, 1),
        (Cause.RIGHT, Cause.DECLINED, 1),
    ]


def test_a_flow_of_causes_has_five_examples() -> None:
    most_frequent, *_ = compare(runs_with_causes()).flows

    assert most_frequent.cases == 6
    assert most_frequent.examples == ("q2", "q3", "q4", "q5", "q6")


def test_a_flow_of_causes_names_the_questions_of_its_examples() -> None:
    before, after = runs_with_causes()
    texts = {"q1": CaseTexts("Which week?"), "q2": CaseTexts("Which day?")}

    flows = compare([before, with_texts(after, texts)]).flows

    lost_then_right, right_then_lost, _ = flows

    assert right_then_lost.questions == ("Which week?",)
    assert lost_then_right.questions[0] == "Which day?"


def test_between_equal_runs_every_cause_flows_to_itself() -> None:
    unchanged, _ = runs_with_causes()

    flows = compare([unchanged, unchanged]).flows

    ways = {(flow.before, flow.after) for flow in flows}
    assert ways == {
        (Cause.NOT_RETRIEVED, Cause.NOT_RETRIEVED),
        (Cause.RIGHT, Cause.RIGHT),
    }


# --- what holds for all runs

id_lists = st.lists(st.sampled_from("uvwxyz"), max_size=6)
scores = st.one_of(
    st.sampled_from([0.0, 0.5, 1.0]),
    st.floats(0, 1),
    st.sampled_from(["failed"]),
)
clusters = st.sampled_from([None, "d1", "d2"])
score_tables = st.lists(st.tuples(scores, scores, clusters), min_size=1)


@given(id_lists, id_lists)
def test_id_changes_account_for_every_id(before: list[str], after: list[str]) -> None:
    change = id_change(before, after)

    assert change is not None
    in_both = len(change.moved) + change.kept
    assert in_both + len(change.gained) == len(set(after))
    assert in_both + len(change.lost) == len(set(before))


@given(id_lists, id_lists)
def test_swapping_the_runs_swaps_the_ids_that_are_gained_and_lost(
    before: list[str], after: list[str]
) -> None:
    change = id_change(before, after)
    swapped = id_change(after, before)

    assert change is not None
    assert swapped is not None
    assert change.gained == swapped.lost
    assert change.lost == swapped.gained
    moved_back = {(case_id, new_rank, old_rank) for case_id, old_rank, new_rank in change.moved}
    assert moved_back == set(swapped.moved)


def negated(number: float | None) -> Any:
    return None if number is None else pytest.approx(-number)


@given(score_tables)
def test_swapping_the_runs_turns_every_sign_and_changes_no_p_value(
    table: list[tuple[Score, Score, str | None]],
) -> None:
    """Each row of the table: the score before, the score after, and the case's cluster."""
    scores_before = [score_before for score_before, _, _ in table]
    scores_after = [score_after for _, score_after, _ in table]
    clusters = [cluster for _, _, cluster in table]
    before = run({"recall@5": scores_before}, clusters=clusters)
    after = run({"recall@5": scores_after}, clusters=clusters)

    forward = compare([before, after])
    backward = compare([after, before])

    difference = only_difference(forward, "recall@5")
    swapped = only_difference(backward, "recall@5")
    assert difference.p_value == swapped.p_value
    assert (difference.before, difference.after) == (swapped.after, swapped.before)
    assert difference.difference == negated(swapped.difference)
    assert difference.low == negated(swapped.high)
    assert difference.high == negated(swapped.low)
    swapped_kinds = {
        CaseKind.FAILING: CaseKind.FIXED,
        CaseKind.FIXED: CaseKind.FAILING,
        CaseKind.MIXED: CaseKind.MIXED,
    }
    kinds_forward = {changed.id: changed.kind for changed in forward.changed}
    kinds_backward = {changed.id: swapped_kinds[changed.kind] for changed in backward.changed}
    assert kinds_forward == kinds_backward


# --- the cases of a run beside those of an earlier one


def earlier_run() -> RunScores:
    """`gone` is not in the later run, and `edited` is another question there."""
    earlier = recall_run(
        case("lost", 1.0, cause=Cause.RIGHT),
        case("same", 1.0),
        case("won", 0.0),
        case("gone", 1.0),
        case("edited", 1.0, fingerprint="old"),
    )
    texts_of_lost = CaseTexts("?", "27", ("a", "b", "c"))
    return with_texts(earlier, {"lost": texts_of_lost})


def beside_the_earlier_run() -> Against:
    later = recall_run(
        case("lost", 0.0),
        case("same", 1.0),
        case("won", 1.0),
        case("new", 0.0),
        case("edited", 0.0),
    )
    texts_of_lost = CaseTexts("?", "30", ("b", "z", "c"))
    return cases_beside(with_texts(later, {"lost": texts_of_lost}), earlier_run())


def test_each_case_is_put_beside_the_same_one_of_the_earlier_run() -> None:
    against = beside_the_earlier_run()

    cases = against.read_cases(["lost", "same", "won", "new", "edited"])
    kinds = {name: beside.kind for name, beside in cases.items()}
    assert kinds == {"lost": CaseKind.FAILING, "same": None, "won": CaseKind.FIXED}
    assert [changed.id for changed in against.changed] == ["lost", "won"]


def test_cases_that_are_not_in_both_runs_are_counted() -> None:
    against = beside_the_earlier_run()

    assert (against.edited, against.added, against.gone) == (1, 1, 1)


def test_the_pair_counts_the_cases_that_turned_and_those_with_other_ids_or_answers() -> None:
    pair = beside_the_earlier_run().pair

    assert (pair.cases, pair.newly_failing, pair.newly_fixed) == (3, 1, 1)
    assert (pair.other_ids, pair.other_response) == (1, 1)


def test_a_case_beside_the_earlier_one_has_its_cause_answer_and_scores_of_then() -> None:
    against = beside_the_earlier_run()

    cases = against.read_cases(["lost", "same"])
    lost = cases["lost"]
    assert lost.cause is Cause.RIGHT
    assert lost.response == "27"
    assert against.changed[0].response_after == "30"
    [(metric, score_before, score_now)] = lost.scores
    assert (metric, score_before.value, score_now.value) == ("recall@5", 1.0, 0.0)
    # Scores that are as before are left out.
    assert cases["same"].scores == ()


def test_a_case_beside_the_earlier_one_has_the_change_of_its_retrieved_ids() -> None:
    """From a, b, c to b, z, c."""
    ids = beside_the_earlier_run().read_cases(["lost"])["lost"].ids

    assert ids is not None
    assert ids.gained == (("z", 2),)
    assert ids.lost == (("a", 1),)
    assert ids.moved == (("b", 2, 1),)
    assert ids.kept == 1


def test_texts_are_read_of_as_many_changed_cases_as_are_shown() -> None:
    texts = {"lost": CaseTexts("Which day?"), "lost too": CaseTexts("Which week?")}
    earlier = recall_run(case("lost", 1.0), case("lost too", 1.0))
    later = recall_run(case("lost", 0.0), case("lost too", 0.0))

    against = cases_beside(with_texts(later, texts), with_texts(earlier, texts), max_texts=1)

    queries = {case.id: case.query for case in against.changed}
    assert queries == {"lost": "Which day?", "lost too": None}


def test_a_run_whose_cases_were_all_edited_has_none_beside_it() -> None:
    edited = recall_run(case("edited", 1.0))

    with pytest.raises(RunMismatchError, match="no case in common: 1 have the same id"):
        cases_beside(edited, earlier_run())


# --- variants of one system

HIGHER_IS_BETTER = parse_metrics("nDCG@1")
LOWER_IS_BETTER = parse_metrics("total_tokens")
Values = dict[str, float | None]


def effects_against_the_first(
    metrics: tuple[Metric, ...], *values: Values
) -> tuple[list[VariantEffect], int]:
    """The effect of each variant that has these values by case, and the number of tests."""
    variants: list[Measured] = []
    for number, of_cases in enumerate(values):
        variants.append(Measured(name=str(number), acted=True, values=[of_cases]))
    no_clusters = dict.fromkeys(values[0])
    effects, family = variant_effects(metrics, variants, no_clusters, confidence=0.95)
    return [effects_of_variant[0] for effects_of_variant in effects], family


@pytest.mark.parametrize(
    ("metrics", "values", "sentence"),
    [
        pytest.param(
            HIGHER_IS_BETTER,
            {"plain": 0.0, "some": 0.5, "most": 1.0, "less": 0.25, "idle": None},
            "keep most; some, less: also better than plain; idle: did not act.",
            id="several are better",
        ),
        pytest.param(
            LOWER_IS_BETTER,
            {"plain": 100, "more": 150, "least": 50, "less": 90},
            "keep least; less: also better than plain; more: worse than plain.",
            id="lower is better",
        ),
        pytest.param(
            HIGHER_IS_BETTER,
            {"plain": 0.5, "other": 0.5},
            "keep plain; other: inconclusive against plain.",
            id="none is better",
        ),
    ],
)
def test_of_several_better_variants_the_one_that_gains_most_is_kept(
    metrics: tuple[Metric, ...], values: dict[str, float | None], sentence: str
) -> None:
    """Each variant gives every case the same value; None: it did not act."""
    cases = [f"c{number:02}" for number in range(12)]
    no_clusters = dict.fromkeys(cases)
    variants: list[Measured] = []
    for name, value in values.items():
        of_cases = dict.fromkeys(cases, value or 0.0)
        variants.append(Measured(name=name, acted=value is not None, values=[of_cases]))
    effects, _ = variant_effects(metrics, variants, no_clusters, confidence=0.95)

    advice = what_to_keep(variants, effects)

    (metric,) = metrics
    assert advice == f"By {metric.name}: {sentence}"


CASES_BEFORE: Values = {
    "a": 1,
    "b": 0.75,
    "c": 1,
    "d": 0,
    "e": 0.25,
    "not measured": None,
}
CASES_AFTER: Values = {
    "a": 1,
    "b": 0.5,
    "c": 0,
    "d": 0.5,
    "e": 0.5,
    "not measured": 1,
}


@pytest.mark.parametrize(
    ("metrics", "losses"),
    [
        pytest.param(HIGHER_IS_BETTER, [("c", 1.0, 0.0), ("b", 0.75, 0.5)], id="higher is better"),
        pytest.param(LOWER_IS_BETTER, [("d", 0.0, 0.5), ("e", 0.25, 0.5)], id="lower is better"),
    ],
)
def test_the_largest_losses_come_first(
    metrics: tuple[Metric, ...], losses: list[tuple[str, float, float]]
) -> None:
    (_, effect), _ = effects_against_the_first(metrics, CASES_BEFORE, CASES_AFTER)

    assert [(loss.case, loss.before, loss.after) for loss in effect.losses] == losses


def test_the_effect_of_a_variant_is_its_mean_difference_on_cases_that_both_measured() -> None:
    """Of a, b, c, d and e the differences are 0, -1/4, -1, 1/2 and 1/4."""
    (_, effect), family = effects_against_the_first(HIGHER_IS_BETTER, CASES_BEFORE, CASES_AFTER)

    assert effect.compared == 5
    assert effect.difference == pytest.approx(-0.1)
    assert family == 1


@pytest.mark.parametrize(
    ("metrics", "low", "high"),
    [
        pytest.param(HIGHER_IS_BETTER, -1.0, 1.0, id="a scale from 0 to 1"),
        # Student's t of one degree of freedom is 12.7062, the standard error one half.
        pytest.param(
            LOWER_IS_BETTER,
            pytest.approx(-0.5 - 12.7062 * 0.5, abs=1e-4),
            pytest.approx(-0.5 + 12.7062 * 0.5, abs=1e-4),
            id="a scale without an end",
        ),
    ],
)
def test_intervals_end_at_the_ends_of_a_scale_and_only_where_it_has_both(
    metrics: tuple[Metric, ...], low: float, high: float
) -> None:
    """Differences 0 and -1: the mean is -1/2, and Student's interval of two reaches far beyond."""
    before: Values = {"a": 1.0, "b": 1.0}
    after: Values = {"a": 1.0, "b": 0.0}

    (_, effect), _ = effects_against_the_first(metrics, before, after)

    assert (effect.low, effect.high) == (low, high)


def test_the_means_beside_a_difference_are_of_the_compared_cases() -> None:
    before: Values = {"a": 1.0, "b": 0.5, "c": None}
    after: Values = {"a": 0.5, "b": 0.5, "c": 1.0}

    (_, effect), _ = effects_against_the_first(HIGHER_IS_BETTER, before, after)

    # The case c is in the variant's own mean alone: (0.5 + 0.5 + 1) / 3.
    assert effect.score == pytest.approx(2 / 3)
    assert (effect.compared, effect.measured) == (2, 3)
    assert (effect.before, effect.after, effect.difference) == (0.75, 0.5, -0.25)
