"""One case hop by hop, and lists of cases, as lines and as JSON objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Judgement, Known, Status
from ragbench.core.report import CaseRow
from ragbench.core.story import CaseStory, ChunkStory, Hop, SearchStory
from ragbench.ledger.codec import judgement_object
from ragbench.safe_text import shown_line
from ragbench.views.report import case_object

_LONGEST = 300
"""Letters of an answer or a reason that are shown on a line."""
_CHUNK = 160
"""Letters of a chunk that are shown: ragbench report --html shows all."""
_STEPS = 6
"""Answers of a judge that are shown for a metric."""
_CHUNKS = 4
_TURNS = 20


def case_story_lines(row: CaseRow, metrics: Sequence[Metric]) -> Iterator[tuple[str, str]]:
    """A case from its question to its answer: a label and a line each."""
    story = row.story
    assert story is not None
    yield from _asked(row, story, longest=_LONGEST, turns=_TURNS)
    for hop in story.hops:
        yield hop.stage, hop_text(hop)
    yield from _gold(story)
    for chunk in story.chunks:
        yield "chunk", f"{_chunk(chunk)}: {shown_line(chunk.text, longest=_CHUNK)}"
    if story.written is not None:
        yield "written", _line(story.written)
    for text in story.references:
        yield "reference", _line(text)
    yield "answer", "-" if row.response is None else _line(row.response)
    yield from _expectations(story, longest=_LONGEST)
    yield from _doubts(story)
    if row.validation is not None:
        yield "verdict", _line(row.validation.message)
        for quote in row.validation.evidence:
            yield "evidence", f'{shown_line(quote.chunk_id, longest=60)}: "{_line(quote.text)}"'
    for metric, cell in zip(metrics, row.cells, strict=True):
        yield "score", f"{metric.name} {score_text(cell)}"
    for metric, judgements in zip(metrics, row.judgements, strict=False):
        yield from _judged(metric, judgements)


def short_story_lines(
    row: CaseRow, metrics: Sequence[Metric], *, width: int
) -> Iterator[tuple[str, str]]:
    """The same on one screen: what lost the answer, the gold, and each chunk on a line."""
    story, longest = row.story, max(40, 2 * width - 10)
    assert story is not None
    yield from _asked(row, story, longest=longest, turns=2)
    for hop in story.hops:
        if hop.status is Status.FAILED:
            yield hop.stage, shown_line(hop_text(hop), longest=longest)
    for text in islice(_gold_went(story), 2):
        yield "gold", shown_line(text, longest=width - 4)
    for text in story.references[:1]:
        yield "reference", shown_line(text, longest=longest)
    yield "answer", "-" if row.response is None else shown_line(row.response, longest=longest)
    others = [chunk for chunk in story.chunks if not chunk.is_gold]
    for chunk in others[:_CHUNKS]:
        line = f"{_chunk(chunk)}: {shown_line(chunk.text)}"
        yield "chunk", shown_line(line, longest=width - 4)
    if len(others) > _CHUNKS:
        yield "chunk", f"... and {len(others) - _CHUNKS:,} more"
    for label, text in _expectations(story, longest=width - 4):
        if text.startswith(_DOES_NOT_HOLD):
            yield label, text
    yield from islice(_doubts(story), 3)
    if row.validation is not None:
        yield "verdict", shown_line(row.validation.message, longest=longest)
    yield from _measured(row, metrics, longest=3 * longest)


def _measured(
    row: CaseRow, metrics: Sequence[Metric], *, longest: int
) -> Iterator[tuple[str, str]]:
    scores: list[str] = []
    for metric, cell in zip(metrics, row.cells, strict=True):
        if cell.value is not None:
            scores.append(f"{metric.name} {cell.value:.3f}")
    if scores:
        yield "scores", shown_line(", ".join(scores), longest=longest)


def _asked(
    row: CaseRow, story: CaseStory, *, longest: int, turns: int
) -> Iterator[tuple[str, str]]:
    """The question behind the last turns, what became of it, and how retrieval was asked it."""
    for turn in story.history[-turns:]:
        yield turn.role, shown_line(turn.text, longest=longest)
    yield "question", shown_line(row.query, longest=longest)
    cause = f"{row.attribution.cause.label}: {row.attribution.detail}"
    yield "cause", shown_line(cause, longest=longest)
    for sent in story.sent:
        yield "sent", shown_line(sent, longest=longest)
    for number, search in enumerate(story.searches, start=1):
        yield f"hop {number}", shown_line(search_text(search), longest=longest)


def search_text(search: SearchStory) -> str:
    """One of several searches, in a line."""
    gold = ", the first with gold" if search.has_gold else ""
    took = "" if search.seconds is None else f", {search.seconds * 1e3:,.1f} ms"
    count = "what it found is not known" if search.new is None else f"{len(search.ids)} found"
    new = "" if search.new is None else f", {search.new} new"
    found = f"{count}{new}{gold}{took}"
    shown = ", ".join(search.ids[:_CHUNKS]) + (" ..." if len(search.ids) > _CHUNKS else "")
    return f"{search.query or '-'}: {found}{f' ({shown})' if shown else ''}"


def _line(text: str) -> str:
    return shown_line(text, longest=_LONGEST)


_DOES_NOT_HOLD = "does not hold"
_STATES = {None: "unknown", True: "holds", False: _DOES_NOT_HOLD}


def _expectations(story: CaseStory, *, longest: int) -> Iterator[tuple[str, str]]:
    """What the case expects, and whether it holds."""
    for expectation in story.expectations:
        text = f"{_STATES[expectation.holds]}: {expectation.sentence}"
        yield "expected", shown_line(text, longest=longest)


def _doubts(story: CaseStory) -> Iterator[tuple[str, str]]:
    """Sentences of the answer that do not hold: by numbers and citations, and by judges."""
    for note in story.notes:
        yield "sentence", f'"{shown_line(note.sentence, longest=_CHUNK)}": {_line(note.problem)}'
    for answer in story.supported:
        for one in answer.sentences:
            if one.text is not None and one.verdict != "supported":
                reason = _line(one.claims[0].reason)
                shown = shown_line(one.text, longest=_CHUNK)
                yield "sentence", f'"{shown}": {one.verdict} by {answer.metric}: {reason}'


def _gold(story: CaseStory) -> Iterator[tuple[str, str]]:
    for id in story.gold_ids:
        yield "gold", shown_line(id, longest=100)
    for text in story.gold_texts:
        yield "gold", f'"{_line(text)}"'


def _gold_went(story: CaseStory) -> Iterator[str]:
    """Each gold chunk with its way through the stages; what was never retrieved, by its name."""
    found = [chunk for chunk in story.chunks if chunk.is_gold]
    for chunk in found:
        yield f"{_chunk(chunk)}: {shown_line(chunk.text)}"
    for _, text in () if found else _gold(story):
        yield f"{text}: not retrieved"


def hop_text(hop: Hop) -> str:
    parts = [hop.status.value]
    if hop.known is not Known.ASKED:
        parts.append(hop.known.value)
    if hop.seconds is not None:
        shared = f", the mean of a call of {hop.sharing} cases" if hop.sharing > 1 else ""
        parts.append(f"{hop.seconds * 1e3:,.1f} ms{shared}")
    if hop.reason:
        parts.append(_line(hop.reason))
    return ", ".join(parts)


def chunk_ranks(chunk: ChunkStory) -> str:
    before = "-" if chunk.retrieved is None else str(chunk.retrieved)
    after = "dropped" if chunk.shown is None else str(chunk.shown)
    return after if before == after else f"{before} > {after}"


def chunk_fate(chunk: ChunkStory) -> str:
    """What the operators did to a chunk, in a line; empty when nothing."""
    return "; ".join(shown_line(move, longest=100) for move in chunk.moves)


def _chunk(chunk: ChunkStory) -> str:
    score = "" if chunk.score is None else f" score {chunk.score:.4g}"
    gold = " GOLD" if chunk.is_gold else ""
    fate = f" ({chunk_fate(chunk)})" if chunk.moves else ""
    return f"{chunk_ranks(chunk)}. {shown_line(chunk.id, longest=60)}{gold}{score}{fate}"


def score_text(cell: Cell) -> str:
    return cell.status.value if cell.value is None else f"{cell.value:.3f}"


def _judged(metric: Metric, judgements: Sequence[Judgement]) -> Iterator[tuple[str, str]]:
    steps = [step for judgement in judgements for step in judgement.steps]
    for step in steps[:_STEPS]:
        yield "judge", f"{metric.name}: {_line(str(step.answer))}"
        for quote in step.quotes:
            where = "nowhere" if quote.context is None else f"context {quote.context + 1}"
            yield "quote", f'{where}: "{_line(quote.text)}"'


def case_story_object(row: CaseRow, metrics: tuple[Metric, ...]) -> dict[str, Any]:
    """The same as a JSON object: the case of report.json, its story and its judgements."""
    found = case_object(row, metrics)
    found["story"] = row.story
    found["judgements"] = {
        metric.name: [judgement_object(judgement) for judgement in judgements]
        for metric, judgements in zip(metrics, row.judgements, strict=False)
        if judgements
    }
    return found
