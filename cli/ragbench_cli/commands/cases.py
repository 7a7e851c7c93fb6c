"""``ragbench cases``: the cases of a run that somebody asks for."""

from __future__ import annotations

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
from ragbench.views.explain import score_text
from ragbench.views.report import case_object
from ragbench_cli import console
from ragbench_cli.options import JsonOption, RunArgument, option, takes_records
from ragbench_cli.output import Blocks, draw, styled

CAUSES = tuple(map(str, Cause))
_LISTED = 20


class Asked(Record):
    run: RunArgument
    cause: Annotated[
        str | None,
        option(
            "CAUSE",
            help=f"Only cases with this cause, as tables print it or one of {', '.join(CAUSES)}.",
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
def command(asked: Asked, json: JsonOption = False) -> None:
    """List cases of a run, by cause, tag or metric.

    \b
    Examples:
      ragbench cases reports/pellorin-baseline-1a2b3c4d --cause declined
      ragbench cases reports/pellorin-baseline-1a2b3c4d --worst token_f1 --tag date
      ragbench cases reports/pellorin-baseline-1a2b3c4d --cause not_retrieved -o regress/
    """
    printed = {one.label: one.value for one in Cause}  # tables show causes in words
    named = None if asked.cause is None else printed.get(asked.cause, asked.cause)
    if named is not None and named not in CAUSES:
        near = did_you_mean(named, (*printed, *CAUSES))
        raise ConfigError(f"--cause must be one of {', '.join(CAUSES)}, not '{named}'.{near}")
    wanted = None if named is None else Cause(named)
    run = run_around(asked.run)
    report = report_of(run)
    limit = asked.limit or (_LISTED if asked.out is None else None)
    count, found = select_cases(report, cause=wanted, tag=asked.tag, worst=asked.worst, limit=limit)
    if asked.out is not None:
        _write(run, found, asked.out, is_json=json)
    elif json:
        cases = [case_object(row, report.metrics) for row in found]
        console.print_json({"schema_version": 1, "found": count, "cases": cases})
    else:
        draw(_lines(report, found, worst_metric(report, asked.worst)))
        more = f", {count - len(found):,} more with --limit" if count > len(found) else ""
        console.say(f"{counted(count, 'case')}{more}")


def _write(run: Path, found: list[CaseRow], folder: Path, *, is_json: bool) -> None:
    if not found:
        raise DataError(
            [Problem(message="no case of it is as asked: nothing is written", path=str(run))]
        )
    lacking = write_dataset(run, found, folder)
    if is_json:
        written = {"schema_version": 1, "written": len(found), "needs": lacking}
        console.print_json({**written, "folder": str(folder)})
        return
    console.say(f"{counted(len(found), 'case')} written to {folder}: ragbench eval {folder}")
    for label, count in lacking.items():
        console.say(f"{counted(count, 'case')} without {label}: add it, or nothing can fail there")


def _lines(report: Report, found: list[CaseRow], at: int | None) -> Blocks:
    for row in found:
        score = "" if at is None else f"{report.metrics[at].name} {score_text(row.cells[at])}"
        head = (shown_line(row.id, longest=80), "bold")
        yield styled(head, f"  {row.attribution.cause.label}", (f"  {score}", "dim"))
        yield styled(f"  {shown_line(row.query, longest=200)}")
        yield styled((f"  {shown_line(row.attribution.detail, longest=300)}", "dim"))
