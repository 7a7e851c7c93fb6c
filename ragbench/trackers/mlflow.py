"""MLflow 3: the figures as metrics, the cases as a table, the page as an artifact.

The run goes where MLflow's own variables say: ``MLFLOW_TRACKING_URI`` with its credentials, and
``MLFLOW_EXPERIMENT_NAME``. A case that came from a trace of that server gives its trace a feedback
per measured score.

Facts of MLflow:

- Names of metrics have letters, digits and ``_-./: ``; ``recall@5`` is refused
  (https://mlflow.org/docs/latest/api_reference/python_api/mlflow.client.html, ``log_metric``).
- A store of files keeps a file per metric, so ``a`` beside ``a/low`` cannot be: `figures_of`
  divides by a dot.
- A parameter of a run never changes, and a metric is never deleted.
- A table is an artifact of ``columns`` and ``data`` that the tag ``mlflow.loggedArtifacts`` names.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from ragbench.core.reading import Reading, words_of
from ragbench.errors import ConfigError, TrackerError
from ragbench.masking import mask_text, mask_url
from ragbench.plugins import require, silenced
from ragbench.private_files import open_private
from ragbench.trackers.receipt import Receipt
from ragbench.trackers.tracker import (
    SOURCE,
    Tracked,
    TrackedCase,
    TrackedRun,
    case_values,
    plain_names,
)

TABLE = "cases.json"
_MOST_METRICS = 1000
"""Metrics that MLflow takes in one request."""
_RETRIES = ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
"""By default MLflow asks a server that does not answer for minutes. A user's own value counts."""
_WITHOUT_TRACE = frozenset({"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND", "INVALID_STATE"})
"""Codes of errors that mean that there is no such trace, or that its spans are lost."""
_KEY_TAG = "ragbench.key"
"""The tag by which a run is recognised whose id was not stored: the export was interrupted."""


def send(run: TrackedRun, receipt: Receipt) -> Tracked:
    """Sends a run to MLflow: figures as metrics, cases as a table, the page, scored traces.

    A tracker's function of the shape `Tracker`: the run goes where MLflow's own variables say.

    Raises:
        TrackerError: MLflow cannot be reached or refuses the run.
    """
    # Before the package is imported, which reads it.
    os.environ.setdefault(*_RETRIES)
    mlflow = require("mlflow", extra="mlflow")
    with _speaking_of_mlflow(mlflow):
        return _Server(mlflow).send(run, receipt)


@contextmanager
def _speaking_of_mlflow(mlflow: Any) -> Generator[None]:
    """Turns whatever MLflow raises in the block into an error with its address and a next step.

    MLflow and its packages also log much by themselves, which is held back.
    """
    address = _shown_uri(mlflow)
    # MLflow logs the tables of a new database, and each new try to reach a server.
    with silenced("mlflow", "alembic", "urllib3"), Reading(partial(_mlflow_refusal, address)):
        yield


def _mlflow_refusal(address: str, error: Exception) -> TrackerError:
    """The error of an export that MLflow refused, in one line, with the next step for the user.

    Args:
        address: where MLflow sends runs, without credentials.
        error: whatever MLflow raised; credentials in its text are masked.
    """
    reason = mask_text(words_of(error)).rstrip(".")
    return TrackerError(
        f"MLflow at {address}: {reason}. Nothing of the run has changed. Check "
        "MLFLOW_TRACKING_URI, and the variables of MLflow for credentials; then export again"
    )


