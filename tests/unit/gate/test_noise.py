"""The levels of the gate on systems that vary as chat answers do; benchmarks/gate_noise.py."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gate_noise import simulate, through_command


def colours(name: str, size: int, worlds: int, **options: Any) -> dict[str, float]:
    settings: dict[str, Any] = {"pairs": 1, "kind": "default", "mean_of": 1, "seed": 11}
    found = simulate(size, worlds, only=[name], **(settings | options))[name].colours
    return {colour: found[colour] / worlds for colour in ("red", "yellow", "green")}


def test_most_unchanged_systems_pass_and_a_broken_retrieval_does_not() -> None:
    unchanged, broken = (colours(name, 80, 10) for name in ("unchanged", "retrieval -.20"))
    assert unchanged["green"] >= 0.7 and unchanged["red"] <= 0.1
    assert broken["green"] <= 0.3


@pytest.mark.nightly
@pytest.mark.parametrize("size", [80, 200, 500])
def test_an_unchanged_system_is_seldom_red_and_an_improved_one_hardly_ever(size: int) -> None:
    """Of 300 pairs; at a true 1.5% more than 3.3% are red in one of a hundred samples."""
    unchanged = colours("unchanged", size, 300)
    assert unchanged["red"] <= 0.033 and unchanged["yellow"] <= 0.15
    improved = colours("improved .08", size, 300)
    assert improved["red"] <= 0.01 and improved["yellow"] <= 0.05


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "red", "seen"),
    [
        ("retrieval -.15", 0.75, 0.95),
        ("generation -.20", 0.75, 0.88),
        ("refusals +.15", 0.55, 0.8),
    ],
)
def test_a_loss_at_two_hundred_cases_is_found(name: str, red: float, seen: float) -> None:
    found = colours(name, 200, 200)
    assert found["red"] >= red
    assert found["red"] + found["yellow"] >= seen


@pytest.mark.nightly
def test_pairs_of_files_go_through_the_whole_command() -> None:
    found = through_command(80, 4, seed=3, only=["unchanged", "retrieval -.20"])
    assert found["unchanged"].colours["red"] == 0
    assert found["retrieval -.20"].colours["green"] <= 1
