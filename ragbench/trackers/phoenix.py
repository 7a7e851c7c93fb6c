"""Phoenix: the cases as a dataset, the run as an experiment with an evaluation per measured score.

``PHOENIX_COLLECTOR_ENDPOINT`` and ``PHOENIX_API_KEY`` are its own variables. A case that came from
a trace of Phoenix also annotates that trace.

The requests are those of its interface (https://arize.com/docs/phoenix/sdk-api-reference/rest-api,
schema at ``/openapi.json`` of a server):

- ``POST /v1/datasets/upload`` creates a dataset, ``GET /v1/datasets/ID/examples`` has the ids of
  its examples.
- ``POST /v1/datasets/ID/experiments`` and ``/v1/experiments/ID/runs``. A run of an experiment is
  never changed: a second export makes an experiment, and then deletes the earlier one.
- ``POST /v1/experiment_evaluations``: a score of such a run.
- ``POST /v1/trace_annotations`` with an ``identifier`` overwrites what has it; 404 is a trace that
  is not there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from ragbench.trackers.receipt import Receipt
from ragbench.trackers.rest import TrackerEndpoint
from ragbench.trackers.tracker import Tracked, TrackedCase, TrackedRun, plain_names

_LOCAL = "http://localhost:6006"
"""The address of ``phoenix serve``."""
_ADVICE = "Check PHOENIX_COLLECTOR_ENDPOINT and PHOENIX_API_KEY"


def send(run: TrackedRun, receipt: Receipt) -> Tracked:
    """Sends a run to Phoenix: an experiment with scores as its evaluations, traces annotated.

    A tracker's function of the shape `Tracker`: it reads Phoenix's own variables.

    Raises:
        TrackerError: Phoenix cannot be reached or refuses the run.
    """
    url = os.environ.get("PHOENIX_COLLECTOR_ENDPOINT") or _LOCAL
    headers: dict[str, str] = {}
    key = os.environ.get("PHOENIX_API_KEY")
    if key:
        headers["Authorization"] = f"Bearer {key}"
    # The variable is that of the collector of spans, whose path some write with it.
    base = url.rstrip("/").removesuffix("/v1/traces")
    endpoint = TrackerEndpoint("Phoenix", base, headers, advice=_ADVICE)
    with endpoint.in_use():
        return _Server(endpoint).send(run, receipt)


class _Server:
    """The server that the variables name."""

    def __init__(self, endpoint: TrackerEndpoint) -> None:
        """Takes the endpoint of the Phoenix server that the environment's variables name.

        The server's address is in the receipt's name for the place, as a run may be sent to
        several.
        """
        self._endpoint = endpoint
        self._place = f"phoenix {endpoint.url}"
        """The place's name in receipts on disk; with another spelling, the receipts of earlier
        exports would not be found."""
        self._now = datetime.now(UTC).isoformat()
        """The time of the export, for fields that have to have a time. Phoenix makes latencies of
        such fields; the run's true latencies are in its figures."""

    def send(self, run: TrackedRun, receipt: Receipt) -> Tracked:
        """Creates the Phoenix experiment of a run, and deletes the one of an earlier export.

        A run of an experiment never changes there, so a second export cannot update the first one.
        The new id is kept before the cases are sent: an interrupted export is deleted by the next
        one.
        """
        endpoint = self._endpoint
        dataset_id = self._dataset(run)
        example_ids = self._example_ids(dataset_id)
        facts = {**run.settings, "commit": run.commit, **run.figures}
        body = {"name": run.name, "metadata": facts}
        answer = endpoint.call("POST", f"/v1/datasets/{dataset_id}/experiments", body)
        experiment_id = str(answer["data"]["id"])
        earlier = receipt.id_at(self._place)
        # Kept before the experiment's runs are sent: the next export then deletes an interrupted
        # one.
        receipt.keep(self._place, experiment_id)
        if earlier:
            endpoint.delete(f"/v1/experiments/{quote(earlier, safe='')}")
        cases = 0
        scored = 0
        missing = 0
        for case in run.cases():
            cases += 1
            self._add_run(case, experiment_id, example_ids[case.id])
            if case.trace_id is not None:
                if self._annotate(case, case.trace_id, receipt.key):
                    scored += 1
                else:
                    missing += 1
        return Tracked(
            tracker="phoenix",
            id=experiment_id,
            address=f"{endpoint.url}/datasets/{dataset_id}/compare?experimentId={experiment_id}",
            is_new=not earlier,
            cases=cases,
            scored_traces=scored,
            missing_traces=missing,
        )

    def _dataset(self, run: TrackedRun) -> str:
        """The id of the Phoenix dataset with the run's cases; uploaded where it is not there.

        Experiments are compared on the examples of one dataset, so its name has the fingerprint of
        the cases: another version of the dataset is another one at Phoenix.
        """
        # Another version of the dataset is another dataset: experiments compare the same examples.
        name = f"{run.dataset}-{run.dataset_fingerprint[:8]}"
        answer = self._endpoint.call("GET", f"/v1/datasets?name={quote(name, safe='')}")
        # The same name in full: anything else the server lists is another dataset.
        for dataset in answer["data"]:
            if dataset["name"] == name:
                return str(dataset["id"])
        inputs: list[dict[str, Any]] = []
        outputs: list[dict[str, Any]] = []
        metadata: list[dict[str, Any]] = []
        for case in run.cases():
            inputs.append({"query": case.query})
            outputs.append({"answer": case.reference})
            metadata.append({"case_id": case.id})
        # Three lists of one length, in the same order: a position is a case.
        upload = {
            "action": "create",
            "name": name,
            "inputs": inputs,
            "outputs": outputs,
            "metadata": metadata,
        }
        # ``sync`` waits for the examples, whose ids are read next.
        answer = self._endpoint.call("POST", "/v1/datasets/upload?sync=true", upload)
        return str(answer["data"]["dataset_id"])

    def _example_ids(self, dataset_id: str) -> Mapping[str, str]:
        """The ids of a Phoenix dataset's examples by case: runs of an experiment name them.

        The id of a case is in the metadata of its example, where `_dataset` put it.
        """
        answer = self._endpoint.call("GET", f"/v1/datasets/{dataset_id}/examples")
        example_ids: dict[str, str] = {}
        for example in answer["data"]["examples"]:
            case_id = example["metadata"]["case_id"]
            # Newer servers have a public id, and this one beside it.
            example_ids[case_id] = example.get("node_id") or example["id"]
        return example_ids

    def _add_run(self, case: TrackedCase, experiment_id: str, example_id: str) -> None:
        """Adds a case to a Phoenix experiment as one of its runs, with the measured scores.

        Args:
            example_id: Phoenix's id of the case in the dataset.
        """
        times = {"start_time": self._now, "end_time": self._now}
        run = {
            "dataset_example_id": example_id,
            "output": {
                "answer": case.answer,
                "contexts": case.contexts,
                "context_ids": case.context_ids,
                "cause": case.cause,
                "not_measured": case.unmeasured,
            },
            # A case is asked once in a run.
            "repetition_number": 1,
            "trace_id": case.trace_id,
            "error": case.error,
            **times,
        }
        answer = self._endpoint.call("POST", f"/v1/experiments/{experiment_id}/runs", run)
        for metric, value in case.values.items():
            evaluation = {
                "experiment_run_id": answer["data"]["id"],
                "name": metric,
                "annotator_kind": "CODE",
                "result": {"score": value},
                **times,
            }
            self._endpoint.call("POST", "/v1/experiment_evaluations", evaluation)

    def _annotate(self, case: TrackedCase, trace_id: str, key: str) -> bool:
        """Gives a Phoenix trace the scores of its case as annotations; False where it is not there.

        Args:
            key: the receipt's: annotations with it overwrite those of an earlier export, and no
                others.
        """
        names = plain_names(case.cells)
        annotations: list[dict[str, Any]] = []
        for metric, cell in case.cells.items():
            # A score that has no value any more is overwritten by its status.
            result: dict[str, Any] = {"score": cell.value}
            if cell.value is None:
                result = {"label": cell.status.value, "explanation": case.unmeasured[metric]}
            annotation = {
                "trace_id": trace_id,
                "name": names[metric],
                "annotator_kind": "CODE",
                "identifier": key,
                "result": result,
            }
            annotations.append(annotation)
        body = {"data": annotations}
        # Only with ``sync`` does a trace that is not there answer with 404.
        answer = self._endpoint.call_if_there("/v1/trace_annotations?sync=true", body)
        return answer is not None
