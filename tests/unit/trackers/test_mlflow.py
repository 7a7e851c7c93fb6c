"""A run in a real MLflow, read back by MLflow's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, open_source, track_run
from ragbench.core.record import replace
from ragbench.core.report import Report
from ragbench.errors import TrackerError
from ragbench.trackers.tracker import figures_of
from tests.behaviour.rags import NotingRAG, cases, run

pytestmark = [
    pytest.mark.extra("mlflow"),
    pytest.mark.filterwarnings("ignore"),  # MLflow's own: of its database and its threads
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a database of MLflow: to make its tables takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture
def client(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Any]:
    """MLflow's client, for an experiment with the name of the test."""
    import mlflow

    name = request.node.name
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", name)
    client = mlflow.MlflowClient()
    client.create_experiment(name, artifact_location=(tmp_path / "artifacts").as_uri())
    yield client
    mlflow.flush_trace_async_logging()


def runs_of(client: Any, request: pytest.FixtureRequest) -> list[Any]:
    experiment = client.get_experiment_by_name(request.node.name)
    return [*client.search_runs([experiment.experiment_id])]


def stored_run(folder: Path, data: list[Case], **options: Any) -> Report:
    return run(data, NotingRAG(), folder, **options)


def test_figures_are_those_of_the_report(client: Any, tmp_path: Path) -> None:
    report = stored_run(tmp_path / "run", cases("a", "b", "lost", "mute"))

    tracked = track_run(tmp_path / "run", "mlflow")

    stored = client.get_run(tracked.id)
    assert stored.data.metrics == figures_of(report.summaries)
    assert stored.data.metrics["set_recall"] == 1.0
    assert stored.data.metrics["set_recall.measured"] == 3
    assert stored.data.metrics["set_recall.failed"] == 1
    assert stored.data.params["cases"] == "4"
    assert stored.info.status == "FINISHED"


def test_cases_are_a_table_without_numbers_for_what_failed(client: Any, tmp_path: Path) -> None:
    stored_run(tmp_path / "run", cases("a", "mute"))

    tracked = track_run(tmp_path / "run", "mlflow")

    path = client.download_artifacts(tracked.id, "cases.json", str(tmp_path))
    table = json.loads(Path(path).read_text("utf-8"))
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["case_id"] for row in rows] == ["a", "mute"]
    assert [row["exact_match"] for row in rows] == [1.0, None]
    assert [row["exact_match status"] for row in rows] == ["measured", "failed"]
    assert rows[0]["contexts"] == ["text a"]
    assert rows[1]["error"] == "generate: ValueError: no words for mute"
    tags = client.get_run(tracked.id).data.tags
    assert json.loads(tags["mlflow.loggedArtifacts"]) == [{"path": "cases.json", "type": "table"}]


