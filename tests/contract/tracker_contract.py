"""What every tracker does with a run: the tests of each tracker inherit these contracts."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from ragbench import Case, track_run
from ragbench.core.record import replace
from ragbench.errors import TrackerError
from ragbench.trackers.tracker import figures_of
from tests.behaviour.rags import NotingRAG, cases, run
from tests.json_server import serving_json

SECRET = "hush-hush"


@dataclass(frozen=True, kw_only=True)
class StoredCase:
    """A case as the tracker has it."""

    answer: str | None
    scores: Mapping[str, float]
    unmeasured: Mapping[str, str]
    """The status of each metric without a score, first in its text."""


def cases_of_table(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, StoredCase]:
    """The cases of a table with a column for each metric and one for its status."""
    stored: dict[str, StoredCase] = {}
    for row in rows:
        scores: dict[str, float] = {}
        unmeasured: dict[str, str] = {}
        for column, status in row.items():
            metric = column.removesuffix(" status")
            if metric == column:
                continue
            if row[metric] is None:
                unmeasured[metric] = status
            else:
                scores[metric] = row[metric]
        stored[row["case_id"]] = StoredCase(
            answer=row["answer"], scores=scores, unmeasured=unmeasured
        )
    return stored


class TrackerUnderTest(Protocol):
    """A tracker, from which is read what it was sent."""

    name: str

    def run_ids(self) -> set[str]:
        """The runs that it has."""
        ...

    def figures(self, run_id: str) -> Mapping[str, float]:
        """The numbers of a run."""
        ...

    def figure_name(self, figure: str) -> str:
        """The tracker's name of a figure."""
        ...

    def stored_cases(self, run_id: str) -> Mapping[str, StoredCase]:
        """The cases of a run, by their ids."""
        ...


class TracingTracker(TrackerUnderTest, Protocol):
    """A tracker that has traces."""

    def add_trace(self) -> str:
        """The id of a trace that it has from now on."""
        ...

    def trace_scores(self, trace_id: str) -> Mapping[str, float]:
        """The numbers of a trace; each of them is there once."""
        ...


class TrackerContract:
    """Of every tracker: the fixture `tracker` is in the file that inherits it."""

    def test_figures_are_those_of_the_report(
        self, tracker: TrackerUnderTest, tmp_path: Path
    ) -> None:
        report = run(cases("a", "b", "lost", "mute"), NotingRAG(), tmp_path / "run")

        tracked = track_run(tmp_path / "run", tracker.name)

        expected: dict[str, float] = {}
        for figure, value in figures_of(report.summaries).items():
            expected[tracker.figure_name(figure)] = value
        assert tracker.figures(tracked.id) == expected
        assert expected["set_recall"] == 1.0
        assert expected[tracker.figure_name("set_recall.measured")] == 3
        assert expected[tracker.figure_name("set_recall.failed")] == 1

    def test_a_metric_without_a_value_has_counts_alone(
        self, tracker: TrackerUnderTest, tmp_path: Path
    ) -> None:
        run(cases("lost"), NotingRAG(), tmp_path / "run")

        tracked = track_run(tmp_path / "run", tracker.name)

        figures = tracker.figures(tracked.id)
        assert "set_recall" not in figures
        assert tracker.figure_name("set_recall.ci_low") not in figures
        assert figures[tracker.figure_name("set_recall.failed")] == 1

    def test_a_case_has_its_answer_and_its_scores(
        self, tracker: TrackerUnderTest, tmp_path: Path
    ) -> None:
        run(cases("a", "b"), NotingRAG(), tmp_path / "run")

        tracked = track_run(tmp_path / "run", tracker.name)

        stored = tracker.stored_cases(tracked.id)
        assert [*stored] == ["a", "b"]
        assert stored["a"].answer == "A a"
        assert stored["a"].scores == {"set_recall": 1.0, "exact_match": 1.0}
        assert stored["a"].unmeasured == {}

    def test_a_score_that_failed_is_a_status_and_no_number(
        self, tracker: TrackerUnderTest, tmp_path: Path
    ) -> None:
        run(cases("mute"), NotingRAG(), tmp_path / "run")

        tracked = track_run(tmp_path / "run", tracker.name)

        mute = tracker.stored_cases(tracked.id)["mute"]
        assert mute.answer is None
        assert mute.scores == {"set_recall": 1.0}
        assert [*mute.unmeasured] == ["exact_match"]
        assert mute.unmeasured["exact_match"].startswith("failed")

    def test_a_second_export_updates_the_run(
        self, tracker: TrackerUnderTest, tmp_path: Path
    ) -> None:
        run(cases("a", "b"), NotingRAG(), tmp_path / "run")
        earlier = tracker.run_ids()

        exported = track_run(tmp_path / "run", tracker.name)
        figures = tracker.figures(exported.id)
        exported_again = track_run(tmp_path / "run", tracker.name)

        assert exported.is_new
        assert not exported_again.is_new
        assert tracker.run_ids() - earlier == {exported_again.id}
        assert tracker.figures(exported_again.id) == figures
        assert [*tracker.stored_cases(exported_again.id)] == ["a", "b"]

    def test_other_cases_in_the_same_folder_are_another_run(
        self, tracker: TrackerUnderTest, tmp_path: Path
    ) -> None:
        run(cases("a"), NotingRAG(), tmp_path / "run")
        run_of_a = track_run(tmp_path / "run", tracker.name)
        run(cases("a", "b"), NotingRAG(), tmp_path / "run")

        run_of_a_and_b = track_run(tmp_path / "run", tracker.name)

        assert run_of_a_and_b.is_new
        assert {run_of_a.id, run_of_a_and_b.id} <= tracker.run_ids()
        assert [*tracker.stored_cases(run_of_a.id)] == ["a"]


