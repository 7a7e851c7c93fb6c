"""A run in a real MLflow, read back by MLflow's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source, track_run
from ragbench.errors import ConfigError, TrackerError
from tests.behaviour.rags import NotingRAG, cases, run
from tests.contract.tracker_contract import StoredCase, TracingContract, cases_of_table, of_trace

pytestmark = [
    pytest.mark.extra("mlflow"),
    pytest.mark.filterwarnings("ignore"),  # MLflow's own: of its database and its threads
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a database of MLflow: to make its tables takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


class MLflow:
    """An experiment of a store, read by MLflow's own client."""

    name = "mlflow"

    def __init__(self, client: Any, experiment_id: str, folder: Path) -> None:
        self.client = client
        self.experiment_id = experiment_id
        self.folder = folder

    def run_ids(self) -> set[str]:
        runs = self.client.search_runs([self.experiment_id])
        return {stored.info.run_id for stored in runs}

    def figures(self, run_id: str) -> Mapping[str, float]:
        metrics: Mapping[str, float] = self.client.get_run(run_id).data.metrics
        return metrics

    def figure_name(self, figure: str) -> str:
        return figure

    def table(self, run_id: str) -> list[dict[str, Any]]:
        path = self.client.download_artifacts(run_id, "cases.json", str(self.folder))
        table = json.loads(Path(path).read_text("utf-8"))
        return [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]

    def stored_cases(self, run_id: str) -> Mapping[str, StoredCase]:
        return cases_of_table(self.table(run_id))

    def add_trace(self) -> str:
        span = self.client.start_trace("ask", experiment_id=self.experiment_id)
        self.end_trace(span.trace_id)
        return str(span.trace_id)

    def end_trace(self, trace_id: str, outputs: dict[str, Any] | None = None) -> None:
        """Ends a trace, and waits until it is stored."""
        import mlflow

        self.client.end_trace(trace_id, outputs=outputs)
        mlflow.flush_trace_async_logging()

    def trace_scores(self, trace_id: str) -> Mapping[str, float]:
        assessments = self.client.get_trace(trace_id).info.assessments
        scores = {feedback.name: feedback.value for feedback in assessments}
        assert len(scores) == len(assessments)
        return scores


