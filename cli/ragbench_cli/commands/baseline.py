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
from ragbench.gate.main_runs import Added, baseline_of, check_kept, with_run
from ragbench.gate.runs import read_run
from ragbench.io.atomic import write_whole, written_whole
from ragbench.ledger.folder import run_around
from ragbench.safe_text import as_line, counted
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
"""The baseline file, where none is named."""
_MOST_UNSTABLE = 10
"""How many unstable cases are named."""


class SetOptions(Record):
    """The runs that become a baseline, and the files that are written."""

    runs: Annotated[list[Path], argument("RUN...")]
    """Folders of runs of one unchanged system, oldest first."""
    out: Annotated[Path, option("--out", "-o")] = _DEFAULT
    """File to write."""
    limits: Path | None = None
    """Also write a configuration with the tolerance that fits these cases, measured from two or
    more runs."""


@app.command("set")
@takes_records
def set_(options: SetOptions, json: JsonOption = False) -> None:
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
    scores = [read_run(run) for run in options.runs]
    baseline = baseline_of(scores)
    # All mistakes in --limits before the baseline is written: half of the files would mislead.
    limits = options.limits
    if limits is not None and len(scores) < 2:
        raise ConfigError("--limits needs two or more runs of one system: one shows no noise")
    if limits is not None and limits.exists():
        raise ConfigError(f"{limits} exists and may have been edited: name another file")
    if limits is not None and not limits.absolute().parent.is_dir():
        raise ConfigError(f"--limits {limits}: there is no folder {limits.parent}")
    fitted = fitted_limits(scores) if len(scores) > 1 else ()
    write_baseline(baseline, options.out)
    if limits is not None:
        command_line = ["baseline", "set"]  # the file names the command that wrote it
        command_line += [run.source for run in scores]
        command_line += ["-o", str(options.out), "--limits", str(limits)]
        # From the folder of the limits, as they are committed beside the baseline.
        baseline_path = Path(os.path.relpath(options.out, limits.parent)).as_posix()
        text = limits_yaml(fitted, scores, command_line, baseline_path)
        from ragbench_cli.schemas import schema_bytes, schema_line, schema_path

        write_whole(limits, (schema_line("ragbench") + text).encode())
        # The line names the schema, from the folder of the file.
        schema = limits.parent / schema_path("ragbench")
        with written_whole(schema, make_folders=True, is_private=False) as file:
            file.write(schema_bytes("ragbench"))
    if json:
        console.print_json(
            {"path": str(options.out), **_baseline_facts(baseline), "limits": fitted}
        )
    else:
        typer.echo(options.out)
        if limits is not None:
            typer.echo(limits)
        console.say(_size_text(baseline))
        for limit in fitted:
            console.say(f"{limit.metric}: {limit_line(limit)}")
    # The last run stands for all: they are of one system.
    _warn_of_run(scores[-1])


class AddOptions(Record):
    """The run that joins a baseline."""

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
def add(options: AddOptions, json: JsonOption = False) -> None:
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
    out = options.out
    check_kept(options.keep)  # also where the file is yet to be made
    book = options.labelled.book
    scores = with_labels(read_run(options.run), book)
    if out.exists():
        added = with_run(read_baseline(out), scores, keep=options.keep, accept=options.accept)
    else:
        added = Added(baseline=baseline_of([scores]))
    # New labels may correct a run that is in it already.
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
        console.print_json({"path": str(out), **_baseline_facts(added.baseline), **outcome})
    else:
        typer.echo(out)
        console.say(_added_text(added))
    if added.dropped:
        console.say(
            f"Warning: this run lacks {counted(added.dropped, 'case')} of the baseline. Later runs "
            "are not compared on what it lacks."
        )
    _warn_of_run(scores)


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
    # A run folder is shown as the baseline that it would become.
    if run_around(file).is_dir():
        baseline = baseline_of([read_run(file)])
    else:
        baseline = read_baseline(file)
    facts = _baseline_facts(baseline)
    show_result({"path": str(file), **facts}, lambda: draw(_baseline_blocks(facts)), json=json)


def _baseline_blocks(facts: dict[str, Any]) -> Blocks:
    """The blocks of the screen of ``baseline show``: metrics, and how steady the system is.

    The share of noise says whether more runs would make the gate sharper.

    Args:
        facts: the baseline as JSON has it.
    """
    cases = counted(facts["cases"], "case")
    description = f" on {facts['dataset']}: {cases}"
    if facts["commit"]:
        description += f", commit {facts['commit'][:12]}"
    if facts["dirty"]:
        description += " with changes"
    yield styled((facts["rag"], "bold"), description)
    runs = facts["runs"]
    # A single run shows no noise, unless it asked the system repeatedly.
    shows_noise = sum(run["repeats"] for run in runs) > 1
    if len(runs) > 1:
        span = span_text([run["date"] for run in runs])
        yield f"the mean of {len(runs)} runs{span}"
    yield ""
    columns = ["metric", "score", "version", "measured"]
    if shows_noise:
        columns.append("noise")
    rows: list[list[str]] = []
    unmeasured: list[str] = []
    for metric in facts["metrics"]:
        if not metric["measured"]:
            unmeasured.append(metric["metric"])
            continue
        rows.append(_metric_row(metric, shows_noise=shows_noise))
    yield table(columns, rows)
    if unmeasured:
        yield f"\nnot measured: {', '.join(unmeasured)}"
    if shows_noise:
        yield "\nnoise: share of the variance of a case's mean that more runs remove"
        unstable = facts["unstable"]
        line = f"unstable: {len(unstable):,} of {cases}"
        if unstable:
            line += f": {as_line(unstable, _MOST_UNSTABLE)}"
        yield line


