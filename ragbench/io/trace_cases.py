"""A trace to a case, with what is recorded of it.

Nothing is guessed: contexts come from spans that say that they retrieved, and from what is a list
of documents there.
"""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from typing import Any

from ragbench.core.outcome import Outcome
from ragbench.core.result import GenerationResult
from ragbench.io.chunk_identity import DistinctChunks
from ragbench.io.dumps.decode import from_own
from ragbench.io.dumps.form import getter, opened_json
from ragbench.io.only import seconds_of
from ragbench.io.recorded import failed_outcome, recorded_outcome, retrieved
from ragbench.io.source import Row
from ragbench.io.spans import (
    MODEL,
    RERANKER,
    RETRIEVER,
    Span,
    answer_in,
    parts_of_attributes,
    question_in,
    span_words,
)
from ragbench.io.values import as_list, as_object, as_score, is_object

Documents = Sequence[dict[str, Any]]


class Tree:
    """The spans of a trace, and which of them is in which."""

    def __init__(self, spans: Sequence[Span]) -> None:
        """Takes all spans of the trace, in the order in which they were written.

        The spans are sorted by their start: exporters write a span when it ends, the inner ones
        first.
        """
        self.line = spans[0].line
        """The line of the file by which problems name the trace: that of its first span there."""
        self.spans = sorted(spans, key=lambda span: seconds_of(span.start) or 0.0)
        """The spans by the time when they began; in a file they are in the order of their ends."""
        self._by_id = {span.id: span for span in self.spans}

    def above(self, span: Span) -> Iterator[Span]:
        """The spans that a span of the trace is in, the nearest first.

        These outer spans say which step of the system called the span. A span whose parent is
        missing in the trace counts as being in none.
        """
        seen = {span.id}
        parent = self._by_id.get(span.parent or "")
        while parent is not None and parent.id not in seen:  # broken spans may lead in a circle
            yield parent
            seen.add(parent.id)
            parent = self._by_id.get(parent.parent or "")

    def depth_of(self, span: Span) -> int:
        """How many spans of the trace a span is in, 0 for the root: outer spans say more."""
        return len(list(self.above(span)))

    def is_in(self, span: Span, *kinds: str) -> bool:
        """Whether a span of the trace is within a span of one of these kinds, at any depth.

        A model within a retriever, for instance, does not write the answer.
        """
        return any(outer.kind in kinds for outer in self.above(span))

    def outermost(self, *kinds: str) -> list[Span]:
        """The trace's spans of the first kind that are in no span of any of these kinds.

        Such spans are the system's own steps: a retriever in a retriever only does the outer one's
        work.
        """
        own = [span for span in self.spans if span.kind == kinds[0]]
        return [span for span in own if not self.is_in(span, *kinds)]

    def innermost(self, kind: str) -> list[Span]:
        """The trace's spans of a kind in which no other span of that kind is.

        Tokens are summed over these: an outer span repeats those of the calls within it.
        """
        own = [span for span in self.spans if span.kind == kind]
        outer_ids: set[str] = set()
        for span in own:
            outer_ids.update(outer.id for outer in self.above(span))
        return [span for span in own if span.id not in outer_ids]


def trace_row(path: str, tree: Tree, hops: Sequence[Span]) -> Row | None:
    """The row of the case that a trace is: its question, with what is recorded of it.

    None where the trace has no question. What outer spans record counts before that of inner ones:
    it is the system's own question and answer, not those of a step.

    Args:
        path: the source, as problems and reports name it.
        hops: the searches in order: a retriever that only calls another is none of its own.
    """
    # What an outer span records is the system's own question and answer, not those of a step.
    outer_first = sorted(tree.spans, key=tree.depth_of)
    top, query = _find_question(outer_first, hops)
    if query is None:
        return None
    about: dict[str, Any] = {}
    for span in outer_first:
        about = {**span.about, **about}  # what an outer span says counts
    metadata: dict[str, Any] = dict(as_object(opened_json(about.get("metadata"))))
    # A tracker finds the trace by this id when it writes the case's scores back to it.
    metadata["trace_id"] = _hexadecimal(tree.spans[0].trace)
    parts = parts_of_attributes(metadata)
    session = about.get("session") or parts.get("session")
    user = about.get("user") or parts.get("user")
    if user is not None:
        metadata["user"] = user
    feedback: list[dict[str, Any]] = []
    for span in outer_first:
        feedback += feedback_of(span.about.get("feedback"))
    if feedback:
        metadata["feedback"] = feedback
    started = seconds_of(outer_first[0].start)
    if started is not None:
        metadata["started"] = datetime.fromtimestamp(started, UTC).isoformat()
    # The questions of a session are not independent of each other.
    cluster = None if session is None else str(session)
    tags = [str(tag) for tag in as_list(about.get("tags"))]
    values: dict[str, object] = {
        "id": tree.spans[0].trace,
        "query": query,
        "cluster": cluster,
        "tags": tags,
        "metadata": metadata,
    }
    recorded = _recorded_retrieval(tree, hops, values)
    generation = _recorded_answer(tree, top)
    if generation is not None:
        recorded["generate"] = generation
    return Row(path, tree.line, values, recorded=recorded)


