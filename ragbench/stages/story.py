"""A stored case, stage by stage: nothing is computed but ranks, moves and where quotes stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.core.case import Case
from ragbench.core.metric import Metric
from ragbench.core.outcome import Judgement
from ragbench.core.result import RetrievalResult
from ragbench.core.story import CaseStory, ChunkStory, Hop, Mark
from ragbench.core.trace import Trace
from ragbench.metrics.window import Compared
from ragbench.pipeline.pre_retrieval import pre_retrieved
from ragbench.post.stage import Step, steps_of, written_text
from ragbench.stages.attribution import FoundGold
from ragbench.stages.claims import judged_answers

_MOST_MARKS = 50
"""Marks that a chunk is shown with."""


def story_of(
    trace: Trace,
    matches: Mapping[str, Compared],
    judgements: Sequence[Sequence[Judgement]] = (),
    metrics: Sequence[Metric] = (),
) -> CaseStory:
    case, shown, retrieved = trace.case, trace.context.value, trace.retrieval.value
    generated = trace.generation.value
    steps = () if trace.post_retrieval is None or shown is None else steps_of(shown)
    candidates = () if generated is None else tuple(generated.candidates)
    return CaseStory(
        sent=()
        if retrieved is None or not retrieved.metadata
        else tuple(f"{one.kind}: {one.text}" for one in pre_retrieved(retrieved).queries),
        hops=tuple(_hops(trace)),
        chunks=_chunks(trace, FoundGold.of(trace, matches), steps, judgements),
        operators=tuple(step.operator for step in steps),
        written=None if shown is None or not shown.metadata else written_text(shown),
        gold_ids=tuple(id for id, grade in (case.judgements or {}).items() if grade > 0),
        gold_texts=_gold_texts(case),
        references=case.references,
        candidates=candidates if len(candidates) > 1 else (),
        supported=()
        if generated is None or shown is None
        else tuple(judged_answers(generated.response, _ids(shown), metrics, judgements)),
        confidence=None if generated is None else generated.confidence,
        metadata=tuple(sorted(case.metadata.items())),
    )


def _gold_texts(case: Case) -> tuple[str, ...]:
    spans = tuple(dict.fromkeys(evidence.text for evidence in case.evidence))
    return spans or case.reference_contexts or ()


def _hops(trace: Trace) -> Iterator[Hop]:
    for name, outcome in trace.stages:
        if name != "locate":
            failed = None if outcome.failure is None else str(outcome.failure)
            yield Hop(
                stage=name,
                status=outcome.status,
                known=outcome.known,
                seconds=outcome.seconds,
                sharing=outcome.sharing,
                reason=failed or outcome.reason,
            )


def _chunks(
    trace: Trace,
    gold: FoundGold | None,
    steps: Sequence[Step],
    judgements: Sequence[Sequence[Judgement]],
) -> tuple[ChunkStory, ...]:
    first, last = trace.retrieval.value, trace.context.value
    if first is None:
        first, last = last, last
    if first is None:
        return ()
    ids = _ids(first)
    shown_ids: Sequence[str] = () if last is None else _ids(last)
    places = {id: rank for rank, id in reversed([*enumerate(shown_ids, 1)])}
    telling = _Telling(trace, steps, _judge_quotes(judgements))
    held = _held(first, None if gold is None else gold.shown if first is last else gold.retrieved)
    stories = [
        telling.chunk(first, at, is_gold=held[at], retrieved=at + 1, shown=places.get(id))
        for at, id in enumerate(ids)
    ]
    if last is not None and last is not first:
        known, held = set(ids), _held(last, None if gold is None else gold.shown)
        stories += [
            telling.chunk(last, at, is_gold=held[at], retrieved=None, shown=at + 1)
            for at, id in enumerate(shown_ids)
            if id not in known
        ]
    return tuple(stories)


class _Telling(NamedTuple):
    """What the chunks of a case share."""

    trace: Trace
    steps: Sequence[Step]
    quotes: Mapping[int, Sequence[Mark]]

    def chunk(
        self,
        result: RetrievalResult[Any],
        at: int,
        *,
        is_gold: bool,
        retrieved: int | None,
        shown: int | None,
    ) -> ChunkStory:
        id, text = _ids(result)[at], result.contexts[at]
        quotes = () if shown is None else self.quotes.get(shown - 1, ())
        return ChunkStory(
            id=id,
            text=text,
            retrieved=retrieved,
            shown=shown,
            score=None if result.scores is None else result.scores[at],
            is_gold=is_gold,
            moves=tuple(_moves(id, self.steps)),
            marks=_marks(self.trace, id, text, quotes),
        )


def _held(result: RetrievalResult[Any], gold: Sequence[frozenset[int]] | None) -> list[bool]:
    return [False] * len(result) if gold is None else [*map(bool, gold)]


def _ids(result: RetrievalResult[Any]) -> Sequence[str]:
    """The chunks' ids; their positions where they have none."""
    return result.context_ids or [str(position) for position in range(len(result))]


def _moves(id: str, steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        before = next((rank for rank, (known, _) in enumerate(step.given, 1) if known == id), None)
        after = next((rank for rank, (known, _) in enumerate(step.left, 1) if known == id), None)
        if before == after:
            continue
        if after is None:
            yield f"{step.operator}: dropped at {before}"
        elif before is None:
            yield f"{step.operator}: came in at {after}"
        else:
            yield f"{step.operator}: {before} to {after}"


def _marks(trace: Trace, id: str, text: str, quotes: Sequence[Mark]) -> tuple[Mark, ...]:
    found = [
        Mark(start=at, end=at + len(span.text), kind="gold")
        for span in trace.case.evidence
        if span.text and (at := text.find(span.text)) >= 0
    ]
    verdict = None if trace.validation is None else trace.validation.value
    if verdict is not None:
        found += [
            Mark(start=quote.start, end=quote.end, kind="evidence")
            for quote in verdict.evidence
            if quote.chunk_id == id and text[quote.start : quote.end] == quote.text
        ]
    found += [mark for mark in quotes if mark.end <= len(text)]
    if not found:
        return ()  # most chunks
    unique = dict.fromkeys((mark.start, mark.end, mark.kind) for mark in found)
    kept = sorted(unique)[:_MOST_MARKS]
    return tuple(Mark(start=start, end=end, kind=kind) for start, end, kind in kept)


def _judge_quotes(judgements: Sequence[Sequence[Judgement]]) -> dict[int, list[Mark]]:
    """What judges quoted, by the position of the shown context."""
    found: dict[int, list[Mark]] = {}
    for each in (judgement for cell in judgements for judgement in cell):
        for quote in (quote for step in each.steps for quote in step.quotes):
            if quote.context is not None and quote.start is not None and quote.end is not None:
                mark = Mark(start=quote.start, end=quote.end, kind="quote")
                found.setdefault(quote.context, []).append(mark)
    return found