def _metric_row(metric: dict[str, Any], *, shows_noise: bool) -> list[str]:
    """The row of a metric on the screen of a baseline, with the share of noise in its last column.

    Noise is how far one system differs from itself between runs.
    """
    row = [
        metric["metric"],
        number_text(metric["score"]),
        str(metric["version"]),
        f"{metric['measured']:,}",
    ]
    if shows_noise:
        # "-" where one run alone is known: noise needs two.
        noise = "-"
        if metric["noise_share"] is not None:
            noise = f"{metric['noise_share']:.0%}"
        row.append(noise)
    return row


def _size_text(baseline: Baseline) -> str:
    """A text on a baseline's size: its cases and metrics, and the runs that it is the mean of.

    It is reported after each command that writes a baseline file.
    """
    cases = counted(len(baseline.cases), "case")
    metrics = counted(len(baseline.metrics), "metric")
    if baseline.kept > 1:
        return f"{cases}, {metrics}, the mean of {baseline.kept} runs"
    return f"{cases}, {metrics}"


_SHOWN_CHANGES = 3
"""How many metrics are named that changed."""


def _added_text(added: Added) -> str:
    """The sentences on a run that was added to a baseline, and what later runs are compared with.

    A level that is shown to have changed is named, because it moves what every later pull request
    is judged by.
    """
    # From the strongest reason to the weakest: each text supposes that those above do not hold.
    if added.is_known:
        return "This run is in it already: nothing was changed."
    if added.other:
        return f"Later runs are compared with this run alone: {added.other}."
    if not added.changes:
        return _size_text(added.baseline)
    changes: list[str] = []
    for change in added.changes[:_SHOWN_CHANGES]:
        direction = "down"
        if change.after > change.before:
            direction = "up"
        changes.append(
            f"{change.metric} went {direction} from {change.before:.3f} to {change.after:.3f} "
            f"(p = {change.p_value:.2g})"
        )
    # Counted before the last entry is added to the list.
    unnamed = len(added.changes) - len(changes)
    if unnamed:
        changes.append(f"and {unnamed} more")
    change_text = "; ".join(changes)
    if added.is_held:
        return (
            f"Main is shown to have fallen: {change_text}. The baseline stays, so that later runs "
            "fail where they are no better. Accept the lower level with --accept."
        )
    # A change must show twice before the runs before it are dropped: it may be chance.
    if added.is_first:
        consequence = (
            "It is averaged with the runs before. If the next run shows it, too, later runs are "
            "compared with these two."
        )
    elif added.baseline.kept == 1:
        consequence = "Later runs are compared with this run alone."
    else:
        consequence = "Later runs are compared with this run and the one before."
    return f"Main is shown to have changed: {change_text}. {consequence}"


def _warn_of_run(scores: RunScores) -> None:
    """Reports what makes a run a poor baseline (failed calls, uncommitted changes).

    The run becomes the baseline all the same.
    """
    # Of all stages: a case may fail in several.
    failed = sum(stage.failed for stage in scores.stages)
    if failed:
        console.say(
            f"Warning: this run has {counted(failed, 'failed call')}: such a case is not compared."
        )
    if scores.dirty:
        console.say("Warning: the run's folder had uncommitted changes when it was made.")


def _baseline_facts(baseline: Baseline) -> dict[str, Any]:
    """A baseline as the JSON object of ``--json``.

    The screen of ``baseline show`` is drawn from the same object, by its keys.
    """
    # The runs are in the order in which they were added.
    newest = baseline.made_of[-1]
    return {
        **values_of(baseline, "dataset rag"),
        "commit": newest.commit,
        # One run with uncommitted changes is enough for figures that no commit explains.
        "dirty": any(run.dirty for run in baseline.made_of),
        "matching": baseline.matching,
        "fingerprints": dict(baseline.fingerprints),
        "cases": len(baseline.cases),
        "runs": [values_of(run, "date commit repeats") for run in baseline.made_of],
        "remembered": len(baseline.runs),
        "metrics": [_metric_facts(baseline, column) for column in baseline.metrics],
        "unstable": _unstable_ids(baseline),
    }


def _unstable_ids(baseline: Baseline) -> list[str]:
    """The ids of cases that came out differently in a baseline's runs, which are of one system.

    What changes there is noise of the system itself: a gate cannot tell it from a loss.
    """
    ids: list[str] = []
    for case in baseline.cases:
        for repeats in case.repeats.values():
            # Status and value: a failure differs from a score, and reasons do not count.
            outcomes = {(cell.status, cell.value) for cell in repeats.cells if cell is not None}
            if len(outcomes) > 1:
                ids.append(case.id)
                break
    return ids


def _metric_facts(baseline: Baseline, column: MetricColumn) -> dict[str, Any]:
    """The JSON of a metric of a baseline: its score, and how much of its variance is noise.

    The values of one case in several runs differ by that noise alone; those of several cases
    differ by their difficulty, too.
    """
    cells = baseline.cells(column.name)
    values_by_case: dict[str, list[float]] = {}
    for position, case_id in enumerate(baseline.table.ids):
        repeats = cells.asked(position).values
        # A repeat without a value is no observation of the noise.
        values_by_case[case_id] = [value for value in repeats if value is not None]
    components = variance_components(values_by_case)
    return {
        "metric": column.name,
        **values_of(column, "version score"),
        "measured": components.cases,
        "within_variance": components.within,
        "between_variance": components.between,
        "noise_share": components.share_within,
    }