def test_the_report_is_an_artifact(client: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stored_run(folder, cases("a"))
    (folder / "report.html").write_text("a page")

    tracked = track_run(folder, "mlflow")

    path = client.download_artifacts(tracked.id, "report.html", str(tmp_path))
    assert Path(path).read_text() == "a page"


def test_a_second_export_updates_the_run(
    client: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stored_run(tmp_path / "run", cases("a", "b"))

    first = track_run(tmp_path / "run", "mlflow")
    second = track_run(tmp_path / "run", "mlflow")

    assert (first.is_new, second.is_new) == (True, False)
    assert [stored.info.run_id for stored in runs_of(client, request)] == [first.id]
    assert len(client.get_metric_history(first.id, "set_recall")) == 1


def test_an_export_that_was_interrupted_is_continued(
    client: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stored_run(tmp_path / "run", cases("a"))
    first = track_run(tmp_path / "run", "mlflow")
    receipt = tmp_path / "run" / "trackers.json"
    receipts = json.loads(receipt.read_text())
    receipts["ids"] = {}
    receipt.write_text(json.dumps(receipts))

    second = track_run(tmp_path / "run", "mlflow")

    assert second.id == first.id
    assert len(runs_of(client, request)) == 1


def test_a_run_that_was_deleted_there_is_sent_as_a_new_one(client: Any, tmp_path: Path) -> None:
    stored_run(tmp_path / "run", cases("a"))
    first = track_run(tmp_path / "run", "mlflow")
    client.delete_run(first.id)

    second = track_run(tmp_path / "run", "mlflow")

    assert second.is_new
    assert second.id != first.id


def test_other_cases_in_the_same_folder_are_another_run(
    client: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stored_run(tmp_path / "run", cases("a"))
    track_run(tmp_path / "run", "mlflow")
    stored_run(tmp_path / "run", cases("a", "b"))

    track_run(tmp_path / "run", "mlflow")

    counts = {stored.data.params["cases"] for stored in runs_of(client, request)}
    assert counts == {"1", "2"}


# --- traces


def traced(client: Any, request: pytest.FixtureRequest) -> str:
    """The id of a trace that the server has."""
    import mlflow

    experiment = client.get_experiment_by_name(request.node.name)
    span = client.start_trace("ask", experiment_id=experiment.experiment_id)
    client.end_trace(span.trace_id)
    mlflow.flush_trace_async_logging()
    return str(span.trace_id)


def exported_trace(client: Any, trace_id: str) -> str:
    """A trace in the form in which MLflow exports it."""
    import mlflow

    mlflow.flush_trace_async_logging()
    return str(client.get_trace(trace_id).to_json())


def of_trace(case: Case, trace_id: str) -> Case:
    return replace(case, metadata={"trace_id": trace_id})


def scores_of(client: Any, trace_id: str) -> dict[str, float]:
    assessments = client.get_trace(trace_id).info.assessments
    scores = {feedback.name: feedback.value for feedback in assessments}
    assert len(scores) == len(assessments)
    return scores


def test_scores_go_to_the_trace_that_a_case_came_from(
    client: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    trace_id = traced(client, request)
    data = [of_trace(cases("mute")[0], trace_id)]
    stored_run(tmp_path / "run", data)

    tracked = track_run(tmp_path / "run", "mlflow")

    assert tracked.scored_traces == 1
    assert scores_of(client, trace_id) == {"set_recall": 1.0}  # exact_match failed


def test_a_second_export_scores_no_trace_twice(
    client: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    trace_id = traced(client, request)
    stored_run(tmp_path / "run", [of_trace(cases("a")[0], trace_id)])

    track_run(tmp_path / "run", "mlflow")
    track_run(tmp_path / "run", "mlflow")

    assert scores_of(client, trace_id) == {"set_recall": 1.0, "exact_match": 1.0}


def test_a_trace_by_its_id_of_opentelemetry_is_scored(
    client: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    trace_id = traced(client, request)
    stored_run(tmp_path / "run", [of_trace(cases("a")[0], trace_id.removeprefix("tr-"))])

    tracked = track_run(tmp_path / "run", "mlflow")

    assert tracked.scored_traces == 1


def test_a_run_of_exported_traces_scores_them(
    client: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    experiment = client.get_experiment_by_name(request.node.name)
    span = client.start_trace(
        "ask", experiment_id=experiment.experiment_id, inputs={"question": "When is it open?"}
    )
    search = client.start_span(
        "search", span.trace_id, span.span_id, span_type="RETRIEVER", inputs={"query": "open"}
    )
    documents = [{"page_content": "It is open from 9 to 17.", "id": "desk", "metadata": {}}]
    client.end_span(span.trace_id, search.span_id, outputs=documents)
    client.end_trace(span.trace_id, outputs={"answer": "From 9 to 17."})
    mlflow_trace = exported_trace(client, span.trace_id)
    path = tmp_path / "traces.jsonl"
    path.write_text(mlflow_trace + "\n", "utf-8")
    with open_source(path) as source:
        run(source, None, tmp_path / "run", metrics="numbers_supported, exact_match")

    tracked = track_run(tmp_path / "run", "mlflow")

    assert tracked.scored_traces == 1
    assert scores_of(client, span.trace_id) == {"numbers_supported": 1.0}  # there is no reference


def test_a_case_whose_trace_is_not_there_is_counted(client: Any, tmp_path: Path) -> None:
    stored_run(tmp_path / "run", [of_trace(cases("a")[0], "tr-gone")])

    tracked = track_run(tmp_path / "run", "mlflow")

    assert (tracked.scored_traces, tracked.missing_traces) == (0, 1)


# --- errors


def test_a_server_that_is_not_there_is_named_with_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:hush-hush@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    stored_run(tmp_path / "run", cases("a"))

    with pytest.raises(TrackerError, match="MLFLOW_TRACKING_URI") as caught:
        track_run(tmp_path / "run", "mlflow")

    assert "hush-hush" not in str(caught.value)
