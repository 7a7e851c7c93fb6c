"""``ragbench baseline``: the run that later ones are held against."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, option

if TYPE_CHECKING:
    from ragbench.core.run_scores import RunScores

__all__ = [
    "app",
]

app = typer.Typer(
    help="Keep and show the run that others are held against.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_DEFAULT = Path("ragbench-baseline.json")


@app.command("set")
def set_(
    run: Annotated[Path, argument(metavar="RUN", help="Folder of a run, or its report.json.")],
    out: Annotated[
        Path,
        option("--out", "-o", help="File to write.", metavar="FILE", show_default=True),
    ] = _DEFAULT,
    json: JsonOption = False,
) -> None:
    """Keep a run as a baseline file.

    The file holds scores, fingerprints and the commit, but no texts: one line per case, small
    enough to commit and to review.

    \b
    Examples:
      ragbench baseline set run
      ragbench baseline set run -o baselines/pellorin.json
    """
    from ragbench.gate.runs import read_run, write_baseline

    scores = read_run(run)
    write_baseline(scores, out)
    if json:
        console.print_json({"path": str(out), **_facts(scores)})
    else:
        typer.echo(out)
        console.say(f"{len(scores.cases):,} cases, {len(scores.metrics)} metrics")
    failed = sum(stage.failed for stage in scores.stages)
    if failed:
        console.say(f"Warning: {failed:,} calls of this run failed; those cases are not compared.")
    if scores.dirty:
        console.say("Warning: the run's folder had uncommitted changes when it was made.")


@app.command("show")
def show(
    file: Annotated[
        Path, argument(metavar="FILE", help="A baseline file, a run folder or a report.json.")
    ] = _DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show what a baseline file holds.

    \b
    Examples:
      ragbench baseline show
      ragbench baseline show baselines/pellorin.json --json
    """
    from ragbench.gate.runs import read_run
    from ragbench_cli.console import data_console
    from ragbench_cli.tables import bare_table, print_block, styled

    scores = read_run(file)
    facts = _facts(scores)
    if json:
        console.print_json({"path": str(file), **facts})
        return
    page = data_console()
    commit = f", commit {scores.commit[:12]}" if scores.commit else ""
    changes = " with changes" if scores.dirty else ""
    head = f" on {scores.dataset}: {len(scores.cases):,} cases{commit}{changes}"
    print_block(page, styled((scores.rag, "bold"), head))
    print_block(page, "")
    table = bare_table("metric", "score", "version", "measured")
    for metric in facts["metrics"]:
        score = "-" if metric["score"] is None else f"{metric['score']:.3f}"
        measured = f"{metric['measured']:,}"
        cells = (metric["metric"], score, str(metric["version"]), measured)
        table.add_row(*(styled(cell) for cell in cells))
    print_block(page, table)


def _facts(scores: RunScores) -> dict[str, Any]:
    return {
        "dataset": scores.dataset,
        "rag": scores.rag,
        "commit": scores.commit,
        "dirty": scores.dirty,
        "matching": scores.matching,
        "fingerprints": dict(scores.fingerprints),
        "cases": len(scores.cases),
        "metrics": [
            {
                "metric": column.name,
                "version": column.version,
                "score": column.score,
                "measured": sum(value is not None for value in scores.values(column.name).values()),
            }
            for column in scores.metrics
            if column.has_cells
        ],
    }
