"""Langfuse: cases as a dataset run, a trace per case with its scores, figures as scores of the run.

``LANGFUSE_PUBLIC_KEY``, ``LANGFUSE_SECRET_KEY`` and ``LANGFUSE_BASE_URL`` (or ``LANGFUSE_HOST``)
are its own variables. A case that came from a trace of Langfuse is linked to that trace, and scores
it; any other case gets a trace of its own.

The requests are those of its public interface (https://api.reference.langfuse.com, schema
https://cloud.langfuse.com/generated/api/openapi.yml):

- ``POST /api/public/v2/datasets`` and ``/dataset-items``: a dataset by its name and an item by its
  id are overwritten.
- ``POST /api/public/ingestion``: a batch of events, at most 3.5 MB. The id of an event is unique to
  the request, the id in its body overwrites what has it. Refused events are in a response of 207.
- ``POST /api/public/dataset-run-items`` links item and trace, and creates the run. A second one
  for the same item may be a second row: what is linked is read first.
- ``POST /api/public/scores`` with ``datasetRunId``: a figure of the run.
"""

from __future__ import annotations

import base64
import os
import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson

from ragbench.trackers.receipt import Receipt
from ragbench.trackers.rest import TrackerEndpoint, named_id, variable
from ragbench.trackers.tracker import SOURCE, Tracked, TrackedCase, TrackedRun

_CLOUD = "https://cloud.langfuse.com"
"""The address that Langfuse's own packages use by default."""
_LARGEST_BATCH = 2_000_000
"""Bytes of a batch; Langfuse takes 3.5 MB."""
_ADVICE = "Check LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL"
"""The end of the message of a request that fails."""


def send(run: TrackedRun, receipt: Receipt) -> Tracked:
    """Sends a run to Langfuse: cases as a dataset run, a scored trace for each, figures as scores.

    A tracker's function of the shape `Tracker`: it reads Langfuse's own variables.

    Raises:
        TrackerError: a key is not set, or Langfuse cannot be reached or refuses the run.
    """
    setting = "Set it to a key of the project's settings"
    public_key = variable(("LANGFUSE_PUBLIC_KEY",), "Langfuse", setting)
    secret_key = variable(("LANGFUSE_SECRET_KEY",), "Langfuse", setting)
    # Newer versions call the variable a base URL, older ones a host.
    url = os.environ.get("LANGFUSE_BASE_URL") or os.environ.get("LANGFUSE_HOST") or _CLOUD
    keys = f"{public_key}:{secret_key}"
    encoded_keys = base64.b64encode(keys.encode()).decode()
    headers = {"Authorization": f"Basic {encoded_keys}"}
    endpoint = TrackerEndpoint("Langfuse", url, headers, advice=_ADVICE)
    with endpoint.in_use():
        return _Project(endpoint, public_key).send(run, receipt)


class _Project:
    """The project that the keys are of."""

    def __init__(self, endpoint: TrackerEndpoint, public_key: str) -> None:
        """Takes the endpoint of the project, and the key that tells it from other projects there.

        Both are in the receipt's name for the place: a run may be sent to several projects.
        """
        self._endpoint = endpoint
        self._place = f"langfuse {endpoint.url} {public_key}"
        """The place's name in receipts on disk; with another spelling, the receipts of earlier
        exports would not be found."""

    def send(self, run: TrackedRun, receipt: Receipt) -> Tracked:
        """Creates the dataset run in Langfuse's project, or updates the one of an earlier export.

        Ids are derived from the run, so that a second export overwrites the first one's traces and
        scores. The order of the requests matters: an item is linked to its trace once the trace is
        there.
        """
        endpoint = self._endpoint
        # Another version of the dataset is another dataset: its items would change under old runs.
        dataset = f"{run.dataset}-{run.dataset_fingerprint[:8]}"
        run_name = f"{run.name}-{receipt.key[:8]}"
        endpoint.call("POST", "/api/public/v2/datasets", {"name": dataset})
        path = f"/api/public/datasets/{quote(dataset, safe='')}/runs/{quote(run_name, safe='')}"
        stored = endpoint.find(path)
        run_id = ""
        linked: dict[str, str] = {}  # the trace of each item that has one in this run
        if stored is not None:
            run_id = str(stored["id"])
            for item in stored["datasetRunItems"]:
                linked[item["datasetItemId"]] = item["traceId"]
        batch = _Batch(endpoint)
        cases = 0
        scored = 0
        missing = 0
        # Read once, case by case: a run may be larger than memory.
        for case in run.cases():
            cases += 1
            trace_id = self._trace_of(case)
            if trace_id is not None:
                scored += 1
            else:
                if case.trace_id is not None:
                    missing += 1
                # The same at each export of the run, so that the trace is overwritten.
                trace_id = uuid.UUID(receipt.derived_id(case.id)).hex
                batch.add("trace-create", _trace_body(run, case, trace_id))
            for metric, value in case.values.items():
                score = {"id": receipt.derived_id(case.id, metric), "traceId": trace_id}
                batch.add("score-create", score | _score_body(metric, value))
            # Only an earlier export can have left a score.
            if stored is not None:
                self._delete_gone(case, receipt)
            # Equal at every run of the dataset, so that Langfuse shows them in one row.
            item_id = named_id(dataset, case.id)
            endpoint.call(
                "POST", "/api/public/dataset-items", _dataset_item(case, dataset, item_id)
            )
            if linked.get(item_id) != trace_id:
                batch.send()  # a trace is linked once it is there
                link = {"runName": run_name, "datasetItemId": item_id, "traceId": trace_id}
                facts = {"metadata": {**run.settings, "commit": run.commit}}
                answer = endpoint.call("POST", "/api/public/dataset-run-items", link | facts)
                run_id = str(answer["datasetRunId"])
        batch.send()
        for name, value in run.figures.items():
            score = {"id": receipt.derived_id("", name), "datasetRunId": run_id}
            endpoint.call("POST", "/api/public/scores", score | _score_body(name, value))
        # Kept last: until then the run is found by its name, which holds the receipt's key.
        receipt.keep(self._place, run_id)
        return Tracked(
            tracker="langfuse",
            id=run_id,
            address=f"{endpoint.url} (dataset {dataset}, run {run_name})",
            is_new=stored is None,
            cases=cases,
            scored_traces=scored,
            missing_traces=missing,
        )

    def _trace_of(self, case: TrackedCase) -> str | None:
        """The id of the trace that a case came from; None where the project does not have it.

        A case without one gets a trace of its own from the caller, so that its scores are shown in
        Langfuse, too.
        """
        if case.trace_id is None:
            return None
        stored = self._endpoint.find(f"/api/public/traces/{quote(case.trace_id, safe='')}")
        if stored is None:
            return None
        return case.trace_id

    def _delete_gone(self, case: TrackedCase, receipt: Receipt) -> None:
        """Deletes a case's scores of an earlier export that have no value any more.

        Langfuse overwrites scores and removes none: an old value would be shown beside the new run.
        """
        for metric in case.unmeasured:
            score_id = receipt.derived_id(case.id, metric)
            self._endpoint.delete(f"/api/public/scores/{score_id}")


