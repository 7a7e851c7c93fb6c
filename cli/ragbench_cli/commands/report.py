"""``ragbench report``: render a stored run again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from ragbench.core.record import Record, field
from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.options import JsonOption, Labelled, RunArgument, option, takes_records
from ragbench_cli.output import Page


class ReportOptions(Record):
    """Which run is shown, and beside which other one."""

    run: RunArgument
    baseline: Annotated[Path | None, option("RUN", "--baseline")] = None
    """Show each case of the page beside the same one of another run, those that went another way
    first: a run folder or a baseline file."""
    labelled: Labelled = field(default_factory=Labelled)


@takes_records
def command(options: ReportOptions, page: Page, json: JsonOption = False) -> None:
    """Print the report of a stored run.

    Nothing is recomputed. Where report.json, report.md, report.html, cases.csv or timings.json is
    missing, edited or of another version, all are written into the run's folder again. With
    --labels these files hold the figures that your labels correct, until the next report without.

    \b
    Example:
      ragbench report reports/pellorin-baseline-1a2b3c4d
      ragbench report reports/pellorin-baseline-1a2b3c4d --html page.html
      ragbench report branch --baseline main --html page.html
    """
    from ragbench.gate.compare import cases_beside
    from ragbench.gate.runs import read_run
    from ragbench.ledger.folder import run_around
    from ragbench.verbs.label import corrected_report, with_labels
    from ragbench.verbs.report import report_of
    from ragbench.views.html.run_page import run_page
    from ragbench.views.report import report_json
    from ragbench.views.write import are_written, write_reports
    from ragbench_cli.report_tables import print_report

    if options.baseline is not None and not page.is_wanted:
        raise ConfigError("--baseline shows cases in a page: name it with --html FILE")
    run = run_around(options.run)
    report = report_of(run)
    book = options.labelled.book
    if book is not None:
        # The corrected report replaces the run's own from here on: printed, in the page, and in the
        # files of the folder, which hold what the last command showed.
        report = corrected_report(report, run, book)
    if not os.access(run, os.W_OK):
        console.say(f"{run} cannot be written: its files stay as they are")
    elif not are_written(report, run):
        write_reports(report, run)
    if page.is_wanted:
        beside = None
        if options.baseline is not None:
            baseline = with_labels(read_run(options.baseline), book)
            # The page shows no text of the changes: it has the cases themselves.
            beside = cases_beside(with_labels(read_run(run), book), baseline, max_texts=0)
        page.write(run_page(report, beside))
    if json:
        console.write_json([report_json(report)])
    else:
        print_report(report, is_full=True)
