"""What a command shows on the way, and how a signal ends it."""

from __future__ import annotations

import signal
import threading

import pytest

from ragbench.stages.stage import Progress
from ragbench_cli import console
from ragbench_cli.console import Lines


def test_a_line_every_half_minute() -> None:
    printed: list[str] = []
    clock = iter([0.0, 29.0, 30.0, 31.0, 60.0, 89.9])
    lines = Lines(print=printed.append, now=lambda: next(clock))
    lines.advance(Progress("retrieve", 1000, 100))
    lines.advance(Progress("retrieve", 1000, 100))
    lines.advance(Progress("retrieve", 1000, 100, 3))
    lines.advance(Progress("generate", 1000, 10, 0, 10))
    lines.advance(Progress("generate", 1000, 10, 2))
    lines.advance(Progress("generate", 1000, 10, recorded=4))
    assert printed == [
        "retrieve 300/1,000 (3 failed)",
        "generate 20/1,000 (2 failed, 10 from before)",
    ]


def test_calls_that_hang_end_with_the_first_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends it kills soon."""
    monkeypatch.setattr(console, "_LAST_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt), console.stop_on_signal() as stopped:
        assert not stopped()
        signal.raise_signal(signal.SIGTERM)
        assert stopped()
        threading.Event().wait(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_there_are_calls_the_first_signal_ends_it(number: signal.Signals) -> None:
    """A command that reads a huge file, or loads a model, does not ask."""
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), console.stop_on_signal():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before
