from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import RegressionQuestion, decide, pair
from ragbench.errors import ConfigError, InputError
from ragbench.stats.decide import ChangeKind, decide_family


def question(
    differences: list[float],
    *,
    tolerance: float = 0.05,
    largest_drop: float | None = 1.0,
    clusters: Sequence[str | None] | None = None,
) -> RegressionQuestion:
    ids = [str(place) for place in range(len(differences))]
    labels = dict(zip(ids, clusters or [None] * len(ids), strict=True))
    return RegressionQuestion(
        sample=pair(
            dict.fromkeys(ids, 0.0), dict(zip(ids, differences, strict=True)), clusters=labels
        ),
        tolerance=tolerance,
        largest_drop=largest_drop,
    )


def test_a_clear_drop_is_worse() -> None:
    decision = decide(question([-0.5, -0.6, -0.4, -0.7, -0.55, -0.65]))
    assert decision.change is ChangeKind.WORSE
    assert decision.p_worse == pytest.approx(1 / 64)
    assert decision.needed is None


def test_a_drop_within_the_tolerance_is_not_called_worse() -> None:
    drops = [-0.3, -0.4, -0.2, -0.5, -0.35, -0.45] * 2
    assert decide(question(drops, tolerance=0.0)).change is ChangeKind.WORSE
    assert decide(question(drops, tolerance=0.5)).change is not ChangeKind.WORSE


def test_a_small_loss_of_every_case_may_hide_rare_large_gains() -> None:
    """Of 20 cases that lose .012 each, one in fifty may gain .6: then nothing was lost."""
    decision = decide(question([-0.012] * 20, tolerance=0.0))
    assert decision.p_worse == decision.resolution
    assert decision.change is ChangeKind.CANNOT_TELL
    assert decision.hides_rare_gains
    # ln(0.15) / ln(1.012) = -159.04
    assert decide(question([-0.012] * 159, tolerance=0.0)).change is ChangeKind.CANNOT_TELL
    assert decide(question([-0.012] * 160, tolerance=0.0)).change is ChangeKind.WORSE


def test_a_loss_as_large_as_tolerated_is_none_whatever_rounding_does() -> None:
    before = dict.fromkeys(map(str, range(50)), 0.8)
    sample = pair(before, dict.fromkeys(before, 0.75))
    assert sample.differences[0] != -0.05  # in binary it is not
    decision = decide(RegressionQuestion(sample=sample, tolerance=0.05, largest_drop=1.0))
    assert (decision.p_worse, decision.test.informative) == (1.0, 0)
    assert decision.change is ChangeKind.CANNOT_TELL
    assert decision.needed is None


def test_five_clusters_settle_what_four_cannot() -> None:
    """A total loss in four clusters: 2^-4 is above 5 %, 2^-5 below."""
    drops, labels = [-1.0] * 40, [str(place % 4) for place in range(40)]
    decision = decide(question(drops, clusters=labels))
    assert decision.change is ChangeKind.CANNOT_TELL
    assert not decision.can_show
    five = decide(question([-1.0] * 50, clusters=[str(place % 5) for place in range(50)]))
    assert five.change is ChangeKind.WORSE


def test_nothing_changed_in_enough_cases_is_not_worse() -> None:
    # 0.95^58 is above 5%, 0.95^59 below.
    assert decide(question([0.0] * 58)).change is ChangeKind.CANNOT_TELL
    enough = decide(question([0.0] * 59))
    assert enough.change is ChangeKind.NOT_WORSE
    assert enough.p_not_worse == pytest.approx(0.95**59)


def test_without_a_scale_the_spread_decides() -> None:
    drops = [0.2, -0.1, 0.1, 0.05, -0.05, 0.15, 0.1, 0.0] * 3
    unbounded = decide(question(drops, tolerance=0.1, largest_drop=None))
    assert unbounded.change is ChangeKind.NOT_WORSE
    # Equal values without a scale: no spread is seen, so nothing is claimed.
    still = decide(question([0.0] * 500, largest_drop=None))
    assert still.change is ChangeKind.CANNOT_TELL


def test_cannot_show_says_what_would_settle_it() -> None:
    decision = decide(question([0.5, -0.5, 0.25, -0.5, 0.0, 0.25, -0.25, 0.25] * 3))
    assert decision.change is ChangeKind.CANNOT_TELL
    assert decision.detectable_drop is not None
    assert 0.1 < decision.detectable_drop < 0.4
    assert decision.needed is not None
    assert decision.needed > 200


def test_where_nothing_is_tolerated_no_number_of_cases_rules_a_drop_out() -> None:
    decision = decide(question([-0.5, 0.25, -0.25, 0.0, 0.25, -0.25] * 4, tolerance=0.0))
    assert (decision.change, decision.needed) == (ChangeKind.CANNOT_TELL, None)
    assert decision.detectable_drop is not None


@pytest.mark.parametrize("differences", [[], [-1.0], [0.0]])
def test_next_to_no_data_cannot_show(differences: list[float]) -> None:
    decision = decide(question(differences))
    assert decision.change is ChangeKind.CANNOT_TELL
    assert decision.detectable_drop is None


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


@pytest.mark.parametrize(
    ("tolerance", "scale"), [(-0.1, 1.0), (1.0, 1.0), (float("nan"), 1.0), (0.1, float("inf"))]
)
def test_a_question_that_cannot_fail_is_refused(tolerance: float, scale: float) -> None:
    with pytest.raises(ConfigError, match="tolerance"):
        decide(question([0.0], tolerance=tolerance, largest_drop=scale))


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="below the smallest possible"):
        decide(question([-3.0, 0.0], largest_drop=1.0))
    with pytest.raises(ConfigError, match="alpha"):
        decide(question([0.0]), alpha=1.5)
