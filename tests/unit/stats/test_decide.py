from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import RegressionQuestion, decide, pair
from ragbench.errors import ConfigError, InputError
from ragbench.stats.decide import ChangeKind, decide_family
from tests.unit.stats.builders import question

DROPS = [-0.3, -0.4, -0.2, -0.5, -0.35, -0.45] * 2
SPREAD = [0.2, -0.1, 0.1, 0.05, -0.05, 0.15, 0.1, 0.0] * 3
WORSE, NOT_WORSE, CANNOT_TELL = ChangeKind.WORSE, ChangeKind.NOT_WORSE, ChangeKind.CANNOT_TELL


@pytest.mark.parametrize(("differences", "tolerance", "largest_drop", "change"), [
    (DROPS, 0.0, 1.0, WORSE), (DROPS, 0.36, 1.0, CANNOT_TELL),
    # Of 20 cases that lose .012 each, one in fifty may gain .6: then nothing was lost.
    # ln(0.15) / ln(1.012) = -159.04
    ([-0.012] * 159, 0.0, 1.0, CANNOT_TELL), ([-0.012] * 160, 0.0, 1.0, WORSE),
    # 0.95^58 is above 5%, 0.95^59 below.
    ([0.0] * 58, 0.05, 1.0, CANNOT_TELL), ([0.0] * 59, 0.05, 1.0, NOT_WORSE),
    # Without a scale the spread decides; of equal values none is seen, and nothing claimed.
    (SPREAD, 0.1, None, NOT_WORSE), ([0.0] * 500, 0.1, None, CANNOT_TELL),
    ([], 0.05, 1.0, CANNOT_TELL), ([-1.0], 0.05, 1.0, CANNOT_TELL),
])  # fmt: skip
def test_what_the_differences_show(
    differences: list[float], tolerance: float, largest_drop: float | None, change: ChangeKind
) -> None:
    asked = question(differences, tolerance=tolerance, largest_drop=largest_drop)
    assert decide(asked).change is change


def test_a_loss_as_large_as_tolerated_is_none_whatever_rounding_does() -> None:
    before = dict.fromkeys(map(str, range(50)), 0.8)
    sample = pair(before, dict.fromkeys(before, 0.75))
    assert sample.differences[0] != -0.05  # in binary it is not
    decision = decide(RegressionQuestion(sample=sample, tolerance=0.05, largest_drop=1.0))
    assert (decision.p_worse, decision.test.informative) == (1.0, 0)
    assert decision.change is ChangeKind.CANNOT_TELL
    assert decision.needed is None


def test_what_cannot_find_anything_makes_no_correction_stricter() -> None:
    drop = question([-0.5, -0.6, -0.4, -0.7, -0.55, -0.65])
    still = question([0.05 - 0.05] * 80, tolerance=0.0)
    alone = decide(drop)
    together = decide_family([drop, still, still, still])
    assert (together[0].p_worse, together[0].family) == (alone.p_worse, 1)
    assert together[0].change is ChangeKind.WORSE
    assert decide_family([]) == ()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1 / 3, 0.5, 1.0]), max_size=60),
    st.sampled_from([0.0, 0.02, 0.2]),
    st.sampled_from([None, 1.0]),
    st.randoms(use_true_random=False),
)
def test_whatever_the_data(
    differences: list[float], tolerance: float, scale: float | None, chance: random.Random
) -> None:
    shuffled = list(differences)
    chance.shuffle(shuffled)
    first, second = (
        decide(question(each, tolerance=tolerance, largest_drop=scale), resamples=200)
        for each in (differences, shuffled)
    )
    assert first == second
    assert 0.0 <= first.p_not_worse <= 1.0
    assert 0.0 < first.p_worse <= 1.0
    # The data never show both.
    assert first.p_worse > 0.05 or first.p_not_worse > 0.05


@pytest.mark.parametrize(("differences", "tolerance", "scale", "message"), [
    ([0.0], -0.1, 1.0, "tolerance"), ([0.0], 1.0, 1.0, "tolerance"),
    ([0.0], float("nan"), 1.0, "tolerance"), ([0.0], 0.1, float("inf"), "tolerance"),
    ([-3.0, 0.0], 0.05, 1.0, "below the smallest possible"),
])  # fmt: skip
def test_a_question_that_cannot_fail_is_refused(
    differences: list[float], tolerance: float, scale: float, message: str
) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        decide(question(differences, tolerance=tolerance, largest_drop=scale))
