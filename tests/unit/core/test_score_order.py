"""Whether scores fall or rise along a ranked list, and what is said of a run in which they rise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.core.score_order import ScoreOrders, rises


@pytest.mark.parametrize(("scores", "rising"), [
    ([0.9, 0.5, 0.1], False), ([0.1, 0.5, 0.9], True), ([0.1, 0.1, 0.9], True),
    ([0.9, 0.1, 0.5], None), ([0.5, 0.5], None), ([0.5], None), ([], None),
])  # fmt: skip
def test_the_direction_of_a_list(scores: list[float], rising: bool | None) -> None:
    assert rises(scores) is rising


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_a_list_read_backwards_goes_the_other_way(scores: list[float]) -> None:
    there, back = rises(scores), rises(scores[::-1])
    assert (there is None) is (back is None)
    assert there is None or there is not back


@pytest.mark.parametrize(
    ("rising", "falling", "mixed", "said"),
    [(9, 1, 0, True), (9, 0, 1, True), (8, 1, 0, False), (8, 0, 1, False), (0, 0, 0, False)],
)
def test_nine_lists_of_ten_must_rise(rising: int, falling: int, mixed: int, said: bool) -> None:
    orders = ScoreOrders()
    for scores, times in (((1, 2), rising), ((2, 1), falling), ((1, 3, 2), mixed), ((1, 1), 50)):
        for _ in range(times):
            orders.add(scores)
    note = orders.note()
    assert (note is not None) is said
    assert note is None or note.startswith("In 9 of 10 retrievals with different scores these rise")
