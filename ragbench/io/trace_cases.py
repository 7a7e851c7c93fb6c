"""A trace to a case, with what is recorded of it.

Nothing is guessed: contexts come from spans that say that they retrieved, and from what is a list
of documents there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

from ragbench.core.outcome import Outcome
from ragbench.core.result import GenerationResult
from ragbench.io.chunk_identity import DistinctChunks
from ragbench.io.dumps.decode import from_own
from ragbench.io.dumps.form import getter, opened_json
from ragbench.io.only import seconds_of
from ragbench.io.recorded import failed_outcome, recorded_outcome, retrieved
from ragbench.io.source import Row
from ragbench.io.spans import MODEL, RERANKER, RETRIEVER, Span, named_in, said, said_in
from ragbench.io.values import as_object, as_score, is_list, is_object

Documents = Sequence[dict[str, Any]]


class Tree:
    def __init__(self, spans: Sequence[Span]) -> None:
        self.line = spans[0].line
        self.spans = sorted(spans, key=lambda span: seconds_of(span.start) or 0.0)
        """By when they began."""
        self._by_id = {span.id: span for span in self.spans}

    def above(self, span: Span) -> Iterator[Span]:
        seen = {span.id}
        parent = self._by_id.get(span.parent or "")
        while parent is not None and parent.id not in seen:  # a circle ends there
            yield parent
            seen.add(parent.id)
            parent = self._by_id.get(parent.parent or "")

    def outermost(self, *kinds: str) -> list[Span]:
        """The spans of the first kind that stand in none of these kinds."""
        return [
            span
            for span in self.spans
            if span.kind == kinds[0] and not any(one.kind in kinds for one in self.above(span))
        ]

    def innermost(self, kind: str) -> list[Span]:
        own = [span for span in self.spans if span.kind == kind]
        outer = {one.id for span in own for one in self.above(span)}
        return [span for span in own if span.id not in outer]


def trace_row(path: str, tree: Tree, hops: Sequence[Span]) -> Row | None:
    """What a trace asks, with what is recorded of it; None where it asks nothing.

    Args:
        hops: the searches in order: a retriever that only calls another is none of its own.
    """
    order = sorted(tree.spans, key=lambda span: sum(1 for _ in tree.above(span)))
    top, query = _asked(order, hops)
    if query is None:
        return None
    about: dict[str, Any] = {}
    for span in order:
        about = {**span.about, **about}
    metadata: dict[str, Any] = {**as_object(opened_json(about.get("metadata")))}
    of_trace = said_in(metadata)
    session, user = (about.get(one) or of_trace.get(one) for one in ("session", "user"))
    metadata |= {} if user is None else {"user": user}
    given = [one for span in order for one in feedback_of(span.about.get("feedback"))]
    metadata |= {"feedback": given} if given else {}
    started = seconds_of(order[0].start)
    if started is not None:
        metadata["started"] = datetime.fromtimestamp(started, UTC).isoformat()
    tags = about.get("tags")
    values: dict[str, object] = {
        "id": tree.spans[0].trace,
        "query": query,
        "cluster": None if session is None else str(session),
        "tags": [str(tag) for tag in tags] if is_list(tags) else [],
        "metadata": metadata,
    }
    recorded = _retrieval(tree, hops, values)
    generation = _generation(tree, top)
    if generation is not None:
        recorded["generate"] = generation
    return Row(path, tree.line, values, recorded=recorded)


def _asked(order: Sequence[Span], hops: Sequence[Span]) -> tuple[Span, str | None]:
    """The topmost span that says what was asked, and the question.

    A model is asked with all that it is given: a search comes first.
    """
    models = [span for span in order if span.kind == MODEL]
    others = [span for span in order if span.kind not in (MODEL, RERANKER)]
    for span in (*others, *hops, *models):
        query = said(span.input, "question")
        if query is not None:
            return span, query
    return order[0], None


@cache
def _feedback_parts() -> Mapping[str, tuple[Callable[[object], object], ...]]:
    return {name: tuple(map(getter, paths)) for name, paths in named_in("feedback").items()}


def feedback_of(value: object) -> Iterator[dict[str, Any]]:
    """Each score that was given, with its ``name`` and ``value``, and who gave it and why.

    Args:
        value: a list of scores, or an object with one or their mean for each name.
    """
    value = opened_json(value)
    if is_object(value):
        value = [
            {"name": name, **(one if is_object(one) else {"value": one})}
            for name, one in value.items()
        ]
    for one in value if is_list(value) else ():
        row: dict[str, Any] = {}
        for part, finders in _feedback_parts().items():
            found = (held for find in finders if (held := find(one)) != "")
            said = next((held for held in found if isinstance(held, (str, int, float))), None)
            row |= {} if said is None else {part: said}
        if {"name", "value"} <= row.keys():
            is_model = str(row.pop("source", "")).lower() in named_in("feedback_words")["model"]
            yield {**row, "is_model": True} if is_model else row


def _retrieval(
    tree: Tree, hops: Sequence[Span], values: dict[str, object]
) -> dict[str, Outcome[Any]]:
    """What the searches found and what rerankers left of it; ids alone go into the values."""
    searches, rerankers = tree.outermost(RETRIEVER), tree.outermost(RERANKER)
    lists = [
        hop.documents
        for one in searches
        for hop in (hops if one.documents is None else [one])
        if hop.documents is not None and (hop is one or one in tree.above(hop))
    ]
    failed = next((span for span in searches if span.error), None)
    if not lists and failed is None:
        lists = [one.before for one in rerankers if one.before is not None]
    seconds = _seconds(searches)
    if not lists:
        if failed is None:
            return {}
        return {"retrieve": failed_outcome("retrieve", failed.error or "", seconds=seconds)}
    chunks = DistinctChunks()
    found = chunks.add(document for documents in lists for document in documents)
    if found and not any("text" in one for one in found):
        values["retrieved_context_ids"] = [one.get("id", "") for one in found]
        scores = [as_score(one.get("score")) for one in found]
        values["retrieved_scores"] = scores if None not in scores else None
        return {}
    metadata = {"hops": [*map(_hop, hops)]} if len(hops) > 1 else None
    recorded = {"retrieve": recorded_outcome(_result(found, metadata), seconds=seconds)}
    reranked = [one.documents for one in rerankers if one.documents is not None]
    if reranked:
        # Under the names that the same chunks have in what was retrieved.
        left = chunks.add(document for documents in reranked for document in documents)
        outcome = recorded_outcome(_result(left, None), seconds=_seconds(rerankers))
        recorded["post_retrieve"] = outcome
    return recorded


def _hop(span: Span) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if span.documents is not None:
        has_ids = all("id" in one for one in span.documents)
        key, name = ("context_ids", "id") if has_ids else ("contexts", "text")
        found = {key: [one.get(name, "") for one in span.documents]}
    return {"query": said(span.input, "question"), **found, "seconds": _seconds([span])}


def _result(found: Documents, metadata: Mapping[str, Any] | None) -> Any:
    dump = from_own([{"text": "", **one} for one in found])
    result = retrieved(dump, has_ids=any("id" in one for one in found))
    return replace(result, metadata=metadata)


def _generation(tree: Tree, top: Span) -> Outcome[Any] | None:
    """The answer, of the span that holds the question, or else of the last model."""
    models = tree.outermost(MODEL, RETRIEVER, RERANKER)
    seconds = _seconds(models)
    error = top.error if top.kind not in (RETRIEVER, RERANKER) else None
    if error is not None:
        return failed_outcome("generate", error, seconds=seconds)
    answers = (said(span.output, "answer") for span in (top, *reversed(models)))
    answer = next((one for one in answers if one is not None), None)
    if answer is None:
        return None
    usage: Counter[str] = Counter()
    for span in tree.innermost(MODEL):
        if not any(one.kind == RETRIEVER for one in tree.above(span)):
            counts = {n: v for n, v in span.about.items() if n.endswith("tokens")}
            usage.update({n: int(count) for n, v in counts.items() if (count := as_score(v))})
    result: GenerationResult[Any] = GenerationResult(answer, metadata=dict(usage) or None)
    return recorded_outcome(result, seconds=seconds)


def _seconds(spans: Sequence[Span]) -> float | None:
    """How long some spans took, one after the other; None where one does not say it."""
    known = [(seconds_of(span.start), seconds_of(span.end)) for span in spans]
    pairs = [(start, end) for start, end in known if start is not None and end is not None]
    if not spans or len(pairs) < len(spans):
        return None
    return sum(max(0.0, end - start) for start, end in pairs)
