"""The page of a run: its head, and a block for every case; chunk texts stand in it once.

A command that writes a page gives each case to `RunPage` as it comes, so that only the cases that
the page shows are in memory; ``run.html.jinja`` draws what `RunPage` collects.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from ragbench.core.attribution import LOSSES, Answer, Cause, CauseCount
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
from ragbench.safe_text import counted
from ragbench.views.answers import share_hint
from ragbench.views.document import flows_section
from ragbench.views.html import charts
from ragbench.views.html.case import CaseBlocks
from ragbench.views.html.lost import LostCases
from ragbench.views.html.page import Page, page_number, render
from ragbench.views.metric_table import metric_columns
from ragbench.views.report import sharing_remark
from ragbench.views.run_document import (
    Fall,
    detail_sections,
    headline,
    reused_text,
    unmeasured_text,
    waterfall,
)

if TYPE_CHECKING:
    from ragbench.core.comparison import Against, CaseBefore, CaseKind

MOST_CASES = 1_000
"""Cases that a page holds; of a larger run it shows the worst of every cause."""
_BINS = 12
"""Bars of the histogram of a metric's values."""
_LEAST_CONFIDENCES = 10
"""Cases with a confidence from which on the page draws how well it is calibrated."""
_ANSWERS = (
    Answer.RIGHT,
    Answer.PARTLY,
    Answer.WRONG,
    Answer.DECLINED,
    Answer.UNCHECKED,
    Answer.NONE,
)
"""The columns of the table of responses, in their order."""
_ANSWERABLE = ((True, "there is an answer, or may be"), (False, "there is none"))
"""Its rows: whether a case has an answer, and how the table says so."""
_RIGHT = (Cause.RIGHT, Cause.RIGHT_WITHOUT_EVIDENCE)
"""The causes of cases that are neither lost nor unchecked."""


class _PlacedCase(NamedTuple):
    """A case in the order in which a page keeps cases: the worst first, then as in the run."""

    badness: tuple[bool, float]
    position: int
    row: CaseRow