def of_trace(case: Case, trace_id: str) -> Case:
    """The case, as one that came from a trace."""
    return replace(case, metadata={"trace_id": trace_id})


class TracingContract(TrackerContract):
    """Of trackers that have traces: scores go back to the trace that a case came from."""

    def test_a_trace_gets_the_measured_scores_of_its_case(
        self, tracker: TracingTracker, tmp_path: Path
    ) -> None:
        trace_id = tracker.add_trace()
        (mute,) = cases("mute")
        run([of_trace(mute, trace_id)], NotingRAG(), tmp_path / "run")

        tracked = track_run(tmp_path / "run", tracker.name)

        assert tracked.scored_traces == 1
        assert tracked.missing_traces == 0
        assert tracker.trace_scores(trace_id) == {"set_recall": 1.0}

    def test_a_second_export_scores_no_trace_twice(
        self, tracker: TracingTracker, tmp_path: Path
    ) -> None:
        trace_id = tracker.add_trace()
        (case,) = cases("a")
        run([of_trace(case, trace_id)], NotingRAG(), tmp_path / "run")

        track_run(tmp_path / "run", tracker.name)
        track_run(tmp_path / "run", tracker.name)

        assert tracker.trace_scores(trace_id) == {"set_recall": 1.0, "exact_match": 1.0}

    def test_a_case_whose_trace_is_gone_is_counted(
        self, tracker: TracingTracker, tmp_path: Path
    ) -> None:
        (case,) = cases("a")
        run([of_trace(case, "t-gone")], NotingRAG(), tmp_path / "run")

        tracked = track_run(tmp_path / "run", tracker.name)

        assert tracked.scored_traces == 0
        assert tracked.missing_traces == 1


class HttpTracker:
    """A server on this machine that answers as the tracker's interface is documented."""

    name = ""
    settings: Mapping[str, str] = {}
    """The variables of the tracker; {address} is that of the server, {secret} a key."""

    def __init__(self) -> None:
        self.refusal: tuple[int, Any] | None = None
        """What every request is answered, in place of what is documented."""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """The documented answer to a request."""
        raise NotImplementedError

    @contextmanager
    def served(self, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
        """Runs the server, and sets the tracker's variables."""
        with serving_json(lambda *request: self.refusal or self.answer(*request)) as address:
            for variable, value in self.settings.items():
                monkeypatch.setenv(variable, value.format(address=address, secret=SECRET))
            yield

    def figure_name(self, figure: str) -> str:
        """Names with a dot are accepted."""
        return figure

    def dataset_cases(self) -> int:
        """How many cases the datasets have."""
        raise NotImplementedError


class HttpTrackerContract(TracingContract):
    """Of trackers that are asked by HTTP: datasets that runs share, keys, and errors."""

    def test_runs_of_one_dataset_share_its_cases(
        self, tracker: HttpTracker, tmp_path: Path
    ) -> None:
        run(cases("a", "b"), NotingRAG(), tmp_path / "one")
        run(cases("a", "b"), NotingRAG(), tmp_path / "two")

        run_one = track_run(tmp_path / "one", tracker.name)
        run_two = track_run(tmp_path / "two", tracker.name)

        assert run_one.id != run_two.id
        assert tracker.dataset_cases() == 2

    def test_a_key_that_is_refused_is_an_error_with_its_variable(
        self, tracker: HttpTracker, tmp_path: Path
    ) -> None:
        tracker.refusal = 401, {"message": f"Invalid credentials {SECRET}"}
        run(cases("a"), NotingRAG(), tmp_path / "run")

        with pytest.raises(TrackerError, match=r"401.*Check [A-Z]+_.*export again") as caught:
            track_run(tmp_path / "run", tracker.name)

        assert SECRET not in str(caught.value)

    def test_a_response_of_another_form_is_an_error(
        self, tracker: HttpTracker, tmp_path: Path
    ) -> None:
        tracker.refusal = 200, {"detail": "ok"}
        run(cases("a"), NotingRAG(), tmp_path / "run")

        with pytest.raises(TrackerError, match="in a form that is not documented"):
            track_run(tmp_path / "run", tracker.name)

    def test_a_key_is_in_no_file_of_the_run(self, tracker: HttpTracker, tmp_path: Path) -> None:
        run(cases("a"), NotingRAG(), tmp_path / "run")

        track_run(tmp_path / "run", tracker.name)

        receipt = tmp_path / "run" / "trackers.json"
        assert receipt.is_file()
        assert SECRET not in receipt.read_text("utf-8")
