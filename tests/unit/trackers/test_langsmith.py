"""A run as LangSmith takes an uploaded experiment: a server here answers as its pages say."""

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


class LangSmith:
    """What a workspace holds, by id."""

    def __init__(self) -> None:
        self.experiments: dict[str, Any] = {}
        self.uploads = 0
        self.runs: set[str] = set()
        self.feedback: dict[str, Any] = {}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        match method, path.removeprefix("/api/v1/").split("/"):
            case "POST", ["datasets", "upload-experiment"]:
                if body["experiment_name"] in [
                    e["experiment_name"] for e in self.experiments.values()
                ]:
                    return 409, {"detail": "the experiment is there already"}
                self.uploads += 1
                id = f"experiment-{self.uploads}"
                self.experiments[id] = body
                return 202, {"dataset": {"id": "d"}, "experiment": {"id": id}}
            case "DELETE", ["sessions", id]:
                del self.experiments[id]
                return 202, {}
            case "GET", ["runs", id]:
                return (200, {"id": id}) if id in self.runs else (404, {})
            case "POST", ["feedback"]:
                if body["id"] in self.feedback:
                    return 409, {"detail": "the feedback is there already"}
                self.feedback[body["id"]] = body
            case "PATCH", ["feedback", id]:
                self.feedback[id] |= body
            case _:
                raise AssertionError(f"{method} {path}")
        return 200, {}

    @property
    def experiment(self) -> Any:
        (experiment,) = self.experiments.values()
        return experiment


@pytest.fixture
def langsmith(monkeypatch: pytest.MonkeyPatch) -> Iterator[LangSmith]:
    service = LangSmith()
    with serving_json(service.answer) as address:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", address)
        monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2-hush-hush")
        yield service


def scores(rows: list[Any]) -> dict[str, float]:
    return {row["key"]: row["score"] for row in rows}


def test_a_case_is_a_row_with_its_measured_scores(langsmith: LangSmith, tmp_path: Path) -> None:
    run(cases("a", "mute"), NotingRAG(), tmp_path / "run")

    track_run(tmp_path / "run", "langsmith")

    right, mute = langsmith.experiment["results"]
    assert right["inputs"] == {"query": "a"}
    assert right["actual_outputs"]["answer"] == "A a"
    assert scores(right["evaluation_scores"]) == {"set_recall": 1.0, "exact_match": 1.0}
    assert scores(mute["evaluation_scores"]) == {"set_recall": 1.0}
    assert mute["error"] == "generate: ValueError: no words for mute"


def test_figures_are_the_summary(langsmith: LangSmith, tmp_path: Path) -> None:
    report = run(cases("a", "b"), NotingRAG(), tmp_path / "run")

    track_run(tmp_path / "run", "langsmith")

    summary = scores(langsmith.experiment["summary_experiment_scores"])
    assert summary == figures_of(report.summaries)


def test_a_second_export_replaces_the_experiment(langsmith: LangSmith, tmp_path: Path) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "run")

    first = track_run(tmp_path / "run", "langsmith")
    second = track_run(tmp_path / "run", "langsmith")

    assert (first.is_new, second.is_new) == (True, False)
    assert [*langsmith.experiments] == [second.id]


def test_runs_of_one_dataset_have_the_same_rows(langsmith: LangSmith, tmp_path: Path) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "one")
    run(cases("a"), NotingRAG(), tmp_path / "two")

    track_run(tmp_path / "one", "langsmith")
    track_run(tmp_path / "two", "langsmith")

    one, two = langsmith.experiments.values()
    assert one["dataset_name"] == two["dataset_name"]
    assert one["results"][0]["row_id"] == two["results"][0]["row_id"]


def test_a_trace_is_scored_once(langsmith: LangSmith, tmp_path: Path) -> None:
    langsmith.runs.add("t-1")
    run([replace(cases("a")[0], metadata={"trace_id": "t-1"})], NotingRAG(), tmp_path / "run")

    track_run(tmp_path / "run", "langsmith")
    tracked = track_run(tmp_path / "run", "langsmith")

    assert tracked.scored_traces == 1
    assert len(langsmith.feedback) == 2
    assert scores([*langsmith.feedback.values()]) == {"set_recall": 1.0, "exact_match": 1.0}


def test_a_case_whose_trace_is_gone_is_counted(langsmith: LangSmith, tmp_path: Path) -> None:
    run([replace(cases("a")[0], metadata={"trace_id": "t-1"})], NotingRAG(), tmp_path / "run")

    tracked = track_run(tmp_path / "run", "langsmith")

    assert tracked.missing_traces == 1
    assert langsmith.feedback == {}


# --- errors


def test_a_missing_key_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANGSMITH_API_KEY", raising=False)
    monkeypatch.delenv("LANGCHAIN_API_KEY", raising=False)
    run(cases("a"), NotingRAG(), tmp_path / "run")

    with pytest.raises(TrackerError, match="LANGSMITH_API_KEY or LANGCHAIN_API_KEY is not set"):
        track_run(tmp_path / "run", "langsmith")


def test_a_response_of_another_form_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "run")
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2-hush-hush")

    with serving_json(lambda *_: (200, {"detail": "ok"})) as address:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", address)
        with pytest.raises(TrackerError, match="in a form that is not documented"):
            track_run(tmp_path / "run", "langsmith")
