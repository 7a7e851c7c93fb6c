"""``ragbench report``: render a stored run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ragbench_cli import console
from ragbench_cli.options import (
    HtmlFolderOption,
    HtmlOption,
    JsonOption,
    RunArgument,
    option,
    write_page,
)


def command(
    run: RunArgument,
    against: Annotated[
        Path | None,
        option(
            "--against",
            help="Show each case of the page beside the same one of another run, those that went "
            "another way first: a run folder or a baseline file.",
            metavar="RUN",
        ),
    ] = None,
    html: HtmlOption = None,
    html_folder: HtmlFolderOption = None,
    json: JsonOption = False,
) -> None:
    """Print the report of a stored run.

    Nothing is recomputed. report.json, report.md, report.html, cases.csv and timings.json are
    written into the run's folder again.

    \b
    Example:
      ragbench report reports/pellorin-baseline-1a2b3c4d
      ragbench report reports/pellorin-baseline-1a2b3c4d --html page.html
      ragbench report branch --against main --html page.html
    """
    from ragbench.errors import ConfigError
    from ragbench.gate.compare import cases_beside
    from ragbench.gate.runs import read_run
    from ragbench.ledger.folder import run_around
    from ragbench.verbs.report import report_of
    from ragbench.views.html.run_page import run_page
    from ragbench.views.write import write_reports
    from ragbench_cli.report_tables import print_report

    has_page = html is not None or html_folder is not None
    if against is not None and not has_page:
        raise ConfigError("--against shows cases in a page: name it with --html FILE")
    run = run_around(run)
    report = report_of(run)
    write_reports(report, run)
    if has_page:
        earlier = None if against is None else cases_beside(read_run(run), read_run(against))
        page = run_page(report, earlier)
        write_page(page.body(), page.title, html=html, html_folder=html_folder)
    if json:
        console.print_file(run / "report.json")
    else:
        print_report(report, is_full=True)