@pytest.fixture
def tracker(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[MLflow]:
    """An experiment with the name of the test."""
    import mlflow

    name = request.node.name
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", name)
    client = mlflow.MlflowClient()
    artifacts = (tmp_path / "artifacts").as_uri()
    experiment_id = client.create_experiment(name, artifact_location=artifacts)
    yield MLflow(client, str(experiment_id), tmp_path)
    mlflow.flush_trace_async_logging()


class TestMLflow(TracingContract):
    """The contract of trackers that have traces."""


def test_an_id_of_another_experiment_than_the_name_is_refused(
    tracker: MLflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "run")
    other = tracker.client.create_experiment(f"other than {tracker.experiment_id}")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", str(other))

    with pytest.raises(ConfigError, match=f"MLFLOW_EXPERIMENT_ID is {other}, .* Unset one"):
        track_run(tmp_path / "run", "mlflow")


def test_an_id_alone_names_the_experiment(
    tracker: MLflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "run")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", tracker.experiment_id)

    track_run(tmp_path / "run", "mlflow")

    assert len(tracker.client.search_runs([tracker.experiment_id])) == 1


def test_a_run_has_its_settings_and_is_finished(tracker: MLflow, tmp_path: Path) -> None:
    run(cases("a", "b"), NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "mlflow")

    stored = tracker.client.get_run(tracked.id)
    assert stored.data.params["cases"] == "2"
    assert stored.info.status == "FINISHED"


def test_the_table_of_cases_is_one_that_mlflow_shows(tracker: MLflow, tmp_path: Path) -> None:
    run(cases("a", "mute"), NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "mlflow")

    tags = tracker.client.get_run(tracked.id).data.tags
    assert json.loads(tags["mlflow.loggedArtifacts"]) == [{"path": "cases.json", "type": "table"}]
    right, mute = tracker.table(tracked.id)
    assert right["contexts"] == ["text a"]
    assert mute["error"] == "generate: ValueError: no words for mute"


def test_the_report_is_an_artifact(tracker: MLflow, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(cases("a"), NotingRAG(), folder)
    (folder / "report.html").write_text("a page")

    tracked = track_run(folder, "mlflow")

    path = tracker.client.download_artifacts(tracked.id, "report.html", str(tmp_path))
    assert Path(path).read_text() == "a page"


def test_a_second_export_sends_no_figure_that_is_there(tracker: MLflow, tmp_path: Path) -> None:
    run(cases("a", "b"), NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "mlflow")
    track_run(tmp_path / "run", "mlflow")

    assert len(tracker.client.get_metric_history(tracked.id, "set_recall")) == 1


def test_an_export_that_was_interrupted_is_continued(tracker: MLflow, tmp_path: Path) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "run")
    interrupted = track_run(tmp_path / "run", "mlflow")
    # Without the id of the run, as an export leaves the file that ends before it has one.
    path = tmp_path / "run" / "trackers.json"
    receipt = json.loads(path.read_text())
    receipt["ids"] = {}
    path.write_text(json.dumps(receipt))

    continued = track_run(tmp_path / "run", "mlflow")

    assert continued.id == interrupted.id
    assert tracker.run_ids() == {interrupted.id}


def test_a_run_that_was_deleted_there_is_sent_as_a_new_one(tracker: MLflow, tmp_path: Path) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "run")
    deleted = track_run(tmp_path / "run", "mlflow")
    tracker.client.delete_run(deleted.id)

    tracked = track_run(tmp_path / "run", "mlflow")

    assert tracked.is_new
    assert tracked.id != deleted.id


# --- traces


def test_a_trace_by_its_id_of_opentelemetry_is_scored(tracker: MLflow, tmp_path: Path) -> None:
    trace_id = tracker.add_trace().removeprefix("tr-")
    (case,) = cases("a")
    run([of_trace(case, trace_id)], NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "mlflow")

    assert tracked.scored_traces == 1


def add_trace_of_a_search(tracker: MLflow) -> str:
    """The id of a trace of a question, a retrieval and an answer."""
    client = tracker.client
    question = {"question": "When is it open?"}
    documents = [{"page_content": "It is open from 9 to 17.", "id": "desk", "metadata": {}}]

    span = client.start_trace("ask", experiment_id=tracker.experiment_id, inputs=question)
    search = client.start_span(
        "search", span.trace_id, span.span_id, span_type="RETRIEVER", inputs={"query": "open"}
    )
    client.end_span(span.trace_id, search.span_id, outputs=documents)
    tracker.end_trace(span.trace_id, outputs={"answer": "From 9 to 17."})
    return str(span.trace_id)


def test_a_run_of_exported_traces_scores_them(tracker: MLflow, tmp_path: Path) -> None:
    trace_id = add_trace_of_a_search(tracker)
    path = tmp_path / "traces.jsonl"
    path.write_text(tracker.client.get_trace(trace_id).to_json() + "\n", "utf-8")
    with open_source(path) as source:
        run(source, None, tmp_path / "run", metrics="numbers_supported, exact_match")

    tracked = track_run(tmp_path / "run", "mlflow")

    assert tracked.scored_traces == 1
    # Without a reference there is no exact match.
    assert tracker.trace_scores(trace_id) == {"numbers_supported": 1.0}


# --- errors


def test_a_server_that_is_not_there_is_named_with_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:hush-hush@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run(cases("a"), NotingRAG(), tmp_path / "run")

    with pytest.raises(TrackerError, match="MLFLOW_TRACKING_URI") as caught:
        track_run(tmp_path / "run", "mlflow")

    assert "hush-hush" not in str(caught.value)
