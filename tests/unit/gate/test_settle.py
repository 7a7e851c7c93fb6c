"""Which cases are asked about again, and what the answers decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from ragbench.gate.settle import SettleQuestion, Settling


def question(
    differences: Mapping[str, float], *, metric: str = "m", tolerance: float = 0.02
) -> SettleQuestion:
    return SettleQuestion(metric=metric, tolerance=tolerance, scale=1.0, differences=differences)


def simulated(
    drop: float, tolerance: float, trials: int, most: int, *, alpha: float
) -> Counter[str]:
    """60 cases, a third of which is noisy; ``drop`` is the mean drop."""
    draw = np.random.default_rng(7)
    found: Counter[str] = Counter()
    for seed in range(trials):
        before = np.where(np.arange(60) % 3 == 0, draw.uniform(0.5, 0.9, 60), 1.0)
        after = np.where(np.arange(60) % 3 == 0, before - 3.0 * drop, before)

        def asked(case: int, before: np.ndarray = before, after: np.ndarray = after) -> float:
            return float(draw.random() < after[case]) - float(draw.random() < before[case])

        first = {str(case): asked(case) for case in range(60)}
        settling = Settling([question(first, tolerance=tolerance)], alpha=alpha, seed=seed)
        count = 0
        while not settling.is_done and count < most:
            drawn = settling.draw(max(40, count))
            settling.see([{"m": asked(int(id_))} for id_ in drawn])
            count += len(drawn)
        found[settling.settled()["m"].change] += 1
    return found


def test_a_system_that_is_as_bad_as_tolerated_is_rarely_called_anything() -> None:
    """Stopped as soon as one of two bets of 2.5% is won; four standard errors."""
    found = simulated(0.05, 0.05, 60, 640, alpha=0.025)
    assert found["worse"] <= 6
    assert found["not worse"] <= 6


def test_a_true_drop_is_found() -> None:
    assert simulated(0.15, 0.02, 20, 2_560, alpha=0.025)["worse"] >= 18


def test_an_unchanged_system_is_cleared() -> None:
    assert simulated(0.0, 0.08, 20, 5_120, alpha=0.025)["not worse"] >= 16


def test_cases_that_carry_the_variance_are_asked_about_most() -> None:
    differences = {f"q{place:03}": 0.0 for place in range(100)}
    differences |= {"q000": 1.0, "q001": -1.0}
    settling = Settling([question(differences)], alpha=0.001)
    for _ in range(10):  # both flip, all others stay as they are
        drawn = settling.draw(100)
        settling.see([{"m": float(at % 3 - 1) if id_ < "q002" else 0.0}
                      for at, id_ in enumerate(drawn)])  # fmt: skip
    found = Counter(settling.draw(1_000))
    assert found["q000"] + found["q001"] > 100  # 20 if all were alike
    assert len(found) > 90  # and nobody is forgotten


def test_the_same_answers_lead_to_the_same_draws() -> None:
    one, other = (Settling([question({"a": 0.5, "b": 0.0})], alpha=0.05, seed=5) for _ in range(2))
    first = one.draw(30)
    assert first == other.draw(30)
    for settling in (one, other):
        settling.see([{"m": 0.5 if id_ == "a" else 0.0} for id_ in first])
    second = one.draw(30)
    assert first != second == other.draw(30)


def test_systems_without_noise_are_decided_by_what_they_always_say() -> None:
    """Three of ten cases always lose: a drop of .3."""
    differences = {f"q{place}": -1.0 if place < 3 else 0.0 for place in range(10)}
    settling = Settling([question(differences)], alpha=0.05)
    count = 0
    while not settling.is_done:
        drawn = settling.draw(20)
        settling.see([{"m": differences[id_]} for id_ in drawn])
        count += 20
        assert count <= 500
    found = settling.settled()["m"]
    assert (found.change, found.asked, found.unmeasured) == ("worse", count, 0)
    assert found.drop == pytest.approx(0.3, abs=0.1)
    assert found.p_worse <= found.level == 0.05


def test_metrics_share_the_answers_and_the_level() -> None:
    losing = {f"q{place}": -1.0 if place < 5 else 0.0 for place in range(10)}
    still = dict.fromkeys(list(losing)[:5], 0.0)
    settling = Settling([question(losing), question(still, metric="n")], alpha=0.05)
    drawn = settling.draw(100)
    settling.see(
        [{"m": losing[id_], "n": None if id_ == "q0" else still.get(id_)} for id_ in drawn]
    )
    found = settling.settled()
    assert settling.is_done
    assert found["m"].change == "worse"
    assert (found["m"].level, found["n"].asked) == (0.025, 100)
    assert found["n"].unmeasured == drawn.count("q0")
    assert found["n"].drop == pytest.approx(0.0)
