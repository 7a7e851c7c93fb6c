"""What is said of a run's progress where there is no terminal."""

from __future__ import annotations

from ragbench.stages.stage import Progress
from ragbench_cli.console import Lines, progress


def test_a_line_every_half_minute() -> None:
    told: list[str] = []
    clock = iter([0.0, 29.0, 30.0, 31.0, 60.0, 89.9])
    lines = Lines(tell=told.append, now=lambda: next(clock))
    lines.advance(Progress("retrieve", 1000, 100))
    lines.advance(Progress("retrieve", 1000, 100))
    lines.advance(Progress("retrieve", 1000, 100, 3))
    lines.advance(Progress("generate", 1000, 10, 0, 10))
    lines.advance(Progress("generate", 1000, 10, 2))
    lines.advance(Progress("generate", 1000, 10, recorded=4))
    assert told == ["retrieve 300/1,000 (3 failed)", "generate 20/1,000 (2 failed, 10 from before)"]


def test_nothing_when_it_is_not_wanted() -> None:
    with progress(shown=False) as advance:
        assert advance is None
