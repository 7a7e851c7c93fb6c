"""The gate's levels and power on noisy worlds: the simulation of benchmarks/gate_noise.py."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.gate_noise import CHANGES, colours


def test_thirty_unchanged_systems_of_eighty_cases_are_hardly_ever_stopped() -> None:
    found = colours(80, CHANGES["nothing"], np.random.default_rng(5), pairs=30, runs=1)
    assert found["red"] <= 2
    assert found["yellow"] <= 9


@pytest.mark.nightly
@pytest.mark.parametrize("count", [80, 200, 500])
@pytest.mark.parametrize("runs", [1, 5])
def test_an_unchanged_system_passes_and_a_better_one_is_never_stopped(
    count: int, runs: int
) -> None:
    """Of 200 pairs at most 2 % are red and 15 % yellow, with room for three standard errors."""
    rng = np.random.default_rng([count, runs])
    same = colours(count, CHANGES["nothing"], rng, pairs=200, runs=runs)
    assert same["red"] <= 10
    assert same["yellow"] <= 45
    better = colours(count, CHANGES["better by .10"], rng, pairs=200, runs=runs)
    assert better["red"] <= 2
    assert better["yellow"] <= 16


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "red", "seen"), [
    ("retrieval -.15", 0.6, 0.85), ("refusals +.15", 0.5, 0.8), ("generation -.20", 0.6, 0.8),
])  # fmt: skip
def test_a_loss_is_shown_on_two_hundred_cases(name: str, red: float, seen: float) -> None:
    found = colours(200, CHANGES[name], np.random.default_rng(7), pairs=100, runs=1)
    assert found["red"] >= red * 100
    assert found["red"] + found["yellow"] >= seen * 100
