"""``ragbench calibrate``: a validator's probabilities brought in line with your labels."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from ragbench.core.record import Record
from ragbench.io.atomic import write_whole
from ragbench.stages.stage import Progress
from ragbench.validators.calibrate import Quality
from ragbench.validators.calibration import calibration_text
from ragbench.verbs.calibrate import DumpCalibration, calibrate_dump
from ragbench_cli import console
from ragbench_cli.console import StageAdvance
from ragbench_cli.options import JsonOption, Panel, argument, option, takes_records
from ragbench_cli.output import show
from ragbench_cli.validator_options import DumpChoice, OnProcesses, ValidatorChoice, judging


class CalibrateOptions(Record):
    """Which labels a validator is fitted to, and which errors are allowed."""

    PANEL: ClassVar = Panel.MEASURED

    labels: Annotated[str, argument("LABELS")]
    """Labels by ragbench label RUN -m answer_present; or a dump whose queries have answer_present
    (true or false) and whose chunks have relevant (true or false), where that was labelled; '-' for
    standard input."""
    out: Annotated[Path, option("-o", panel=Panel.OUTPUT)] = Path("calibration.json")
    """File for the calibration, to be used with validate --calibration."""
    precision: float | None = None
    """Target precision of Yes on the labels: the share of queries called answered that really are.
    By default 0.98, as far as it costs no F1."""
    error: Annotated[float | None, option("--max-false-yes")] = None
    """Instead of --precision: the share of queries without the answer that may be called Yes,
    guaranteed for queries like the labelled ones (conformal)."""
    seed: Annotated[int, option(rare=True)] = 7
    """Seed of the folds."""
    on: OnProcesses
    quiet: Annotated[bool, option("-q", panel=Panel.OUTPUT)] = False
    """Show no progress and no hints."""


@takes_records
def command(
    options: CalibrateOptions,
    dump: DumpChoice,
    validator: ValidatorChoice,
    json: JsonOption = False,
) -> None:
    """When a validator is too sure: fit it to your own labels.

    Rescales probabilities, shrunk toward those that ship, moves thresholds where a Yes is shown to
    miss the target precision, and prints the effect. The figures after calibration are
    cross-validated: each fold is judged by a calibration learned from the others. If they do not
    show that it is better, nothing is written, and the exit code is 1.

    \b
    Examples:
      ragbench calibrate labels.jsonl
      ragbench calibrate labels.jsonl --precision 0.95 -o mine.json
      ragbench calibrate labels.jsonl --max-false-yes 0.02
      ragbench validate dump.jsonl --calibration mine.json
    """
    validator = validator.named
    on = options.on
    # The block closes the validator, and ends the workers where Ctrl-C is pressed.
    with judging(validator, options.labels, dump, on.engine, quiet=options.quiet) as opened:
        result = calibrate_dump(
            opened.source,
            opened.make,
            precision=options.precision,
            error=options.error,
            seed=options.seed,
            engine=opened.engine,
            workers=on.workers,
            stopped=opened.stopped,
            advance=partial(_show_progress, opened.bars),
        )
        for problem in opened.source.problems:
            console.say(f"malformed: {problem}")
    is_better = result.report.is_better
    # An older file stays where the new one would be no better.
    if is_better:
        write_whole(options.out, calibration_text(result.report.calibration).encode())
    show(result, partial(_print_calibration, result), json=json)
    if not is_better:
        console.say(
            f"{options.out} was not written: the labels do not show that it would be better"
        )
        raise typer.Exit(1)
    if not options.quiet:
        use = f"ragbench validate DUMP --validator {validator.name} --calibration {options.out}"
        console.say(f"\ncalibration  {options.out}\nuse          {use}")


def _show_progress(bars: StageAdvance | None, done: int) -> None:
    """Moves the progress on by some judged queries; how many there are in all is not known.

    A dump is read as a stream.

    Args:
        bars: None where no progress is shown.
    """
    if bars is not None:
        bars(Progress("validate", None, done))


def _print_calibration(result: DumpCalibration) -> None:
    """Prints a calibration.

    It shows precision and recall before and after, and what other targets would give. Queries that
    are in no figure are counted first.
    """
    report = result.report
    typer.echo(
        f"{report.calibration.validator} on {result.labelled:,} labelled queries, "
        f"{report.answer_before.positive:,} with the answer"
    )
    if result.unlabelled:
        typer.echo(f"{result.unlabelled:,} without a label: skipped")
    if result.failed:
        typer.echo(f"{result.failed:,} the validator failed on: skipped")
    if result.malformed:
        typer.echo(f"{result.malformed:,} malformed: skipped")
    typer.echo("")
    # 24 columns for the names of the rows, 26 for a share with its interval: `_print_rows` has the
    # same.
    typer.echo(f"{'':24}{'before':26}after, cross-validated")
    _print_rows("answer present", report.answer_before, report.answer_after)
    # Labels may be of answers alone: then chunks have no figures.
    if report.chunk_before is not None and report.chunk_after is not None:
        _print_rows("relevant chunks", report.chunk_before, report.chunk_after)
    thresholds = report.calibration.thresholds
    typer.echo("")
    typer.echo(f"present from {thresholds.present:.3f}, relevant from {thresholds.relevant:.3f}")
    flag = "--precision"
    if report.error is not None:
        flag = "--max-false-yes"
    typer.echo(f"what other targets keep, cross-validated ({flag}):")
    for tradeoff in report.tradeoffs:
        recall = _share_text(tradeoff.quality, "recall")
        precision = _share_text(tradeoff.quality, "precision")
        typer.echo(f"  {tradeoff.target:<8g}recall {recall:<24}precision {precision}")
    for note in report.notes:
        typer.echo(f"note: {note}")


def _print_rows(name: str, before: Quality, after: Quality) -> None:
    """Prints one kind of verdict: its figures before and after the calibration, side by side.

    Names take 22 columns and figures 26, as the heading above them does.
    """
    typer.echo(name)
    for label in ("precision", "recall"):
        share_before = _share_text(before, label)
        share_after = _share_text(after, label)
        typer.echo(f"  {label:<22}{share_before:<26}{share_after}")
    label = "calibration error"
    error_before = f"{before.calibration_error:.3f}"
    error_after = f"{after.calibration_error:.3f}"
    typer.echo(f"  {label:<22}{error_before:<26}{error_after}")


def _share_text(quality: Quality, name: str) -> str:
    """A precision or recall as text, with its interval; ``-`` where no query gives one.

    Labels are few, so the interval says as much as the figure.

    Args:
        name: "precision" or "recall".
    """
    # Figures of a quality have the same name with "_interval" behind it.
    value: float | None = getattr(quality, name)
    low, high = getattr(quality, f"{name}_interval")
    if value is None:
        return "-"
    return f"{value:.3f} ({low:.3f} .. {high:.3f})"
