"""The page of a run: its head, and a block for every case; chunk texts stand in it once."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from ragbench.core.attribution import Answer, Cause
from ragbench.core.metric import Metric, MetricDefinition
from ragbench.core.report import (
    CaseRow,
    Interval,
    Latency,
    Report,
    StageCount,
    Summary,
    TableColumn,
    badness,
    main_metric,
)
from ragbench.views.document import Section, flows_section
from ragbench.views.html import charts
from ragbench.views.html.case import CaseBlocks
from ragbench.views.html.lost import LostCases
from ragbench.views.html.page import Page, page_number, render
from ragbench.views.metric_table import metric_columns
from ragbench.views.report import sharing_remark
from ragbench.views.run_document import (
    detail_sections,
    headline,
    reused_text,
    unmeasured_text,
    waterfall,
)

if TYPE_CHECKING:
    from ragbench.core.comparison import Against, CaseKind

MOST_CASES = 1_000
"""Cases that a page holds; of a larger run it shows the worst of every cause."""
_BINS = 12
_LEAST_CONFIDENCES = 10
"""Cases with a confidence from which on the page draws how well it is calibrated."""
_WITHOUT_VALUE = ("abstained", "skipped", "failed", "unproved")
_ANSWERS = (Answer.RIGHT, Answer.WRONG, Answer.DECLINED, Answer.UNCHECKED, Answer.NONE)
_ANSWERABLE = ((True, "there is an answer, or may be"), (False, "there is none"))


class _PlacedCase(NamedTuple):
    """A case in the order in which a page keeps cases: the worst first, then as in the run."""

    badness: tuple[bool, float]
    position: int
    row: CaseRow


class RunPage:
    """Collects the cases of a run, then renders the page of its report.

    Args:
        against: the run that each case is compared with: those that went another way come first.
    """

    report: Report
    """Set once all cases are collected."""

    def __init__(self, metrics: Sequence[Metric], against: Against | None = None) -> None:
        self.against = against
        self._main_position = main_metric(metrics)
        self._main_metric: Metric | None = None
        if self._main_position is not None:
            self._main_metric = metrics[self._main_position]
        self._counts: Counter[Cause] = Counter()
        self._changed: dict[CaseKind, list[CaseRow]] = {}
        """Cases that went another way than in the other run."""
        self._worst: dict[Cause, list[_PlacedCase]] = {}
        """The worst of the other cases by cause, in no order."""
        self._worst_size = 0
        self._values = [array("d") for _ in metrics]
        self._matrix: Counter[tuple[bool, Answer]] = Counter()
        self._confidences: list[tuple[float, bool]] = []
        self._lost = LostCases()
        self._cases = CaseBlocks(metrics, against)

    def case(self, row: CaseRow) -> None:
        """Takes in a case: every figure counts it, and the page keeps it where there is room."""
        for position, cell in enumerate(row.cells):
            if cell.value is not None:
                self._values[position].append(cell.value)

        attribution = row.attribution
        is_without = attribution.cause is Cause.ANSWERED_WITHOUT
        is_answerable = not is_without and attribution.basis.value != "label"
        self._matrix[is_answerable, attribution.answer] += 1
        if row.confidence is not None and attribution.answer in (Answer.RIGHT, Answer.WRONG):
            self._confidences.append((row.confidence, attribution.answer is Answer.RIGHT))

        value = None
        if self._main_position is not None:
            value = row.cells[self._main_position].value
        case_badness = badness(value, self._main_metric)
        self._lost.add(row, attribution, case_badness)

        before = None if self.against is None else self.against.cases.get(row.id)
        if before is not None and before.kind is not None:
            changed = self._changed.setdefault(before.kind, [])
            if len(changed) < MOST_CASES:
                changed.append(row)
            return
        self._counts[attribution.cause] += 1
        cases = self._worst.setdefault(attribution.cause, [])
        cases.append(_PlacedCase(case_badness, self._counts.total(), row))
        self._worst_size += 1
        if self._worst_size > 2 * MOST_CASES:
            self._drop()

    def _drop(self) -> None:
        """Drops the cases that have no room, which only shrinks as cases come."""
        room = _room(self._counts)
        self._worst_size = 0
        for cause, cases in self._worst.items():
            cases.sort()
            # The room of a cause may later be larger by rounding, at most by one for each cause.
            del cases[room[cause] + len(room) :]
            self._worst_size += len(cases)

    def page(self) -> Page:
        manifest = self.report.manifest
        title = f"{manifest['rag']['name']} on {manifest['dataset']['name']}"
        return Page(title=title, body=self._body())

    def _body(self) -> Iterator[str]:
        """The page part by part: its head, a block for each case, the texts of the chunks."""
        rows = self._shown_cases()
        total = sum(count.cases for count in self.report.causes)
        cut = None
        if len(rows) < total:
            cut = (
                f"This page shows {len(rows):,} of {total:,} cases, the worst of every cause. "
                "'ragbench cases RUN' lists all, 'ragbench explain RUN CASE' shows any, cases.csv "
                "and 'ragbench export' have every one."
            )
        against = None if self.against is None else _against(self.against)
        values = {**self._head(), "shown": len(rows), "cut": cut, "against": against}
        yield render("run.html.jinja", values)
        if all(row.tell is not None for row in rows):
            stories: Iterator[CaseRow] = iter(rows)
        else:
            stories = self.report.find([row.id for row in rows])
        for row in stories:
            yield self._cases.block(row)
        yield render("run.html.jinja", {"chunks": [*self._cases.shelf.values()]})

    def _shown_cases(self) -> list[CaseRow]:
        """The cases of the page: those that went another way, then the others as in the run."""
        rows: list[CaseRow] = []
        for kind in sorted(self._changed, key=_urgency):
            rows.extend(self._changed[kind])
        room = _room({count.cause: count.cases for count in self.report.causes})
        unchanged: list[_PlacedCase] = []
        for cause, cases in self._worst.items():
            unchanged.extend(sorted(cases)[: room.get(cause, 0)])
        unchanged.sort(key=lambda case: case.position)
        rows.extend(case.row for case in unchanged)
        return rows

    def _head(self) -> dict[str, Any]:
        """What ``run.html.jinja`` shows above the cases."""
        report = self.report
        falls = waterfall(report.causes)
        total = falls[0].cases + falls[0].left if falls else 1
        notes = list(report.notes)
        reused = reused_text(report)
        if reused:
            notes.insert(0, reused)
        calibration = None
        if len(self._confidences) >= _LEAST_CONFIDENCES:
            calibration = _calibration(self._confidences)
        columns = metric_columns("page", report.summaries)
        return {
            "report": report,
            "headline": headline(report),
            "notes": notes,
            "falls": [(fall, 1 - (fall.left + fall.cases) / total) for fall in falls],
            "share_bar": charts.share_bar,
            "lost": list(self._lost.groups()),
            "heat": self._lost.heat([count.cause for count in report.causes]),
            "tags": len(self._lost.causes),
            "metric_headings": _metric_headings(columns, report.manifest["dataset"]["cases"]),
            "groups": self._metric_groups(columns),
            "unmeasured": unmeasured_text(report),
            "matrix": self._matrix_rows(),
            "calibration": calibration,
            "calibrated": len(self._confidences),
            "times": list(_times(report.latencies)),
            "sharing": sharing_remark(report.latencies),
            "stages": list(_stages(report.stages)),
            "sections": _filled_sections(report),
        }

    def _metric_groups(self, columns: Sequence[TableColumn]) -> dict[str, list[_MetricRow]]:
        groups: dict[str, list[_MetricRow]] = {}
        for summary, values in zip(self.report.summaries, self._values, strict=True):
            if summary.measured:
                group = summary.metric.definition.group.value
                groups.setdefault(group, []).append(_metric_row(columns, summary, values))
        return groups

    def _matrix_rows(self) -> list[list[str]]:
        """How many cases with and without an answer got which kind of response."""
        rows: list[list[str]] = []
        for is_answerable, label in _ANSWERABLE:
            counts = [f"{self._matrix[is_answerable, answer]:,}" for answer in _ANSWERS]
            rows.append([label, *counts])
        return rows


def run_page(report: Report, against: Against | None = None) -> Page:
    page = RunPage(report.metrics, against)
    for row in report.rows():
        page.case(row)
    page.report = report
    return page.page()


def _filled_sections(report: Report) -> list[Section]:
    return [section for section in detail_sections(report) if not section.is_empty]


def _room(causes: Mapping[Cause, int]) -> dict[Cause, int]:
    """How many cases of each cause a page shows: all, or else as many of each as there is room."""
    room: dict[Cause, int] = {}
    free = MOST_CASES
    for position, cause in enumerate(sorted(causes, key=causes.__getitem__)):
        room[cause] = min(causes[cause], free // (len(causes) - position))
        free -= room[cause]
    return room


def _urgency(kind: CaseKind) -> int:
    return [*type(kind)].index(kind)


def _against(against: Against) -> dict[str, Any]:
    """What ``run.html.jinja`` says of the run that this one is compared with."""
    from ragbench.core.comparison import CaseKind  # few pages have one
    from ragbench.views.comparison import counts_text

    apart: list[str] = []
    if against.edited:
        apart.append(f"{against.edited:,} were edited since")
    if against.added:
        apart.append(f"{against.added:,} are only in this run")
    if against.gone:
        apart.append(f"{against.gone:,} are only in that run")
    return {
        "run": against,
        "counts": f"{counts_text(against.pair)}.",
        "apart": f"Not compared: {', '.join(apart)}." if apart else "",
        "kinds": [kind.value for kind in CaseKind],
        "flows": flows_section(against.flows),
    }


# --- the table of metrics


class _Heading(NamedTuple):
    """The heading of a column; one of numbers stands to the right."""

    text: str
    is_number: bool = False


class _PageCell(NamedTuple):
    """A cell of the table of metrics."""

    text: str
    is_number: bool = False
    is_strong: bool = False


class _MetricRow(NamedTuple):
    """A metric in the table, with the definition that its name explains."""

    definition: MetricDefinition
    name: str
    cells: Sequence[_PageCell]
    """All columns but the first."""


def _metric_headings(columns: Sequence[TableColumn], total: int) -> list[_Heading]:
    """The headings of the table of metrics: a column that is drawn has one for its numbers, too."""
    headings: list[_Heading] = []
    for column in columns:
        heading = column.heading[:1].upper() + column.heading[1:]
        if column.is_of_total:
            headings.append(_Heading(f"n of {total:,}", is_number=True))
        elif column.is_drawn:
            headings.append(_Heading(heading))
            # The drawing has the heading; who cannot see it hears a heading of the numbers, too.
            spoken = Markup('<span class="sr">Interval in numbers</span>')
            headings.append(_Heading(spoken, is_number=True))
        else:
            headings.append(_Heading(heading, is_number=len(headings) > 0))
    headings.append(_Heading("Values"))
    headings.append(_Heading("Without a value"))
    return headings


def _metric_row(
    columns: Sequence[TableColumn], summary: Summary, values: Sequence[float]
) -> _MetricRow:
    """A metric's figures, its values as a histogram, and how many cases have none."""
    definition = summary.metric.definition
    least, most = _axis(summary, values)
    cells: list[_PageCell] = []
    for column in columns[1:]:
        value = column.value(summary)
        text = _figure_text(value, definition.unit)
        if column.is_drawn:
            ends = value if isinstance(value, Interval) else None
            cells.append(_PageCell(_forest(summary, ends, least, most)))
            text = "" if ends is None else text
        cells.append(_PageCell(text, is_number=True, is_strong=column.heading == "score"))
    bars = ""
    if values:
        low = definition.low if definition.low is not None else min(values)
        bars = charts.histogram(values, low, most, bins=_BINS)
    cells.append(_PageCell(bars))
    cells.append(_PageCell(_without_value(summary)))
    return _MetricRow(definition, summary.metric.name, cells)


