"""Weights & Biases: the figures as the summary of a run, the cases as a table, the page shown.

The run goes where its own variables say: ``WANDB_API_KEY``, ``WANDB_BASE_URL``, ``WANDB_ENTITY``,
``WANDB_PROJECT``. With ``WANDB_MODE=offline`` it is written below ``WANDB_DIR``, by default into
the folder ``wandb``, and ``wandb sync`` sends it later.

Facts of Weights & Biases:

- A run is resumed by its id (https://docs.wandb.ai/models/runs/resuming, ``resume="allow"``). The
  id of a run that was deleted is never accepted again.
- Names of metrics are sorted and filtered by where they are letters, digits and ``_``
  (https://docs.wandb.ai/models/track/log, "Metric naming constraints").
- It has no traces: a case that came from a trace has the trace's id in the table.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragbench.core.reading import Reading, words_of
from ragbench.errors import TrackerError
from ragbench.masking import mask_text
from ragbench.plugins import require, silenced
from ragbench.trackers.receipt import Receipt
from ragbench.trackers.tracker import (
    SOURCE,
    Tracked,
    TrackedRun,
    case_values,
    plain_names,
    possible_figures,
)

_TABLE = "ragbench/cases"
_PAGE = "ragbench/report"
"""The panels of a run; no figure has a name with a slash."""
_SECONDS = 30.0
"""How long a server may take to accept a run. W&B's own limit is 90 seconds."""


def send(run: TrackedRun, receipt: Receipt) -> Tracked:
    """Sends a run to Weights & Biases: figures as its summary, cases as a table, the page shown.

    A tracker's function of the shape `Tracker`: the run goes where wandb's own variables say.

    Raises:
        TrackerError: W&B cannot be reached or refuses the run.
    """
    wandb = require("wandb", extra="wandb")
    with _speaking_of_wandb():
        stored = _opened_run(wandb, run, receipt)
        try:
            return _filled_run(wandb, stored, run, receipt)
        finally:
            # After an error, too: W&B then sends what was logged so far.
            stored.finish()


@contextmanager
def _speaking_of_wandb() -> Generator[None]:
    """Turns whatever wandb raises in the block into one error with a next step for the user.

    wandb prints much by itself, which is held back: the error alone is of use.
    """
    with silenced("wandb", "urllib3"), Reading(_wandb_refusal):
        yield


def _wandb_refusal(error: Exception) -> TrackerError:
    """The error of an export that Weights & Biases refused, with the variables to check.

    Args:
        error: whatever wandb raised; credentials in its text are masked.
    """
    reason = mask_text(words_of(error)).rstrip(".")
    return TrackerError(
        f"W&B: {reason}. Nothing of the run has changed. Check WANDB_API_KEY, WANDB_BASE_URL "
        "and WANDB_ENTITY, or set WANDB_MODE=offline; then export again"
    )


def _opened_run(wandb: Any, run: TrackedRun, receipt: Receipt) -> Any:
    """The run at Weights & Biases to fill: that of an earlier export, or a new one.

    Its id is the receipt's key, so that an interrupted export is continued. Nothing is recorded of
    this process, which is not the one that was evaluated.
    """
    settings: dict[str, Any] = {
        "silent": True,
        # A run of the same process, such as a training, goes on beside this one.
        "reinit": "create_new",
        # The process that exports is not the one that was evaluated: nothing of it is recorded.
        "console": "off",
        "disable_code": True,
        "disable_git": True,
        "x_disable_machine_info": True,
        "x_disable_meta": True,
        "x_disable_stats": True,
        "x_save_requirements": False,
    }
    if "WANDB_INIT_TIMEOUT" not in os.environ:
        settings["init_timeout"] = _SECONDS
    return wandb.init(
        project=os.environ.get("WANDB_PROJECT") or SOURCE,
        # No run of another folder has this id: an export that was interrupted is resumed as well.
        id=receipt.key,
        resume="allow",
        name=run.name,
        config={**run.settings, "commit": run.commit},
        # The commit changes where `ragbench eval` has continued the run.
        allow_val_change=True,
        settings=wandb.Settings(**settings),
    )


def _filled_run(wandb: Any, stored: Any, run: TrackedRun, receipt: Receipt) -> Tracked:
    """Sends the figures, the cases and the pages to an opened run of Weights & Biases.

    The id is kept in the receipt first: an export that is interrupted afterwards can be continued.

    Args:
        wandb: the package.
        stored: the run as `_opened_run` returns it.

    Raises:
        TrackerError: the user has disabled wandb by its variable.
    """
    if stored.disabled:
        raise TrackerError(
            "W&B: WANDB_MODE is disabled, so nothing is sent. Set it to online or offline; then "
            "export again"
        )
    # The place's name in receipts: with another spelling, those of earlier exports would not be
    # found.
    place = f"wandb {stored.settings.base_url} {stored.entity} {stored.project}"
    is_new = receipt.id_at(place) is None
    receipt.keep(place, stored.id)
    _update_summary(stored, run)
    cases = _log_cases(wandb, stored, run)
    _log_pages(wandb, stored, run)
    return Tracked(
        tracker="wandb",
        id=stored.id,
        address=_address_of_run(stored),
        is_new=is_new,
        cases=cases,
    )


def _update_summary(stored: Any, run: TrackedRun) -> None:
    """Sets the figures in the summary of a W&B run; deletes those that have no value any more.

    A figure that only an earlier export had would be read as one of this run.
    """
    figures = possible_figures(run.summaries)
    # The figures' own names have dots, and W&B filters only by names without one.
    names = plain_names(figures)
    for figure, value in figures.items():
        if value is None:
            del stored.summary[names[figure]]
        else:
            stored.summary[names[figure]] = value


def _log_cases(wandb: Any, stored: Any, run: TrackedRun) -> int:
    """Logs the cases of a run to Weights & Biases as a table; returns their number.

    The table is shown in the run, and in comparisons with others. All rows are held in memory, as
    wandb wants them.
    """
    rows = [case_values(case) for case in run.cases()]
    # Every row has the columns of the first.
    columns = [*rows[0]] if rows else []
    table = wandb.Table(columns=columns, data=[[*row.values()] for row in rows])
    stored.log({_TABLE: table})
    return len(rows)


def _log_pages(wandb: Any, stored: Any, run: TrackedRun) -> None:
    """Logs the report's page as a panel of the W&B run, and its files as an artifact.

    A reader of the run at W&B thereby sees the whole report, with its tables.
    """
    # A run without a report page has nothing to show here.
    if not run.pages:
        return
    files = wandb.Artifact(f"report-{stored.id}", type="report")
    for page in run.pages:
        files.add_file(str(page))
        if page.suffix == ".html":
            stored.log({_PAGE: wandb.Html(page, inject=False)})
    stored.log_artifact(files)


def _address_of_run(stored: Any) -> str:
    """The address of the run at W&B; offline, its folder with the command that sends it.

    An export without a network writes a folder, which a user sends later.
    """
    if not stored.offline:
        return str(stored.url)
    folder = Path(stored.dir).parent
    return f"{folder} (send it: wandb sync {folder})"
