"""``ragbench show``: what there is to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from ragbench_cli import console
from ragbench_cli.options import JsonOption

if TYPE_CHECKING:
    from ragbench.records.metrics import MetricDefinition

__all__ = ["app"]

app = typer.Typer(
    help="List what there is to choose from.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("metrics")
def metrics(json: JsonOption = False) -> None:
    """List the metrics: what each measures, what it needs, which way is better.

    Example:
    \b
      ragbench show metrics --json
    """
    from ragbench.scoring.registry import definitions

    known = definitions()
    if json:
        console.print_json([_metric(definition) for definition in known])
        return
    group = ""
    for definition in known:
        if definition.group.value != group:
            group = definition.group.value
            typer.echo(f"{group}")
        extra = f" [extra: {definition.extra}]" if definition.extra else ""
        typer.echo(f"  {_spelling(definition):<42} {definition.summary}{extra}")


def _spelling(definition: MetricDefinition) -> str:
    listed = ", ".join(f"{item.name}={item.default}" for item in definition.parameters)
    cutoff = {"required": "@k", "optional": "[@k]", "none": ""}[definition.cutoff]
    return f"{definition.name}{f'({listed})' if listed else ''}{cutoff}"


def _metric(definition: MetricDefinition) -> dict[str, Any]:
    return {
        "name": definition.name,
        "aliases": list(definition.aliases),
        "group": definition.group,
        "needs": sorted(definition.needs),
        "direction": definition.direction,
        "low": definition.low,
        "high": definition.high,
        "cutoff": definition.cutoff,
        "parameters": [
            {
                "name": item.name,
                "default": item.default,
                "choices": list(item.choices),
                "summary": item.summary,
            }
            for item in definition.parameters
        ],
        "abstains": definition.abstains,
        "cost": definition.cost,
        "extra": definition.extra,
        "version": definition.version,
        "summary": definition.summary,
        "citation": definition.citation,
    }


@app.command("formats")
def formats(json: JsonOption = False) -> None:
    """List the formats that datasets are read from.

    Example:
    \b
      ragbench show formats
    """
    from ragbench.data.formats import FORMATS

    if json:
        console.print_json(FORMATS)
        return
    for known in FORMATS:
        extra = f" [extra: {known.extra}]" if known.extra else ""
        typer.echo(f"{known.name:<10} {known.summary}{extra}")
        typer.echo(f"{'':<10} {' and '.join(known.reads)}, for example {known.example}")


@app.command("exports")
def exports(json: JsonOption = False) -> None:
    """List the formats that a run can be exported to.

    Example:
    \b
      ragbench show exports
    """
    from ragbench.prepare.export.registry import EXPORTS

    names = list(EXPORTS.targets())
    if json:
        console.print_json(names)
        return
    for name in names:
        typer.echo(name)
