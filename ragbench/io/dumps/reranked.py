"""Rerankers' responses, logged with the documents that they were asked to rank.

Cohere, Voyage, Jina, Bedrock and Text Embeddings Inference return places in the list of the
request, best first. A log keeps both: the documents in their old order, and the places. Whoever
reads the documents alone takes what went into the reranker for what came out of it; so a record
whose places are not understood is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragbench.io.dumps.form import DumpForm, Hits, opened_json
from ragbench.io.fields import name_words, named, says_gold
from ragbench.io.values import ValueProblem, is_list, is_object

_DEEPEST = 3
_RANKING_WORDS = frozenset(
    {"rank", "ranks", "ranked", "ranking", "rerank", "reranked", "reranking"}
)
_ORDER_WORDS = _RANKING_WORDS | {"order", "ordered", "sorted", "permutation", "indices", "indexes"}


def reranked(_: DumpForm, value: object) -> Sequence[Hits] | None:
    """The documents in the order of the response; None where a value holds no such response.

    Raises:
        ValueProblem: a place is none of the documents', or is named twice.
    """
    lists = dict(_lists_in(value))
    for path, results in lists.items():
        if not results or not all(map(_is_place, results)):
            continue
        inputs = [held for name, held in lists.items() if name != path and _are_inputs(name, held)]
        if len(inputs) == 1:
            return [_in_order(path, results, inputs[0])]
    return None


def unread_ranking(value: object, chunks: str) -> str | None:
    """The path of a list that ranks the chunks of a record in a way that is not known."""
    for path, items in _lists_in(value):
        if not items or path == chunks or path.startswith(f"{chunks}.") or says_gold(path):
            continue
        words = {word for part in path.split(".") for word in name_words(part)}
        are_places = all(type(item) is int for item in items) and not words.isdisjoint(_ORDER_WORDS)
        if are_places or all(_has_place_alone(item, words) for item in items):
            return path
    return None


def _has_place_alone(item: object, words: set[str]) -> bool:
    """Whether an object names a chunk by its place, or in a ranking by its id, without a text."""
    if not is_object(item) or any(isinstance(item.get(name), str) for name in named("hit")["text"]):
        return False
    places = (item.get(name) for name in named("reranker")["place"])
    return any(type(place) is int for place in places) or not words.isdisjoint(_RANKING_WORDS)


def _lists_in(value: object, path: str = "", depth: int = 0) -> Iterator[tuple[str, Hits]]:
    value = opened_json(value)
    if is_list(value) and path:
        yield path, value
    elif is_object(value) and depth <= _DEEPEST:
        for name, held in value.items():
            yield from _lists_in(held, f"{path}.{name}" if path else name, depth + 1)


def _is_place(item: object) -> bool:
    """Whether an element of a response names a document by its place in the request."""
    return is_object(item) and _place_of(item) is not None and _score_of(item) is not None


def _place_of(item: Mapping[str, object]) -> int | None:
    places = (item.get(name) for name in named("reranker")["index"])
    return next((place for place in places if type(place) is int), None)


def _score_of(item: Mapping[str, object]) -> float | None:
    scores = (item.get(name) for name in named("reranker")["score"])
    return next((score for score in scores if isinstance(score, int | float)), None)


def _are_inputs(path: str, items: Hits) -> bool:
    """Whether a list holds the documents of a request."""
    if path.rpartition(".")[2] not in named("reranker")["documents"] or not items:
        return False
    texts = named("hit")["text"]
    return all(
        isinstance(item, str)
        or (is_object(item) and any(isinstance(item.get(name), str) for name in texts))
        for item in items
    )


def _in_order(path: str, results: Hits, documents: Hits) -> Hits:
    hits: list[object] = []
    seen: set[int] = set()
    for item in results:
        assert is_object(item)
        place = _place_of(item)
        if place is None or not 0 <= place < len(documents):
            raise ValueProblem(
                f"field '{path}': {place} is not the place of a document: there are "
                f"{len(documents)}, counted from 0"
            )
        if place in seen:
            raise ValueProblem(f"field '{path}': the document at place {place} is ranked twice")
        seen.add(place)
        document = item.get("document") or documents[place]
        hits.append({"index": place, "relevance_score": _score_of(item), "document": document})
    return hits
