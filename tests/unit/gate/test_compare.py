"""compare(): numbers that can be checked by hand, and what must not change them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import compare, parse_metrics
from ragbench.core.attribution import Cause
from ragbench.core.case_table import CaseTexts, ScoredCase
from ragbench.core.comparison import CaseDifference, CaseKind, Comparison, Difference
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Status
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.cases import id_change
from ragbench.gate.compare import cases_beside
from ragbench.gate.pairwise import Measured, variant_effects, what_to_keep
from tests.unit.gate.builders import column, run, run_of, told

GENERATOR = column("token_f1", group="generator")


def only(comparison: Comparison, metric: str) -> Difference:
    (found,) = [one for one in comparison.metrics if one.name == metric]
    (difference,) = found.differences
    return difference


def case(name: str, value: float | None, **facts: Any) -> ScoredCase:
    cell = Cell.skipped("no gold") if value is None else Cell.measured(value)
    plain = ScoredCase(id=name, fingerprint=f"f-{name}", scores={"recall@5": cell})
    return replace(plain, **facts)


def recall(*cases: ScoredCase) -> RunScores:
    return run_of(cases, column("recall@5"))


def test_a_difference_that_can_be_checked_by_hand() -> None:
    before = run({"recall@5": [1.0] * 8 + [0.0] * 2})
    after = run({"recall@5": [0.0] * 6 + [1.0] * 2 + [0.0, 1.0]})
    found = only(compare([before, after]), "recall@5")
    assert (found.first, found.second) == ("a", "b")
    assert (found.before, found.cases, found.lower, found.higher) == (0.8, 10, 6, 1)
    assert (found.after, found.difference) == pytest.approx((0.3, -0.5))
    # Seven cases changed, six of them for the worse: 2 * (1 + 7) / 2 ** 7.
    assert found.p_value == found.p_corrected == pytest.approx(16 / 128)
    assert not found.is_significant


@pytest.mark.parametrize(
    ("direction", "better"), [(Direction.HIGHER, [("b",), ()]), (Direction.LOWER, [(), ("a",)])]
)
def test_the_better_run_is_marked_with_the_letter_of_the_worse(
    direction: Direction, better: list[tuple[str, ...]]
) -> None:
    metric = column("m", direction=direction)
    before, after = (run({"m": values}, metric) for values in ([1.0] * 10, [0.0] * 10))
    (found,) = compare([before, after]).metrics
    assert [figure.better_than for figure in found.figures] == better
    assert found.differences[0].difference == -1.0


def test_metrics_are_tested_jointly_and_pairs_corrected_by_their_number() -> None:
    """Two equal metrics are one test; three pairs of runs are three."""
    runs = [run({"x": [share] * 12, "y": [share] * 12}) for share in (0.0, 0.5, 1.0)]
    found = compare(runs)
    p_values = [(d.p_value, d.p_corrected) for metric in found.metrics for d in metric.differences]
    assert found.settings["family"] == 6
    assert p_values == [pytest.approx((2 / 2**12, 3 * 2 / 2**12))] * 6
    assert [f.better_than for f in found.metrics[0].figures] == [(), ("a",), ("a", "b")]
    alone = compare(runs, metrics=["y"])
    assert ([m.name for m in alone.metrics], alone.settings["family"]) == (["y"], 3)


def test_unmeasured_cases_are_counted_and_not_zero() -> None:
    before = run({"token_f1": [1.0, 1.0, 1.0, "failed"]}, GENERATOR)
    after = run({"token_f1": [1.0, "abstained", "failed", "failed"]}, GENERATOR)
    found = compare([before, after])
    difference = only(found, "token_f1")
    assert (difference.before, difference.after, difference.cases) == (1.0, 1.0, 1)
    assert difference.left_out == {"b": 2, "a, b": 1}
    figure = found.metrics[0].figures[1]
    assert (figure.measured, figure.abstained, figure.failed, figure.score) == (1, 1, 2, 1.0)
    assert "token_f1: 2 cases were measured in a and not in b" in found.notes[0]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"aggregate": "m:ece"}, {"aggregate": "m:ece"}, "its figure is not a mean over cases"),
        ({"has_cells": False}, {"has_cells": False}, "a report holds no per-case values of it"),
        ({"version": 1}, {"version": 2}, "the runs measured it by formulas of different versions"),
        (
            {"digest": "d1"},
            {"digest": "d2"},
            "the code that computes it has changed between the runs",
        ),
    ],
)
def test_what_has_no_mean_or_another_formula_is_shown_and_decides_nothing(
    first: dict[str, Any], second: dict[str, Any], reason: str
) -> None:
    one, other = (
        run({"own": scores, "x": [1.0, 0.0]}, column("own", **facts))
        for scores, facts in (([0.1, 0.2], first), ([0.8, 0.9], second))
    )
    found = compare([one, other])
    own = next(metric for metric in found.metrics if metric.name == "own")
    assert (own.differences, own.untested) == ((), reason)
    assert own.figures[0].score == pytest.approx(0.15)
    assert (found.main, found.changed) == (("x",), ())


def test_different_cases_are_refused_unless_the_common_ones_are_asked_for() -> None:
    before = recall(case("q1", 1.0), case("q2", 1.0), case("q3", 1.0))
    after = recall(case("q1", 0.0), case("q2", 0.0, fingerprint="other"), case("q4", 0.0))
    with pytest.raises(RunMismatchError, match=r"1 are the same, 1 have changed and 2 are not in"):
        compare([before, after])
    found = compare([before, after], only_common_cases=True)
    assert (found.cases, only(found, "recall@5").cases) == (1, 1)
    assert found.metrics[0].figures[0].score == 1.0
    assert found.notes[0].startswith("Compared on the 1 cases")
    with pytest.raises(RunMismatchError, match="no case in common"):
        compare([before, recall(case("q9", 1.0))], only_common_cases=True)


def test_the_same_asked_in_two_ways_is_joined_by_id() -> None:
    """q1 stays, q2 rises by 1, q3 by 0.5: together 0.5 of 3 more."""
    before = recall(case("q1", 1.0), case("q2", 0.0), case("q3", 0.0))
    before = told(before, {"q2": CaseTexts(right="x")})
    ways = {"fingerprint": "rewrite"}
    again = case("q2", 1.0, **ways), case("q3", 0.5, **ways)
    found = compare([before, recall(case("q1", 1.0), *again)], same="id")
    assert only(found, "recall@5").difference == pytest.approx(0.5)
    assert found.notes == ("Joined by id: 2 of 3 cases are asked in another way.",)
    assert found.systems[0].changes[0] == "how 2 cases are asked"
    other = told(recall(again[0], case("q4", 1.0)), {"q2": CaseTexts(right="y")})
    with pytest.raises(RunMismatchError, match=r"share 1 id, and 3 are not in every run"):
        compare([before, other], same="id")
    (note,) = compare([before, other], same="id", only_common_cases=True).notes
    assert note.endswith(
        "3 are not in every run: left out. 1 have another reference or relevance, "
        "which changes scores by itself."
    )
    with pytest.raises(RunMismatchError, match="share 0 ids"):
        compare([before, recall(case("q9", 1.0))], same="id", only_common_cases=True)


def test_main_metrics_are_one_a_group_and_have_a_better_side() -> None:
    groups = {"exact_match": "generator", "token_f1": "generator", "answer_rate": "overall"}
    names = ["MRR@10", "recall@5", "abstention_accuracy"]
    columns = [column(name, group=group) for name, group in groups.items()]
    for measured in ([*names, *groups], [*names, *groups][:-1]):
        main = compare([run({name: [1.0] for name in measured}, *columns)] * 2).main
        assert main == ("token_f1", "recall@5", "answer_rate")[: len(measured) - 3]
    pair = [run({"Judged": [1.0]}, column("Judged", direction=Direction.NEITHER))] * 2
    with pytest.raises(ConfigError, match="neither of its sides is better"):
        compare(pair, main=["judged"])


def test_only_runs_that_measured_a_metric_are_compared_on_it() -> None:
    runs = [run({"m": [1.0, 0.0], "n": [1.0, 0.0]}), run({"m": [1.0, 0.0]})]
    found = compare([runs[0], runs[1], runs[0]])
    pairs = {one.name: [(d.first, d.second) for d in one.differences] for one in found.metrics}
    assert pairs == {"m": [("a", "b"), ("a", "c"), ("b", "c")], "n": [("a", "c")]}


def test_notes_warn_of_what_changes_scores_by_itself() -> None:
    other = run({"x": [1.0]}, fingerprints={"dataset": "d1", "judge": "j"}, matching="text")
    notes = compare([run({"x": [1.0]}), other]).notes
    assert "a by id, b by text" in notes[0]
    assert "different judges" in notes[1]


# --- which cases changed


def changed(before: ScoredCase, after: ScoredCase) -> tuple[CaseDifference, ...]:
    return compare([recall(before), recall(after)]).changed


@pytest.mark.parametrize(
    ("before", "after", "newly_fails"),
    [
        (1.0, 0.0, [True]),
        (0.5, 0.49, [True]),
        (0.49, 0.5, [False]),
        (1.0, 0.5, []),
        (0.4, 0.0, []),
        (None, 0.0, []),
        (1.0, None, []),
    ],
)
def test_a_case_fails_below_the_middle_of_the_scale(
    before: float | None, after: float | None, newly_fails: list[bool]
) -> None:
    found = changed(case("q", before), case("q", after))
    assert [flip.newly_fails for each in found for flip in each.flips] == newly_fails


@pytest.mark.parametrize(
    ("after", "stage", "subject", "status"),
    [
        # A stage that failed is named, and not its metrics.
        (Cell(status=Status.FAILED, reason="gone"), Status.FAILED, "retrieve", "failed"),
        (Cell.abstained("why"), Status.MEASURED, "recall@5", "abstained"),
    ],
)
def test_what_broke_or_was_declined_is_named_once(
    after: Cell, stage: Status, subject: str, status: str
) -> None:
    before = case("q", 1.0, stages={"retrieve": Status.MEASURED})
    now = replace(before, scores={"recall@5": after}, stages={"retrieve": stage})
    (found,) = changed(before, now)
    (flip,) = found.flips
    assert (found.kind, flip.subject, flip.after_status) == (CaseKind.FAILING, subject, status)
    assert flip.reason == (None if subject == "retrieve" else "why")


def test_newly_failing_cases_come_first_and_the_largest_loss_first() -> None:
    before = run({"recall@5": [0.0, 0.6, 1.0, 1.0], "token_f1": [1.0, 1.0, 1.0, 0.0]}, GENERATOR)
    after = run({"recall@5": [1.0, 0.4, 0.0, 0.0], "token_f1": [1.0, 1.0, 1.0, 1.0]}, GENERATOR)
    # Nobody named metrics: whoever answers rightly passes, whatever was retrieved.
    (right,) = compare([before, after]).changed
    assert (right.id, right.kind) == ("q4", "newly fixed")
    found = compare([before, after], main=["recall@5", "token_f1"])
    assert [one.id for one in found.changed] == ["q3", "q2", "q4", "q1"]
    kinds = ["newly failing", "newly failing", "mixed", "newly fixed"]
    assert [one.kind for one in found.changed] == kinds
    (pair,) = found.pairs
    assert (pair.newly_failing, pair.mixed, pair.newly_fixed, pair.cases) == (2, 1, 1, 4)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ((1.0, 1.0), ("abstained", 0.0), "newly failing"),
        (("abstained", 1.0), ("skipped", 0.0), "newly failing"),
        (("abstained", 0.0), (0.1, 1.0), None),
        (("abstained", 0.0), (0.9, 1.0), "newly fixed"),
    ],
)
def test_declining_is_right_where_there_is_no_answer(
    before: tuple[float | str, float], after: tuple[float | str, float], kind: str | None
) -> None:
    columns = (GENERATOR, column("abstention_accuracy", group="overall"))
    pair = [
        run({"token_f1": [answer], "abstention_accuracy": [declining]}, *columns)
        for answer, declining in (before, after)
    ]
    found = compare(pair).changed
    assert [one.kind for one in found] == ([kind] if kind else [])


def test_a_stage_that_broke_stands_before_a_larger_loss() -> None:
    before, after = (
        recall(
            case("q1", lost, stages={"generate": Status.MEASURED}),
            case("q2", 1.0, stages={"generate": status}),
        )
        for lost, status in ((1.0, Status.MEASURED), (0.0, Status.FAILED))
    )
    assert [one.id for one in compare([before, after]).changed] == ["q2", "q1"]


def test_causes_flow_the_most_frequent_way_first_with_five_examples() -> None:
    """Six from not found to right, one from right to not found and one to declined."""
    lost, right, declined = Cause.NOT_RETRIEVED, Cause.RIGHT, Cause.DECLINED
    ways = [(right, declined), (right, lost)] + [(lost, right)] * 6
    first, second = (
        recall(*(case(f"q{at}", 1.0, cause=way[side]) for at, way in enumerate(ways)))
        for side in (0, 1)
    )
    flows = compare([first, first, second]).flows
    # Of equally frequent ones as causes follow each other in the report.
    found = [(f.before, f.after, f.cases) for f in flows if f.second == "c"]
    assert found == [(lost, right, 6), (right, lost, 1), (right, declined, 1)]
    assert next(one for one in flows if one.cases == 6).examples == ("q2", "q3", "q4", "q5", "q6")
    unmoved = {(one.before, one.after) for one in flows if one.second == "b"}
    assert unmoved == {(lost, lost), (right, right)}


ids = st.lists(st.sampled_from("uvwxyz"), max_size=6)
values = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1), st.sampled_from(["failed"]))
tables = st.lists(st.tuples(values, values, st.sampled_from([None, "d1", "d2"])), min_size=1)


@given(ids, ids)
def test_id_changes_account_for_every_id(before: list[str], after: list[str]) -> None:
    change, turned = id_change(before, after), id_change(after, before)
    assert change is not None and turned is not None
    shared = len(change.moved) + change.kept
    assert shared + len(change.gained) == len(set(after))
    assert shared + len(change.lost) == len(set(before))
    assert (change.gained, change.lost) == (turned.lost, turned.gained)
    assert {(id_, new, old) for id_, old, new in change.moved} == set(turned.moved)


@given(tables)
def test_swapping_the_runs_turns_every_sign_and_changes_no_p_value(
    table: list[tuple[Any, Any, str | None]],
) -> None:
    *scores, clusters = zip(*table, strict=True)
    before, after = (run({"recall@5": each}, clusters=clusters) for each in scores)
    there, back = compare([before, after]), compare([after, before])
    one, other = only(there, "recall@5"), only(back, "recall@5")
    assert (one.before, one.after, one.p_value) == (other.after, other.before, other.p_value)
    for mine, theirs in ((one.difference, other.difference), (one.low, other.high)):
        assert mine == (None if theirs is None else pytest.approx(-theirs))
    turned = {"newly failing": "newly fixed", "newly fixed": "newly failing", "mixed": "mixed"}
    assert {c.id: c.kind for c in there.changed} == {c.id: turned[c.kind] for c in back.changed}


# --- the cases of a run beside those of an earlier one


def test_each_case_stands_beside_the_same_one() -> None:
    right, wrong = case("lost", 1.0, cause=Cause.RIGHT), case("lost", 0.0)
    values = {"same": (1.0, 1.0), "won": (0.0, 1.0), "gone": (1.0, None), "new": (None, 0.0)}
    before, after = (
        [case(name, of[side]) for name, of in values.items() if of[side] is not None]
        for side in (0, 1)
    )
    earlier = told(
        recall(right, *before, case("edited", 1.0, fingerprint="old")),
        {"lost": CaseTexts("?", "27", ("a", "b", "c"))},
    )
    now = told(
        recall(wrong, *after, case("edited", 0.0)), {"lost": CaseTexts("?", "30", ("b", "z", "c"))}
    )
    found = cases_beside(now, earlier)
    kinds = {"lost": CaseKind.FAILING, "same": None, "won": CaseKind.FIXED}
    assert {name: one.kind for name, one in found.cases.items()} == kinds
    lost, (changed_now, _) = found.cases["lost"], found.changed
    assert (lost.cause, lost.response, changed_now.response_after) == (Cause.RIGHT, "27", "30")
    assert lost.ids is not None and (lost.ids.gained, lost.ids.lost) == ((("z", 2),), (("a", 1),))
    assert (lost.ids.moved, lost.ids.kept) == ((("b", 2, 1),), 1)
    [(name, old, new)] = lost.scores
    assert (name, old.value, new.value, found.cases["same"].scores) == ("recall@5", 1.0, 0.0, ())
    assert [one.id for one in found.changed] == ["lost", "won"]
    assert (found.edited, found.added, found.gone) == (1, 1, 1)
    assert (found.pair.cases, found.pair.newly_failing, found.pair.newly_fixed) == (3, 1, 1)
    assert (found.pair.other_ids, found.pair.other_response) == (1, 1)
    with pytest.raises(RunMismatchError, match="no case in common: 1 have the same id"):
        cases_beside(recall(case("edited", 1.0)), earlier)


HIGHER = parse_metrics("nDCG@1")
LOWER = parse_metrics("total_tokens")
CASES = [f"c{at:02}" for at in range(12)]


@pytest.mark.parametrize(
    ("metrics", "values", "sentence"),
    [
        (
            HIGHER,
            {"plain": 0.0, "some": 0.5, "most": 1.0, "less": 0.25, "idle": None},
            "keep most; some, less: also better than plain; idle: did not act.",
        ),
        (
            LOWER,
            {"plain": 100, "more": 150, "least": 50, "less": 90},
            "keep least; less: also better than plain; more: worse than plain.",
        ),
        (HIGHER, {"plain": 0.5, "other": 0.5}, "keep plain; other: inconclusive against plain."),
    ],
)
def test_of_several_better_ones_the_one_that_gains_most_is_kept(
    metrics: tuple[Any, ...], values: dict[str, float | None], sentence: str
) -> None:
    """Each variant gives every case the same value; None: it did not act."""
    variants = [
        Measured(name=name, acted=value is not None, values=[dict.fromkeys(CASES, value or 0.0)])
        for name, value in values.items()
    ]
    effects, _ = variant_effects(metrics, variants, dict.fromkeys(CASES), confidence=0.95)
    assert what_to_keep(variants, effects) == f"By {metrics[0].name}: {sentence}"


@pytest.mark.parametrize(
    ("metrics", "losses"),
    [(HIGHER, [("c", 1.0, 0.0), ("b", 0.75, 0.5)]), (LOWER, [("d", 0.0, 0.5), ("e", 0.25, 0.5)])],
)
def test_the_largest_losses_come_first(
    metrics: tuple[Any, ...], losses: list[tuple[str, float, float]]
) -> None:
    before: dict[str, float | None] = dict(zip("abcdef", (1, 0.75, 1, 0, 0.25, None), strict=True))
    after: dict[str, float | None] = dict(zip("abcdef", (1, 0.5, 0, 0.5, 0.5, 1), strict=True))
    runs = [before, after]
    variants = [Measured(name=str(at), acted=True, values=[x]) for at, x in enumerate(runs)]
    effects, family = variant_effects(metrics, variants, dict.fromkeys(before), confidence=0.95)
    effect = effects[1][0]
    assert family == 1
    assert [(loss.case, loss.before, loss.after) for loss in effect.losses] == losses
    # Of a, b, c, d and e the differences are 0, -1/4, -1, 1/2 and 1/4.
    assert effect.compared == 5
    assert effect.difference == pytest.approx(-0.1)


def test_intervals_end_at_the_ends_of_a_scale_and_only_where_it_has_both() -> None:
    """Differences 0 and -1: the mean is -1/2, and Student's interval of two reaches far beyond."""
    pair = [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 0.0}]
    variants = [Measured(name=str(at), acted=True, values=[one]) for at, one in enumerate(pair)]
    bounded = variant_effects(HIGHER, variants, dict.fromkeys("ab"), confidence=0.95)[0][1][0]
    assert (bounded.low, bounded.high) == (-1.0, 1.0)
    endless = variant_effects(LOWER, variants, dict.fromkeys("ab"), confidence=0.95)[0][1][0]
    # 12.7062 standard errors of one half each.
    assert endless.low == pytest.approx(-0.5 - 12.7062 * 0.5, abs=1e-4)
    assert endless.high == pytest.approx(-0.5 + 12.7062 * 0.5, abs=1e-4)
