"""Several searches for one answer: how many, which found the gold first, which found nothing new.

A retrieval that searched several times says so in its metadata: ``"hops"``, a list of mappings with
a ``query`` and the ``context_ids`` (or the ``contexts``) that it found. What was retrieved is all
that the hops found, each context once; every other metric reads that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ragbench.core.case import Case
from ragbench.core.metric import Skip
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.io.values import as_list, as_object, is_list, is_object
from ragbench.metrics.matching import Matching, gold_of
from ragbench.metrics.metric import metric

HOPS = "hops"
"""The key in a retrieval's metadata."""
HOP_METRICS = "hops, first_gold_hop, redundant_hops"
"""What is measured beside the default metrics where a source records hops."""


class Search(NamedTuple):
    """One of the searches for an answer."""

    query: str | None
    places: tuple[int, ...]
    """Of what it found in the whole retrieval, in its own order."""
    new: int | None
    """How many of those no search before it found; None where it does not say what it found."""
    seconds: float | None


def searches_of(retrieval: RetrievalResult[Any] | None) -> list[Search]:
    """The searches (hops) that a retrieval reports in its metadata; none where it reports none.

    A system writes the metadata as it likes: values of another type than expected count as unknown.
    """
    searches: list[Search] = []
    if retrieval is None:
        return searches
    places_so_far: set[int] = set()
    metadata = as_object(retrieval.metadata)
    for hop in filter(is_object, as_list(metadata.get(HOPS))):
        # The user's system writes these entries: a value of another type counts as unknown.
        query = hop.get("query")
        if not isinstance(query, str):
            query = None
        seconds: float | None = None
        reported_seconds = hop.get("seconds")
        if isinstance(reported_seconds, (int, float)):
            seconds = float(reported_seconds)
        places = _places(hop, retrieval)
        new: int | None = None
        if places is not None:
            new = len({*places} - places_so_far)
            places_so_far.update(places)
        searches.append(Search(query=query, places=places or (), new=new, seconds=seconds))
    return searches


def _places(hop: Mapping[str, object], retrieval: RetrievalResult[Any]) -> tuple[int, ...] | None:
    """The positions in the whole retrieval of the contexts that one search (hop) found.

    By ids where the hop has them, else by texts; contexts that are not in the retrieval are left
    out. None where the hop does not say what it found: then it is not known what was new in it.
    """
    fields = (("context_ids", retrieval.context_ids), ("contexts", retrieval.contexts))
    for field_name, contexts in fields:
        hop_contexts = hop.get(field_name)
        if not is_list(hop_contexts) or contexts is None:
            continue
        # Where a context repeats, its first place counts.
        place_by_context: dict[object, int] = {}
        for place, context in enumerate(contexts):
            place_by_context.setdefault(context, place)
        places: dict[int, None] = {}  # each once, in the order of the hop
        for context in map(str, hop_contexts):
            if context in place_by_context:
                places[place_by_context[context]] = None
        return tuple(places)
    return None


def gold_hop(case: Case, retrieval: RetrievalResult[Any]) -> int | Skip:
    """The number of the search that found a relevant context first, from 1; 0 where none did.

    A `Skip` where the case has no gold to compare with.
    """
    gold = gold_of(case, retrieval, Matching.AUTO)
    if isinstance(gold, Skip):
        return gold
    chunks = retrieval.to_chunks()
    # From 1, as a user counts searches: 0 is free for "none".
    for number, search in enumerate(searches_of(retrieval), start=1):
        for place in search.places:
            chunk = chunks[place]
            # Any relevant context will do: the first one found ends the search.
            if gold.held_by(chunk.id, chunk.metadata, chunk.text):
                return number
    return 0


_NO_HOPS = Skip("retrieval says nothing of several searches ('hops' in its metadata)")
_CITE = "ragbench; see docs/formats.md"


@metric(group="retriever", direction="neither", high=None, cite=_CITE)
def hops(trace: Trace) -> float | Skip:
    """Number of searches for an answer, if retrieval reports it.

    Each search costs time and calls; whether more of them help, other metrics show. Stored scores
    of runs are compared by ``version``: raise it in the decorator with a change of values.
    """
    count = len(searches_of(trace.retrieval.value))
    if not count:
        return _NO_HOPS
    return count


@metric(group="retriever", direction="lower", low=1, high=None, cite=_CITE)
def first_gold_hop(trace: Trace) -> float | Skip:
    """Which search first found a relevant context, from 1; skipped where none did.

    A later one means that the first queries missed what the answer needs. Stored scores of runs are
    compared by ``version``: raise it in the decorator with a change of values.
    """
    result = trace.retrieval.value
    if result is None or not searches_of(result):
        return _NO_HOPS
    hop = gold_hop(trace.case, result)
    # 0 would pass for a very early search in the mean.
    if hop == 0:
        return Skip("no search found relevant contexts")
    return hop


@metric(group="retriever", direction="lower", high=None, cite=_CITE)
def redundant_hops(trace: Trace) -> float | Skip:
    """How many searches found nothing that an earlier one had not found.

    They cost time and calls, and brought nothing. Stored scores of runs are compared by
    ``version``: raise it in the decorator with a change of values.
    """
    searches = searches_of(trace.retrieval.value)
    if not searches:
        return _NO_HOPS
    # Where one search names no chunks, a later one may repeat them unseen.
    if any(search.new is None for search in searches):
        return Skip("not every search says what it found")
    return sum(search.new == 0 for search in searches)
