"""The levels of the gate on systems that vary as chat answers do; benchmarks/gate_noise.py."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gate_noise import simulate, through_command


def colours(name: str, size: int, worlds: int, **options: Any) -> dict[str, float]:
    """The share of each colour among the verdicts on this system in so many worlds."""
    settings: dict[str, Any] = {"pairs": 1, "kind": "default", "mean_of": 1, "seed": 11}
    settings |= options
    counts = simulate(size, worlds, only=[name], **settings)[name].colours
    return {
        "red": counts["red"] / worlds,
        "yellow": counts["yellow"] / worlds,
        "green": counts["green"] / worlds,
    }


def test_most_unchanged_systems_pass_and_a_broken_retrieval_does_not() -> None:
    unchanged = colours("unchanged", 80, 10)
    broken = colours("retrieval -.20", 80, 10)

    assert unchanged["green"] >= 0.7
    assert unchanged["red"] <= 0.1
    assert broken["green"] <= 0.3


@pytest.mark.nightly
@pytest.mark.parametrize("size", [80, 200, 500])
def test_an_unchanged_system_is_seldom_red_and_an_improved_one_hardly_ever(size: int) -> None:
    """Of 300 pairs; at a true 1.5% more than 3.3% are red in one of a hundred samples."""
    unchanged = colours("unchanged", size, 300)
    assert unchanged["red"] <= 0.033
    assert unchanged["yellow"] <= 0.15

    improved = colours("improved .08", size, 300)
    assert improved["red"] <= 0.01
    assert improved["yellow"] <= 0.05


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
    shares = colours(name, 200, 200)

    assert shares["red"] >= red
    assert shares["red"] + shares["yellow"] >= seen


@pytest.mark.nightly
def test_pairs_of_files_go_through_the_whole_command() -> None:
    counts_of = through_command(80, 4, seed=3, only=["unchanged", "retrieval -.20"])

    assert counts_of["unchanged"].colours["red"] == 0
    assert counts_of["retrieval -.20"].colours["green"] <= 1
