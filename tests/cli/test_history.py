"""``ragbench history``: twelve merges, with a drift and without."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragbench.gate.baseline_file import write_baseline
from ragbench.gate.main_runs import baseline_of, with_run
from ragbench.views.history import sparkline
from tests.cli.runs import Ragbench
from tests.unit.gate.builders import run as made

CASES = 400


def merges(losses: Sequence[float], *, judges: Sequence[str | None] | None = None) -> None:
    """A baseline file with a run per loss, of a metric that drifts and of one that does not."""
    rng = np.random.default_rng(6)
    chance = rng.random(CASES)
    baseline = None
    for day, loss in enumerate(losses):
        steady = (rng.random(CASES) < chance).astype(float)
        falls = (rng.random(CASES) < chance) & (rng.random(CASES) >= 2.0 * loss)
        judge = judges[day] if judges else None
        run = made(
            {"recall@5": falls.astype(float).tolist(), "token_f1": steady.tolist()},
            date=f"2026-03-{day + 1:02}T08:00:00+00:00",
            commit=f"{day:02}abcdef0123456789",
            fingerprints={"dataset": "d1"} | ({"judge": judge} if judge else {}),
        )
        baseline = baseline_of([run]) if baseline is None else with_run(baseline, run).baseline
    assert baseline is not None
    write_baseline(baseline, Path("ragbench-baseline.json"))


def test_a_slow_decline_that_no_merge_shows_is_marked(ragbench: Ragbench) -> None:
    merges([0.01 * min(merge, 10) for merge in range(12)])
    done = ragbench("history")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "rag on quiz: 12 runs of main, 2026-03-01 to 2026-03-12"
    falling = next(line for line in lines if line.startswith("recall@5"))
    steady = next(line for line in lines if line.startswith("token_f1"))
    assert "worse" in falling
    assert "worse" not in steady
    assert "better" not in steady
    assert len(falling.split()[-1]) == 12
    assert "recall@5 fell" in done.out
    assert "token_f1 fell" not in done.out
    assert all(len(line) <= 80 for line in lines)
    found = json.loads(ragbench("history", "--json").out)
    by_name = {metric["metric"]: metric for metric in found["metrics"]}
    assert by_name["recall@5"]["change"]["shown"] is True
    assert by_name["recall@5"]["change"]["p_value"] <= 0.05
    assert by_name["token_f1"]["change"]["shown"] is False
    assert len(by_name["recall@5"]["scores"]) == len(found["runs"]) == 12


def test_a_step_is_named_by_its_commit(ragbench: Ragbench) -> None:
    merges([0.0] * 7 + [0.12] * 5)
    found = json.loads(ragbench("history", "--json").out)
    change = next(m["change"] for m in found["metrics"] if m["metric"] == "recall@5")
    assert (change["kind"], change["at"], change["way"]) == ("step", 7, "worse")
    assert "recall@5 fell at 07abcdef0123, 2026-03-08, from 0." in ragbench("history").out


def test_unchanged_runs_are_not_marked_and_it_is_said(ragbench: Ragbench) -> None:
    merges([0.0] * 12)
    page = ragbench("history").out
    assert "No change is shown: runs of one system differ as much." in page
    assert "changed" not in page


def test_runs_that_do_not_compare_are_parted(ragbench: Ragbench) -> None:
    merges([0.0] * 6 + [0.3] * 6, judges=["a"] * 6 + ["b"] * 6)
    page = ragbench("history").out
    assert "06abcdef0123, 2026-03-07: another judge; runs before it are not compared" in page
    assert "fell" not in page
    row = next(line for line in page.splitlines() if line.startswith("recall@5"))
    assert row.split()[-1][6] == "|"


def test_too_few_runs_say_so(ragbench: Ragbench) -> None:
    merges([0.0, 0.3])
    page = ragbench("history").out
    assert "2 comparable runs: a change shows in five or more" in page
    assert "No change is shown" not in page


def test_what_is_no_baseline_ends_with_2(ragbench: Ragbench) -> None:
    done = ragbench("history")
    assert (done.code, done.out) == (2, "")
    assert "ragbench-baseline.json cannot be read" in done.err
    Path("report.json").write_text("{}", "utf-8")
    assert "is not a baseline file" in ragbench("history", "report.json").err


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
