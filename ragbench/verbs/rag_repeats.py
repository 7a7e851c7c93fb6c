"""The same cases asked several times: how much of a score is the system's own noise?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ragbench.core.case import Case
from ragbench.core.report import Report
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError
from ragbench.ledger.folder import RunFolder, forget_repeats, keep_repeats, repeat_folder
from ragbench.ledger.journal import Journal
from ragbench.verbs.report import report_of

MOST = 20
"""A baseline keeps no more."""

Evaluate = Callable[[Iterable[Case | Entry], Path], Report]
"""Evaluates cases in a run folder; see `ragbench.verbs.evaluate.evaluate`."""


def evaluate_repeatedly(
    evaluate: Evaluate, cases: Iterable[Case | Entry], out: Path, repeats: int
) -> Report:
    """Asks a system several times, retrieval and generation, and reports the mean of each case.

    Each time has a run folder of its own below the run's: an interrupted one goes on, and what one
    was answered is no answer of another. The second time and on take the cases from the first, and
    ask all of them, whatever the source recorded.
    """
    if not 1 <= repeats <= MOST:
        raise ConfigError(f"the number of repeats is {repeats}: give 1 to {MOST}")
    forget_repeats(out)
    report = evaluate(cases, out)
    if repeats == 1:
        return report
    with Journal(RunFolder(path=out).journal) as journal:
        asked = [stored.case for window in journal.cases() for stored in window]
    for number in range(2, repeats + 1):
        evaluate(asked, repeat_folder(out, number))
    keep_repeats(out, repeats)
    return report_of(out)
