"""``ragbench compare``: stored runs side by side."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ragbench.core.comparison import CaseDifference, CaseKind, Comparison, MetricComparison
from ragbench.errors import ConfigError
from ragbench.gate.compare import compare
from ragbench.gate.labels import notes_of
from ragbench.gate.runs import read_run
from ragbench.metrics.registry import split_metrics
from ragbench.safe_text import as_line, shown_line
from ragbench.verbs.label import with_labels
from ragbench.views.comparison import (
    change_lines,
    comparison_document,
    counts_text,
    kinds_text,
    p_text,
    result_lines,
)
from ragbench.views.document import number_text, range_text, what_changed
from ragbench.views.run_document import flow_text
from ragbench_cli.options import Labelled, argument, option, takes_records
from ragbench_cli.output import Blocks, Output, can_show, draw_fitted, fitted_table, styled, table
from ragbench_cli.report_tables import corrected_blocks, run_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ROWS = 5
_FEW = 3
"""How many changes of a system and cases of a kind are named; the page has all of them."""
_WAYS, _NOTES = 2, 1
_LONGEST, _LONGEST_ID, _LABEL = 150, 24, 8
_RAISED = str.maketrans("abcdefghijklmnop", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖ")
_STYLES = {CaseKind.FAILING: "red", CaseKind.MIXED: "yellow", CaseKind.FIXED: "green"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    runs: Annotated[list[Path], argument("RUN RUN...")]
    """Two or more run folders or baseline files. The others are compared with the first."""
    metrics: Annotated[str | None, option("LIST", "--metrics", "-m")] = None
    """Metrics to compare, separated by commas; by default all. Fewer metrics make stronger
    tests."""
    main: Annotated[str | None, option("LIST", "--pass-metrics")] = None
    """Metrics that decide whether a case passes, separated by commas. By default whether it is
    right (answer_correct, abstention_accuracy); else one per group, such as recall."""
    only_common_cases: Annotated[bool, option(rare=True)] = False
    """If the datasets differ, compare only the cases that are the same."""
    same: Annotated[Literal["content", "id"], option(rare=True)] = "content"
    """How cases of two runs are matched: by content, or by id, which compares two ways to ask the
    same: a last turn and its rewrite."""
    cases: Annotated[int | None, option(min=0)] = None
    """How many cases of each kind are spelled out; by default none on the screen and 20 in
    Markdown."""
    labelled: Labelled = field(default_factory=Labelled)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown(Output):
    md: Annotated[str | None, option("FILE")] = None
    """Write the comparison as Markdown; - prints it."""


@takes_records
def command(asked: Asked, shown: Shown) -> None:
    """Compare runs of the same cases.

    Prints the significant differences, then the pass metrics and those that differ, and the cases
    that newly fail or newly pass. It does not decide anything: ragbench gate does.

    \b
    Examples:
      ragbench compare reports/main reports/branch
      ragbench compare main branch --cases 5
      ragbench compare main branch-1 branch-2 -m recall@5,token_f1
      ragbench compare main branch --md changes.md
    """
    if len(asked.runs) > 1 and len({run.resolve() for run in asked.runs}) == 1:
        raise ConfigError(f"{asked.runs[0]} is compared with itself: name another run")
    runs, book = [read_run(run) for run in asked.runs], asked.labelled.book
    if book is not None:
        runs = [with_labels(run, book) for run in runs]
    cases = (0 if shown.md is None else 20) if asked.cases is None else asked.cases
    comparison = compare(
        runs,
        metrics=None if asked.metrics is None else split_metrics(asked.metrics),
        main=None if asked.main is None else split_metrics(asked.main),
        only_common_cases=asked.only_common_cases,
        same=asked.same,
        told=None if shown.json or shown.page.is_wanted else cases,
    )
    if book is not None:
        comparison = replace(comparison, notes=(*comparison.notes, *notes_of(book, runs)))
    named = asked.metrics is not None
    shown.show(
        lambda: comparison_document(comparison, cases=20 if asked.cases is None else asked.cases),
        data=lambda: {
            "schema_version": 2,
            **{each.name: getattr(comparison, each.name) for each in fields(comparison)},
        },
        screen=lambda: draw_fitted(
            lambda page: _blocks(comparison, page, named=named, cases=asked.cases or 0)
        ),
    )


def _blocks(comparison: Comparison, page: Console, *, named: bool, cases: int) -> Blocks:
    """One screen: the result, the metrics that matter (all where they are named), the cases."""
    for line in result_lines(comparison):
        yield styled((line, "bold"))
    yield ""
    for run in comparison.runs:
        yield styled((f"{run.mark}  ", "bold"), run_text(run))
    shown = comparison if named else _main(comparison)
    yield ""
    yield _metrics(shown, page)
    rest = len(comparison.metrics) - len(shown.metrics)
    parts = ["p: two-sided, corrected"]
    if any(figure.better_than for each in shown.metrics for figure in each.figures):
        parts.append("a letter: better than that run")
    if rest:
        parts.append(f"{rest:,} more: -m, --md")
    yield styled(("; ".join(parts), "dim"))
    if comparison.corrections:
        yield from corrected_blocks(comparison.corrections, page)
    yield from _pairs(comparison, page, cases)
    yield from _behind(comparison)
    if comparison.changed and not cases:
        worst = max(comparison.pairs, key=lambda pair: (pair.newly_failing, pair.newly_fixed))
        sources = {run.mark: run.source for run in comparison.runs}
        pair = shlex.join([sources[worst.first], sources[worst.second]])
        yield ""
        yield styled(("next     ", "dim"), f"ragbench compare {pair} --cases 5")


def _main(comparison: Comparison) -> Comparison:
    """With the metrics that say whether a case passes, and those that differ beyond chance."""
    metrics = comparison.metrics
    main = [each for each in metrics if each.name in comparison.main]
    differing = [each for each in metrics if any(one.is_significant for one in each.differences)]
    kept = [*main, *(each for each in differing if each not in main)][:_ROWS] or metrics[:_ROWS]
    return replace(comparison, metrics=tuple(each for each in metrics if each in kept))


def _pairs(comparison: Comparison, page: Console, cases: int) -> Blocks:
    yield ""
    for pair in comparison.pairs:
        mine = [case for case in comparison.changed if case.second == pair.second]
        if not mine and len(comparison.pairs) > 1:
            continue
        counts = counts_text(pair) if cases else f"{kinds_text(pair)} cases"
        yield styled((f"{pair.second} against {pair.first}", "bold"), f": {counts}")
        for kind in CaseKind:
            found = [case for case in mine if case.kind is kind]
            if cases:
                yield from _spelled_out(kind, found, cases, page)
            elif found and kind is not CaseKind.MIXED and len(comparison.pairs) == 1:
                ids = [shown_line(case.id, longest=_LONGEST_ID) for case in found]
                yield styled("  ", (kind.value, _STYLES[kind]), f": {as_line(ids, _FEW)}")


def _behind(comparison: Comparison) -> Blocks:
    """Causes; what changed in the systems, together where it is the same; what to mind."""
    moved = [flow for flow in comparison.flows if flow.before is not flow.after]
    if moved and len(comparison.pairs) == 1:
        yield styled(("causes   ", "dim"), "; ".join(map(flow_text, moved[:_WAYS])))
    groups: dict[str, list[str]] = {}
    for pair, change in zip(comparison.pairs, comparison.systems, strict=True):
        groups.setdefault("; ".join(change_lines(change, most=_FEW)), []).append(pair.second)
    for line, marks in groups.items():
        of = f"{', '.join(marks)}: " if len(groups) > 1 else ""
        yield styled(("changed  ", "dim"), f"{of}{line}")
    for note in comparison.notes[:_NOTES]:
        yield styled(("note     ", "dim"), shown_line(note, longest=_LONGEST))


def _metrics(comparison: Comparison, page: Console) -> Table:
    """Two runs next to each other; more of them a line each, so that however many, none is cut."""
    raised = can_show(page, "ᵃ")
    marks = [run.mark for run in comparison.runs]
    names = [shown_line(metric.name) for metric in comparison.metrics]
    scores = _scores(comparison.metrics, raised=raised)
    if len(marks) > 2:
        found = table(("run", *names), zip(marks, *scores, strict=True))
        for column in found.columns[1:]:
            column.no_wrap = False
        return found
    found = fitted_table(
        page,
        ("metric", *marks, f"{marks[1]} - {marks[0]}", "interval", "p", "cases"),
        [
            (name, *figures, *_difference(metric))
            for name, metric, figures in zip(names, comparison.metrics, scores, strict=True)
        ],
        missed=("cases", "interval", "p"),
        spare=max(0, max(map(len, names)) - _LONGEST_ID),
    )
    found.columns[0].max_width = _LONGEST_ID
    return found


def _scores(metrics: Sequence[MetricComparison], *, raised: bool) -> list[list[str]]:
    """The figures with their marks; of two runs padded, so that the numbers stand in line."""
    marks = [
        [
            "".join(f.better_than).translate(_RAISED)
            if raised
            else "".join(f"^{m}" for m in f.better_than)
            for f in metric.figures
        ]
        for metric in metrics
    ]
    columns = list(zip(*marks, strict=True))
    widths = [max(map(len, column)) if len(columns) == 2 else 0 for column in columns]
    return [
        [
            f"{number_text(figure.score, metric.unit)}{mark:<{width}}"
            for figure, mark, width in zip(metric.figures, row, widths, strict=True)
        ]
        for metric, row in zip(metrics, marks, strict=True)
    ]


def _difference(metric: MetricComparison) -> Sequence[str]:
    if not metric.differences:
        return ("-",) * 4
    found, unit = metric.differences[0], metric.unit
    change = number_text(found.difference, unit, sign=True)
    return change, range_text(found, unit, sign=True), p_text(found), f"{found.cases:,}"


def _spelled_out(
    kind: CaseKind, cases: Sequence[CaseDifference], shown: int, page: Console
) -> Blocks:
    if not cases:
        return
    yield ""
    yield styled((f"{kind.heading.lower()}: {len(cases):,}", _STYLES[kind]))
    for case in cases[:shown]:
        yield styled(f"  {shown_line(case.id)}")
        for label, line in what_changed(case):
            yield styled(_hanging(label, line, page.width))
    if len(cases) > shown:
        yield styled((f"  and {len(cases) - shown:,} more: see --cases, --md or --json", "dim"))


def _hanging(label: str, line: str, width: int) -> str:
    first = f"    {label:<{_LABEL}}" if label else "    "
    room = max(20, width - _LABEL - 4)
    lines = textwrap.wrap(line, room, break_on_hyphens=False) or [""]
    return f"\n{'':{len(first)}}".join([f"{first}{lines[0]}", *lines[1:]])
