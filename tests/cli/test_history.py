"""``ragbench history``: twelve merges, with a drift and without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragbench.gate.baseline_file import write_baseline
from ragbench.gate.main_runs import baseline_of, with_run
from ragbench.views.history import sparkline
from tests.cli.runs import Ragbench
from tests.unit.gate.builders import run as run_with_scores

CASES = 400


def merges(losses: Sequence[float], *, judges: Sequence[str] | None = None) -> None:
    """A baseline file with a run per loss, of a metric that drifts and of one that does not."""
    rng = np.random.default_rng(6)
    chance = rng.random(CASES)
    baseline: Any = None
    for day, loss in enumerate(losses):
        steady = rng.random(CASES) < chance
        falling = (rng.random(CASES) < chance) & (rng.random(CASES) >= 2.0 * loss)
        scores = {
            "recall@5": falling.astype(float).tolist(),
            "token_f1": steady.astype(float).tolist(),
        }
        fingerprints = {"dataset": "d1"}
        if judges:
            fingerprints["judge"] = judges[day]
        run = run_with_scores(
            scores,
            fingerprints=fingerprints,
            date=f"2026-03-{day + 1:02}T08:00:00+00:00",
            commit=f"{day:02}abcdef0123456",
        )
        baseline = with_run(baseline, run).baseline if baseline else baseline_of([run])
    write_baseline(baseline, Path("ragbench-baseline.json"))


@pytest.mark.parametrize(
    ("losses", "judges", "said", "unsaid"),
    [
        # No merge alone shows it.
        (
            [0.01 * min(merge, 10) for merge in range(12)],
            None,
            ["rag on quiz: 12 runs of main, 2026-03-01 to 2026-03-12", "recall@5 went from 0."],
            ["token_f1 went"],
        ),
        # One does: it is named, and is no slow fall.
        (
            [0.0] * 7 + [0.2] * 5,
            None,
            ["shown to be lower than the runs before: 07abcdef0123, 2026-03-08, and 4 later"],
            ["No fall is shown", "went"],
        ),
        ([0.0] * 12, None, ["No fall is shown: runs of one system differ as much."], ["went"]),
        (
            [0.0] * 6 + [0.3] * 6,
            ["a"] * 6 + ["b"] * 6,
            ["06abcdef0123, 2026-03-07: another judge; runs before it are not compared"],
            ["went"],
        ),
        (
            [0.0, 0.3],
            None,
            ["2 comparable runs are followed: a fall shows in 6 or more"],
            ["No fall is shown"],
        ),
    ],
)
def test_changes_are_marked_where_they_are_shown(
    ragbench: Ragbench,
    losses: list[float],
    judges: list[str] | None,
    said: list[str],
    unsaid: list[str],
) -> None:
    merges(losses, judges=judges)

    page = ragbench("history").ok(*said).out
    history = ragbench("history", "--json").json

    for part in unsaid:
        assert part not in page
    for line in page.splitlines():
        assert len(line) <= 80

    # A mark for each run, and a bar where the judge changes.
    (recall_line,) = [line for line in page.splitlines() if line.startswith("recall@5  ")]
    marks = recall_line.split()[-1]
    assert len(marks.replace("|", "")) == len(losses)
    assert ("|" in marks) == (judges is not None)

    recall, token_f1 = history["metrics"]
    assert len(history["runs"]) == len(losses)
    assert len(recall["scores"]) == len(losses)
    assert token_f1["fall"] is None
    fall = recall["fall"]
    is_shown = any("recall@5 went" in part for part in said)
    assert (fall is not None) == is_shown
    if is_shown:
        assert fall["p_value"] <= 0.05
        assert fall["start"] > fall["end"] + 0.02


@pytest.mark.parametrize(
    ("figures", "options", "shown"),
    [
        ([0.0, 1.0], {}, "▁█"),
        ([0.5, 0.5], {}, "▅▅"),
        ([0.50, 0.51], {}, "▄▅"),  # noise is no cliff
        ([0.0, None, 1.0], {}, "▁ █"),
        ([0.0, 1.0], {"plain": True}, "18"),
        ([0.0, 0.0, 1.0], {"breaks": [2]}, "▁▁|█"),
        ([0.0, 0.0, 1.0], {"width": 2}, "▁█"),
        ([None], {}, ""),
    ],
)
def test_a_sparkline(figures: list[float | None], options: dict[str, Any], shown: str) -> None:
    assert sparkline(figures, scale=1.0, **options) == shown
