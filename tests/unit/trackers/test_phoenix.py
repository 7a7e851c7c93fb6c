"""A run as Phoenix takes an experiment: a server here answers as its schema says.

`test_phoenix_itself.py` asks the real server where it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragbench import track_run
from tests.behaviour.rags import NotingRAG, cases, run
from tests.contract.tracker_contract import HttpTracker, HttpTrackerContract, StoredCase, of_trace

pytestmark = pytest.mark.extra("http")


class Phoenix(HttpTracker):
    """What a server holds, by id."""

    name = "phoenix"
    # The variable is that of the collector, whose path some write with it.
    settings: Mapping[str, str] = {
        "PHOENIX_COLLECTOR_ENDPOINT": "{address}/v1/traces",
        "PHOENIX_API_KEY": "{secret}",
    }

    def __init__(self) -> None:
        super().__init__()
        self.datasets: dict[str, Any] = {}
        self.experiments: dict[str, Any] = {}
        self.created = 0
        self.runs: dict[str, Any] = {}
        self.evaluations: dict[tuple[str, str], float] = {}
        self.traces: set[str] = set()
        self.annotations: dict[tuple[str, str, str], Any] = {}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        path, _, query = path.removeprefix("/v1/").partition("?")
        match method, path.split("/"):
            case "GET", ["datasets"]:
                name = query.removeprefix("name=")
                datasets = [{"id": name, "name": name}] if name in self.datasets else []
                return 200, {"data": datasets}
            case "GET", ["datasets", dataset, "examples"]:
                return 200, {"data": {"examples": self._examples(dataset)}}
            case "POST", ["datasets", "upload"]:
                self.datasets[body["name"]] = body
                return 200, {"data": {"dataset_id": body["name"]}}
            case "POST", ["datasets", dataset, "experiments"]:
                self.created += 1
                id = f"x{self.created}"
                self.experiments[id] = {**body, "dataset": dataset}
            case "POST", ["experiments", experiment, "runs"]:
                id = f"{experiment}-{body['dataset_example_id']}"
                self.runs[id] = {**body, "experiment": experiment}
            case "POST", ["experiment_evaluations"]:
                id = body["experiment_run_id"]
                self.evaluations[id, body["name"]] = body["result"]["score"]
            case "POST", ["trace_annotations"]:
                return self._annotate(body["data"])
            case "DELETE", ["experiments", experiment]:
                return (204, None) if self.experiments.pop(experiment, None) else (404, {})
            case _:
                raise AssertionError(f"{method} {path}")
        return 200, {"data": {"id": id}}

    def _examples(self, dataset: str) -> list[Any]:
        examples: list[Any] = []
        for number, metadata in enumerate(self.datasets[dataset]["metadata"]):
            example = {
                "id": f"public-{number}",
                "node_id": f"{dataset}-{number}",
                "metadata": metadata,
            }
            examples.append(example)
        return examples

    def _annotate(self, annotations: list[Any]) -> tuple[int, Any]:
        for annotation in annotations:
            trace_id = annotation["trace_id"]
            if trace_id not in self.traces:
                return 404, {"detail": "Traces do not exist"}
            key = trace_id, annotation["name"], annotation["identifier"]
            self.annotations[key] = annotation["result"]
        return 200, {"data": []}

    def run_ids(self) -> set[str]:
        return {*self.experiments}

    def figures(self, run_id: str) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        for name, value in self.experiments[run_id]["metadata"].items():
            if isinstance(value, float | int):
                figures[name] = value
        return figures

    def stored_cases(self, run_id: str) -> Mapping[str, StoredCase]:
        case_ids: dict[str, str] = {}
        for example in self._examples(self.experiments[run_id]["dataset"]):
            case_ids[example["node_id"]] = example["metadata"]["case_id"]
        stored: dict[str, StoredCase] = {}
        for id, case_run in self.runs.items():
            if case_run["experiment"] == run_id:
                case_id = case_ids[case_run["dataset_example_id"]]
                output = case_run["output"]
                stored[case_id] = StoredCase(
                    answer=output["answer"],
                    scores=self._scores_of(id),
                    unmeasured=output["not_measured"],
                )
        return stored

    def _scores_of(self, run_id: str) -> Mapping[str, float]:
        scores: dict[str, float] = {}
        for (id, metric), score in self.evaluations.items():
            if id == run_id:
                scores[metric] = score
        return scores

    def add_trace(self) -> str:
        self.traces.add("t-1")
        return "t-1"

    def trace_results(self, trace_id: str) -> Mapping[str, Any]:
        """Of each metric the result, which has a score or a label."""
        results: dict[str, Any] = {}
        for (id, name, _), result in self.annotations.items():
            if id == trace_id:
                assert name not in results
                results[name] = result
        return results

    def trace_scores(self, trace_id: str) -> Mapping[str, float]:
        scores: dict[str, float] = {}
        for name, result in self.trace_results(trace_id).items():
            if "score" in result:
                scores[name] = result["score"]
        return scores

    def dataset_cases(self) -> int:
        return sum(len(dataset["inputs"]) for dataset in self.datasets.values())


@pytest.fixture
def tracker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Phoenix]:
    phoenix = Phoenix()
    with phoenix.served(monkeypatch):
        yield phoenix


class TestPhoenix(HttpTrackerContract):
    """The contract of trackers that are asked by HTTP."""


def test_a_case_that_failed_has_its_error(tracker: Phoenix, tmp_path: Path) -> None:
    run(cases("mute"), NotingRAG(), tmp_path / "run")

    track_run(tmp_path / "run", "phoenix")

    (mute,) = tracker.runs.values()
    assert mute["error"] == "generate: ValueError: no words for mute"


def test_a_score_without_a_value_labels_the_trace(tracker: Phoenix, tmp_path: Path) -> None:
    trace_id = tracker.add_trace()
    (case,) = cases("mute")
    run([of_trace(case, trace_id)], NotingRAG(), tmp_path / "run")

    track_run(tmp_path / "run", "phoenix")

    result = tracker.trace_results(trace_id)["exact_match"]
    assert result["label"] == "failed"
    assert "score" not in result
