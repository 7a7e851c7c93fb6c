"""What does asking again decide, stopped as soon as it can be? A seeded simulation.

Each case has a chance of a right answer in each of two systems; in most, the answer is always the
same. A single run of both leaves a drop undecided (here: always), then both are asked in rounds
until a bet at the level is won or the budget is spent. Prints, as Markdown, how often it is called
worse and not worse, and how many questions that took. Where the true drop is what is tolerated,
either is an error.

    PYTHONPATH=. python benchmarks/settle_level.py [--pairs 1000] [--most 3000]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragbench.verbs.settle import SettleQuestion, Settling

Array = NDArray[np.float64]
Row = tuple[int, float, float, float]
ROWS: Sequence[Row] = (
    (100, 0.3, 0.02, 0.02), (100, 1.0, 0.05, 0.05), (300, 0.3, 0.05, 0.05), (300, 0.1, 0.02, 0.02),
    (200, 0.3, 0.0, 0.02), (200, 0.3, 0.0, 0.05), (200, 1.0, 0.0, 0.05), (200, 0.1, 0.0, 0.02),
    (200, 0.3, 0.05, 0.02), (200, 0.3, 0.1, 0.02), (200, 1.0, 0.1, 0.02), (200, 0.1, 0.05, 0.02),
)  # fmt: skip
"""Cases, share of noisy ones, true drop, tolerated drop."""
ALPHA = 0.025


def chances(rng: np.random.Generator, cases: int, noisy: float, drop: float) -> tuple[Array, Array]:
    """Of a right answer in both systems; the noisy cases share the drop."""
    count = round(noisy * cases)
    before = (rng.random(cases) < 0.7).astype(float)
    lost = drop * cases / count
    before[:count] = rng.uniform(max(0.2, lost), 0.95, count)
    after = before.copy()
    after[:count] -= lost
    return before, after


def settled(rng: np.random.Generator, row: Row, most: int) -> tuple[str, int]:
    """What is decided, and how often both were asked."""
    cases, noisy, drop, tolerance = row
    before, after = chances(rng, cases, noisy, drop)

    def asked(case: int) -> float:
        return float(rng.random() < after[case]) - float(rng.random() < before[case])

    first = {str(case): asked(case) for case in range(cases)}
    question = SettleQuestion(metric="m", tolerance=tolerance, scale=1.0, differences=first)
    settling = Settling([question], alpha=ALPHA, seed=int(rng.integers(2**31)))
    count = 0
    while not settling.is_done and count < most:
        drawn = settling.draw(min(most - count, max(40, count)))
        settling.see([{"m": asked(int(id_))} for id_ in drawn])
        count += len(drawn)
    return settling.settled()["m"].change, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--most", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{options.pairs} pairs a row, at most {options.most} questions, level {ALPHA}\n")
    header = ("cases", "noisy", "true drop", "tolerated", "worse", "not worse", "asked (median)")
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for number, row in enumerate(ROWS):
        rng = np.random.default_rng([options.seed, number])
        found = [settled(rng, row, options.most) for _ in range(options.pairs)]
        said = [change for change, _ in found]
        cases, noisy, drop, tolerance = row
        cells = (
            f"{cases}", f"{noisy:.0%}", f"{drop:g}", f"{tolerance:g}",
            *(f"{said.count(change) / len(said):.1%}" for change in ("worse", "not worse")),
            f"{np.median([asked for _, asked in found]):,.0f}",
        )  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
