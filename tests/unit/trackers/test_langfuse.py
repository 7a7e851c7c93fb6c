"""A run as Langfuse's public interface takes it: a server here answers as its schema says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from ragbench import Case, track_run
from ragbench.core.record import replace
from ragbench.errors import TrackerError
from ragbench.trackers.tracker import figures_of
from tests.behaviour.rags import NotingRAG, cases, run
from tests.json_server import serving_json

pytestmark = pytest.mark.extra("http")


class Langfuse:
    """What a project holds, by id: what is posted with the same id is overwritten."""

    def __init__(self) -> None:
        self.datasets: set[str] = set()
        self.items: dict[str, Any] = {}
        self.traces: dict[str, Any] = {}
        self.scores: dict[str, Any] = {}
        self.run_items: dict[str, list[dict[str, str]]] = {}
        self.refused = ""
        self.unavailable = False

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = [unquote(part) for part in path.removeprefix("/api/public/").split("/")]
        if self.unavailable:
            return 401, {"message": "Invalid credentials"}
        if method == "POST":
            return self._post(parts, body)
        if method == "DELETE":
            return (202, None) if self.scores.pop(parts[1], None) else (404, {})
        if parts[0] == "traces":
            return (200, self.traces[parts[1]]) if parts[1] in self.traces else (404, {})
        assert (parts[0], parts[2]) == ("datasets", "runs")
        name = parts[3]
        if name not in self.run_items:
            return 404, {"message": "Dataset run not found"}
        return 200, {"id": f"id of {name}", "datasetRunItems": self.run_items[name]}

    def _post(self, parts: list[str], body: Any) -> tuple[int, Any]:
        match parts:
            case ["v2", "datasets"]:
                self.datasets.add(body["name"])
            case ["dataset-items"]:
                self.items[body["id"]] = body
            case ["scores"]:
                self.scores[body["id"]] = body
            case ["ingestion"]:
                if self.refused:
                    return 207, {"errors": [{"status": 400, "message": self.refused}]}
                for event in body["batch"]:
                    self._ingest(event)
                return 207, {"successes": [], "errors": []}
            case ["dataset-run-items"]:
                assert body["traceId"] in self.traces
                link = {name: body[name] for name in ("datasetItemId", "traceId")}
                self.run_items.setdefault(body["runName"], []).append(link)
                return 200, {"datasetRunId": f"id of {body['runName']}", **link}
            case _:
                raise AssertionError(parts)
        return 200, body

    def _ingest(self, event: Any) -> None:
        kept = {"trace-create": self.traces, "score-create": self.scores}[event["type"]]
        kept[event["body"]["id"]] = event["body"]

    def scores_of(self, trace_id: str) -> dict[str, float]:
        scores: dict[str, float] = {}
        for score in self.scores.values():
            if score.get("traceId") == trace_id:
                scores[score["name"]] = score["value"]
        return scores

    def trace_of(self, case_id: str) -> Any:
        (trace,) = [t for t in self.traces.values() if t["metadata"]["case_id"] == case_id]
        return trace


@pytest.fixture
def langfuse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Langfuse]:
    service = Langfuse()
    with serving_json(service.answer) as address:
        monkeypatch.setenv("LANGFUSE_BASE_URL", address)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-test")
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-hush-hush")
        yield service


def stored_run(folder: Path, data: list[Case]) -> dict[str, float]:
    """The figures of a run's report."""
    return {**figures_of(run(data, NotingRAG(), folder).summaries)}


def test_a_case_is_a_trace_with_its_measured_scores(langfuse: Langfuse, tmp_path: Path) -> None:
    stored_run(tmp_path / "run", cases("a", "mute"))

    track_run(tmp_path / "run", "langfuse")

    right = langfuse.trace_of("a")
    assert (right["input"], right["output"]) == ({"query": "a"}, "A a")
    assert langfuse.scores_of(right["id"]) == {"set_recall": 1.0, "exact_match": 1.0}
    mute = langfuse.trace_of("mute")
    assert langfuse.scores_of(mute["id"]) == {"set_recall": 1.0}
    assert mute["metadata"]["not_measured"] == {
        "exact_match": "failed: generate: ValueError: no words for mute"
    }


