"""The page of a run: its head, and a block for every case; chunk texts stand in it once."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench.core.attribution import Answer, Cause, CauseCount
from ragbench.core.comparison import Against, CaseKind
from ragbench.core.report import CaseRow, Report
from ragbench.views.comparison import counts_text
from ragbench.views.document import flows_section
from ragbench.views.html.case import CaseBlocks
from ragbench.views.html.chunks import Chunks
from ragbench.views.html.page import render
from ragbench.views.html.run_head import head_values

MOST_CASES = 1_000
"""Cases that a page holds; of a larger run it shows the worst of every cause."""
_BINS = 12
_ORDER = (CaseKind.FAILING, CaseKind.MIXED, CaseKind.FIXED)
_Placed = tuple[tuple[bool, float], int, str]
"""How bad a case is, its place in the run, its id."""


@dataclass(slots=True)
class RunPage:
    """Collects the cases of a report, then renders the page."""

    report: Report
    against: Against | None = None
    """The run that each case is held against: those that went another way stand first."""
    _changed: dict[CaseKind, list[str]] = field(default_factory=dict[CaseKind, list[str]])
    """Ids of the cases that went another way than in the other run."""
    _worst: dict[Cause, list[_Placed]] = field(default_factory=dict[Cause, "list[_Placed]"])
    """Of each cause the worst of those that are left, in no order."""
    _room: dict[Cause, int] = field(default_factory=dict[Cause, int])
    _count: int = 0
    _main: int | None = None
    _values: list[array[float]] = field(default_factory=list["array[float]"])
    _matrix: Counter[tuple[bool, Answer]] = field(default_factory=Counter[tuple[bool, Answer]])
    _confidences: list[tuple[float, bool]] = field(default_factory=list[tuple[float, bool]])
    _cases: CaseBlocks = field(init=False)

    def __post_init__(self) -> None:
        self._room, self._main = _room(self.report.causes), self.report.main_metric
        self._values = [array("d") for _ in self.report.metrics]
        self._cases = CaseBlocks(self.report.metrics, Chunks(), self.against)

    def case(self, row: CaseRow) -> None:
        for at, cell in enumerate(row.cells):
            if cell.value is not None:
                self._values[at].append(cell.value)
        attribution = row.attribution
        if attribution is None:
            return
        is_there = attribution.cause is not Cause.ANSWERED_WITHOUT and (
            attribution.basis.value != "label"
        )
        self._matrix[is_there, attribution.answer] += 1
        if row.confidence is not None and attribution.answer in (Answer.RIGHT, Answer.WRONG):
            self._confidences.append((row.confidence, attribution.answer is Answer.RIGHT))
        before = None if self.against is None else self.against.cases.get(row.id)
        kind = None if before is None else before.kind
        if kind is not None:
            changed = self._changed.setdefault(kind, [])
            if len(changed) < MOST_CASES:
                changed.append(row.id)
            return
        self._count += 1
        room = self._room.get(attribution.cause, 0)
        kept = self._worst.setdefault(attribution.cause, [])
        value = None if self._main is None else row.cells[self._main].value
        kept.append((self.report.badness(value, self._main), self._count, row.id))
        if len(kept) > 2 * room:
            kept.sort()
            del kept[room:]

    def _shown(self) -> list[str]:
        """The ids of the cases that the page holds, in its order."""
        kept = [
            (count, id)
            for cause, cases in self._worst.items()
            for _, count, id in sorted(cases)[: self._room.get(cause, 0)]
        ]
        changed = [id for kind in _ORDER for id in self._changed.get(kind, ())]
        return [*changed, *(id for _, id in sorted(kept))]

    def body(self) -> Iterator[str]:
        total = sum(count.cases for count in self.report.causes)
        ids = self._shown()
        shown, cut = len(ids), None
        if shown < total:
            cut = (
                f"This page shows {shown:,} of {total:,} cases, the worst of every cause. "
                "'ragbench cases RUN' lists all, 'ragbench explain RUN CASE' shows any, cases.csv "
                "and 'ragbench export' have every one."
            )
        values = head_values(self.report, self._values, self._matrix, self._confidences, bins=_BINS)
        against = None if self.against is None else _against(self.against)
        yield render("run.html.jinja", {**values, "shown": shown, "cut": cut, "against": against})
        yield from map(self._cases.block, self.report.find(ids))
        yield render("chunks.html.jinja", {"chunks": self._cases.chunks.listed()})

    @property
    def title(self) -> str:
        manifest = self.report.manifest
        return f"{manifest['rag']['name']} on {manifest['dataset']['name']}"


def run_page(report: Report, against: Against | None = None) -> RunPage:
    page = RunPage(report, against)
    for row in report.rows():
        page.case(row)
    return page


def _room(causes: Sequence[CauseCount]) -> dict[Cause, int]:
    """How many cases of each cause a page shows: all, or else as many of each as there is room."""
    left, room = MOST_CASES, dict[Cause, int]()
    for at, count in enumerate(sorted(causes, key=lambda count: count.cases)):
        share = left // (len(causes) - at)
        room[count.cause] = min(count.cases, share)
        left -= room[count.cause]
    return room


def _against(against: Against) -> dict[str, Any]:
    """What ``run.html.jinja`` says of the run that this one is held against."""
    apart = (
        (against.edited, "were edited since"),
        (against.added, "are only in this run"),
        (against.gone, "are only in that run"),
    )
    counts = [f"{count:,} {what}" for count, what in apart if count]
    return {
        "source": against.source,
        "rag": against.rag,
        "counts": f"{counts_text(against.pair)} cases.",
        "apart": f"Not compared: {', '.join(counts)}." if counts else "",
        "kinds": [kind.value for kind in _ORDER],
        "flows": flows_section(against.flows),
    }
