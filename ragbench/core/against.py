"""A run held against an earlier one, case by case, as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragbench.core.attribution import Cause, CauseFlow
from ragbench.core.comparison import CaseDifference, CaseKind, IdChange, RunPair
from ragbench.core.outcome import Cell


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseBefore:
    """What the earlier run made of a case."""

    kind: CaseKind | None = None
    """Which way the case went; None when nothing that decides has changed."""
    cause: Cause | None = None
    """What became of it then; None where the earlier run does not say."""
    response: str | None = None
    """The answer then; None without one."""
    tells_texts: bool = True
    """Whether the earlier run holds texts; a baseline file does not."""
    ids: IdChange | None = None
    """How the retrieved ids differ; None where a run does not tell its ids."""
    scores: tuple[tuple[str, Cell, Cell], ...] = ()
    """Metrics whose value or state differs: name, then, now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """A run and an earlier one, over the cases that are the same in both."""

    source: str
    """Where the earlier run was read from."""
    rag: str
    """Its system."""
    cases: Mapping[str, CaseBefore]
    """By id, the cases that are the same."""
    changed: tuple[CaseDifference, ...]
    """Those that went another way: newly failing ones first, then mixed ones, then fixed ones."""
    pair: RunPair
    """How many differ."""
    flows: tuple[CauseFlow, ...]
    """How causes changed, unchanged ones included; empty where a run does not tell them."""
    edited: int
    """Cases of that id whose content differs: not compared."""
    added: int
    """Cases that only this run has."""
    gone: int
    """Cases that only the earlier run has."""