def _hexadecimal(trace_id: str) -> str:
    """The id of a trace in the form by which trackers find it, hexadecimal; any other id as it is.

    Scores are written back to the trace under this id.

    Such an id has 16 bytes. Records of protocol buffers, such as MLflow's, have them in Base64.
    """
    # Base64 writes 16 bytes as 22 characters and two signs of padding.
    if len(trace_id) != 24 or not trace_id.endswith("=="):
        return trace_id
    try:
        return b64decode(trace_id, validate=True).hex()
    except ValueError:
        return trace_id


def _find_question(outer_first: Sequence[Span], hops: Sequence[Span]) -> tuple[Span, str | None]:
    """The topmost span that has the question of a trace, and the question; None for it without one.

    A model's input holds the whole prompt, so a search's query comes before it.

    Args:
        outer_first: the spans of the trace, those in fewer spans first.
        hops: the searches of the trace.
    """
    models = [span for span in outer_first if span.kind == MODEL]
    others = [span for span in outer_first if span.kind not in (MODEL, RERANKER)]
    for span in (*others, *hops, *models):
        query = question_in(span.input)
        if query is not None:
            return span, query
    return outer_first[0], None


@cache
def _feedback_parts() -> Mapping[str, tuple[Callable[[object], object], ...]]:
    """For each part of a score in a trace, such as its name, the functions that find it.

    Trackers put scores of people and models in different places; ``span_forms.toml`` lists them.
    """
    finders: dict[str, tuple[Callable[[object], object], ...]] = {}
    for part, paths in span_words("feedback").items():
        finders[part] = tuple(map(getter, paths))
    return finders


def feedback_of(value: object) -> Iterator[dict[str, Any]]:
    """Each score in the feedback on a span: its ``name`` and ``value``, who gave it and why.

    The case keeps them in its metadata, from where people's labels are read. A score that a model
    gave is marked: no model may be calibrated against it. A score without a name or a value is left
    out.

    Args:
        value: a list of scores, or an object with one or their mean for each name.
    """
    value = opened_json(value)
    scores = as_list(value)
    if is_object(value):
        for name, score in value.items():
            fields = score if is_object(score) else {"value": score}
            # A score that has a name itself keeps it.
            scores.append({"name": name, **fields})
    for score in scores:
        row: dict[str, Any] = {}
        for part, finders in _feedback_parts().items():
            for find in finders:
                content = find(score)
                # Lists and objects are no name and no value: the next place may have one.
                if content != "" and isinstance(content, (str, int, float)):
                    row[part] = content
                    break
        if {"name", "value"} <= row.keys():
            source = str(row.pop("source", "")).lower()
            if source in span_words("feedback_words")["model"]:
                row["is_model"] = True
            yield row


def _recorded_retrieval(
    tree: Tree, hops: Sequence[Span], values: dict[str, object]
) -> dict[str, Outcome[Any]]:
    """What the searches of a trace found and what rerankers left of it, as outcomes by stage.

    Ids without texts go into `values` instead: a corpus can still give their texts. Without any
    search traced, the documents that a reranker ranked are those that were found.

    Args:
        hops: the searches in order, down to those that searches call.
        values: the row of the case, changed in place.
    """
    searches = tree.outermost(RETRIEVER)
    rerankers = tree.outermost(RERANKER)
    lists: list[Documents] = []
    for search in searches:
        lists += _lists_of_search(tree, search, hops)
    failed_searches = [span for span in searches if span.error]
    if not lists and not failed_searches:
        # No search is traced, but what a reranker was asked to rank is what was found.
        lists += [span.before for span in rerankers if span.before is not None]
    seconds = _seconds_of_spans(searches)
    if not lists:
        if not failed_searches:
            return {}
        error = failed_searches[0].error or ""
        return {"retrieve": failed_outcome("retrieve", error, seconds=seconds)}
    # Several searches may find the same chunk, which counts once, at its first place.
    chunks = DistinctChunks()
    documents = chunks.add(chain.from_iterable(lists))
    if documents and not any("text" in document for document in documents):
        # Ids alone are fields of the row: their texts can still be looked up in a corpus.
        values["retrieved_context_ids"] = [document.get("id", "") for document in documents]
        scores = [as_score(document.get("score")) for document in documents]
        values["retrieved_scores"] = scores if None not in scores else None
        return {}
    metadata: dict[str, Any] | None = None
    if len(hops) > 1:
        metadata = {"hops": [_hop_for_metadata(span) for span in hops]}
    result = _retrieval_of_documents(documents, metadata)
    recorded = {"retrieve": recorded_outcome(result, seconds=seconds)}
    reranked = [span.documents for span in rerankers if span.documents is not None]
    if reranked:
        # Under the names that the same chunks have in what was retrieved.
        remaining = chunks.add(chain.from_iterable(reranked))
        result = _retrieval_of_documents(remaining, None)
        seconds = _seconds_of_spans(rerankers)
        recorded["post_retrieve"] = recorded_outcome(result, seconds=seconds)
    return recorded


