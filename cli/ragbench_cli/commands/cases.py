"""``ragbench cases``: some cases of a run, by cause, tag or metric, shown or written anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from ragbench.core.attribution import Cause
from ragbench.core.record import Record
from ragbench.core.report import CaseRow, Report
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.ledger.folder import run_around
from ragbench.safe_text import counted, did_you_mean, shown_line
from ragbench.verbs.cases import select_cases, worst_metric, write_dataset
from ragbench.verbs.report import report_of
from ragbench.views.explain import case_name, score_text
from ragbench.views.report import case_object
from ragbench_cli import console
from ragbench_cli.options import JsonOption, RunArgument, option, takes_records
from ragbench_cli.output import Blocks, draw, styled

CAUSES = tuple(map(str, Cause))
"""The names of the causes, as JSON and the shell's completion have them."""
_LISTED = 20
"""How many cases are shown without --limit."""
_LONGEST = 300
"""Letters of the explanation of a case."""


class CasesOptions(Record):
    """Which cases of a run are wanted, and where they go."""

    run: RunArgument
    cause: Annotated[
        str | None,
        option(
            "CAUSE",
            help=f"Only cases with this cause: one of {', '.join(CAUSES)}.",
            complete=CAUSES,
        ),
    ] = None
    worst: Annotated[str | None, option("METRIC")] = None
    """A metric of the run: its worst cases first."""
    tag: Annotated[str | None, option("TAG")] = None
    """Only cases with this tag."""
    limit: Annotated[int | None, option(min=1)] = None
    """How many are taken: 20, with -o all."""
    out: Annotated[Path | None, option("FOLDER", "--out", "-o")] = None
    """Writes them as a dataset for eval into a new folder, with all that the run knows of them."""


@takes_records
def command(options: CasesOptions, json: JsonOption = False) -> None:
    """List cases of a run, by cause, tag or metric.

    \b
    Examples:
      ragbench cases reports/pellorin-baseline-1a2b3c4d --cause declined
      ragbench cases reports/pellorin-baseline-1a2b3c4d --worst token_f1 --tag date
      ragbench cases reports/pellorin-baseline-1a2b3c4d --cause not_retrieved -o regress/
    """
    cause = None if options.cause is None else _read_cause(options.cause)
    run = run_around(options.run)
    report = report_of(run)
    limit = options.limit
    if limit is None and options.out is None:
        # A screen shows the first ones; a dataset that is written has all.
        limit = _LISTED
    count, rows = select_cases(
        report, cause=cause, tag=options.tag, worst=options.worst, limit=limit
    )
    if options.out is not None:
        _write_cases(run, rows, options.out, is_json=json)
    elif json:
        cases = [case_object(row, report.metrics) for row in rows]
        console.print_json({"schema_version": 1, "found": count, "cases": cases})
    else:
        draw(_case_lines(report, rows, worst_metric(report, options.worst)))
        text = counted(count, "case")
        # The count is of all that fit the options, the rows only those within the limit.
        if count > len(rows):
            text += f", {count - len(rows):,} more with --limit"
        console.say(text)


def _read_cause(text: str) -> Cause:
    """The cause that ``--cause`` names, by its name in files; else an error with the nearest one.

    A cause is what lost the answer of a case, such as ``not_retrieved``.
    """
    try:
        return Cause(text)
    except ValueError:
        # The nearest one is named as the user writes them: in words, or as files have them.
        names: Sequence[str] = CAUSES
        if " " in text:
            names = [cause.label for cause in Cause]
        near = did_you_mean(text, names)
        message = f"--cause must be one of {', '.join(CAUSES)}, not '{text}'.{near}"
        raise ConfigError(message) from None


def _write_cases(run: Path, rows: list[CaseRow], folder: Path, *, is_json: bool) -> None:
    """Writes chosen cases as a dataset into a folder, for a test of what once went wrong.

    A case without a reference or gold can never fail there: how many lack it is reported.
    """
    # An empty dataset would pass every later test.
    if not rows:
        raise DataError(
            [Problem(message="no case of it is as asked: nothing is written", path=str(run))]
        )
    lacking = write_dataset(run, rows, folder)
    if is_json:
        console.print_json(
            {
                "schema_version": 1,
                "written": len(rows),
                "needs": lacking,
                "folder": str(folder),
            }
        )
        return
    console.say(f"{counted(len(rows), 'case')} written to {folder}: ragbench eval {folder}")
    for label, count in lacking.items():
        console.say(f"{counted(count, 'case')} without {label}: add it, or nothing can fail there")


def _case_lines(report: Report, rows: list[CaseRow], metric: int | None) -> Blocks:
    """The three lines of each case in the list: its name, its cause and score, and the explanation.

    A reader recognises a case by its question, and sees at once what lost it.

    Args:
        metric: the position of the metric whose score is shown; None for none.
    """
    for row in rows:
        # Without a metric the cause alone is shown.
        score = ""
        if metric is not None:
            score = f"{report.metrics[metric].name} {score_text(row.cells[metric])}"
        yield styled((case_name(row.id, row.query), "bold"))
        yield styled(f"  {row.attribution.cause.label}", (f"  {score}", "dim"))
        explanation = shown_line(row.attribution.explanation, longest=_LONGEST)
        yield styled((f"  {explanation}", "dim"))