class RunPage:
    """Collects the cases of a run, then renders the page of its report.

    Args:
        metrics: those of the run, in the order of a row's cells.
        against: the run that each case is compared with: those that went another way come first.
    """

    report: Report
    """Set once all cases are collected."""

    def __init__(self, metrics: Sequence[Metric], against: Against | None = None) -> None:
        """Begins a page of a run without any case.

        Cases come one by one, so that a run may be larger than the memory.

        Args:
            metrics: those of the run, in the order of a row's cells.
            against: the run that each case is compared with; None without one.
        """
        self.against = against
        # None where no metric of the run can order cases.
        self._main_position = main_metric(metrics)
        self._main_metric: Metric | None = None
        if self._main_position is not None:
            self._main_metric = metrics[self._main_position]
        self._counts: Counter[Cause] = Counter()
        """How many cases of each cause came that went no other way."""
        self._kinds: dict[str, CaseKind] = {}
        """By id, how the cases went that went another way than in the other run."""
        if against is not None:
            self._kinds = {case.id: case.kind for case in against.changed}
        self._changed: dict[CaseKind, list[CaseRow]] = {}
        """The cases that went another way and for which the page has room."""
        self._worst: dict[Cause, list[_PlacedCase]] = {}
        """The worst of the other cases by cause, in no order."""
        self._worst_size = 0
        """How many cases that is, of all causes together."""
        self._values = [array("d") for _ in metrics]
        """The values of each metric."""
        self._responses: Counter[tuple[bool, Answer]] = Counter()
        """How many cases with and without an answer got which kind of response."""
        self._confidences: list[tuple[float, bool]] = []
        """For each answer how sure the system was of it, and whether it is right."""
        self._lost = LostCases()
        self._metrics = metrics

    def case(self, row: CaseRow) -> None:
        """Takes in a case of the run.

        Every figure counts the case, and the page keeps it where there is room. A page has room for
        `MOST_CASES`: the cases that changed, and the worst of every cause of loss.
        """
        for position, cell in enumerate(row.cells):
            if cell.value is not None:
                self._values[position].append(cell.value)

        attribution = row.attribution
        # Of a case whose label says that there is no answer, "label" is the basis of its cause.
        lacks_evidence = attribution.cause is Cause.ANSWERED_WITHOUT_EVIDENCE
        is_answerable = not lacks_evidence and attribution.basis.value != "label"
        self._responses[is_answerable, attribution.answer] += 1
        # Only answers that are surely right or wrong tell how good a confidence is.
        if row.confidence is not None and attribution.answer in (Answer.RIGHT, Answer.WRONG):
            self._confidences.append((row.confidence, attribution.answer is Answer.RIGHT))

        value = None
        if self._main_position is not None:
            value = row.cells[self._main_position].value
        case_badness = badness(value, self._main_metric)
        self._lost.add(row, attribution, case_badness)

        kind = self._kinds.get(row.id)
        if kind is not None:
            changed = self._changed.setdefault(kind, [])
            # Beyond the room of the page a changed case is not shown.
            if len(changed) < MOST_CASES:
                changed.append(row)
            return
        self._counts[attribution.cause] += 1
        cases = self._worst.setdefault(attribution.cause, [])
        # The total is the case's place among the unchanged ones, which parts equally bad cases.
        cases.append(_PlacedCase(case_badness, self._counts.total(), row))
        self._worst_size += 1
        # Better cases are dropped now and then, and not at each case: that sorts them all.
        if self._worst_size > 2 * MOST_CASES:
            self._drop_better_cases()

    def _drop_better_cases(self) -> None:
        """Drops the cases for which a page has no room: a run may be larger than the memory.

        The room of a cause only shrinks as cases come, so that none is dropped that would have
        been shown in the end.
        """
        room = _room_by_cause(self._counts)
        self._worst_size = 0
        for cause, cases in self._worst.items():
            cases.sort()
            # The room of a cause may later be larger by rounding, at most by one for each cause.
            del cases[room[cause] + len(room) :]
            self._worst_size += len(cases)

    def page(self) -> Page:
        """The page of a run with its report and cases, which is rendered while it is written.

        Its parts are made one by one, so that a large page never is in memory as a whole.
        """
        manifest = self.report.manifest
        title = f"{manifest['rag']['name']} on {manifest['dataset']['name']}"
        return Page(title=title, body=self._body_parts())

    def _body_parts(self) -> Iterator[str]:
        """The HTML of a run's page part by part.

        These are its head, a block for each case, and the texts of the chunks. The texts come last,
        because only the blocks tell which chunks are linked to.
        """
        rows = self._shown_cases()
        total = sum(count.cases for count in self.report.causes)
        remark: str | None = None
        if len(rows) < total:
            remark = (
                f"This page shows {len(rows):,} of {total:,} cases, the worst of every cause. "
                "'ragbench cases RUN' lists all, 'ragbench explain RUN CASE' shows any, cases.csv "
                "and 'ragbench export' have every one."
            )
        values = self._head_values()
        values["shown"] = len(rows)
        values["cut"] = remark
        values["against"] = None
        if self.against is not None:
            values["against"] = _comparison_values(self.against)
        yield render("run.html.jinja", values)

        # Rows that cannot tell their stories are read from the run once more.
        rows_with_stories: Iterator[CaseRow] = iter(rows)
        if any(row.tell is None for row in rows):
            rows_with_stories = self.report.find([row.id for row in rows])
        blocks = CaseBlocks(self._metrics, self._cases_before(rows))
        for row in rows_with_stories:
            yield blocks.block(row)
        yield render("run.html.jinja", {"chunks": list(blocks.shelf.values())})

    def _cases_before(self, rows: Sequence[CaseRow]) -> Mapping[str, CaseBefore]:
        """The page's cases as they were in the run that this one is compared with.

        There are none without such a run; what changed of each case is shown in its block.
        """
        if self.against is None:
            return {}
        return self.against.read_cases([row.id for row in rows])

    def _shown_cases(self) -> list[CaseRow]:
        """The cases that a run's page shows.

        Cases that changed come first, then the others in the run's order.
        """
        rows: list[CaseRow] = []
        for kind in sorted(self._changed, key=_urgency_of_kind):
            rows.extend(self._changed[kind])
        # The room is shared by all causes, so that a rare one is seen beside a frequent one.
        room = _room_by_cause({count.cause: count.cases for count in self.report.causes})
        unchanged: list[_PlacedCase] = []
        for cause, cases in self._worst.items():
            # A placed case compares by its badness, the worst first.
            unchanged.extend(sorted(cases)[: room.get(cause, 0)])
        # Back to the run's order, in which a reader knows his cases.
        unchanged.sort(key=lambda case: case.position)
        rows.extend(case.row for case in unchanged)
        return rows

    def _head_values(self) -> dict[str, Any]:
        """The values that ``run.html.jinja`` shows above the cases.

        Each entry is a name in the template.
        """
        report = self.report
        falls = waterfall(report.causes)
        # Without a cause there is nothing to divide by.
        total = 1
        if falls:
            total = falls[0].cases + falls[0].left
        # Each fall with where its bar begins, as a share of all cases from the left.
        falls_with_starts: list[tuple[Fall, float]] = []
        for fall in falls:
            start = 1 - (fall.left + fall.cases) / total
            falls_with_starts.append((fall, start))
        notes = list(report.notes)
        warning = ""
        if not report.is_comparable:
            warning = notes.pop(0)  # the first note is the reason
        reused = reused_text(report)
        if reused:
            notes.insert(0, reused)
        calibration: Markup | None = None
        # A diagram of few answers would show chance.
        if len(self._confidences) >= _LEAST_CONFIDENCES:
            calibration = _calibration_drawing(self._confidences)
        columns = metric_columns("page", report.summaries)
        return {
            "report": report,
            "headline": headline(report),
            "hint": share_hint(report),
            "warning": warning,
            "notes": notes,
            "falls": falls_with_starts,
            "share_bar": charts.share_bar,
            "lost": self._lost.groups(),
            "sums": _sums_of_cases(report.causes),
            "outcomes": charts.outcomes(_outcome_parts(report.causes)),
            "heat": self._lost.heat([count.cause for count in report.causes]),
            "tags": len(self._lost.causes),
            "metric_headings": _metric_headings(columns, report.manifest["dataset"]["cases"]),
            "groups": self._metric_groups(columns),
            "unmeasured": unmeasured_text(report),
            "matrix": self._response_rows(),
            "calibration": calibration,
            "calibrated": len(self._confidences),
            "times": list(_time_rows(report.latencies)),
            "sharing": sharing_remark(report.latencies),
            "stages": list(_stage_rows(report.stages)),
            "sections": [section for section in detail_sections(report) if not section.is_empty],
        }

    def _metric_groups(self, columns: Sequence[TableColumn]) -> dict[str, list[_MetricRow]]:
        """The rows of the page's table of metrics, by the metrics' group.

        Metrics that have no value are left out. The page names those, with the reasons, below the
        table.
        """
        groups: dict[str, list[_MetricRow]] = {}
        # Summaries and values are in the order of the run's metrics.
        for summary, values in zip(self.report.summaries, self._values, strict=True):
            if summary.measured:
                group = summary.metric.definition.group.value
                groups.setdefault(group, []).append(_metric_row(columns, summary, values))
        return groups

    def _response_rows(self) -> list[list[str]]:
        """The table of how many cases with and without an answer got which kind of response.

        To decline is right in one of its rows, and wrong in the other.
        """
        rows: list[list[str]] = []
        for is_answerable, label in _ANSWERABLE:
            row = [label]
            for answer in _ANSWERS:
                # A pair that no case has is 0 in a Counter.
                row.append(f"{self._responses[is_answerable, answer]:,}")
            rows.append(row)
        return rows


