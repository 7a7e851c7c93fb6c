"""``ragbench baseline``: the runs that later ones are compared with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ragbench.core.record import Record, field
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.errors import ConfigError
from ragbench.gate.baseline_file import Baseline, read_baseline, write_baseline
from ragbench.gate.history import fitted_limits
from ragbench.gate.main_runs import Added, baseline_of, with_run
from ragbench.gate.runs import read_run
from ragbench.io.atomic import write_whole
from ragbench.ledger.folder import run_around
from ragbench.safe_text import as_line
from ragbench.stats.mean import variance_components
from ragbench.verbs.label import with_labels
from ragbench.views.document import number_text
from ragbench.views.history import limit_line, limits_yaml, span_text
from ragbench.views.report import values_of
from ragbench_cli import console
from ragbench_cli.options import JsonOption, Labelled, argument, option, subcommands, takes_records
from ragbench_cli.output import Blocks, draw, styled, table
from ragbench_cli.output import show as show_result

app = subcommands("Create, update and show the baseline of the gate.")

_DEFAULT = Path("ragbench-baseline.json")
_NAMED = 10
"""How many unstable cases are named."""


class SetAsked(Record):
    runs: Annotated[list[Path], argument("RUN...")]
    """Folders of runs of one unchanged system, oldest first."""
    out: Annotated[Path, option("--out", "-o")] = _DEFAULT
    """File to write."""
    limits: Path | None = None
    """Also write a configuration with the tolerance that fits these cases, measured from two or
    more runs."""


@app.command("set")
@takes_records
def set_(asked: SetAsked, json: JsonOption = False) -> None:
    """Keep a run as a baseline file, or the mean of several.

    Several runs of one unchanged system halve the noise that a later run is compared with, and
    show which drop these cases can detect. The file holds scores, fingerprints, dates and commits,
    but no texts: one line per case, small enough to commit and to review.

    \b
    Examples:
      ragbench baseline set run
      ragbench baseline set run-1 run-2 run-3 -o baselines/pellorin.json
      ragbench baseline set run-1 run-2 run-3 --limits ragbench.yaml
    """
    scores = [read_run(run) for run in asked.runs]
    baseline = baseline_of(scores)
    limits = asked.limits
    if limits is not None and len(scores) < 2:
        raise ConfigError("--limits needs two or more runs of one system: one shows no noise")
    if limits is not None and limits.exists():
        raise ConfigError(f"{limits} exists and may have been edited: name another file")
    fitted = fitted_limits(scores) if len(scores) > 1 else ()
    write_baseline(baseline, asked.out)
    if limits is not None:
        given = [*(run.source for run in scores), "-o", str(asked.out), "--limits", str(limits)]
        beside = Path(os.path.relpath(asked.out, limits.parent)).as_posix()
        text = limits_yaml(fitted, scores, ["baseline", "set", *given], beside)
        write_whole(limits, text.encode())
    if json:
        console.print_json({"path": str(asked.out), **_facts(baseline), "limits": fitted})
    else:
        typer.echo(asked.out)
        if limits is not None:
            typer.echo(limits)
        console.say(_size(baseline))
        for limit in fitted:
            console.say(f"{limit.metric}: {limit_line(limit)}")
    _warn(scores[-1])


class AddAsked(Record):
    run: Annotated[Path, argument("RUN")]
    """Folder of main's newest run."""
    out: Annotated[Path, option("--out", "-o")] = _DEFAULT
    """The baseline file; made where there is none."""
    keep: Annotated[int, option("K", min=1)] = 5
    """How many runs are averaged; the oldest is dropped."""
    accept: bool = False
    """Accept a level that is shown to be lower: later runs are compared with this run alone."""
    labelled: Labelled = field(default_factory=Labelled)


@app.command("add")
@takes_records
def add(asked: AddAsked, json: JsonOption = False) -> None:
    """Add main's newest run to a baseline file, after a merge.

    Later runs are compared with the mean of the last K runs. If two runs in a row
    are significantly better than those before, they replace them: a mean of two different systems
    describes neither. If a run is significantly worse, the baseline stays until you accept it with
    --accept. Of up to 100 runs the
    means stay, for ragbench history.

    \b
    Examples:
      ragbench baseline add reports/main
      ragbench baseline add reports/main --keep 3
    """
    out, book = asked.out, asked.labelled.book
    scores = with_labels(read_run(asked.run), book)
    if out.exists():
        added = with_run(read_baseline(out), scores, keep=asked.keep, accept=asked.accept)
    else:
        added = Added(baseline=baseline_of([scores]))
    if not added.is_known or book is not None:
        write_baseline(added.baseline, out)
    if json:
        outcome = {
            "known": added.is_known,
            "other": added.other or None,
            "held": added.is_held,
            "changes": added.changes,
            "first": added.is_first,
            "dropped": added.dropped,
        }
        console.print_json({"path": str(out), **_facts(added.baseline), **outcome})
    else:
        typer.echo(out)
        console.say(_added_text(added))
    if added.dropped:
        console.say(
            f"Warning: {added.dropped:,} cases of the baseline are not in this run. Later runs are "
            "not compared on them."
        )
    _warn(scores)


