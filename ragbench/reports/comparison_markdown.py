"""A comparison as Markdown: for a job's summary, a comment, or a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ragbench.records.comparisons import (
    CaseDifference,
    CaseKind,
    Comparison,
    Figure,
    MetricComparison,
)
from ragbench.reports.comparison_text import (
    counts_text,
    family_text,
    p_text,
    span_text,
    what_changed,
)
from ragbench.reports.escape import markdown_text
from ragbench.reports.plain_text import one_line
from ragbench.reports.verdict_text import number_text

__all__ = ["comparison_markdown"]

_CASES = 20
"""How many cases of a kind are spelled out."""
_TITLES = {
    CaseKind.FAILING: "Newly failing",
    CaseKind.MIXED: "Failing in one respect, fixed in another",
    CaseKind.FIXED: "Newly fixed",
}


def comparison_markdown(comparison: Comparison, *, cases: int = _CASES) -> str:
    """The comparison as GitHub-flavoured Markdown.

    Args:
        comparison: what was compared.
        cases: how many cases of a kind are spelled out, for each pair of runs.
    """
    sections = [
        _title(comparison),
        _metrics(comparison),
        _differences(comparison),
        _cases(comparison, cases),
        _notes(comparison),
    ]
    parts = ["\n".join(lines) for section in sections if (lines := list(section))]
    return "\n\n".join(parts) + "\n"


def _title(comparison: Comparison) -> Iterator[str]:
    first = comparison.runs[0]
    marks = [run.mark for run in comparison.runs]
    yield f"### {', '.join(marks[:-1])} and {marks[-1]} on {_text(first.dataset)}"
    yield ""
    yield from _table(
        ("run", "system", "dataset", "read from", "commit", "cases"),
        (
            (
                f"**{run.mark}**",
                _text(run.rag),
                _text(run.dataset),
                _text(run.source),
                _commit(run.commit, run.dirty),
                f"{run.cases:,}",
            )
            for run in comparison.runs
        ),
    )


def _commit(commit: str | None, dirty: bool) -> str:
    return "-" if commit is None else f"{_text(commit[:12])}{' with changes' if dirty else ''}"


def _metrics(comparison: Comparison) -> Iterator[str]:
    """With two runs, their difference stands in the same table."""
    marks = [run.mark for run in comparison.runs]
    if len(marks) > 2:
        rows = ((_name(m), *_figures(m)) for m in comparison.metrics)
        yield from _table(("metric", *marks), rows)
    else:
        columns = ("metric", *marks, f"{marks[1]} - {marks[0]}", "interval", "p", "cases")
        rows = ((_name(m), *_figures(m), *_difference(m)) for m in comparison.metrics)
        yield from _table(columns, rows)
    yield ""
    yield f"<sub>{_text(family_text(comparison))}</sub>"


def _name(metric: MetricComparison) -> str:
    """Backticks keep what is between them as it is, but for the bar of a table."""
    return f"`{one_line(metric.name).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def _figures(metric: MetricComparison) -> Iterator[str]:
    for figure in metric.figures:
        yield _figure(figure, metric.unit)


def _figure(figure: Figure, unit: str) -> str:
    marks = f" <sup>{' '.join(figure.better_than)}</sup>" if figure.better_than else ""
    return f"{number_text(figure.score, unit)}{marks}"


def _difference(metric: MetricComparison) -> Sequence[str]:
    if not metric.differences:
        return ("-", "-", "-", "-")
    (found,) = metric.differences
    return (
        number_text(found.difference, metric.unit, sign=True),
        span_text(found, metric.unit),
        p_text(found),
        f"{found.cases:,}",
    )


def _differences(comparison: Comparison) -> Iterator[str]:
    """Every pair of more than two runs."""
    if len(comparison.runs) == 2:
        return
    rows = [
        (
            _name(metric),
            f"{found.second} - {found.first}",
            number_text(found.difference, metric.unit, sign=True),
            span_text(found, metric.unit),
            f"**{p_text(found)}**" if found.is_significant else p_text(found),
            f"{found.cases:,}",
        )
        for metric in comparison.metrics
        for found in metric.differences
    ]
    yield "#### Differences"
    yield ""
    yield from _table(("metric", "pair", "difference", "interval", "p", "cases"), rows)


def _cases(comparison: Comparison, shown: int) -> Iterator[str]:
    yield "#### Cases"
    for pair in comparison.pairs:
        yield ""
        yield f"{pair.second} against {pair.first}: {counts_text(pair)}."
        for kind, title in _TITLES.items():
            found = [
                case
                for case in comparison.changed
                if case.second == pair.second and case.kind is kind
            ]
            yield from _listed(title, found, shown)


def _listed(title: str, cases: Sequence[CaseDifference], shown: int) -> Iterator[str]:
    if not cases:
        return
    yield ""
    yield f"**{title} ({len(cases):,})**"
    yield ""
    for case in cases[:shown]:
        yield f"- {_text(case.id)}"
        for label, line in what_changed(case):
            yield f"  - {f'{label}: ' if label else ''}{markdown_text(line)}"
    if len(cases) > shown:
        yield f"- ... and {len(cases) - shown:,} more"


def _notes(comparison: Comparison) -> Iterator[str]:
    for note in comparison.notes:
        yield f"- {_text(note)}"
    for metric in comparison.metrics:
        if metric.untested is not None:
            yield f"- {_name(metric)} is not tested: {metric.untested}."
    main = ", ".join(f"`{one_line(name)}`" for name in comparison.main)
    yield (
        f"- A case fails when a stage failed{f', or when {main} lies' if main else ''}"
        f"{f' below {comparison.threshold:g} of its scale' if main else ''}."
    )


def _text(text: str) -> str:
    return markdown_text(one_line(text, longest=300))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join(' --- ' for _ in columns)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
