"""``ragbench report``: render a stored run again."""

from __future__ import annotations

from ragbench_cli import console
from ragbench_cli.html_options import HtmlFolderOption, HtmlOption, write_page
from ragbench_cli.options import JsonOption, RunArgument

__all__ = [
    "command",
]


def command(
    run: RunArgument,
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
    """
    from ragbench.ledger.folder import run_around
    from ragbench.verbs.report import report_of
    from ragbench.views.html.run_page import run_page
    from ragbench.views.write import write_reports
    from ragbench_cli.tables import print_report

    run = run_around(run)
    report = report_of(run)
    write_reports(report, run)
    if html is not None or html_folder is not None:
        page = run_page(report)
        write_page(page.body(), page.title, html=html, html_folder=html_folder)
    if json:
        console.print_file(run / "report.json")
    else:
        print_report(report)