def _sums_of_cases(causes: Sequence[CauseCount]) -> list[tuple[str, int]]:
    """The numbers of cases that are right, lost and unchecked, for a page's head; without zeros.

    The names are the words that the page shows.
    """
    # In the order in which the head shows them.
    sums = {"right": 0, "lost": 0, "unchecked": 0}
    for count in causes:
        if count.cause in _RIGHT:
            sums["right"] += count.cases
        elif count.cause in LOSSES:
            sums["lost"] += count.cases
        else:
            sums["unchecked"] += count.cases
    return [(name, cases) for name, cases in sums.items() if cases]


def _outcome_parts(causes: Sequence[CauseCount]) -> list[tuple[str, str, int]]:
    """The parts of a page's bar of all cases, as (name, label, cases).

    The cases are right, lost by some cause, or unchecked. The largest loss comes first.
    """
    # Each cause is in one of three groups; "unchecked" takes whatever is in no other.
    right: list[CauseCount] = []
    lost: list[CauseCount] = []
    unchecked: list[CauseCount] = []
    for count in causes:
        if count.cause in LOSSES:
            lost.append(count)
        elif count.cause in _RIGHT:
            right.append(count)
        else:
            unchecked.append(count)
    # Right cases first and unchecked ones last, so that the bars of two runs compare by eye.
    lost.sort(key=lambda count: -count.cases)
    parts: list[tuple[str, str, int]] = []
    for count in (*right, *lost, *unchecked):
        parts.append((count.cause.value, count.cause.label, count.cases))
    return parts


def run_page(report: Report, against: Against | None = None) -> Page:
    """The page of a finished run, whose cases are read from its journal.

    ``ragbench report`` uses it; an evaluation gives its cases to a `RunPage` as they come.
    """
    page = RunPage(report.metrics, against)
    for row in report.rows():
        page.case(row)
    # The report is set last: the page needs it only when it is drawn.
    page.report = report
    return page.page()


