"""The page of a run: its head, and a block for every case; chunk texts stand in it once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote as percent_encoded

from markupsafe import Markup

from ragbench.core.attribution import Answer, Cause, CauseCount
from ragbench.core.metric import Metric
from ragbench.core.outcome import Judgement
from ragbench.core.report import CaseRow, Report
from ragbench.core.story import CaseStory, Hop
from ragbench.ledger.codec import judgement_object
from ragbench.views.explain import hop_text
from ragbench.views.html.chunks import Chunks, safe
from ragbench.views.html.differences import LONGEST, compared_texts, cut
from ragbench.views.html.page import render
from ragbench.views.html.run_head import head_values

__all__ = [
    "MOST_CASES",
    "RunPage",
    "run_page",
]

MOST_CASES = 10_000
"""Cases that a page holds; of a larger run it shows some of every cause."""
_BINS = 12


@dataclass(slots=True)
class RunPage:
    """Collects the cases of a report, then renders the page."""

    report: Report
    _blocks: list[str] = field(default_factory=list[str])
    _room: dict[Cause, int] = field(default_factory=dict[Cause, int])
    _names: list[str] = field(default_factory=list[str])
    _values: list[list[float]] = field(default_factory=list[list[float]])
    _matrix: Counter[tuple[bool, Answer]] = field(default_factory=Counter[tuple[bool, Answer]])
    _confidences: list[tuple[float, bool]] = field(default_factory=list[tuple[float, bool]])
    _chunks: Chunks = field(default_factory=Chunks)

    def __post_init__(self) -> None:
        """Shares the page's room among the causes."""
        self._room = _room(self.report.causes)
        self._values = [[] for _ in self.report.metrics]
        self._names = [safe(metric.name) for metric in self.report.metrics]

    def case(self, row: CaseRow) -> None:
        """Takes a case."""
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
        story = row.story
        confidence = None if story is None else story.confidence
        if confidence is not None and attribution.answer in (Answer.RIGHT, Answer.WRONG):
            self._confidences.append((confidence, attribution.answer is Answer.RIGHT))
        if self._room.get(attribution.cause, 0) > 0:
            self._room[attribution.cause] -= 1
            self._blocks.append(self._block(row))

    def body(self) -> Iterator[str]:
        """The page between its head and its foot."""
        total = sum(count.cases for count in self.report.causes)
        shown = len(self._blocks)
        cut = None
        if shown < total:
            cut = (
                f"This page shows {shown:,} of {total:,} cases, some of every cause. "
                "'ragbench cases RUN' lists all, 'ragbench explain RUN CASE' shows any."
            )
        values = head_values(self.report, self._values, self._matrix, self._confidences, bins=_BINS)
        yield render("run.html.jinja", {**values, "shown": shown, "cut": cut})
        yield from self._blocks
        yield render("chunks.html.jinja", {"chunks": self._chunks.listed()})

    @property
    def title(self) -> str:
        """What a browser's tab says."""
        manifest = self.report.manifest
        return f"{manifest['rag']['name']} on {manifest['dataset']['name']}"

    def _block(self, row: CaseRow) -> str:
        return render("case.html.jinja", {"case": self._case_values(row)})

    def _case_values(self, row: CaseRow) -> dict[str, Any]:
        attribution, story = row.attribution, row.story
        assert attribution is not None
        reference, response = compared_texts(row.reference, row.response)
        return {
            "id": row.id,
            "anchor": f"case={percent_encoded(row.id, safe='-_.~:@/,+()')}",
            "cause": attribution.cause.value,
            "label": attribution.cause.label,
            "stage": attribution.stage,
            "answer": attribution.answer.value,
            "detail": attribution.detail,
            "estimated": attribution.basis.is_estimate,
            "query": row.query,
            "main": _main(row, self.report.metrics),
            "tags": [*row.tags, *([f"language:{row.language}"] if row.language else [])],
            "failures": [str(failure) for failure in row.failures],
            "reference": reference,
            "response": response,
            "others": () if story is None else story.references[1:],
            "scores": _scores(row, self._names),
            "judged": list(_judged(row, self.report.metrics)),
            "verdict": _verdict(row),
            **self._story_values(story, row.response),
        }

    def _story_values(self, story: CaseStory | None, response: str | None) -> dict[str, Any]:
        if story is None:
            nothing = ("sent", "candidates", "chunks", "gold_texts")
            return {**dict.fromkeys(nothing, ""), "gold": "", "written": None, "hops": ""}
        held = any(mark.kind == "gold" for chunk in story.chunks for mark in chunk.marks)
        return {
            "sent": story.sent,
            "candidates": [text for text in story.candidates if text != response],
            "chunks": self._chunks.rows(story.chunks),
            "gold": _unmarked_gold(story),
            # What a chunk shows as a quote need not stand here again.
            "gold_texts": () if held else [cut(text, 1000) for text in story.gold_texts[:5]],
            "written": None if story.written is None else cut(story.written, LONGEST),
            "hops": " · ".join(map(_hop, story.hops)),
        }


