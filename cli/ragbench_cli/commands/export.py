"""``ragbench export``: a stored run in another tool's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench_cli import console
from ragbench_cli.options import JsonOption, RunArgument

__all__ = ["command"]


def command(
    run: RunArgument,
    to: Annotated[
        str, typer.Option(help="Format: ragas, jsonl, trec, csv, parquet or hf.")
    ] = "ragas",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File or folder to write. By default in the run's folder.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Export a stored run: as RAGAS samples, JSON Lines, TREC run and qrels, CSV, Parquet ...

    Examples:
    \b
      ragbench export reports/pellorin-baseline-1a2b3c4d --to ragas -o samples.jsonl
      ragbench export reports/pellorin-baseline-1a2b3c4d --to trec -o baseline.run
    """
    from ragbench.evaluation.export import export_run

    done = export_run(run, to, out)
    if json:
        console.print_json({"written": done.written, "paths": [str(path) for path in done.paths]})
        return
    for path in done.paths:
        typer.echo(path)
    console.say(f"{done.written:,} cases")
