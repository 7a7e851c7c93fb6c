"""What a gate's result and a comparison become as documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from ragbench.core.attribution import CauseCount
from ragbench.core.comparison import Against, ComparedRun, Comparison, MetricComparison
from ragbench.core.gate_result import GateCheck, GateOutcome, GateResult, JudgedRun
from ragbench.core.origin import SystemChange
from ragbench.safe_text import shown_line
from ragbench.views.comparison import counts_text, family_text, p_text, result_lines
from ragbench.views.document import Document, Section, changes_of, flows_section
from ragbench.views.gate import (
    CHECK_COLUMNS,
    after_text,
    change_lines,
    change_title,
    check_cells,
    number_text,
    range_text,
    refusal_text,
)
from ragbench.views.html import charts
from ragbench.views.run_document import causes_section

_CHECKS, _LOST, _CHANGED, _COMPARED = 60, 20, 5, 20
"""Rows, and cases of a kind, in Markdown: forges allow a comment 65,536 letters."""
_LONGEST = 160
_TONES = {
    GateOutcome.PASSED: ("passed", "passes"),
    GateOutcome.FAILED: ("failed", "fails"),
    GateOutcome.INCONCLUSIVE: ("cannot tell", "undecided"),
}


def comment_marker(verdict: GateResult) -> str:
    """The hidden first line: a comment that starts with it is replaced instead of repeated.

    It is the same for every run of one system on one dataset.
    """
    names = (verdict.run.dataset, verdict.run.rag)
    slugs = [re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") for name in names]
    return f"<!-- ragbench-gate {'/'.join(slugs)} -->"


def gate_document(
    verdict: GateResult, causes: Sequence[CauseCount] = (), against: Against | None = None
) -> Document:
    word, tone = _TONES[verdict.outcome]
    changed = changes_of([against.pair], against.changed) if against is not None else ()
    runs = [f"run {_source(verdict.run)}"]
    if verdict.baseline is not None:
        runs.append(f"baseline {_source(verdict.baseline)}")
    settings = ", ".join(f"{key} {value}" for key, value in verdict.settings.items())
    return Document(
        kind="ragbench gate",
        title=f"{word} ({verdict.run.rag} on {verdict.run.dataset})",
        headline=verdict.headline,
        tone=tone,
        sections=(
            Section(
                title="Not compared",
                lines=[f"{one.what}: {refusal_text(one)}" for one in verdict.refusals],
            ),
            Section(
                title="Checks",
                columns=("check", "outcome", *CHECK_COLUMNS, "detectable", "why"),
                rows=list(map(_check, verdict.checks)),
                most=_CHECKS,
            ),
            _system("the baseline", "this run", verdict.system),
            causes_section(causes),
            flows_section(() if against is None else against.flows),
            Section(
                title="Cases that went another way",
                lines=[f"{counts_text(against.pair)} cases"] if against and changed else (),
                changes=changed,
                most=_CHANGED,
            ),
            Section(
                title=f"Cases that lost ({len(verdict.lost_cases):,})",
                columns=("case", "metric", "before", "now", "question"),
                rows=[]
                if changed
                else [
                    (
                        shown_line(one.id, longest=_LONGEST),
                        one.metric,
                        number_text(one.before),
                        shown_line(after_text(one), longest=_LONGEST),
                        shown_line(one.query or "", longest=_LONGEST),
                    )
                    for one in verdict.lost_cases
                ],
                most=_LOST,
            ),
        ),
        notes=verdict.notes,
        foot=f"{'; '.join(runs)}. {settings}.",
    )


def _check(check: GateCheck) -> Sequence[str]:
    drop, is_passed = check.drop, check.outcome is GateOutcome.PASSED
    return (
        check.name,
        check.outcome.value,
        *check_cells(check),
        # The smallest true loss that these cases would have shown.
        "-" if drop is None else number_text(drop.detectable_drop, check.unit),
        "" if is_passed else check.reason,
    )


def _source(run: JudgedRun | ComparedRun) -> str:
    commit = "" if run.commit is None else f" at {run.commit[:12]}"
    return f"{run.source}{commit}{' with changes' if commit and run.dirty else ''}"


def _system(before: str, now: str, change: SystemChange | None) -> Section:
    lines = [] if change is None else list(change_lines(change))
    return Section(title=change_title(before, now).capitalize(), lines=lines)


def comparison_document(comparison: Comparison, *, cases: int = _COMPARED) -> Document:
    """Runs side by side.

    Args:
        cases: how many cases of each kind Markdown shows.
    """
    marks = [run.mark for run in comparison.runs]
    pairs = comparison.pairs
    return Document(
        kind="ragbench comparison",
        title=f"runs {', '.join(marks[:-1])} and {marks[-1]} on {comparison.runs[0].dataset}",
        headline=". ".join(result_lines(comparison)),
        sections=(
            Section(
                title="Runs",
                columns=("run", "system", "dataset", "read from", "cases"),
                rows=[
                    (run.mark, run.rag, run.dataset, _source(run), f"{run.cases:,}")
                    for run in comparison.runs
                ],
            ),
            Section(
                title="Metrics",
                columns=("metric", *marks, "pair", "difference", "", "interval", "p", "cases"),
                rows=[row for metric in comparison.metrics for row in _metric_rows(metric)],
                hint=family_text(comparison),
            ),
            *(
                _system(pair.first, pair.second, change)
                for pair, change in zip(pairs, comparison.systems, strict=True)
            ),
            flows_section(comparison.flows),
            Section(
                title="Cases",
                lines=[f"{one.second} against {one.first}: {counts_text(one)}" for one in pairs],
                changes=changes_of(pairs, comparison.changed),
                most=cases,
            ),
        ),
        notes=(*comparison.notes, *_readings(comparison)),
    )


def _metric_rows(metric: MetricComparison) -> Iterator[Sequence[object]]:
    figures = [
        " ".join((number_text(figure.score, metric.unit), *(f"^{r}" for r in figure.better_than)))
        for figure in metric.figures
    ]
    if not metric.differences:
        yield (metric.name, *figures, "-", "-", Markup(), "-", "-", "-")
    drawn = charts.differences([(one.difference, one.low, one.high) for one in metric.differences])
    for at, (found, forest) in enumerate(zip(metric.differences, drawn, strict=True)):
        yield (
            metric.name,
            *(figures if at == 0 else [""] * len(figures)),
            f"{found.second} - {found.first}",
            number_text(found.difference, metric.unit, sign=True),
            forest,
            range_text(found.low, found.high, metric.unit),
            p_text(found) + (" *" if found.is_significant else ""),
            f"{found.cases:,}",
        )


def _readings(comparison: Comparison) -> Iterator[str]:
    """How the numbers are to be read."""
    for metric in comparison.metrics:
        if metric.untested is not None:
            yield f"{metric.name} is not tested: {metric.untested}"
    main = ", ".join(comparison.main)
    lies = f", or when {main} lies in the lower half of its scale" if main else ""
    yield f"A case fails when a stage failed{lies}"
