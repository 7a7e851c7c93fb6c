"""A run in W&B's own package, offline: what it writes is read back from its log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ragbench import track_run
from tests.behaviour.rags import NotingRAG, cases, run
from tests.contract.tracker_contract import StoredCase, TrackerContract, cases_of_table

pytestmark = [
    pytest.mark.extra("wandb"),
    pytest.mark.filterwarnings("ignore"),  # W&B's own: of its process and its threads
]

_BLOCK = 32768
"""Bytes of a block of the log, which is one of LevelDB after its first seven bytes."""
_HEAD = 7
"""Bytes before a part of a record: checksum, length, kind."""
_LAST = (1, 4)
"""Kinds of parts that end a record: the whole of it, and the last of several."""


class OfflineRun:
    """A run in its folder, as ``wandb sync`` reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (log,) = folder.glob("run-*.wandb")
        self.id = log.stem.removeprefix("run-")
        # W&B's other process writes the log, some milliseconds after `finish` in this one.
        deadline = time.monotonic() + 10
        self.records = _records(log)
        while not any(record.HasField("exit") for record in self.records):
            assert time.monotonic() < deadline, f"{log} has no end"
            time.sleep(0.01)
            self.records = _records(log)

    def summary(self) -> dict[str, Any]:
        """The summary of the run; of what was logged, its description."""
        summary: dict[str, Any] = {}
        for record in self.records:
            for item in record.summary.remove:
                summary.pop(item.key, None)
            for item in record.summary.update:
                name = item.key or item.nested_key[0]
                value = json.loads(item.value_json)
                if len(item.nested_key) == 2:
                    summary.setdefault(name, {})[item.nested_key[1]] = value
                else:
                    summary[name] = value
        return summary

    def logged(self, name: str) -> Path:
        """The file of a table or a page."""
        return self.folder / "files" / str(self.summary()[name]["path"])

    def config(self) -> dict[str, Any]:
        """The settings of the run."""
        config: dict[str, Any] = {}
        for record in self.records:
            for item in record.run.config.update:
                config[item.key] = json.loads(item.value_json)
        return config

    def artifact_files(self) -> set[str]:
        """The files of the report."""
        names: set[str] = set()
        for record in self.records:
            if record.artifact.type == "report":
                names.update(entry.path for entry in record.artifact.manifest.contents)
        return names


def _records(path: Path) -> list[Any]:
    """What was written to a log so far."""
    # Its content depends on the version of protobuf, so its types are unknown.
    messages: Any = import_module("wandb.proto.wandb_internal_pb2")
    records: list[Any] = []
    for content in _contents(path.read_bytes()):
        record = messages.Record()
        record.ParseFromString(content)
        records.append(record)
    return records


def _contents(log: bytes) -> Iterator[bytes]:
    """The records of a log, each of its parts."""
    position = _HEAD
    content = b""
    while position + _HEAD <= len(log):
        left_in_block = _BLOCK - position % _BLOCK
        if left_in_block < _HEAD:
            position += left_in_block
            continue
        length = int.from_bytes(log[position + 4 : position + 6], "little")
        kind = log[position + 6]
        position += _HEAD
        content += log[position : position + length]
        position += length
        if kind in _LAST:
            yield content
            content = b""


class OfflineRuns:
    """The folder of W&B. Of several exports of one run the latest counts."""

    name = "wandb"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _runs(self) -> dict[str, OfflineRun]:
        # Their names begin with the second of the export.
        folders = sorted(self.folder.glob("wandb/offline-run-*"))
        return {stored.id: stored for stored in map(OfflineRun, folders)}

    def stored(self, run_id: str) -> OfflineRun:
        return self._runs()[run_id]

    def run_ids(self) -> set[str]:
        return {*self._runs()}

    def figures(self, run_id: str) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        for name, value in self.stored(run_id).summary().items():
            if isinstance(value, float | int) and not name.startswith("_"):
                figures[name] = value
        return figures

    def figure_name(self, figure: str) -> str:
        return figure.replace(".", "_")

    def stored_cases(self, run_id: str) -> Mapping[str, StoredCase]:
        table = json.loads(self.stored(run_id).logged("ragbench/cases").read_text("utf-8"))
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
        return cases_of_table(rows)


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfflineRuns]:
    """W&B's folder: its variables are read once in a process."""
    import wandb

    folder = tmp_path_factory.mktemp("wandb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_DIR", str(folder))
        patch.setenv("WANDB_DATA_DIR", str(folder / "data"))
        patch.setenv("WANDB_CACHE_DIR", str(folder / "cache"))
        patch.setenv("WANDB_CONFIG_DIR", str(folder / "config"))
        yield OfflineRuns(folder)
        wandb.teardown()


class TestWandb(TrackerContract):
    """The contract of all trackers."""


def test_a_run_has_its_settings(tracker: OfflineRuns, tmp_path: Path) -> None:
    run(cases("a", "b"), NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "wandb")

    config = tracker.stored(tracked.id).config()
    assert config["cases"] == "2"
    assert config["system"] == "NotingRAG"


def test_the_page_is_shown_and_the_report_is_an_artifact(
    tracker: OfflineRuns, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    run(cases("a"), NotingRAG(), folder)
    (folder / "report.html").write_text("a page")

    tracked = track_run(folder, "wandb")

    stored = tracker.stored(tracked.id)
    assert stored.logged("ragbench/report").read_text("utf-8") == "a page"
    assert "report.html" in stored.artifact_files()


def test_the_address_is_the_folder_with_the_command_that_sends_it(
    tracker: OfflineRuns, tmp_path: Path
) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "wandb")

    folder = tracker.stored(tracked.id).folder
    assert tracked.address == f"{folder} (send it: wandb sync {folder})"


def test_a_run_that_goes_on_in_the_process_is_left_alone(
    tracker: OfflineRuns, tmp_path: Path
) -> None:
    import wandb

    run(cases("a"), NotingRAG(), tmp_path / "run")
    with wandb.init(id="training", settings=wandb.Settings(silent=True)) as training:
        track_run(tmp_path / "run", "wandb")
        training.summary["loss"] = 0.5

    assert tracker.figures("training") == {"loss": 0.5}


def test_a_score_that_has_no_value_any_more_is_deleted(
    tracker: OfflineRuns, tmp_path: Path
) -> None:
    run(cases("lost"), NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "wandb")

    deleted: set[str] = set()
    for record in tracker.stored(tracked.id).records:
        deleted.update(item.key for item in record.summary.remove)
    assert {"set_recall", "set_recall_ci_low", "set_recall_ci_high"} <= deleted
