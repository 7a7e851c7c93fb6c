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
from ragbench.io.values import as_list, is_list, is_object
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
    """The searches of a retrieval; none where it does not say."""
    found: list[Search] = []
    if retrieval is None:
        return found
    seen: set[int] = set()
    metadata: Mapping[str, object] = retrieval.metadata or {}
    for hop in filter(is_object, as_list(metadata.get(HOPS))):
        places, query, seconds = _places(hop, retrieval), hop.get("query"), hop.get("seconds")
        found.append(
            Search(
                query=query if isinstance(query, str) else None,
                places=places or (),
                new=None if places is None else len({*places} - seen),
                seconds=float(seconds) if isinstance(seconds, (int, float)) else None,
            )
        )
        seen.update(places or ())
    return found


def _places(hop: Mapping[str, object], retrieval: RetrievalResult[Any]) -> tuple[int, ...] | None:
    """Where a hop's contexts stand in the whole; one that stands nowhere was left out of it."""
    for key, whole in (("context_ids", retrieval.context_ids), ("contexts", retrieval.contexts)):
        named = hop.get(key)
        if is_list(named) and whole is not None:
            known = {name: at for at, name in reversed([*enumerate(whole)])}
            return tuple(dict.fromkeys(known[one] for one in map(str, named) if one in known))
    return None


def gold_hop(case: Case, retrieval: RetrievalResult[Any]) -> int | Skip:
    """Which search found a relevant context first, from 1; 0 for none."""
    gold = gold_of(case, retrieval, Matching.AUTO)
    if isinstance(gold, Skip):
        return gold
    chunks = retrieval.to_chunks()
    for number, search in enumerate(searches_of(retrieval), start=1):
        shown = (chunks[at] for at in search.places)
        if any(gold.held_by(one.id, one.metadata, one.text) for one in shown):
            return number
    return 0


_NO_HOPS = Skip("retrieval says nothing of several searches ('hops' in its metadata)")
_CITE = "ragbench; see docs/formats.md"


@metric(group="retriever", direction="neither", high=None, cite=_CITE)
def hops(trace: Trace) -> float | Skip:
    """Number of searches for an answer, if retrieval reports it."""
    return len(searches_of(trace.retrieval.value)) or _NO_HOPS


@metric(group="retriever", direction="lower", low=1, high=None, cite=_CITE)
def first_gold_hop(trace: Trace) -> float | Skip:
    """Which search first found a relevant context, from 1; skipped where none did."""
    result = trace.retrieval.value
    if result is None or not searches_of(result):
        return _NO_HOPS
    found = gold_hop(trace.case, result)
    return found if isinstance(found, Skip) else found or Skip("no search found relevant contexts")


@metric(group="retriever", direction="lower", high=None, cite=_CITE)
def redundant_hops(trace: Trace) -> float | Skip:
    """How many searches found nothing that an earlier one had not found."""
    found = searches_of(trace.retrieval.value)
    if not found or any(search.new is None for search in found):
        return _NO_HOPS if not found else Skip("not every search says what it found")
    return sum(search.new == 0 for search in found)
