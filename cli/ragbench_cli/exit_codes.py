"""What an exit code of ragbench means."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """The five ways in which a command can end."""

    PASSED = 0
    """It did what was asked."""
    FAILED = 1
    """It ran, and what it judged failed."""
    CANNOT_RUN = 2
    """It could not run: bad usage, bad input, a missing package, or a bug."""
    INCONCLUSIVE = 3
    """It ran and cannot tell."""
    INTERRUPTED = 130
    """It was stopped; the same command continues."""
