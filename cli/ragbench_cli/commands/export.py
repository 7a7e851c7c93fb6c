"""``ragbench export``: a stored run in another tool's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.record import Record
from ragbench.safe_text import counted
from ragbench_cli import console
from ragbench_cli.options import JsonOption, RunArgument, completed, option, takes_records


class ExportOptions(Record):
    """Which run is written, and in which format."""

    run: RunArgument
    to: Annotated[str, option("FORMAT", complete=completed("exports"))] = "ragas"
    """Format: ragas, jsonl, trec, csv, parquet, hf or labels. See: ragbench show exports."""
    out: Annotated[Path | None, option("PATH", "--out", "-o")] = None
    """File or folder to write. By default in the run's folder."""


@takes_records
def command(options: ExportOptions, json: JsonOption = False) -> None:
    """Write a stored run in another tool's format.

    Standard output names the files that were written.

    \b
    Examples:
      ragbench export reports/pellorin-baseline-1a2b3c4d --to ragas -o samples.jsonl
      ragbench export reports/pellorin-baseline-1a2b3c4d --to trec -o baseline.run
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
    if exported.unfinished:
        console.say(
            f"Warning: the run was interrupted: {counted(exported.unfinished, 'case')} not asked "
            "or not scored yet. Continue it with the same eval command"
        )
