"""LangSmith: the run as an experiment of a dataset, with the figures as its summary.

``LANGSMITH_API_KEY`` and ``LANGSMITH_ENDPOINT`` are its own variables. A case that came from a
trace of LangSmith also gives that trace a feedback per measured score.

The requests are those of its interface (https://docs.langchain.com/langsmith, "Upload experiments
run outside of LangSmith", and https://api.smith.langchain.com/redoc):

- ``POST /api/v1/datasets/upload-experiment`` creates a dataset by its name and an experiment with
  all of its rows. An uploaded experiment cannot be changed: an earlier one is deleted before.
- ``DELETE /api/v1/sessions/ID`` deletes an experiment.
- ``POST /api/v1/feedback`` with an id of ours, and ``PATCH /api/v1/feedback/ID`` where it is there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from ragbench.trackers.receipt import Receipt
from ragbench.trackers.rest import TrackerEndpoint, named_id, variable
from ragbench.trackers.tracker import SOURCE, Tracked, TrackedCase, TrackedRun

_CLOUD = "https://api.smith.langchain.com"
"""The address that LangSmith's own packages use by default."""
_ADVICE = "Check LANGSMITH_API_KEY and LANGSMITH_ENDPOINT"


def send(run: TrackedRun, receipt: Receipt) -> Tracked:
    """Sends a run to LangSmith: an experiment with figures as its summary, feedback on traces.

    A tracker's function of the shape `Tracker`: it reads LangSmith's own variables.

    Raises:
        TrackerError: no key is set, or LangSmith cannot be reached or refuses the run.
    """
    names = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
    key = variable(names, "LangSmith", "Set it to a key of the workspace's settings")
    url = os.environ.get("LANGSMITH_ENDPOINT") or os.environ.get("LANGCHAIN_ENDPOINT") or _CLOUD
    endpoint = TrackerEndpoint("LangSmith", url, {"X-Api-Key": key}, advice=_ADVICE)
    with endpoint.in_use():
        return _Workspace(endpoint).send(run, receipt)


class _Workspace:
    """The workspace that the key is of."""

    def __init__(self, endpoint: TrackerEndpoint) -> None:
        """Takes the endpoint of the LangSmith workspace that the key belongs to.

        The endpoint's address is in the receipt's name for the place, as a run may be sent to
        several.
        """
        self._endpoint = endpoint
        self._place = f"langsmith {endpoint.url}"
        """The place's name in receipts on disk; with another spelling, the receipts of earlier
        exports would not be found."""

    def send(self, run: TrackedRun, receipt: Receipt) -> Tracked:
        """Uploads the run as a LangSmith experiment, in place of the one of an earlier export.

        An uploaded experiment cannot be changed, so the earlier one is deleted before.
        """
        now = datetime.now(UTC).isoformat()
        rows: list[dict[str, Any]] = []
        scored = 0
        missing = 0
        dataset = f"{run.dataset}-{run.dataset_fingerprint[:8]}"
        for case in run.cases():
            # Equal at every run of the dataset, so that experiments are compared row by row.
            row_id = named_id(dataset, case.id)
            rows.append(_experiment_row(run, case, row_id, now))
            if case.trace_id is not None:
                if self._score_trace(case, case.trace_id, receipt):
                    scored += 1
                else:
                    missing += 1
        # Deleted only now: whatever fails while the rows are made leaves the earlier one.
        earlier = receipt.id_at(self._place)
        if earlier:
            self._endpoint.delete(f"/api/v1/sessions/{quote(earlier, safe='')}")
        summary = [_feedback_body(name, value) for name, value in run.figures.items()]
        experiment = {
            "experiment_name": f"{run.name}-{receipt.key[:8]}",
            "experiment_start_time": now,
            "experiment_end_time": now,
            "experiment_metadata": {**run.settings, "commit": run.commit},
            "dataset_name": dataset,
            "summary_experiment_scores": summary,
            "results": rows,
        }
        path = "/api/v1/datasets/upload-experiment"
        answer = self._endpoint.call("POST", path, experiment)
        experiment_id = str(answer["experiment"]["id"])
        receipt.keep(self._place, experiment_id)
        return Tracked(
            tracker="langsmith",
            id=experiment_id,
            address=f"{self._endpoint.url} (dataset {dataset}, experiment {experiment_id})",
            is_new=not earlier,
            cases=len(rows),
            scored_traces=scored,
            missing_traces=missing,
        )

    def _score_trace(self, case: TrackedCase, trace_id: str, receipt: Receipt) -> bool:
        """Gives a LangSmith trace the scores of its case as feedback; False if it is not there.

        The feedback's ids are derived from the run, so that a second export overwrites its own
        feedback only. Scores that have no value any more are deleted.
        """
        endpoint = self._endpoint
        run = endpoint.find(f"/api/v1/runs/{quote(trace_id, safe='')}")
        if run is None:
            return False
        for metric, value in case.values.items():
            id = receipt.derived_id(case.id, metric)
            about = {"id": id, "run_id": run["id"], "trace_id": trace_id}
            body = {**about, **_feedback_body(metric, value)}
            # Not created means that an earlier export made this feedback: its value is overwritten.
            if not endpoint.create("/api/v1/feedback", body):
                endpoint.call("PATCH", f"/api/v1/feedback/{id}", {"score": value})
        # After a first export nothing can be left, and a request for each metric is spared.
        if receipt.id_at(self._place):
            for metric in case.unmeasured:  # they may have had a value
                endpoint.delete(f"/api/v1/feedback/{receipt.derived_id(case.id, metric)}")
        return True


def _experiment_row(run: TrackedRun, case: TrackedCase, row_id: str, now: str) -> dict[str, Any]:
    """A case as a row of a LangSmith experiment: its example, answer and measured scores.

    LangSmith computes latencies of the times, and refuses a row without them: both times are that
    of the export. The names are those of LangSmith's interface.
    """
    return {
        "row_id": row_id,
        "inputs": {"query": case.query},
        "expected_outputs": {"answer": case.reference},
        "actual_outputs": {
            "answer": case.answer,
            "contexts": case.contexts,
            "context_ids": case.context_ids,
        },
        "evaluation_scores": [
            _feedback_body(metric, value) for metric, value in case.values.items()
        ],
        "start_time": now,
        "end_time": now,
        "run_name": run.system,
        "error": case.error,
        "run_metadata": {
            "case_id": case.id,
            "cause": case.cause,
            "not_measured": case.unmeasured,
        },
    }


def _feedback_body(name: str, value: float) -> Mapping[str, Any]:
    """A score as LangSmith wants feedback by a program: with its name and its author.

    The names are those of LangSmith's interface: feedback of a trace, a row's score and a summary
    have the same form.
    """
    return {
        "key": name,
        "score": value,
        "feedback_source": {"type": "api", "metadata": {"source": SOURCE}},
    }
