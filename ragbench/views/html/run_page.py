"""The page of a run: its head, and a block for every case; chunk texts stand in it once."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ragbench.core.attribution import Answer, Cause
from ragbench.core.metric import Metric
from ragbench.core.report import CaseRow, Latency, Report, StageCount, Summary, badness, main_metric
from ragbench.views.document import flows_section
from ragbench.views.html import charts
from ragbench.views.html.case import CaseBlocks
from ragbench.views.html.lost import LostCases
from ragbench.views.html.page import Page, render
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
_WITHOUT = ("abstained", "skipped", "failed", "unproved")
_ANSWERS = (Answer.RIGHT, Answer.WRONG, Answer.DECLINED, Answer.UNCHECKED, Answer.NONE)
_THERE = ((True, "there is an answer, or may be"), (False, "there is none"))
_Placed = tuple[tuple[bool, float], int, CaseRow]
"""How bad a case is, its place in the run, and the case."""


class RunPage:
    """Collects the cases of a run, then renders the page of its report.

    Args:
        against: the run that each case is held against: those that went another way stand first.
    """

    report: Report
    """Given once all cases are collected."""

    def __init__(self, metrics: Sequence[Metric], against: Against | None = None) -> None:
        self.against = against
        self._at = main_metric(metrics)
        self._main = None if self._at is None else metrics[self._at]
        self._counts: Counter[Cause] = Counter()
        self._changed: dict[CaseKind, list[CaseRow]] = {}
        """Cases that went another way than in the other run."""
        self._worst: dict[Cause, list[_Placed]] = {}
        """Of each cause the worst of those that are left, in no order."""
        self._kept = 0
        self._values = [array("d") for _ in metrics]
        self._matrix: Counter[tuple[bool, Answer]] = Counter()
        self._confidences: list[tuple[float, bool]] = []
        self._lost = LostCases()
        self._cases = CaseBlocks(metrics, against)

    def case(self, row: CaseRow) -> None:
        for at, cell in enumerate(row.cells):
            if cell.value is not None:
                self._values[at].append(cell.value)
        attribution = row.attribution
        is_without = attribution.cause is Cause.ANSWERED_WITHOUT
        is_there = not is_without and attribution.basis.value != "label"
        self._matrix[is_there, attribution.answer] += 1
        if row.confidence is not None and attribution.answer in (Answer.RIGHT, Answer.WRONG):
            self._confidences.append((row.confidence, attribution.answer is Answer.RIGHT))
        value = None if self._at is None else row.cells[self._at].value
        place = badness(value, self._main)
        self._lost.add(row, attribution, place)
        before = None if self.against is None else self.against.cases.get(row.id)
        kind = None if before is None else before.kind
        if kind is not None:
            changed = self._changed.setdefault(kind, [])
            if len(changed) < MOST_CASES:
                changed.append(row)
            return
        self._counts[attribution.cause] += 1
        kept = self._worst.setdefault(attribution.cause, [])
        kept.append((place, self._counts.total(), row))
        self._kept += 1
        if self._kept > 2 * MOST_CASES:
            self._drop()

    def _drop(self) -> None:
        """Drops the cases that have no room, which only shrinks as cases come."""
        room = _room(self._counts)
        for cause, kept in self._worst.items():
            kept.sort()
            del kept[room[cause] + len(room) :]  # by so many it may be rounded otherwise
        self._kept = sum(map(len, self._worst.values()))

    def page(self) -> Page:
        manifest = self.report.manifest
        title = f"{manifest['rag']['name']} on {manifest['dataset']['name']}"
        return Page(title=title, body=self._body())

    def _body(self) -> Iterator[str]:
        causes = {count.cause: count.cases for count in self.report.causes}
        total, room = sum(causes.values()), _room(causes)
        kept = [
            (count, row)
            for cause, cases in self._worst.items()
            for _, count, row in sorted(cases)[: room.get(cause, 0)]
        ]
        shown = [row for kind in sorted(self._changed, key=_urgency) for row in self._changed[kind]]
        shown += [row for _, row in sorted(kept)]
        cut = None
        if len(shown) < total:
            cut = (
                f"This page shows {len(shown):,} of {total:,} cases, the worst of every cause. "
                "'ragbench cases RUN' lists all, 'ragbench explain RUN CASE' shows any, cases.csv "
                "and 'ragbench export' have every one."
            )
        against = None if self.against is None else _against(self.against)
        values = {**self._head(), "shown": len(shown), "cut": cut, "against": against}
        yield render("run.html.jinja", values)
        is_told = all(row.tell is not None for row in shown)
        rows = shown if is_told else self.report.find([row.id for row in shown])
        yield from map(self._cases.block, rows)
        yield render("run.html.jinja", {"chunks": [*self._cases.shelf.values()]})

    def _head(self) -> dict[str, Any]:
        report = self.report
        groups: dict[str, list[tuple[Summary, *tuple[str, ...]]]] = {}
        for summary, measured in zip(report.summaries, self._values, strict=True):
            if summary.measured:
                group = summary.metric.definition.group.value
                groups.setdefault(group, []).append((summary, *_drawn(summary, measured)))
        falls = waterfall(report.causes)
        total = falls[0].cases + falls[0].left if falls else 1
        return {
            "report": report,
            "headline": headline(report),
            "notes": [*filter(None, [reused_text(report)]), *report.notes],
            "falls": [(fall, 1 - (fall.left + fall.cases) / total) for fall in falls],
            "share_bar": charts.share_bar,
            "lost": list(self._lost.groups()),
            "heat": self._lost.heat([count.cause for count in report.causes]),
            "tags": len(self._lost.causes),
            "groups": groups,
            "unmeasured": unmeasured_text(report),
            "matrix": [
                [label, *(f"{self._matrix[is_there, answer]:,}" for answer in _ANSWERS)]
                for is_there, label in _THERE
            ],
            "calibration": _calibration(self._confidences) if len(self._confidences) > 9 else None,
            "calibrated": len(self._confidences),
            "times": list(_times(report.latencies)),
            "sharing": sharing_remark(report.latencies),
            "stages": list(_stages(report.stages)),
            "sections": [each for each in detail_sections(report) if not each.is_empty],
        }


def run_page(report: Report, against: Against | None = None) -> Page:
    made = RunPage(report.metrics, against)
    for row in report.rows():
        made.case(row)
    made.report = report
    return made.page()


def _room(causes: Mapping[Cause, int]) -> dict[Cause, int]:
    """How many cases of each cause a page shows: all, or else as many of each as there is room."""
    left, room = MOST_CASES, dict[Cause, int]()
    for at, cause in enumerate(sorted(causes, key=causes.__getitem__)):
        room[cause] = min(causes[cause], left // (len(causes) - at))
        left -= room[cause]
    return room


def _urgency(kind: CaseKind) -> int:
    return [*type(kind)].index(kind)


def _against(against: Against) -> dict[str, Any]:
    """What ``run.html.jinja`` says of the run that this one is held against."""
    from ragbench.core.comparison import CaseKind  # few pages have one
    from ragbench.views.comparison import counts_text

    apart = (
        (against.edited, "were edited since"),
        (against.added, "are only in this run"),
        (against.gone, "are only in that run"),
    )
    counts = [f"{count:,} {what}" for count, what in apart if count]
    return {
        "run": against,
        "counts": f"{counts_text(against.pair)}.",
        "apart": f"Not compared: {', '.join(counts)}." if counts else "",
        "kinds": [kind.value for kind in CaseKind],
        "flows": flows_section(against.flows),
    }


def _drawn(summary: Summary, measured: Sequence[float]) -> tuple[str, str, str]:
    """A metric's interval, its values as a histogram, and how many cases have none.

    Its axis is its own range, or that of its values where it has none.
    """
    definition, interval, score = summary.metric.definition, summary.interval, summary.score
    least = definition.low if definition.low is not None else min(measured, default=0.0)
    most = definition.high if definition.high is not None else max(measured, default=1.0)
    # A figure that is no mean of its cells, such as ECE, is one of its own size.
    axis = least if definition.aggregate is None else max(least, 0.0)
    if score is not None:
        axis, most = min(axis, score), max(most, score)
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    counts = [(name, getattr(summary, name)) for name in _WITHOUT]
    return (
        "" if score is None else charts.forest(score, low, high, least=axis, most=most),
        charts.histogram(measured, least, most, bins=_BINS) if measured else "",
        ", ".join(f"{count:,} {name}" for name, count in counts if count),
    )


def _calibration(confidences: Sequence[tuple[float, bool]]) -> Markup:
    bins: dict[int, list[tuple[float, bool]]] = {}
    for said, is_right in confidences:
        bins.setdefault(min(int(said * 10), 9), []).append((said, is_right))
    points = [
        (
            sum(said for said, _ in held) / len(held),
            sum(right for _, right in held) / len(held),
            len(held),
        )
        for _, held in sorted(bins.items())
    ]
    text = "; ".join(f"said {said:.2f}, right {right:.2f}, {n} cases" for said, right, n in points)
    return charts.calibration(points, label=f"Calibration: {text}")


def _times(latencies: Sequence[Latency]) -> Iterator[list[str]]:
    most = max((latency.longest or latency.mean for latency in latencies), default=0.0)
    for one in latencies:
        figures = (one.mean, one.p50, one.p95, one.longest)
        shown = (
            "–" if each is None else f"{each * 1e3:,.1f} ms" if each < 1 else f"{each:.2f} s"
            for each in figures
        )
        yield [one.stage, charts.times(*figures, most=most), f"{one.count:,}", *shown]


def _stages(stages: Sequence[StageCount]) -> Iterator[list[str]]:
    for one in stages:
        ends = (one.measured, one.abstained, one.skipped, one.failed)
        asked = max(sum(ends) - one.reused - one.recorded - one.skipped, 0)
        yield [one.stage, *(f"{count:,}" for count in (*ends, asked, one.reused, one.recorded))]
