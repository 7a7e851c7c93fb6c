"""The canaries of a run, as its folder keeps them: what a judge made of claims of known truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import orjson

from ragbench.core.report import CanaryLine
from ragbench.ledger.manifest import write_atomic

CANARIES = "canaries.json"
"""The file in a run's folder."""


def asked_of(run: Mapping[str, str]) -> dict[str, str | None]:
    """What canaries are made of, and who is asked about them."""
    return {name: run.get(name) for name in ("dataset", "judge", "rag")}


def write_canaries(
    folder: Path, run: dict[str, str | None], basis: str, lines: Sequence[CanaryLine]
) -> None:
    """Keeps what a judge made of a run's canaries."""
    told = {"run": run, "basis": basis, "lines": [asdict(line) for line in lines]}
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    write_atomic(folder / CANARIES, orjson.dumps(told, option=options))


def stored_canaries(folder: Path) -> dict[str, Any] | None:
    """What is kept of a run's canaries; None where there is nothing, or nothing readable."""
    try:
        found = cast("object", orjson.loads((folder / CANARIES).read_bytes()))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    known = cast("dict[str, Any]", found)
    return known if {"run", "basis", "lines"} <= known.keys() else None


def read_canaries(folder: Path, run: Mapping[str, str]) -> tuple[CanaryLine, ...]:
    """What a run's judge made of its canaries; nothing where they are of another run or judge."""
    found = stored_canaries(folder)
    if found is None or found["run"] != asked_of(run):
        return ()
    try:
        return tuple(CanaryLine(**line) for line in found["lines"])
    except TypeError:  # a later release wrote it
        return ()