def _axis(summary: Summary, values: Sequence[float]) -> tuple[float, float]:
    """The ends of the axis of a metric's interval: its own range, or else that of its values."""
    definition = summary.metric.definition
    score = summary.score
    least = definition.low if definition.low is not None else min(values, default=0.0)
    most = definition.high if definition.high is not None else max(values, default=1.0)
    if definition.aggregate is not None:
        # A figure that is no mean of its values, such as ECE, is one of its own size.
        least = max(least, 0.0)
    if score is not None:
        least = min(least, score)
        most = max(most, score)
    return least, most


def _forest(summary: Summary, ends: Interval | None, least: float, most: float) -> str:
    if summary.score is None:
        return ""
    low = None if ends is None else ends.low
    high = None if ends is None else ends.high
    return charts.forest(summary.score, low, high, least=least, most=most)


def _figure_text(value: Interval | str | int | float | None, unit: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Interval):
        return f"{page_number(value.low, unit)} – {page_number(value.high, unit)}"
    if isinstance(value, int):
        return f"{value:,}"
    return page_number(value, unit)


def _without_value(summary: Summary) -> str:
    counts: list[str] = []
    for name in _WITHOUT_VALUE:
        count: int = getattr(summary, name)
        if count:
            counts.append(f"{count:,} {name}")
    return ", ".join(counts)


