"""What a gate's result and a comparison become as documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from ragbench.core.attribution import CauseCount
from ragbench.core.comparison import Against, ComparedRun, Comparison, MetricComparison
from ragbench.core.gate_result import CaseChange, GateCheck, GateOutcome, GateResult, JudgedRun
from ragbench.core.origin import SystemChange
from ragbench.safe_text import shown_line
from ragbench.views.comparison import counts_text, family_text, p_text, result_lines, span_text
from ragbench.views.document import Document, Section, changes_of, flows_section
from ragbench.views.gate import (
    after_text,
    change_lines,
    change_text,
    change_title,
    detectable_text,
    interval_text,
    limit_text,
    number_text,
    observed_text,
)
from ragbench.views.html import charts
from ragbench.views.run_words import causes_section

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
    return Document(
        kind="ragbench gate",
        title=f"{word} ({verdict.run.rag} on {verdict.run.dataset})",
        headline=verdict.headline,
        tone=tone,
        sections=(
            Section(title="Not compared", lines=list(_refusals(verdict))),
            Section(
                title="Checks",
                columns=(
                    *("check", "outcome", "now", "change", "interval", "limit", "cases"),
                    *("detectable", "why"),
                ),
                rows=list(map(_check, verdict.checks)),
                most=_CHECKS,
            ),
            *(
                []
                if verdict.system is None
                else [_system("the baseline", "this run", verdict.system)]
            ),
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
                rows=[] if changed else list(map(_lost, verdict.lost_cases)),
                most=_LOST,
            ),
        ),
        notes=verdict.notes,
        foot=_origin(verdict),
    )


def _refusals(verdict: GateResult) -> Iterator[str]:
    for refusal in verdict.refusals:
        yield f"{refusal.what}: {refusal.reason}. To go on, {refusal.remedy}"


def _check(check: GateCheck) -> Sequence[str]:
    return (
        check.name,
        check.outcome.value,
        observed_text(check),
        change_text(check.drop, check.unit),
        interval_text(check),
        limit_text(check),
        f"{check.cases:,}",
        detectable_text(check),
        "" if check.outcome is GateOutcome.PASSED else check.reason,
    )


def _lost(change: CaseChange) -> Sequence[str]:
    before, after = number_text(change.before), _short(after_text(change))
    return (_short(change.id), change.metric, before, after, _short(change.query or ""))


def _short(text: str) -> str:
    return shown_line(text, longest=_LONGEST)


def _origin(verdict: GateResult) -> str:
    runs = [f"run {_run(verdict.run)}"]
    if verdict.baseline is not None:
        runs.append(f"baseline {_run(verdict.baseline)}")
    settings = ", ".join(f"{key} {value}" for key, value in verdict.settings.items())
    return f"{'; '.join(runs)}. {settings}."


def _run(run: JudgedRun) -> str:
    return f"{run.source}{_commit(run.commit, run.dirty)}"


def _commit(commit: str | None, dirty: bool | None) -> str:
    return "" if commit is None else f" at {commit[:12]}{' with changes' if dirty else ''}"


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
                rows=list(map(_compared, comparison.runs)),
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


def _compared(run: ComparedRun) -> Sequence[str]:
    source = f"{run.source}{_commit(run.commit, run.dirty)}"
    return (run.mark, run.rag, run.dataset, source, f"{run.cases:,}")


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
            span_text(found, metric.unit),
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
