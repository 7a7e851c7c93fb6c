"""A run as LangSmith takes an uploaded experiment: a server here answers as its pages say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragbench import track_run
from ragbench.errors import TrackerError
from tests.behaviour.rags import NotingRAG, cases, run
from tests.contract.tracker_contract import HttpTracker, HttpTrackerContract, StoredCase

pytestmark = pytest.mark.extra("http")


class LangSmith(HttpTracker):
    """What a workspace holds, by id."""

    name = "langsmith"
    settings: Mapping[str, str] = {
        "LANGSMITH_ENDPOINT": "{address}",
        "LANGSMITH_API_KEY": "{secret}",
    }

    def __init__(self) -> None:
        super().__init__()
        self.experiments: dict[str, Any] = {}
        self.uploads = 0
        self.traces: set[str] = set()
        self.feedback: dict[str, Any] = {}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        match method, path.removeprefix("/api/v1/").split("/"):
            case "POST", ["datasets", "upload-experiment"]:
                return self._upload(body)
            case "DELETE", ["sessions", id]:
                del self.experiments[id]
                return 202, {}
            case "GET", ["runs", id]:
                return (200, {"id": id}) if id in self.traces else (404, {})
            case "POST", ["feedback"]:
                if body["id"] in self.feedback:
                    return 409, {"detail": "the feedback is there already"}
                self.feedback[body["id"]] = body
            case "PATCH", ["feedback", id]:
                self.feedback[id] |= body
            case "DELETE", ["feedback", id]:
                return (200, {}) if self.feedback.pop(id, None) else (404, {})
            case _:
                raise AssertionError(f"{method} {path}")
        return 200, {}

    def _upload(self, experiment: Any) -> tuple[int, Any]:
        names = {stored["experiment_name"] for stored in self.experiments.values()}
        if experiment["experiment_name"] in names:
            return 409, {"detail": "the experiment is there already"}
        self.uploads += 1
        id = f"experiment-{self.uploads}"
        self.experiments[id] = experiment
        return 202, {"dataset": {"id": "d"}, "experiment": {"id": id}}

    def run_ids(self) -> set[str]:
        return {*self.experiments}

    def figures(self, run_id: str) -> Mapping[str, float]:
        return scores(self.experiments[run_id]["summary_experiment_scores"])

    def stored_cases(self, run_id: str) -> Mapping[str, StoredCase]:
        stored: dict[str, StoredCase] = {}
        for row in self.experiments[run_id]["results"]:
            metadata = row["run_metadata"]
            stored[metadata["case_id"]] = StoredCase(
                answer=row["actual_outputs"]["answer"],
                scores=scores(row["evaluation_scores"]),
                unmeasured=metadata["not_measured"],
            )
        return stored

    def add_trace(self) -> str:
        self.traces.add("t-1")
        return "t-1"

    def trace_scores(self, trace_id: str) -> Mapping[str, float]:
        feedback = [item for item in self.feedback.values() if item["trace_id"] == trace_id]
        assert len(scores(feedback)) == len(feedback)
        return scores(feedback)

    def dataset_cases(self) -> int:
        rows: set[tuple[str, str]] = set()
        for experiment in self.experiments.values():
            for row in experiment["results"]:
                rows.add((experiment["dataset_name"], row["row_id"]))
        return len(rows)


def scores(feedback: list[Any]) -> dict[str, float]:
    """The numbers of feedback by its key."""
    return {item["key"]: item["score"] for item in feedback}


@pytest.fixture
def tracker(monkeypatch: pytest.MonkeyPatch) -> Iterator[LangSmith]:
    langsmith = LangSmith()
    with langsmith.served(monkeypatch):
        yield langsmith


class TestLangSmith(HttpTrackerContract):
    """The contract of trackers that are asked by HTTP."""


def test_a_case_that_failed_has_its_error(tracker: LangSmith, tmp_path: Path) -> None:
    run(cases("mute"), NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "langsmith")

    (mute,) = tracker.experiments[tracked.id]["results"]
    assert mute["error"] == "generate: ValueError: no words for mute"


def test_a_missing_key_is_named(
    tracker: LangSmith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LANGSMITH_API_KEY")
    monkeypatch.delenv("LANGCHAIN_API_KEY", raising=False)
    run(cases("a"), NotingRAG(), tmp_path / "run")

    with pytest.raises(TrackerError, match="LANGSMITH_API_KEY or LANGCHAIN_API_KEY is not set"):
        track_run(tmp_path / "run", "langsmith")