def run_page(report: Report) -> RunPage:
    """The page of a run, with all its cases."""
    page = RunPage(report)
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


def _main(row: CaseRow, metrics: Sequence[Metric]) -> str:
    """The scores that a closed case shows: one of retrieval, one of the answer."""
    wanted: dict[str, str] = {}
    for metric, cell in zip(metrics, row.cells, strict=True):
        group = metric.definition.group.value
        is_first = group not in wanted or metric.name == "token_f1"
        if cell.value is not None and group in ("retriever", "generator") and is_first:
            wanted[group] = f"{metric.name} {_short(cell.value)}"
    return " · ".join(wanted.values())


def _scores(row: CaseRow, names: Sequence[str]) -> Markup:
    """Every metric with its value; then those without one, by how their cells ended.

    Args:
        row: the case.
        names: of the metrics, as HTML.
    """
    values: list[str] = []
    without: dict[str, list[str]] = {}
    for name, cell in zip(names, row.cells, strict=True):
        if cell.value is None:
            without.setdefault(cell.status.value, []).append(name)
        else:
            values.append(f"{name} {_short(cell.value)}")
    rest = (f"{status}: {', '.join(found)}" for status, found in without.items())
    return Markup(" · ".join([*values, *rest]))


def _hop(hop: Hop) -> str:
    """How a stage ended; that it was measured goes without saying."""
    return f"{hop.stage} {hop_text(hop).removeprefix('measured, ')}"


def _unmarked_gold(story: CaseStory) -> str:
    """The ids of the gold, where the table of chunks does not show them all."""
    marked = {chunk.id for chunk in story.chunks if chunk.is_gold}
    return "" if marked.issuperset(story.gold_ids) else ", ".join(story.gold_ids)


def _short(value: float) -> str:
    return f"{value:.3g}"


def _judged(row: CaseRow, metrics: Sequence[Metric]) -> Iterator[dict[str, str]]:
    for metric, judgements in zip(metrics, row.judgements or (), strict=False):
        for judgement in judgements:
            value = judgement.cell.value
            said = judgement.cell.status.value if value is None else _short(value)
            who = f" by {judgement.judge}" if judgement.judge else ""
            yield {"name": f"{metric.name}{who}", "said": said, "steps": _steps(judgement)}


def _steps(judgement: Judgement) -> str:
    import orjson

    told = [
        {"asked": step["asked"], "answer": step["answer"], "quotes": step["quotes"]}
        for step in judgement_object(judgement)["steps"]
    ]
    text = orjson.dumps(told, option=orjson.OPT_INDENT_2, default=str).decode()
    return cut(text, LONGEST)


def _verdict(row: CaseRow) -> str | None:
    verdict = row.validation
    if verdict is None:
        return None
    return (
        f"{verdict.validator}: {verdict.message} Answer present: "
        f"{'yes' if verdict.answer_present else 'not shown'}, probability "
        f"{verdict.answer_probability:.2f}; retrieval quality {verdict.retrieval_quality.value}."
        + "".join(f" {reason}" for reason in verdict.reasons)
    )