def _room_by_cause(counts: Mapping[Cause, int]) -> dict[Cause, int]:
    """The number of cases of each cause that a page shows, so that all fit into `MOST_CASES`.

    A frequent cause must not push the rare ones out of the page: each has the same share of the
    room, and what a rare one leaves of its share goes to the others.

    Args:
        counts: how many cases of each cause there are.
    """
    room: dict[Cause, int] = {}
    free = MOST_CASES
    causes_left = len(counts)
    for cause in sorted(counts, key=counts.__getitem__):  # the rarest first
        share = free // causes_left
        room[cause] = min(counts[cause], share)
        free -= room[cause]
        causes_left -= 1
    return room


def _urgency_of_kind(kind: CaseKind) -> int:
    """The rank of a kind of change among all kinds.

    They are defined with the most urgent one first. A page shows cases that fail newly before cases
    that pass newly.
    """
    return list(type(kind)).index(kind)


def _comparison_values(against: Against) -> dict[str, Any]:
    """The values that ``run.html.jinja`` shows of the run that a page's run is compared with.

    Each entry is a name in the template. Cases that were edited or are in one run alone are
    counted: they are not compared.
    """
    from ragbench.core.comparison import CaseKind  # late: few pages compare with a run
    from ragbench.views.comparison import counts_text

    not_compared: list[str] = []
    if against.edited:
        not_compared.append(f"{against.edited:,} were edited since")
    if against.added:
        not_compared.append(f"{against.added:,} are only in this run")
    if against.gone:
        not_compared.append(f"{against.gone:,} are only in that run")
    remark = ""
    if not_compared:
        remark = f"Not compared: {', '.join(not_compared)}."
    return {
        "run": against,
        "counts": f"{counts_text(against.pair)}.",
        "apart": remark,
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
    label: str = ""
    """The heading, which a narrow page shows in the cell; empty beside a drawing."""


class _MetricRow(NamedTuple):
    """A metric in the table, with the definition that its name explains."""

    definition: MetricDefinition
    name: str
    cells: Sequence[_PageCell]
    """All columns but the first."""


def _metric_headings(columns: Sequence[TableColumn], total: int) -> list[_Heading]:
    """The headings of a page's table of metrics.

    A column that is drawn has one for its numbers, too.

    Args:
        total: cases of the run, which the heading of the column of counts has.
    """
    headings: list[_Heading] = []
    for column in columns:
        is_name = not headings  # the first column
        heading = column.heading[:1].upper() + column.heading[1:]
        if column.is_of_total:
            headings.append(_Heading(f"n of {total:,}", is_number=True))
        elif column.is_drawn:
            headings.append(_Heading(heading))
            # The drawing has the heading; who cannot see it hears a heading of the numbers, too.
            spoken = Markup('<span class="sr">Interval in numbers</span>')
            headings.append(_Heading(spoken, is_number=True))
        else:
            headings.append(_Heading(heading, is_number=not is_name))
    headings.append(_Heading("Values"))
    headings.append(_Heading("Without a value"))
    return headings


def _metric_row(
    columns: Sequence[TableColumn], summary: Summary, values: Sequence[float]
) -> _MetricRow:
    """A row of a page's table of metrics: figures, a histogram, and how many cases have no value.

    A mean alone hides whether all cases are middling, or half of them lost: the histogram shows it.

    Args:
        columns: of the table, the first of which is the metric's name.
        values: of all cases that have one.
    """
    definition = summary.metric.definition
    start, end = _axis_ends(summary, values)
    cells: list[_PageCell] = []
    for column in columns[1:]:
        value = column.value(summary)
        text = _figure_text(value, definition.unit)
        label = column.heading
        # A drawing and its numbers are two cells of one column.
        if column.is_drawn:
            # The drawing has a cell before that of the numbers.
            label = ""
            interval: Interval | None = None
            if isinstance(value, Interval):
                interval = value
            else:
                text = ""
            cells.append(_PageCell(_score_drawing(summary, interval, start, end)))
        is_score = column.heading == "score"
        cells.append(_PageCell(text, is_number=True, is_strong=is_score, label=label))
    histogram = ""
    # A metric without a value has no histogram.
    if values:
        lowest = definition.low
        if lowest is None:
            lowest = min(values)
        histogram = charts.histogram(values, lowest, end, bins=_BINS)
    cells.append(_PageCell(histogram))
    cells.append(_PageCell(_missing_values_text(summary)))
    return _MetricRow(definition, summary.metric.name, cells)


def _axis_ends(summary: Summary, values: Sequence[float]) -> tuple[float, float]:
    """The ends of the axis on which a metric's interval is drawn: its own range, or its values'.

    The score is always within, whatever the range.

    Args:
        values: of all cases that have one.
    """
    definition = summary.metric.definition
    start = definition.low
    if start is None:
        start = min(values, default=0.0)
    end = definition.high
    if end is None:
        end = max(values, default=1.0)
    if definition.aggregate is not None:
        # A figure that is no mean of its values, such as ECE, is a size: its axis begins at 0 or
        # above.
        start = max(start, 0.0)
    if summary.score is not None:
        start = min(start, summary.score)
        end = max(end, summary.score)
    return start, end


def _score_drawing(summary: Summary, interval: Interval | None, start: float, end: float) -> str:
    """The drawing of a metric's score and interval, on an axis from start to end.

    It is empty without a score.
    """
    if summary.score is None:
        return ""
    low: float | None = None
    high: float | None = None
    if interval is not None:
        low = interval.low
        high = interval.high
    return charts.forest(summary.score, low, high, least=start, most=end)


def _figure_text(value: Interval | str | int | float | None, unit: str) -> str:
    """A figure of the table of metrics as the page writes it, with its unit.

    Numbers of one kind look alike in all columns.
    """
    # Texts and intervals first; whole numbers are counts.
    if isinstance(value, str):
        return value
    if isinstance(value, Interval):
        return f"{page_number(value.low, unit)} – {page_number(value.high, unit)}"
    if isinstance(value, int):
        return f"{value:,}"
    return page_number(value, unit)


def _missing_values_text(summary: Summary) -> str:
    """The text on how many cases have no value of a metric, by the reason.

    It is empty where all have one.
    """
    # Statuses without a value, in the words of the page.
    counts = {
        "abstained": summary.abstained,
        "skipped": summary.skipped,
        "failed": summary.failed,
        "unproved": summary.unproved,
    }
    texts = [f"{count:,} {name}" for name, count in counts.items() if count]
    return ", ".join(texts)


# --- further tables and drawings


def _calibration_drawing(confidences: Sequence[tuple[float, bool]]) -> Markup:
    """A reliability diagram: of answers given with about one confidence, the share that is right.

    It shows whether a user can rely on the system's own confidence.

    Args:
        confidences: how sure the system was of each answer, and whether it is right.
    """
    # Ten bins of a tenth each; 1.0 belongs to the last one.
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, is_right in confidences:
        number = min(int(confidence * 10), 9)
        bins.setdefault(number, []).append((confidence, is_right))
    points: list[tuple[float, float, int]] = []
    texts: list[str] = []
    for number in sorted(bins):
        answers = bins[number]
        mean_confidence = sum(confidence for confidence, _ in answers) / len(answers)
        share_right = sum(is_right for _, is_right in answers) / len(answers)
        points.append((mean_confidence, share_right, len(answers)))
        cases = counted(len(answers), "case")
        texts.append(f"said {mean_confidence:.2f}, right {share_right:.2f}, {cases}")
    return charts.calibration(points, label=f"Calibration: {'; '.join(texts)}")


def _time_rows(latencies: Sequence[Latency]) -> Iterator[list[str]]:
    """The rows of a page's table of times.

    They show how long a case took in each stage, drawn and in numbers.
    """
    # All drawings have one axis, up to the longest time of any stage.
    end = max((latency.longest or latency.mean for latency in latencies), default=0.0)
    for latency in latencies:
        times = (latency.mean, latency.p50, latency.p95, latency.longest)
        row = [latency.stage, charts.times(*times, most=end), f"{latency.count:,}"]
        row += [_time_text(seconds) for seconds in times]
        yield row


def _time_text(seconds: float | None) -> str:
    """A time on a page, in the unit in which it is easy to read; a dash for none.

    Stages take from a fraction of a millisecond to a minute.
    """
    if seconds is None:
        return "–"
    if seconds < 1:
        milliseconds = seconds * 1e3
        return f"{milliseconds:,.1f} ms"
    return f"{seconds:.2f} s"


def _stage_rows(stages: Sequence[StageCount]) -> Iterator[list[str]]:
    """The rows of a page's table of stages: how cases ended, how many were asked now, or reused.

    Reused and recorded outcomes are shown apart, since they were not measured in this run.
    """
    for stage in stages:
        # Neither skipped cases nor outcomes of an earlier run or a file are asked for.
        ended = stage.measured + stage.abstained + stage.failed
        calls = ended - stage.reused - stage.recorded
        counts = (
            stage.measured,
            stage.abstained,
            stage.skipped,
            stage.failed,
            max(calls, 0),
            stage.reused,
            stage.recorded,
        )
        yield [stage.stage, *(f"{count:,}" for count in counts)]
