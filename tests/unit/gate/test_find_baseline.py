"""``--baseline auto``: which earlier run is taken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ragbench.core.run_scores import RunScores
from ragbench.gate.find_baseline import find_baseline
from ragbench.ledger.journal import Journal
from ragbench.ledger.manifest import DatasetInfo, Manifest, MetricInfo, RagInfo, write_manifest
from tests.unit.gate.builders import run


def store(folder: Path, name: str, time: int, **changes: str) -> Path:
    """A run folder as far as the search looks at it."""
    place = folder / name
    place.mkdir(parents=True)
    facts: dict[str, Any] = {"dataset": "d1", "metric": "m", "rag": "rag", "is_finished": True}
    facts |= changes
    manifest = Manifest(
        dataset=DatasetInfo(name="quiz", source="quiz", fingerprint=facts["dataset"], cases=1),
        rag=RagInfo(name=facts["rag"], description={}, stages={}),
        metrics=(MetricInfo(name=facts["metric"], version=1),),
        settings={},
        packages={},
        git=None,
    )
    write_manifest(manifest, place / "manifest.json")
    with Journal(place / "journal.sqlite") as journal:
        journal.runs.begin(b"setting")
        if facts["is_finished"]:
            journal.runs.keep_report(b"{}")
    os.utime(place / "manifest.json", (time, time))
    return place


def of() -> RunScores:
    return run({"m": [1]})


def test_the_last_earlier_run_is_taken(tmp_path: Path) -> None:
    store(tmp_path, "first", 100)
    last = store(tmp_path, "last", 200)
    mine = store(tmp_path, "mine", 300)
    store(tmp_path, "later", 400)
    assert find_baseline(mine, of(), [tmp_path]) == last
    assert find_baseline(mine / "manifest.json", of(), [tmp_path, tmp_path]) == last


def test_a_dataset_that_has_grown_is_the_same_dataset(tmp_path: Path) -> None:
    grown = store(tmp_path, "other", 100, dataset="d2")
    assert find_baseline(store(tmp_path, "mine", 200), of(), [tmp_path]) == grown


@pytest.mark.parametrize("other", [{"metric": "n"}, {"rag": "another"}, {"is_finished": False}])
def test_another_or_unfinished_run_is_not_taken(tmp_path: Path, other: dict[str, Any]) -> None:
    store(tmp_path, "other", 100, **other)
    mine = store(tmp_path, "mine", 200)
    assert find_baseline(mine, of(), [tmp_path]) is None


def test_what_is_no_run_is_passed_over(tmp_path: Path) -> None:
    mine = store(tmp_path, "mine", 200)
    (tmp_path / "file").touch()
    broken = store(tmp_path, "broken", 100)
    (broken / "manifest.json").write_text("{}", "utf-8")
    assert find_baseline(mine, of(), [tmp_path, tmp_path / "none"]) is None


def test_a_report_alone_has_no_neighbours(tmp_path: Path) -> None:
    store(tmp_path, "other", 100)
    alone = tmp_path / "report.json"
    alone.write_text("{}", "utf-8")
    assert find_baseline(alone, of(), [tmp_path]) is None
