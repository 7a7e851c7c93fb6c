"""Locate as a stage: where the gold of a case is, and what of the search lost it.

It stands behind retrieval and changes nothing of what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ragbench.core.case import Case
from ragbench.core.gold_search import GoldSearch
from ragbench.core.result import RetrievalResult
from ragbench.pipeline.gold import golds_of
from ragbench.stages.call_stage import CallStage, Given
from ragbench.stages.stage import Row, Settled, passed_on, skipped

LOCATE = "locate"
"""The stage's name."""

LocateInput = tuple[Case, RetrievalResult[Any]]
"""A case with gold, and what was retrieved for it."""


class Locator(Protocol):
    """What the stage asks; see `ragbench.pipeline.gold.GoldLocator`."""

    def located(self, inputs: Sequence[LocateInput], top_k: int | None = None) -> list[GoldSearch]:
        """What became of the gold of each case."""
        ...


def locate_stage(
    locator: Locator, identity: bytes, top_k: int | None
) -> CallStage[LocateInput, GoldSearch]:
    """The stage that looks for what retrieval has missed."""
    return CallStage(
        name=LOCATE,
        identity=identity,
        reads=_reads,
        call=lambda inputs: locator.located(inputs, top_k),
        call_async=None,
        takes_batches=True,
    )


def _reads(row: Row) -> Given[LocateInput] | Settled:
    retrieved = row.settled["retrieve"]
    if retrieved.outcome.value is None:
        return passed_on(retrieved)
    if not golds_of(row.case):
        return skipped("no relevant context is known")
    return Given((row.case, retrieved.outcome.value), row.digest + retrieved.digest)