# --- further tables and drawings


def _calibration(confidences: Sequence[tuple[float, bool]]) -> Markup:
    """A reliability diagram of ten bins."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, is_right in confidences:
        bins.setdefault(min(int(confidence * 10), 9), []).append((confidence, is_right))
    points: list[tuple[float, float, int]] = []
    for _, cases in sorted(bins.items()):
        mean_confidence = sum(confidence for confidence, _ in cases) / len(cases)
        share_right = sum(is_right for _, is_right in cases) / len(cases)
        points.append((mean_confidence, share_right, len(cases)))
    text = "; ".join(
        f"said {confidence:.2f}, right {right:.2f}, {count} cases"
        for confidence, right, count in points
    )
    return charts.calibration(points, label=f"Calibration: {text}")


def _times(latencies: Sequence[Latency]) -> Iterator[list[str]]:
    most = max((latency.longest or latency.mean for latency in latencies), default=0.0)
    for latency in latencies:
        figures = (latency.mean, latency.p50, latency.p95, latency.longest)
        drawing = charts.times(*figures, most=most)
        yield [latency.stage, drawing, f"{latency.count:,}", *map(_time_text, figures)]


def _time_text(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _stages(stages: Sequence[StageCount]) -> Iterator[list[str]]:
    for stage in stages:
        ends = (stage.measured, stage.abstained, stage.skipped, stage.failed)
        # Neither skipped cases nor outcomes of an earlier run or a file are asked for.
        calls = sum(ends) - stage.reused - stage.recorded - stage.skipped
        counts = (*ends, max(calls, 0), stage.reused, stage.recorded)
        yield [stage.stage, *(f"{count:,}" for count in counts)]
