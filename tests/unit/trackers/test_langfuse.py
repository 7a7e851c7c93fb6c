"""A run as Langfuse's public interface takes it: a server here answers as its schema says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from ragbench import track_run
from ragbench.errors import TrackerError
from tests.behaviour.rags import NotingRAG, cases, run
from tests.contract.tracker_contract import HttpTracker, HttpTrackerContract, StoredCase, of_trace

pytestmark = pytest.mark.extra("http")


class Langfuse(HttpTracker):
    """What a project holds, by id: what is posted with the same id is overwritten."""

    name = "langfuse"
    settings: Mapping[str, str] = {
        "LANGFUSE_BASE_URL": "{address}",
        "LANGFUSE_PUBLIC_KEY": "pk-test",
        "LANGFUSE_SECRET_KEY": "{secret}",
    }

    def __init__(self) -> None:
        super().__init__()
        self.items: dict[str, Any] = {}
        self.traces: dict[str, Any] = {}
        self.scores: dict[str, Any] = {}
        self.run_items: dict[str, list[dict[str, str]]] = {}
        self.refused_event = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = [unquote(part) for part in path.removeprefix("/api/public/").split("/")]
        match method, parts:
            case "GET", ["traces", id]:
                return (200, self.traces[id]) if id in self.traces else (404, {})
            case "GET", ["datasets", _, "runs", name]:
                return self._dataset_run(name)
            case "POST", ["v2", "datasets"]:
                pass
            case "POST", ["dataset-items"]:
                self.items[body["id"]] = body
            case "POST", ["scores"]:
                self.scores[body["id"]] = body
            case "POST", ["ingestion"]:
                return self._ingest(body["batch"])
            case "POST", ["dataset-run-items"]:
                return self._link(body)
            case "DELETE", ["scores", id]:
                return (202, None) if self.scores.pop(id, None) else (404, {})
            case _:
                raise AssertionError(f"{method} {path}")
        return 200, body

    def _dataset_run(self, name: str) -> tuple[int, Any]:
        if name not in self.run_items:
            return 404, {"message": "Dataset run not found"}
        return 200, {"id": f"id of {name}", "datasetRunItems": self.run_items[name]}

    def _ingest(self, events: list[Any]) -> tuple[int, Any]:
        if self.refused_event:
            return 207, {"errors": [{"status": 400, "message": self.refused_event}]}
        for event in events:
            stored = {"trace-create": self.traces, "score-create": self.scores}[event["type"]]
            body = event["body"]
            stored[body["id"]] = body
        return 207, {"successes": [], "errors": []}

    def _link(self, body: Any) -> tuple[int, Any]:
        assert body["traceId"] in self.traces
        link = {name: body[name] for name in ("datasetItemId", "traceId")}
        self.run_items.setdefault(body["runName"], []).append(link)
        return 200, {"datasetRunId": f"id of {body['runName']}", **link}

    def run_ids(self) -> set[str]:
        return {f"id of {name}" for name in self.run_items}

    def figures(self, run_id: str) -> Mapping[str, float]:
        return self._scores_of("datasetRunId", run_id)

    def stored_cases(self, run_id: str) -> Mapping[str, StoredCase]:
        stored: dict[str, StoredCase] = {}
        for link in self.run_items[run_id.removeprefix("id of ")]:
            trace = self.traces[link["traceId"]]
            metadata = trace["metadata"]
            stored[metadata["case_id"]] = StoredCase(
                answer=trace["output"],
                scores=self.trace_scores(trace["id"]),
                unmeasured=metadata["not_measured"],
            )
        return stored

    def add_trace(self) -> str:
        self.traces["t-1"] = {"id": "t-1"}
        return "t-1"

    def trace_scores(self, trace_id: str) -> Mapping[str, float]:
        return self._scores_of("traceId", trace_id)

    def _scores_of(self, kind: str, id: str) -> Mapping[str, float]:
        values: dict[str, float] = {}
        for score in self.scores.values():
            if score.get(kind) == id:
                assert score["name"] not in values
                values[score["name"]] = score["value"]
        return values

    def dataset_cases(self) -> int:
        return len(self.items)


@pytest.fixture
def tracker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Langfuse]:
    langfuse = Langfuse()
    with langfuse.served(monkeypatch):
        yield langfuse


class TestLangfuse(HttpTrackerContract):
    """The contract of trackers that are asked by HTTP."""


def test_the_trace_of_a_case_is_left_as_it_was(tracker: Langfuse, tmp_path: Path) -> None:
    trace_id = tracker.add_trace()
    (case,) = cases("a")
    run([of_trace(case, trace_id)], NotingRAG(), tmp_path / "run")

    track_run(tmp_path / "run", "langfuse")

    assert tracker.traces == {trace_id: {"id": trace_id}}


def test_a_case_whose_trace_is_gone_gets_one_of_its_own(tracker: Langfuse, tmp_path: Path) -> None:
    (case,) = cases("a")
    run([of_trace(case, "t-gone")], NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "langfuse")

    assert tracker.stored_cases(tracked.id)["a"].answer == "A a"


# --- errors


def test_a_refused_event_is_an_error_with_its_reason(tracker: Langfuse, tmp_path: Path) -> None:
    tracker.refused_event = "name is too long"
    run(cases("a"), NotingRAG(), tmp_path / "run")

    with pytest.raises(TrackerError, match="an event is refused: 400 name is too long"):
        track_run(tmp_path / "run", "langfuse")


def test_a_missing_key_is_named(
    tracker: Langfuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LANGFUSE_SECRET_KEY")
    run(cases("a"), NotingRAG(), tmp_path / "run")

    with pytest.raises(TrackerError, match="LANGFUSE_SECRET_KEY is not set"):
        track_run(tmp_path / "run", "langfuse")