def _lists_of_search(tree: Tree, search: Span, hops: Sequence[Span]) -> list[Documents]:
    """The documents that a search of a trace found, or else those of the searches that it calls.

    A multi-query retriever, say, may record no documents of its own.

    Args:
        search: one of the system's own searches.
        hops: all searches of the trace, the innermost ones.
    """
    if search.documents is not None:
        return [search.documents]
    lists: list[Documents] = []
    for hop in hops:
        if hop.documents is None:
            continue
        if hop is search or search in tree.above(hop):
            lists.append(hop.documents)
    return lists


def _hop_for_metadata(span: Span) -> dict[str, Any]:
    """One search of several of a trace, as the metadata of the retrieval holds it.

    The metrics of hops (`ragbench.metrics.hops`) read these keys: change both together.
    """
    row: dict[str, Any] = {"query": question_in(span.input)}
    if span.documents is not None:
        # Ids only where each has one: a list with gaps would shift the ranks.
        if all("id" in document for document in span.documents):
            row["context_ids"] = [document["id"] for document in span.documents]
        else:
            row["contexts"] = [document.get("text", "") for document in span.documents]
    row["seconds"] = _seconds_of_spans([span])
    return row


def _retrieval_of_documents(documents: Documents, metadata: Mapping[str, Any] | None) -> Any:
    """The documents of a trace as a retrieval, read as ragbench's own chunks are.

    A document without a text keeps its place, with an empty one: the ranks of others would shift.
    """
    dump = from_own([{"text": "", **document} for document in documents])
    has_ids = any("id" in document for document in documents)
    return replace(retrieved(dump, has_ids=has_ids), metadata=metadata)


def _recorded_answer(tree: Tree, top: Span) -> Outcome[Any] | None:
    """The outcome of a trace's answer: of the span with the question, or else of the last model.

    None where no span has an answer: a trace may be of a search alone.

    Args:
        top: the topmost span that has the question.
    """
    # A model that a retriever or a reranker calls does not write the answer.
    models = tree.outermost(MODEL, RETRIEVER, RERANKER)
    seconds = _seconds_of_spans(models)
    # A search that failed is the retrieval's failure.
    if top.error is not None and top.kind not in (RETRIEVER, RERANKER):
        return failed_outcome("generate", top.error, seconds=seconds)
    for span in (top, *reversed(models)):
        answer = answer_in(span.output)
        if answer is not None:
            usage = _tokens_of_models(tree) or None
            result: GenerationResult[Any] = GenerationResult(answer, metadata=usage)
            return recorded_outcome(result, seconds=seconds)
    return None


def _tokens_of_models(tree: Tree) -> dict[str, int]:
    """The tokens of all calls of models for an answer, summed by kind, such as ``total_tokens``.

    Only the innermost spans of models count, since outer ones repeat the same tokens. Models within
    a retriever wrote a search and not the answer.
    """
    usage: Counter[str] = Counter()
    for span in tree.innermost(MODEL):
        if tree.is_in(span, RETRIEVER):
            continue  # it wrote a search, not the answer
        for name, value in span.about.items():
            count = as_score(value) if name.endswith("tokens") else None
            if count:
                usage[name] += int(count)
    return dict(usage)


def _seconds_of_spans(spans: Sequence[Span]) -> float | None:
    """How long some spans of a trace took together, one after the other.

    None where a span lacks its start or its end: the time is then unmeasured, and not too short.
    """
    if not spans:
        return None
    total = 0.0
    for span in spans:
        start = seconds_of(span.start)
        end = seconds_of(span.end)
        if start is None or end is None:
            return None
        total += max(0.0, end - start)  # a clock may be set back
    return total
