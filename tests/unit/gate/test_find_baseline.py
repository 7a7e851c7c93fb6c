"""``--baseline auto``: which earlier run is taken."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragbench import parse_metrics
from ragbench.gate.find_baseline import find_baseline
from ragbench.ledger.journal import Journal
from ragbench.ledger.manifest import DatasetInfo, Manifest, MetricInfo, RagInfo, write_manifest
from tests.unit.gate.builders import run

METRIC = MetricInfo.of(parse_metrics("MRR")[0])


def store(folder: Path, name: str, time: int, **changes: str) -> Path:
    """A run folder as far as the search looks at it."""
    place = folder / name
    place.mkdir(parents=True)
    facts: dict[str, Any] = {"dataset": "d1", "metric": "m", "rag": "rag", "is_finished": True}
    facts |= changes
    manifest = Manifest(
        dataset=DatasetInfo(name="quiz", source="quiz", fingerprint=facts["dataset"], cases=1),
        rag=RagInfo(name=facts["rag"], description={}, stages={}), settings={}, packages={},
        metrics=(replace(METRIC, name=facts["metric"]),), git=None,
    )  # fmt: skip
    write_manifest(manifest, place / "manifest.json")
    with Journal(place / "journal.sqlite") as journal:
        journal.runs.begin(b"setting")
        if facts["is_finished"]:
            journal.runs.complete(b"{}")
    os.utime(place / "manifest.json", (time, time))
    return place


def found(mine: Path, *folders: Path) -> Path | None:
    return find_baseline(mine, run({"m": [1]}), folders)


def test_the_last_earlier_run_is_taken(tmp_path: Path) -> None:
    store(tmp_path, "first", 100)
    last = store(tmp_path, "last", 200)
    mine = store(tmp_path, "mine", 300)
    store(tmp_path, "later", 400)
    assert found(mine, tmp_path) == last
    assert found(mine / "manifest.json", tmp_path, tmp_path) == last
    (tmp_path / "report.json").write_text("{}", "utf-8")
    assert found(tmp_path / "report.json", tmp_path) is None


@pytest.mark.parametrize(("other", "is_taken"), [
    ({"dataset": "d2"}, True),  # one that has grown is the same one
    ({"metric": "n"}, False), ({"rag": "another"}, False), ({"is_finished": False}, False),
    (None, False),
])  # fmt: skip
def test_another_unfinished_or_damaged_run_is_not_taken(
    tmp_path: Path, other: dict[str, Any] | None, is_taken: bool
) -> None:
    (tmp_path / "file").touch()
    place = store(tmp_path, "other", 100, **(other or {}))
    if other is None:
        (place / "manifest.json").write_text("{}", "utf-8")
    mine = store(tmp_path, "mine", 200)
    assert found(mine, tmp_path, tmp_path / "none") == (place if is_taken else None)
