"""A figure before and now and its change: the three printed numbers add up."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.comparison import Comparison
from ragbench.core.gate_result import GateCheck
from ragbench.gate.compare import compare
from ragbench.gate.gate import gate
from ragbench.views.comparison import comparison_document
from ragbench.views.document import markdown, movement_cells
from ragbench.views.gate import check_cells
from tests.unit.gate.builders import Score, config, run

_UNITS = ("", "share", "s", "tokens")
_NUMBER = re.compile(r"[+-]?[\d,]+(?:\.\d+)?")


def numbers(text: str) -> list[Decimal]:
    """The numbers of a text as they are printed."""
    return [Decimal(number.replace(",", "")) for number in _NUMBER.findall(text)]


@given(
    before=st.floats(0.0, 5000.0),
    now=st.floats(0.0, 5000.0),
    unit=st.sampled_from(_UNITS),
)
def test_the_printed_change_is_that_of_the_printed_figures(
    before: float, now: float, unit: str
) -> None:
    cells = movement_cells(before, now, unit)

    old, new, change = [numbers(cell)[0] for cell in cells]
    assert new - old == change


def test_figures_that_are_rounded_apart_from_each_other_still_add_up() -> None:
    # Rounded each for itself, the change of .0068 would be printed as +0.007.
    assert movement_cells(0.1236, 0.1304) == ("0.124", "0.130", "+0.006")


def test_a_change_of_milliseconds_has_the_unit_of_its_figures() -> None:
    assert movement_cells(1.25, 1.75, "s") == ("1.25 s", "1.75 s", "+0.50 s")


@pytest.mark.parametrize(("before", "now"), [(None, 0.5), (0.5, None), (None, None)])
def test_without_one_of_the_figures_there_is_no_change(
    before: float | None, now: float | None
) -> None:
    assert movement_cells(before, now)[2] == "-"


def drop_check(before: list[Score], now: list[Score]) -> GateCheck:
    """The check of a loss of the metric m."""
    baseline = run({"m": before})
    current = run({"m": now})
    verdict = gate(current, baseline, config(m={"max_drop": 0.02}))
    return next(check for check in verdict.checks if check.subject == "m")


def rows_of(comparison: Comparison, metric: str) -> list[list[str]]:
    """The cells of a metric's rows in the page of a comparison."""
    page = markdown(comparison_document(comparison))
    rows = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == metric:
            rows.append(cells)
    return rows


_scores = st.one_of(st.floats(0.0, 1.0), st.sampled_from(["abstained", "skipped"]))
_pairs_of_scores = st.tuples(_scores, _scores)


@settings(max_examples=50, deadline=None)
@given(cases=st.lists(_pairs_of_scores, min_size=6, max_size=12))
def test_a_check_prints_figures_that_add_up_whatever_cases_are_measured(
    cases: list[tuple[Score, Score]],
) -> None:
    # On less than three cases in both runs, a loss is refused and not judged.
    judged: list[tuple[Score, Score]] = [*cases, (0.5, 0.5), (0.5, 0.5), (0.5, 0.5)]
    scores_before = [before for before, _ in judged]
    scores_now = [now for _, now in judged]

    check = drop_check(scores_before, scores_now)

    cells = check_cells(check)
    (old,) = numbers(cells.before)
    (new,) = numbers(cells.now)
    (change,) = numbers(cells.change)
    assert new - old == change
    if check.summary.startswith(("up", "down")):
        moved, was, came_to = numbers(check.summary)
        assert moved == abs(came_to - was)


def test_a_check_counts_the_cases_that_only_one_run_measured() -> None:
    before: list[Score] = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, "abstained", "abstained", 0.0]
    now: list[Score] = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.5, 0.5, "abstained"]

    check = drop_check(before, now)

    assert check_cells(check).cases == "6, 1 only before, 2 only now"
    assert check_cells(check)[:3] == ("1.000", "0.833", "-0.167")
    assert ", on 6 cases in both (1 only before, 2 only now)" in check.reason


def test_a_change_too_small_for_three_places_is_printed_with_more() -> None:
    before: list[Score] = [0.5] * 8
    now: list[Score] = [*before[1:], 0.4968]

    check = drop_check(before, now)

    assert check.summary == "down 0.0004 from 0.5000 to 0.4996"


def test_a_comparison_shows_the_means_of_the_cases_that_both_runs_measured() -> None:
    # Over all ten cases b's mean is 0.9; over the five that a measured too it is 0.8.
    a = run({"answer_correct": [0.8] * 5 + ["abstained"] * 5})
    b = run({"answer_correct": [0.8] * 5 + [1.0] * 5})

    comparison = compare([a, b])

    (row,) = rows_of(comparison, r"answer\_correct")
    assert row[1:5] == ["0.800", "0.800", "b - a", "+0.000"]
    assert row[-1] == "5, 5 only in b"


def test_each_pair_of_three_runs_has_its_own_means() -> None:
    a = run({"m": [1.0, 1.0, "abstained", 0.0]})
    b = run({"m": [1.0, 0.0, 0.0, "abstained"]})
    c = run({"m": ["abstained", 0.0, 1.0, 1.0]})

    comparison = compare([a, b, c])

    rows = rows_of(comparison, "m")
    assert [row[1:6] for row in rows] == [
        ["1.000", "0.500", "", "b - a", "-0.500"],
        ["0.500", "", "0.500", "c - a", "+0.000"],
        ["", "0.000", "0.500", "c - b", "+0.500"],
    ]


def test_runs_that_share_no_measured_case_show_their_own_means_and_no_change() -> None:
    a = run({"m": [1.0, 0.5, "abstained", "abstained"]})
    b = run({"m": ["abstained", "abstained", 0.25, 0.25]})

    comparison = compare([a, b])

    (row,) = rows_of(comparison, "m")
    assert row[1:5] == ["0.750", "0.250", "b - a", "-"]
    assert row[-1] == "0, 2 only in a, 2 only in b"