class _Server:
    """The store of runs that MLflow's variables name."""

    def __init__(self, mlflow: Any) -> None:
        """Takes MLflow's package, and makes a client for the store that its variables name.

        The client reads MLflow's own variables, so that a user sets the place once for all.
        """
        self.mlflow = mlflow
        self.client = mlflow.MlflowClient()
        self.entities = require("mlflow.entities", extra="mlflow")
        self.uri = _shown_uri(mlflow)
        """The store's address without credentials, as messages show it and receipts hold it."""

    def send(self, run: TrackedRun, receipt: Receipt) -> Tracked:
        """Creates the run in MLflow's store, or updates the one of an earlier export.

        A metric of MLflow cannot be deleted: where the earlier run has one that is gone now, a new
        run is made, so that no old figure is read as one of this run.
        """
        experiment_id = self._experiment_id()
        # The place's name in receipts: with another spelling, those of earlier exports would not be
        # found.
        place = f"mlflow {self.uri} {experiment_id}"
        figures = dict(run.figures)
        stored = self._stored_run(receipt, place, experiment_id)
        if stored is not None and not stored.data.metrics.keys() <= figures.keys():
            # A figure that is gone cannot be deleted, and would be read as one of this run.
            stored = None
        is_new = stored is None
        if stored is None:
            stored = self.client.create_run(
                experiment_id,
                run_name=run.name,
                tags={_KEY_TAG: receipt.key, "mlflow.source.name": SOURCE},
            )
        run_id: str = stored.info.run_id
        # Kept before anything is logged: an interrupted export goes on in this run.
        receipt.keep(place, run_id)
        self._log_facts(run, run_id, figures, stored.data)
        for page in run.pages:
            self.client.log_artifact(run_id, str(page))
        cases = self._log_table(run, run_id)
        scored = 0
        missing = 0
        for case in run.cases():
            if case.trace_id is not None:
                if self._score_trace(case, case.trace_id, receipt.key):
                    scored += 1
                else:
                    missing += 1
        self.client.set_terminated(run_id)
        return Tracked(
            tracker="mlflow",
            id=run_id,
            address=self._address(experiment_id, run_id),
            is_new=is_new,
            cases=cases,
            scored_traces=scored,
            missing_traces=missing,
        )

    def _experiment_id(self) -> str:
        """The id of the MLflow experiment that the variables name, created where it is missing.

        MLflow keeps each run in an experiment; where the user names none, it is called
        ``ragbench``. As in MLflow itself a name goes before an id, and the two must agree.

        Raises:
            ConfigError: the two variables are of different experiments.
        """
        experiment_id = os.environ.get("MLFLOW_EXPERIMENT_ID")
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
        if experiment_id and not name:
            return experiment_id
        experiment = self.client.get_experiment_by_name(name or SOURCE)
        if experiment is None:
            return str(self.client.create_experiment(name or SOURCE))
        id_of_name = str(experiment.experiment_id)
        if experiment_id and experiment_id != id_of_name:
            raise ConfigError(
                f"MLFLOW_EXPERIMENT_ID is {experiment_id}, and the experiment of "
                f"MLFLOW_EXPERIMENT_NAME, '{name}', is {id_of_name}. Unset one of them"
            )
        return id_of_name

    def _stored_run(self, receipt: Receipt, place: str, experiment_id: str) -> Any:
        """The MLflow run of an earlier export; None where there is none, or where it was deleted.

        A run has a tag with the receipt's key, so that it is recognised also where the export was
        interrupted before its id was stored.
        """
        earlier_id = receipt.id_at(place)
        filter_string = f"tags.`{_KEY_TAG}` = '{receipt.key}'"
        # The newest comes first. Deleted runs are not among them.
        runs = self.client.search_runs([experiment_id], filter_string)
        for stored in runs:
            # With a stored id that run alone; without one the newest that has the key.
            if earlier_id in (None, stored.info.run_id):
                return stored
        return None

    def _log_facts(
        self, run: TrackedRun, run_id: str, figures: dict[str, float], stored: Any
    ) -> None:
        """Logs a run's figures, settings and commit, but those that MLflow has already.

        A parameter of MLflow never changes: a second request for it would be refused.

        Args:
            figures: the numbers of the report by name.
            stored: the data of the MLflow run, as its client returns them.
        """
        entities = self.entities
        now = time.time_ns() // 1_000_000
        metrics: list[Any] = []
        # An equal value sent again would be a second point of the same metric.
        for name, value in figures.items():
            if stored.metrics.get(name) != value:
                metrics.append(entities.Metric(name, value, now, 0))
        for start in range(0, len(metrics), _MOST_METRICS):
            batch = metrics[start : start + _MOST_METRICS]
            self.client.log_batch(run_id, metrics=batch)
        for name, setting in run.settings.items():
            if name not in stored.params:
                self.client.log_param(run_id, name, setting)
        if run.commit:
            self.client.set_tag(run_id, "mlflow.source.git.commit", run.commit)

    def _log_table(self, run: TrackedRun, run_id: str) -> int:
        """Logs the cases of a run as a table that MLflow's page shows; returns their number.

        A table of MLflow is an artifact that a tag names: file, columns and tag are of a form that
        its page reads.
        """
        # MLflow takes a file under the name that it has on the disk.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, TABLE)
            cases = _write_table(run.cases(), path)
            self.client.log_artifact(run_id, str(path))
        table = [{"path": TABLE, "type": "table"}]
        self.client.set_tag(run_id, "mlflow.loggedArtifacts", orjson.dumps(table).decode())
        return cases

    def _score_trace(self, case: TrackedCase, trace_id: str, key: str) -> bool:
        """Gives an MLflow trace the scores of its case as feedback; False where it is not there.

        Feedback has the run's key, so that a second export replaces its own values only: feedback
        of people stays.
        """
        trace = self._stored_trace(trace_id)
        if trace is None:
            return False
        earlier: dict[str, Any] = {}
        for assessment in trace.info.assessments or ():
            # Others, such as those that people gave, are left alone.
            metadata: dict[str, Any] = assessment.metadata or {}
            if metadata.get(_KEY_TAG) == key:
                earlier[assessment.name] = assessment
        names = plain_names(case.cells)
        for metric, value in case.values.items():
            name = names[metric]
            assessment = earlier.get(name)
            if assessment is not None and assessment.value == value:
                del earlier[name]
            else:
                self._log_feedback(trace.info.trace_id, name, value, metric, key)
        # These have another value now, or none.
        for assessment in earlier.values():
            self.mlflow.delete_assessment(trace.info.trace_id, assessment.assessment_id)
        return True

    def _log_feedback(self, trace_id: str, name: str, value: float, metric: str, key: str) -> None:
        """Logs one score of a trace as feedback, marked with the key of this run.

        Args:
            name: the metric's name in the letters that MLflow takes.
            metric: the metric's name in ragbench.
            key: the receipt's: a second export recognises its own feedback by it.
        """
        source = self.entities.AssessmentSource(source_type="CODE", source_id=SOURCE)
        self.mlflow.log_feedback(
            trace_id=trace_id,
            name=name,
            value=value,
            source=source,
            metadata={_KEY_TAG: key, "metric": metric},
        )

    def _stored_trace(self, trace_id: str) -> Any:
        """An MLflow trace by its id there, or by OpenTelemetry's, which lacks ``tr-``; else None.

        Exports of traces may hold either id.
        """
        # As it is first: exports of MLflow itself hold the id with ``tr-``.
        for id in (trace_id, f"tr-{trace_id}"):
            try:
                return self.client.get_trace(id, display=False)
            except self.mlflow.exceptions.MlflowException as error:
                if error.error_code not in _WITHOUT_TRACE:
                    raise
        return None

    def _address(self, experiment_id: str, run_id: str) -> str:
        """The address of a run's page on the MLflow server; of a database, its URI.

        The user opens it after an export. A database has no page, so its URI must do.
        """
        if urlsplit(self.uri).scheme in ("http", "https"):
            return f"{self.uri.rstrip('/')}/#/experiments/{experiment_id}/runs/{run_id}"
        return self.uri


def _shown_uri(mlflow: Any) -> str:
    """The place to which MLflow sends runs, without credentials: errors and reports show it.

    A store's URI may hold a password, as that of a database does.
    """
    uri = str(mlflow.get_tracking_uri())
    # The path of sqlite:////tmp/a.db would lose its slashes, and has no credentials.
    if uri.startswith(("sqlite:", "file:", "/")):
        return uri
    return mask_url(uri)


def _write_table(cases: Iterator[TrackedCase], path: Path) -> int:
    """Writes the cases as a table in MLflow's form, one case per line, and returns their number.

    Case by case, so that memory does not hold the whole run.
    """
    count = 0
    with open_private(path, "wb") as file:
        for case in cases:
            values = case_values(case)
            if count == 0:  # the first case says which columns there are
                columns = orjson.dumps(list(values))
                file.write(b'{"columns": ' + columns + b', "data": [\n')
            else:
                file.write(b",\n")
            file.write(orjson.dumps(list(values.values())))
            count += 1
        if count:
            file.write(b"\n]}\n")
        else:
            file.write(b'{"columns": [], "data": []}\n')
    return count
