"""The block of one case in a run's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as percent_encoded

import orjson
from markupsafe import Markup

from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell
from ragbench.core.report import CaseRow
from ragbench.core.story import CaseStory
from ragbench.core.validation import Verdict
from ragbench.ledger.codec import judgement_object
from ragbench.views.document import ids_text
from ragbench.views.explain import hop_text, search_text
from ragbench.views.html.chunks import LONGEST, Chunks, compared_texts, cut, safe
from ragbench.views.html.page import render

if TYPE_CHECKING:
    from ragbench.core.comparison import Against, CaseBefore


def anchor(case: str) -> str:
    return f"case={percent_encoded(case, safe='-_.~:@/,+()')}"


_QUERY = 2000
"""Letters of a question that are drawn: a line of a million without a space stops a browser."""


class CaseBlocks:
    def __init__(self, metrics: Sequence[Metric], against: Against | None = None) -> None:
        self.metrics, self.against = metrics, against
        self.chunks = Chunks()
        self._names = [safe(metric.name) for metric in metrics]

    def block(self, row: CaseRow) -> str:
        attribution, verdict = row.attribution, row.validation
        assert attribution is not None
        reference, response = compared_texts(row.reference, row.response)
        before = None if self.against is None else self.against.cases.get(row.id)
        main, scores = _scores(row, self.metrics, self._names)
        values = {
            "row": row,
            "query": cut(row.query, _QUERY),
            "cause": attribution,
            "anchor": anchor(row.id),
            "main": main,
            "reference": reference,
            "response": response,
            "scores": scores,
            "judged": list(_judged(row, self.metrics)) if any(row.judgements) else (),
            "verdict": None if verdict is None else _verdict(verdict),
            "before": None if before is None else _before(before, row),
            **self._told(row.story, row.response),
        }
        return render("case.html.jinja", {"case": values})

    def _told(self, story: CaseStory | None, response: str | None) -> dict[str, Any]:
        if story is None:
            nothing = (
                *("others", "supported", "notes", "sent", "candidates", "chunks", "gold_texts"),
                *("history", "searches"),
            )
            return {**dict.fromkeys(nothing, ""), "gold": "", "written": None, "hops": ""}
        held = any(mark.kind == "gold" for chunk in story.chunks for mark in chunk.marks)
        marked = {chunk.id for chunk in story.chunks if chunk.is_gold}
        hops = ((hop.stage, hop_text(hop).removeprefix("measured, ")) for hop in story.hops)
        return {
            "others": [cut(text, LONGEST) for text in story.references[1:]],
            "supported": story.supported,
            "notes": story.notes,
            "sent": [cut(text, LONGEST) for text in story.sent],
            "history": [(turn.role, cut(turn.text, LONGEST)) for turn in story.history],
            "searches": [*map(search_text, story.searches)],
            "candidates": [cut(text, LONGEST) for text in story.candidates if text != response],
            "chunks": self.chunks.rows(story.chunks),
            # The ids, where the table of chunks does not show them all.
            "gold": "" if marked.issuperset(story.gold_ids) else ", ".join(story.gold_ids),
            # What a chunk shows as a quote need not stand here again.
            "gold_texts": () if held else [cut(text, 1000) for text in story.gold_texts[:5]],
            "written": None if story.written is None else cut(story.written, LONGEST),
            "hops": " · ".join(f"{stage} {text}" for stage, text in hops),
        }


def _before(before: CaseBefore, row: CaseRow) -> dict[str, Any]:
    cause, now = before.cause, row.attribution
    other, _ = compared_texts(before.response, row.response)
    has_moved = cause is not None and now is not None and cause is not now.cause
    return {
        "kind": None if before.kind is None else before.kind.value,
        "cause": cause.label if cause is not None and has_moved else None,
        "is_same": before.tells_texts and before.response == row.response,
        "tells_texts": before.tells_texts,
        "response": other,
        "ids": None if before.ids is None else ids_text(before.ids),
        "scores": ", ".join(
            f"{name} {_state(old)} → {_state(new)}" for name, old, new in before.scores
        ),
    }


def _state(cell: Cell) -> str:
    return cell.status.value if cell.value is None else f"{cell.value:.3g}"


def _scores(row: CaseRow, metrics: Sequence[Metric], names: Sequence[str]) -> tuple[str, Markup]:
    """What a closed case shows: a score of retrieval and one of the answer; then every metric.

    Those without a value stand behind, by how their cells ended.
    """
    wanted: dict[str, str] = {}
    values: list[str] = []
    without: dict[str, list[str]] = {}
    for metric, name, cell in zip(metrics, names, row.cells, strict=True):
        if cell.value is None:
            without.setdefault(cell.status.value, []).append(name)
            continue
        values.append(f"{name} {cell.value:.3g}")
        group = metric.definition.group.value
        shown = wanted.get(group, "")
        is_first = not shown or (metric.name == "token_f1" and "answer_correct" not in shown)
        if group in ("retriever", "generator") and is_first:
            wanted[group] = f"{metric.name} {cell.value:.3g}"
    rest = (f"{status}: {', '.join(found)}" for status, found in without.items())
    return " · ".join(wanted.values()), Markup(" · ".join([*values, *rest]))


def _judged(row: CaseRow, metrics: Sequence[Metric]) -> Iterator[dict[str, str]]:
    for metric, judgements in zip(metrics, row.judgements, strict=True):
        for judgement in judgements:
            steps = [
                {name: step[name] for name in ("asked", "answer", "quotes")}
                for step in judgement_object(judgement)["steps"]
            ]
            text = orjson.dumps(steps, option=orjson.OPT_INDENT_2, default=str).decode()
            yield {
                "name": f"{metric.name}{f' by {judgement.judge}' if judgement.judge else ''}",
                "said": _state(judgement.cell),
                "steps": cut(text, LONGEST),
            }


def _verdict(verdict: Verdict) -> str:
    return (
        f"{verdict.validator}: {verdict.message} Answer present: "
        f"{'yes' if verdict.answer_present else 'not shown'}, probability "
        f"{verdict.answer_probability:.2f}; retrieval quality {verdict.retrieval_quality.value}."
        + "".join(f" {reason}" for reason in verdict.reasons)
    )