def test_figures_are_scores_of_the_dataset_run(langfuse: Langfuse, tmp_path: Path) -> None:
    figures = stored_run(tmp_path / "run", cases("a", "b"))

    tracked = track_run(tmp_path / "run", "langfuse")

    run_scores: dict[str, float] = {}
    for score in langfuse.scores.values():
        if score.get("datasetRunId") == tracked.id:
            run_scores[score["name"]] = score["value"]
    assert run_scores == figures
    assert [len(items) for items in langfuse.run_items.values()] == [2]


def test_a_second_export_changes_nothing(langfuse: Langfuse, tmp_path: Path) -> None:
    stored_run(tmp_path / "run", cases("a", "b"))
    first = track_run(tmp_path / "run", "langfuse")
    counts = (len(langfuse.traces), len(langfuse.scores), len(langfuse.items))

    second = track_run(tmp_path / "run", "langfuse")

    assert (first.is_new, second.is_new) == (True, False)
    assert second.id == first.id
    assert (len(langfuse.traces), len(langfuse.scores), len(langfuse.items)) == counts
    assert [len(items) for items in langfuse.run_items.values()] == [2]


def test_runs_of_one_dataset_share_its_items(langfuse: Langfuse, tmp_path: Path) -> None:
    stored_run(tmp_path / "one", cases("a", "b"))
    stored_run(tmp_path / "two", cases("a", "b"))

    track_run(tmp_path / "one", "langfuse")
    track_run(tmp_path / "two", "langfuse")

    assert len(langfuse.items) == 2
    assert len(langfuse.run_items) == 2
    assert len(langfuse.traces) == 4


def test_a_case_of_a_trace_scores_that_trace(langfuse: Langfuse, tmp_path: Path) -> None:
    langfuse.traces["t-1"] = {"id": "t-1"}
    stored_run(tmp_path / "run", [replace(cases("a")[0], metadata={"trace_id": "t-1"})])

    tracked = track_run(tmp_path / "run", "langfuse")

    assert tracked.scored_traces == 1
    assert langfuse.scores_of("t-1") == {"set_recall": 1.0, "exact_match": 1.0}
    assert langfuse.traces == {"t-1": {"id": "t-1"}}


def test_a_case_whose_trace_is_gone_gets_one_of_its_own(langfuse: Langfuse, tmp_path: Path) -> None:
    stored_run(tmp_path / "run", [replace(cases("a")[0], metadata={"trace_id": "t-1"})])

    tracked = track_run(tmp_path / "run", "langfuse")

    assert (tracked.scored_traces, tracked.missing_traces) == (0, 1)
    assert langfuse.trace_of("a")["output"] == "A a"


# --- errors


def test_a_refused_event_is_an_error_with_its_reason(langfuse: Langfuse, tmp_path: Path) -> None:
    langfuse.refused = "name is too long"
    stored_run(tmp_path / "run", cases("a"))

    with pytest.raises(TrackerError, match="an event is refused: 400 name is too long"):
        track_run(tmp_path / "run", "langfuse")


def test_wrong_keys_are_an_error_that_names_their_variables(
    langfuse: Langfuse, tmp_path: Path
) -> None:
    langfuse.unavailable = True
    stored_run(tmp_path / "run", cases("a"))

    with pytest.raises(TrackerError, match=r"401.*LANGFUSE_SECRET_KEY") as caught:
        track_run(tmp_path / "run", "langfuse")

    assert "hush-hush" not in str(caught.value)


def test_a_missing_key_is_named(
    langfuse: Langfuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LANGFUSE_SECRET_KEY")
    stored_run(tmp_path / "run", cases("a"))

    with pytest.raises(TrackerError, match="LANGFUSE_SECRET_KEY is not set"):
        track_run(tmp_path / "run", "langfuse")


def test_a_key_is_in_no_file_of_the_run(langfuse: Langfuse, tmp_path: Path) -> None:
    stored_run(tmp_path / "run", cases("a"))

    track_run(tmp_path / "run", "langfuse")

    receipt = (tmp_path / "run" / "trackers.json").read_text()
    assert json.loads(receipt)["ids"]
    assert "hush-hush" not in receipt