@app.command("show")
def show(
    file: Annotated[Path, argument("FILE", help="A baseline file or a run folder.")] = _DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show the contents of a baseline file.

    With several runs it shows how much of the variance of a case's mean is noise of the system
    itself, which more runs would remove, and the cases that were scored differently.

    \b
    Examples:
      ragbench baseline show
      ragbench baseline show baselines/pellorin.json --json
    """
    is_run = run_around(file).is_dir()
    baseline = baseline_of([read_run(file)]) if is_run else read_baseline(file)
    facts = _facts(baseline)
    show_result({"path": str(file), **facts}, lambda: draw(_blocks(facts)), json=json)


def _blocks(facts: dict[str, Any]) -> Blocks:
    commit = f", commit {facts['commit'][:12]}" if facts["commit"] else ""
    changes = " with changes" if facts["dirty"] else ""
    head = f" on {facts['dataset']}: {facts['cases']:,} cases{commit}{changes}"
    yield styled((facts["rag"], "bold"), head)
    several = sum(run["repeats"] for run in facts["runs"]) > 1
    if len(facts["runs"]) > 1:
        span = span_text([run["date"] for run in facts["runs"]])
        yield f"the mean of {len(facts['runs'])} runs{span}"
    yield ""
    columns = ["metric", "score", "version", "measured", *(["noise"] if several else [])]
    measured = [metric for metric in facts["metrics"] if metric["measured"]]
    rows = (
        (
            one["metric"],
            number_text(one["score"]),
            str(one["version"]),
            f"{one['measured']:,}",
            "-" if one["noise_share"] is None else f"{one['noise_share']:.0%}",
        )[: len(columns)]
        for one in measured
    )
    yield table(columns, rows)
    silent = ", ".join(metric["metric"] for metric in facts["metrics"] if not metric["measured"])
    if silent:
        yield f"\nnot measured: {silent}"
    if several:
        yield "\nnoise: share of the variance of a case's mean that more runs remove"
        unstable = facts["unstable"]
        names = f": {as_line(unstable, _NAMED)}" if unstable else ""
        yield f"unstable: {len(unstable):,} of {facts['cases']:,} cases{names}"


def _size(baseline: Baseline) -> str:
    runs = f", the mean of {baseline.kept} runs" if baseline.kept > 1 else ""
    return f"{len(baseline.cases):,} cases, {len(baseline.metrics)} metrics{runs}"


def _added_text(added: Added) -> str:
    if added.is_known:
        return "This run is in it already: nothing was changed."
    if added.other:
        return f"Later runs are compared with this run alone: {added.other}."
    if added.changes:
        shown = "; ".join(
            f"{change.metric} went {'up' if change.after > change.before else 'down'} from "
            f"{change.before:.3f} to {change.after:.3f} (p = {change.p_value:.2g})"
            for change in added.changes[:3]
        )
        more = f"; and {len(added.changes) - 3} more" if len(added.changes) > 3 else ""
        moved, then = "changed", "Later runs are compared with this run and the one before."
        if added.baseline.kept == 1:
            then = "Later runs are compared with this run alone."
        if added.is_first:
            then = (
                "It is averaged with the runs before. If the next run shows it, too, later runs "
                "are compared with these two."
            )
        if added.is_held:
            moved = "fallen"
            then = (
                "The baseline stays, so that later runs fail where they are no better. Accept the "
                "lower level with --accept."
            )
        return f"Main is shown to have {moved}: {shown}{more}. {then}"
    return _size(added.baseline)


def _warn(scores: RunScores) -> None:
    failed = sum(stage.failed for stage in scores.stages)
    if failed:
        console.say(f"Warning: {failed:,} calls of this run failed; those cases are not compared.")
    if scores.dirty:
        console.say("Warning: the run's folder had uncommitted changes when it was made.")


def _facts(baseline: Baseline) -> dict[str, Any]:
    newest = baseline.made_of[-1]
    return {
        **values_of(baseline, "dataset rag"),
        "commit": newest.commit,
        "dirty": any(run.dirty for run in baseline.made_of),
        "matching": baseline.matching,
        "fingerprints": dict(baseline.fingerprints),
        "cases": len(baseline.cases),
        "runs": [values_of(run, "date commit repeats") for run in baseline.made_of],
        "remembered": len(baseline.runs),
        "metrics": [_metric(baseline, column) for column in baseline.metrics],
        # Any metric came out differently in the kept runs, which are of one system.
        "unstable": [
            case.id
            for case in baseline.cases
            if any(
                len({(cell.status, cell.value) for cell in repeats.cells if cell is not None}) > 1
                for repeats in case.repeats.values()
            )
        ],
    }


def _metric(baseline: Baseline, column: MetricColumn) -> dict[str, Any]:
    cells = baseline.cells(column.name)
    values = {
        id_: [value for value in cells.asked(at).values if value is not None]
        for at, id_ in enumerate(baseline.table.ids)
    }
    parts = variance_components(values)
    return {
        "metric": column.name,
        **values_of(column, "version score"),
        "measured": parts.cases,
        "within_variance": parts.within,
        "between_variance": parts.between,
        "noise_share": parts.share_within,
    }
