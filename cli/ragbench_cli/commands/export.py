"""``ragbench export``: a stored run in another tool's format, or in a tracker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.safe_text import counted, listed_names
from ragbench_cli import console
from ragbench_cli.options import JsonOption, RunArgument, completed, option, takes_records


def _completed_targets(typed: str) -> list[str]:
    """The completions of ``--to``, for shells.

    They are the formats and trackers that begin with the typed letters.
    """
    return [*completed("exports")(typed), *completed("trackers")(typed)]


class ExportOptions(Record):
    """Which run is written or sent, and where."""

    run: RunArgument
    to: Annotated[str, option("NAME", complete=_completed_targets)] = "ragas"
    """Format: ragas, jsonl, trec, csv, parquet, hf or labels (ragbench show exports). Or tracker:
    mlflow, wandb, langfuse, langsmith or phoenix (docs/trackers.md)."""
    out: Annotated[Path | None, option("PATH", "--out", "-o")] = None
    """File or folder to write, of a format. By default in the run's folder."""


@takes_records
def command(options: ExportOptions, json: JsonOption = False) -> None:
    """Write a run in another tool's format, or to a tracker.

    Standard output names the files that were written, or the address of the run at the tracker.
    An address and its credentials are read from the tracker's own environment variables.

    \b
    Examples:
      ragbench export reports/pellorin-baseline-1a2b3c4d --to ragas -o samples.jsonl
      ragbench export reports/pellorin-baseline-1a2b3c4d --to trec -o baseline.run
      ragbench export reports/pellorin-baseline-1a2b3c4d --to mlflow
    """
    from ragbench.io.export import EXPORTS
    from ragbench.trackers.tracker import TRACKERS

    trackers = TRACKERS.targets()
    # Trackers first: a name of both would be a tracker's.
    if options.to in trackers:
        _send_to_tracker(options, json=json)
        return
    formats = EXPORTS.targets()
    if options.to not in formats:
        hint = listed_names(options.to, sorted([*formats, *trackers]))
        raise ConfigError(f"--to: there is no format or tracker '{options.to}'.{hint}")
    _write_format(options, json=json)


def _send_to_tracker(options: ExportOptions, *, json: bool) -> None:
    """Sends a run to a tracker such as mlflow, and prints the run's address there.

    A run that is there already is updated, not repeated. Traces that the tracker lacks are counted
    on standard error.

    Args:
        json: whether the result is printed as JSON.
    """
    from ragbench.ledger.folder import run_around
    from ragbench.verbs.track import track_run

    # Refused before the import of the tracker's package, which takes long.
    if options.out is not None:
        raise ConfigError(
            f"--out names a file, and {options.to} is a tracker: leave out --out. Its address is "
            "in the tracker's environment variables (docs/trackers.md)"
        )
    tracked = track_run(run_around(options.run), options.to)
    if json:
        console.print_json(tracked)
        return
    typer.echo(tracked.address)
    verb = "sent as a new run" if tracked.is_new else "updated"
    console.say(f"{tracked.tracker} run {tracked.id}: {counted(tracked.cases, 'case')} {verb}")
    if tracked.scored_traces:
        console.say(f"{counted(tracked.scored_traces, 'trace')} scored")
    if tracked.missing_traces:
        console.say(
            f"Warning: {counted(tracked.missing_traces, 'case')} came from traces that "
            f"{tracked.tracker} does not have"
        )


def _write_format(options: ExportOptions, *, json: bool) -> None:
    """Writes a run in another tool's format, and prints the paths of the files.

    Cases that the format cannot hold are counted on standard error.
    """
    from ragbench.ledger.folder import run_around
    from ragbench.verbs.cases import export_run

    exported = export_run(run_around(options.run), options.to, options.out)
    paths = [str(path) for path in exported.paths]
    if json:
        console.print_json(
            {
                "format": options.to,
                "paths": paths,
                "written": exported.written,
                "left_out": exported.left_out,
                "unfinished": exported.unfinished,
            }
        )
    else:
        typer.echo("\n".join(paths))
        console.say(f"{counted(exported.written, 'case')} written")
        for reason, count in exported.left_out.items():
            console.say(f"{count:,} left out: {reason}")
    # With --json and without it: JSON is on standard output, the warning on standard error.
    if exported.unfinished:
        console.say(
            f"Warning: the run was interrupted: {counted(exported.unfinished, 'case')} not asked "
            "or not scored yet. Continue it with the same eval command"
        )