class _Batch:
    """Events that are sent together: a request for each would take long for a large run."""

    def __init__(self, endpoint: TrackerEndpoint) -> None:
        """Takes the endpoint of the project, and begins without an event.

        A batch is a list of events that are sent in one request: a request for each would take
        long.
        """
        self._endpoint = endpoint
        self._events: list[dict[str, Any]] = []
        """The events that are not sent yet."""
        self._bytes = 0
        """The size of these events' bodies as JSON."""

    def add(self, kind: str, body: dict[str, Any]) -> None:
        """Adds an event to the batch; sends the earlier ones first where it would be too large.

        Args:
            kind: Langfuse's type of event, such as ``trace-create``.
            body: the object that the event creates or overwrites, with its id.
        """
        size = len(orjson.dumps(body))
        # Sent before the event is added: one that is larger than a batch goes alone.
        if self._bytes + size > _LARGEST_BATCH:
            self.send()
        now = datetime.now(UTC).isoformat()
        event = {"id": str(uuid.uuid4()), "timestamp": now, "type": kind, "body": body}
        self._events.append(event)
        self._bytes += size

    def send(self) -> None:
        """Sends the events that have been added since the last request, if there are any.

        Raises:
            TrackerError: Langfuse refused an event, which its response says although it accepts the
                batch.
        """
        if not self._events:
            return
        answer = self._endpoint.call("POST", "/api/public/ingestion", {"batch": self._events})
        # Also where an event is refused: what is here is never sent twice.
        self._events = []
        self._bytes = 0
        # Where the field is missing, `TrackerEndpoint.in_use` makes an error of it.
        errors = answer["errors"]
        if errors:
            error = _error_text(errors[0])
            raise self._endpoint.refusal(f"an event is refused: {error}")


def _error_text(error: Any) -> str:
    """The reason why Langfuse refused an event, with the event's status, for an error's text.

    Langfuse names the reason in either of two fields, or not at all.
    """
    reason = error.get("message") or error.get("error") or ""
    return f"{error.get('status')} {reason}".strip()


def _dataset_item(case: TrackedCase, dataset: str, item_id: str) -> dict[str, Any]:
    """A case as an item of a Langfuse dataset: its question and the right answer.

    Langfuse compares the runs of a dataset item by item. The names are those of its interface.
    """
    return {
        "id": item_id,
        "datasetName": dataset,
        "input": {"query": case.query},
        "expectedOutput": case.reference,
        "metadata": {"case_id": case.id},
    }


def _trace_body(run: TrackedRun, case: TrackedCase, trace_id: str) -> dict[str, Any]:
    """A case as a trace of Langfuse, with the question, the retrieved chunks and the answer.

    Only a case without a trace in the project gets one (see `_trace_of`). The keys are those of
    Langfuse's interface.
    """
    return {
        "id": trace_id,
        "name": run.system,
        "timestamp": datetime.now(UTC).isoformat(),
        "input": {"query": case.query},
        "output": case.answer,
        "tags": [SOURCE],
        "metadata": {
            "case_id": case.id,
            "cause": case.cause,
            "error": case.error,
            "contexts": case.contexts,
            "context_ids": case.context_ids,
            "not_measured": case.unmeasured,
        },
    }


def _score_body(name: str, value: float) -> dict[str, Any]:
    """The name and the value of a score, as the body of a Langfuse request has them.

    Langfuse takes it with the id of a trace or of a run beside it; the names are those of its
    interface.
    """
    return {"name": name, "value": value, "dataType": "NUMERIC"}
