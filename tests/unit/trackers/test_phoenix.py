"""A run as Phoenix takes an experiment: a server here answers as its schema says.

The real server brings 70 packages, too many for a test. By hand: ``phoenix serve``, then
``ragbench export RUN --to phoenix`` twice. There is one experiment, and the means of its
evaluations are the figures of the report. Tried with arize-phoenix 20.26.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragbench import track_run
from ragbench.core.record import replace
from ragbench.errors import TrackerError
from ragbench.trackers.tracker import figures_of
from tests.behaviour.rags import NotingRAG, cases, run
from tests.json_server import serving_json

pytestmark = pytest.mark.extra("http")


class Phoenix:
    """What a server holds, by id."""

    def __init__(self) -> None:
        self.datasets: dict[str, Any] = {}
        self.experiments: dict[str, Any] = {}
        self.created = 0
        self.runs: dict[str, Any] = {}
        self.evaluations: dict[tuple[str, str], Any] = {}
        self.traces: set[str] = set()
        self.annotations: dict[tuple[str, str, str], Any] = {}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        path, _, query = path.removeprefix("/v1/").partition("?")
        parts = path.split("/")
        if method == "POST":
            return self._post(parts, body)
        if method == "DELETE":
            return (204, None) if self.experiments.pop(parts[1], None) else (404, {})
        if parts == ["datasets"]:
            name = query.removeprefix("name=")
            named = [{"id": name, "name": name}] if name in self.datasets else []
            return 200, {"data": named}
        assert parts[2] == "examples"
        examples: list[Any] = []
        for number, about in enumerate(self.datasets[parts[1]]["metadata"]):
            examples.append({"id": f"public-{number}", "node_id": f"e{number}", "metadata": about})
        return 200, {"data": {"examples": examples}}

    def _post(self, parts: list[str], body: Any) -> tuple[int, Any]:
        match parts:
            case ["datasets", "upload"]:
                self.datasets[body["name"]] = body
                return 200, {"data": {"dataset_id": body["name"]}}
            case ["datasets", dataset, "experiments"]:
                self.created += 1
                id = f"x{self.created}"
                self.experiments[id] = {**body, "dataset": dataset}
            case ["experiments", experiment, "runs"]:
                id = f"{experiment}-{body['dataset_example_id']}"
                self.runs[id] = body
            case ["experiment_evaluations"]:
                id = body["experiment_run_id"]
                self.evaluations[id, body["name"]] = body["result"]["score"]
            case _:
                assert parts == ["trace_annotations"]
                return self._annotate(body["data"])
        return 200, {"data": {"id": id}}

    def _annotate(self, annotations: list[Any]) -> tuple[int, Any]:
        for annotation in annotations:
            if annotation["trace_id"] not in self.traces:
                return 404, {"detail": "Traces do not exist"}
            key = annotation["trace_id"], annotation["name"], annotation["identifier"]
            self.annotations[key] = annotation["result"]
        return 200, {"data": []}


@pytest.fixture
def phoenix(monkeypatch: pytest.MonkeyPatch) -> Iterator[Phoenix]:
    service = Phoenix()
    with serving_json(service.answer) as address:
        monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", f"{address}/v1/traces")
        yield service


def test_a_case_is_a_run_with_its_measured_scores(phoenix: Phoenix, tmp_path: Path) -> None:
    run(cases("a", "mute"), NotingRAG(), tmp_path / "run")

    track_run(tmp_path / "run", "phoenix")

    assert phoenix.runs["x1-e0"]["output"]["answer"] == "A a"
    assert phoenix.runs["x1-e1"]["error"] == "generate: ValueError: no words for mute"
    assert phoenix.evaluations == {
        ("x1-e0", "set_recall"): 1.0,
        ("x1-e0", "exact_match"): 1.0,
        ("x1-e1", "set_recall"): 1.0,
    }


def test_figures_are_in_the_experiment(phoenix: Phoenix, tmp_path: Path) -> None:
    report = run(cases("a", "b"), NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "phoenix")

    facts = phoenix.experiments[tracked.id]["metadata"]
    figures = figures_of(report.summaries)
    assert {name: facts[name] for name in figures} == figures


def test_a_second_export_replaces_the_experiment(phoenix: Phoenix, tmp_path: Path) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "run")

    first = track_run(tmp_path / "run", "phoenix")
    second = track_run(tmp_path / "run", "phoenix")

    assert (first.is_new, second.is_new) == (True, False)
    assert [*phoenix.experiments] == [second.id]


def test_runs_of_one_dataset_share_its_examples(phoenix: Phoenix, tmp_path: Path) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "one")
    run(cases("a"), NotingRAG(), tmp_path / "two")

    track_run(tmp_path / "one", "phoenix")
    track_run(tmp_path / "two", "phoenix")

    assert len(phoenix.datasets) == 1
    assert len({experiment["dataset"] for experiment in phoenix.experiments.values()}) == 1
    assert len(phoenix.experiments) == 2


def test_a_trace_is_annotated_once(phoenix: Phoenix, tmp_path: Path) -> None:
    phoenix.traces.add("t-1")
    data = [replace(cases("mute")[0], metadata={"trace_id": "t-1"})]
    run(data, NotingRAG(), tmp_path / "run")

    track_run(tmp_path / "run", "phoenix")
    tracked = track_run(tmp_path / "run", "phoenix")

    assert tracked.scored_traces == 1
    results = {name: result for (_, name, _), result in phoenix.annotations.items()}
    assert len(results) == len(phoenix.annotations)
    assert results["set_recall"] == {"score": 1.0}
    assert results["exact_match"]["label"] == "failed"
    assert "score" not in results["exact_match"]


def test_a_case_whose_trace_is_gone_is_counted(phoenix: Phoenix, tmp_path: Path) -> None:
    run([replace(cases("a")[0], metadata={"trace_id": "t-1"})], NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "phoenix")

    assert (tracked.scored_traces, tracked.missing_traces) == (0, 1)


def test_a_server_that_refuses_is_an_error_with_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "run")

    with serving_json(lambda *_: (401, {"detail": "Invalid token"})) as address:
        monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", address)
        with pytest.raises(TrackerError, match=r"401.*Check PHOENIX_COLLECTOR_ENDPOINT"):
            track_run(tmp_path / "run", "phoenix")
