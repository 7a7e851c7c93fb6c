"""The first signal asks a command to stop where it would heed that, and ends it where not."""

from __future__ import annotations

import signal

import pytest

from ragbench_cli import console


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_request_once_somebody_asks(number: signal.Signals) -> None:
    with console.stop_on_signal() as stopped:
        assert not stopped()
        signal.raise_signal(number)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_there_are_calls_the_first_signal_ends_it(number: signal.Signals) -> None:
    """A command that reads a huge file, or loads a model, does not ask."""
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), console.stop_on_signal():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before
