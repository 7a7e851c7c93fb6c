"""``ragbench report``: render a stored run again."""

from __future__ import annotations

import sys

from ragbench_cli.options import JsonOption, RunArgument

__all__ = ["command"]


def command(run: RunArgument, json: JsonOption = False) -> None:
    """Render a stored run again, without computing anything anew.

    Writes report.json, report.md, cases.csv and timings.json into the run's folder.

    Example:
    \b
      ragbench report reports/pellorin-baseline-1a2b3c4d
    """
    from ragbench.evaluation.report import report_of
    from ragbench.reports.write import write_reports
    from ragbench_cli.tables import print_report

    report = report_of(run)
    write_reports(report, run)
    if json:
        sys.stdout.write((run / "report.json").read_text(encoding="utf-8"))
    else:
        print_report(report)
