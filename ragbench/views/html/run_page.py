"""The page of a run: its head, and a block for every case; chunk texts stand in it once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import quote as percent_encoded

from markupsafe import Markup, escape

from ragbench.core.attribution import Answer, Cause, CauseCount
from ragbench.core.metric import Metric
from ragbench.core.outcome import Judgement
from ragbench.core.report import CaseRow, Report
from ragbench.core.story import CaseStory, ChunkStory
from ragbench.ledger.codec import judgement_object
from ragbench.views.explain import chunk_fate, chunk_ranks, hop_text
from ragbench.views.html.page import clean, render
from ragbench.views.html.run_head import head_values

__all__ = [
    "MOST_CASES",
    "RunPage",
    "compared_texts",
    "run_page",
]

MOST_CASES = 10_000
"""Cases that a page holds; of a larger run it shows some of every cause."""
_TEXTS = 12_000_000
"""Letters of chunks that a page holds."""
_LONGEST = 20_000
"""Letters of one text."""
_WORDS = 400
"""Words up to which two answers are compared word by word."""
_AROUND = 40
"""Letters around a quote."""
_QUOTES = 4
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
    _chunks: _Chunks = field(default_factory=lambda: _Chunks())

    def __post_init__(self) -> None:
        """Shares the page's room among the causes."""
        self._room = _room(self.report.causes)
        self._values = [[] for _ in self.report.metrics]
        self._names = [_safe(metric.name) for metric in self.report.metrics]

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
            "chunks": Markup("".join(self._chunk(chunk) for chunk in story.chunks)),
            "gold": ", ".join(story.gold_ids),
            # What a chunk shows as a quote need not stand here again.
            "gold_texts": () if held else [_cut(text, 1000) for text in story.gold_texts[:5]],
            "written": None if story.written is None else _cut(story.written, _LONGEST),
            "hops": " · ".join(f"{hop.stage}: {hop_text(hop)}" for hop in story.hops),
        }

    def _chunk(self, chunk: ChunkStory) -> Markup:
        """A chunk's row: there are many of them, so that a template would take too long."""
        text = self._chunks.text(chunk)
        marks = ";".join(
            f"{_units(text[: mark.start])},{_units(text[: mark.end])}"
            for mark in chunk.marks
            if mark.end <= len(text)
        )
        gold = ' class="gold"' if chunk.is_gold else ""
        spans = f' data-m="{marks}"' if marks else ""
        score = "" if chunk.score is None else f"{chunk.score:.4g}"
        return Markup(
            f"<tr{gold}{spans}><td>{chunk_ranks(chunk)}"
            f'<td><a href="#k{self._chunks.number(chunk)}">{_safe(chunk.id)}</a>'
            f"{' <b>gold</b>' if chunk.is_gold else ''}<td>{score}"
            f"<td>{_safe(chunk_fate(chunk))}{''.join(map(_quoted, _quotes(chunk)))}\n"
        )


def _safe(text: str) -> str:
    """A text as HTML, in which none of its letters acts."""
    return str(escape(clean(text)))


def _quoted(quote: dict[str, str]) -> str:
    kind, before, text, after = (_safe(quote[part]) for part in _PARTS)
    return f'<q dir="auto"><small>{kind}</small> {before}<mark>{text}</mark>{after}</q>'


_PARTS = ("kind", "before", "text", "after")


@dataclass(slots=True)
class _Chunks:
    """Every chunk text once."""

    _numbers: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    _texts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    _letters: int = 0

    def number(self, chunk: ChunkStory) -> int:
        """The number of a chunk; a new one when it was not seen yet."""
        key = (chunk.id, chunk.text)
        if key not in self._numbers:
            self._numbers[key] = len(self._texts)
            text = _cut(chunk.text, _LONGEST)
            self._letters += len(text)
            if self._letters > _TEXTS:
                text = "(not in this page, which would be too large: see ragbench explain)"
            self._texts.append((chunk.id, text))
        return self._numbers[key]

    def text(self, chunk: ChunkStory) -> str:
        """The text of a chunk as the page holds it."""
        return self._texts[self.number(chunk)][1]

    def listed(self) -> list[dict[str, str]]:
        """All of them, in the order of their numbers."""
        return [
            {"anchor": f"k{number}", "id": id, "text": text}
            for number, (id, text) in enumerate(self._texts)
        ]


def _units(text: str) -> int:
    """How long a browser finds a text, once it is made safe: UTF-16 counts some letters twice."""
    safe = clean(text)
    return len(safe) if safe.isascii() else len(safe.encode("utf-16-le", "surrogatepass")) // 2


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


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:longest]} ... ({len(text) - longest:,} more letters: see ragbench explain)"


_WORD = re.compile(r"\s*\S+\s*")
_Parts = list[dict[str, Any]]


def compared_texts(
    reference: str | None, response: str | None
) -> tuple[_Parts | None, _Parts | None]:
    """Both texts in parts: those that the other has too, and those that it lacks."""
    if reference is None or response is None:
        return _whole(reference), _whole(response)
    reference, response = _cut(reference, _LONGEST), _cut(response, _LONGEST)
    wanted, given = _WORD.findall(reference), _WORD.findall(response)
    if len(wanted) > _WORDS or len(given) > _WORDS:
        return _whole(reference), _whole(response)
    matcher = SequenceMatcher(None, [*map(_plain, wanted)], [*map(_plain, given)], autojunk=False)
    left: _Parts = []
    right: _Parts = []
    for kind, a, b, c, d in matcher.get_opcodes():
        if b > a:
            left.append({"text": "".join(wanted[a:b]), "same": kind == "equal"})
        if d > c:
            right.append({"text": "".join(given[c:d]), "same": kind == "equal"})
    return left, right


def _plain(word: str) -> str:
    return word.strip().strip(".,;:!?\"'()[]").casefold()


def _whole(text: str | None) -> _Parts | None:
    return None if text is None else [{"text": _cut(text, _LONGEST), "same": True}]


def _quotes(chunk: ChunkStory) -> Iterator[dict[str, str]]:
    for mark in chunk.marks[:_QUOTES]:
        before, after = max(0, mark.start - _AROUND), mark.end + _AROUND
        yield {
            "kind": mark.kind,
            "before": ("…" if before else "") + chunk.text[before : mark.start],
            "text": _cut(chunk.text[mark.start : mark.end], 400),
            "after": chunk.text[mark.end : after] + ("…" if after < len(chunk.text) else ""),
        }


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
    """Every metric with its value, or how its cell ended.

    Args:
        row: the case.
        names: of the metrics, as HTML.
    """
    cells = zip(names, row.cells, strict=True)
    return Markup(
        ", ".join(
            f"{name} <b>{cell.status.value if cell.value is None else _short(cell.value)}</b>"
            for name, cell in cells
        )
    )


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
    return _cut(text, _LONGEST)


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
