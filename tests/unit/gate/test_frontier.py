from __future__ import annotations

import pytest

from ragbench.core.ablation import FrontierPoint
from ragbench.gate.frontier import frontier_of
from ragbench.metrics.registry import parse_metric

F1 = parse_metric("token_f1")


def point(
    name: str,
    quality: float | None,
    seconds: float | None,
    tokens: float,
    cost: float | None = None,
) -> FrontierPoint:
    return FrontierPoint(variant=name, quality=quality, seconds=seconds, tokens=tokens, cost=cost)


def beaten(*points: FrontierPoint, metric: str = "token_f1") -> dict[str, str | None]:
    found = frontier_of(parse_metric(metric), points)
    return {one.variant: one.beaten_by for one in found.points}


def test_who_is_as_good_everywhere_and_better_somewhere_beats() -> None:
    assert beaten(
        point("best", 0.9, 4.0, 100),
        point("cheap", 0.8, 1.0, 50),
        point("slow", 0.8, 2.0, 50),  # cheap is as good and faster
        point("wordy", 0.9, 4.0, 101),  # best takes less
        point("worst", 0.1, 5.0, 200),  # by the best one
        point("fast", 0.2, 0.5, 300),
    ) == {
        "best": None,
        "cheap": None,
        "slow": "cheap",
        "wordy": "best",
        "worst": "best",
        "fast": None,
    }


def test_equals_do_not_beat_each_other() -> None:
    assert beaten(point("a", 0.5, 1.0, 10), point("b", 0.5, 1.0, 10)) == {"a": None, "b": None}


def test_times_within_a_tenth_are_equal() -> None:
    assert beaten(point("a", 0.5, 9.0, 10), point("b", 0.5, 10.0, 10)) == {"a": None, "b": None}
    assert beaten(point("a", 0.5, 8.9, 10), point("b", 0.5, 10.0, 10)) == {"a": None, "b": "a"}


def test_lower_is_better_where_the_metric_says_so() -> None:
    found = beaten(point("a", 0.2, 1.0, 10), point("b", 0.3, 1.0, 10), metric="brier")
    assert found == {"a": None, "b": "a"}


def test_a_cost_that_is_known_of_all_stands_for_the_tokens() -> None:
    dear = point("dear", 0.5, 1.0, 10, cost=0.02)
    cheap = point("cheap", 0.5, 1.0, 20, cost=0.01)
    found = frontier_of(F1, [dear, cheap], currency="USD")
    assert (found.axes, found.currency) == (("quality", "seconds", "cost"), "USD")
    assert [one.beaten_by for one in found.points] == ["cheap", None]
    found = frontier_of(F1, [dear, point("cheap", 0.5, 1.0, 20)], currency="USD")
    assert (found.axes, found.currency) == (("quality", "seconds", "tokens"), None)
    assert [one.beaten_by for one in found.points] == [None, "dear"]


@pytest.mark.parametrize("order", [1, -1])
def test_time_that_is_not_known_of_all_is_not_compared(order: int) -> None:
    points = [point("slow", 0.5, 9.0, 10), point("stored", 0.5, None, 11)][::order]
    found = frontier_of(F1, points)
    assert found.axes == ("quality", "tokens")
    assert {one.variant: one.beaten_by for one in found.points} == {"slow": None, "stored": "slow"}


def test_a_variant_that_measured_nothing_neither_beats_nor_is_beaten() -> None:
    assert beaten(point("a", None, 0.1, 1), point("b", 0.1, 1.0, 10)) == {"a": None, "b": None}


def test_who_beats_is_the_one_of_the_best_quality_whatever_the_order() -> None:
    found = beaten(
        point("worst", 0.1, 9.0, 200), point("better", 0.5, 1.0, 50), point("best", 0.9, 1.0, 50)
    )
    assert found == {"worst": "best", "better": "best", "best": None}
    assert beaten(
        point("worst", 0.9, 9.0, 200),
        point("better", 0.5, 1.0, 50),
        point("best", 0.1, 1.0, 50),
        metric="brier",
    ) == {"worst": "best", "better": "best", "best": None}
