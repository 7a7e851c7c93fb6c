"""Rerankers' results, logged with the documents that they were asked to rank.

Cohere, Voyage, Jina, Bedrock and Text Embeddings Inference return places in the list of the
request, best first; others return ids, texts, or whole documents. A log keeps both: the documents
in their old order, and the results. Whoever reads the documents alone takes what went into the
reranker for what came out of it; so a record whose results are not understood is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NoReturn

from ragbench.core.record import Record
from ragbench.io.dumps.form import DumpForm, Hits, opened_json, text_of
from ragbench.io.fields import name_words, named, says_gold
from ragbench.io.values import ValueProblem, as_id, is_list, is_object

_DEEPEST = 3
_RANKING_WORDS = frozenset(
    {
        "rank",
        "ranks",
        "ranked",
        "ranking",
        "rankings",
        "rerank",
        "reranked",
        "reranking",
        "reranker",
    }
)
_ORDER_WORDS = _RANKING_WORDS | {"order", "ordered", "sorted", "permutation", "indices", "indexes"}


class _Document(Record):
    """A document of a request, or one that a result brings along."""

    id: str | None
    text: str | None
    fields: Mapping[str, object]


class _Result(Record):
    """An element of a reranker's results, as far as it is understood."""

    place: int | None
    score: float | None
    document: _Document


def reranked(_: DumpForm, value: object) -> Sequence[Hits] | None:
    """The documents in the order of the results; None where a value holds no such results.

    Raises:
        ValueProblem: a result is none of the documents, or names one that another one names, too.
    """
    for request, results in _requests_in(value):
        return [request.in_order(results)]
    return None


def request_fields(value: object) -> frozenset[str]:
    """The fields of a record that hold the documents of a request, and its results."""
    for request, _ in _requests_in(value):
        return frozenset(path.partition(".")[0] for path in (request.path, request.results))
    return frozenset()


def own_hits(hits: Hits) -> list[dict[str, object]]:
    """What `reranked` gives, as chunks of ragbench's own form."""
    chunks: list[dict[str, object]] = []
    for hit in hits:
        assert is_object(hit)
        document = hit["document"]
        assert is_object(document)
        chunk = {"text": document["text"], "score": hit["relevance_score"]}
        if "id" in document or "index" in hit:
            chunk["id"] = document.get("id", hit.get("index"))
        if "metadata" in hit:
            chunk["metadata"] = hit["metadata"]
        chunks.append(chunk)
    return chunks


def _requests_in(value: object) -> Iterator[tuple[_Request, list[_Result]]]:
    lists = dict(_lists_in(value))
    for path, items in lists.items():
        if not _may_be_results(path, items):
            continue
        inputs = _input_paths(lists, path)
        if len(inputs) != 1:
            continue
        results = _results_in(path, items)
        if results is None:
            continue
        request = _Request(inputs[0], lists[inputs[0]], path)
        if _is_ranking(path) or any(map(request.may_hold, results)):
            yield request, results


def holds_ranking(value: object) -> bool:
    """Whether a record has a list, or numbers by id, that is named as a ranking."""
    if any(items and _is_ranking(path) for path, items in _lists_in(value)):
        return True
    return _scores_by_id(value) is not None


def unread_ranking(value: object, chunks: str) -> str | None:
    """The path of a list that ranks the chunks of a record in a way that is not known."""
    for path, items in _lists_in(value):
        if not items or path == chunks or path.startswith(f"{chunks}.") or says_gold(path):
            continue
        if _ranks_unread(path, items):
            return path
    return _scores_by_id(value)


def _ranks_unread(path: str, items: Hits) -> bool:
    if all(type(item) is int for item in items):
        return not _words_of(path).isdisjoint(_ORDER_WORDS)
    if _is_ranking(path):
        return not _are_falling(items)
    if _name_of(path) in named("reranker")["results"]:
        return any(_has_place_alone(item) or _is_score_alone(item) for item in items)
    return all(_has_place_alone(item) for item in items)


def _are_falling(items: Hits) -> bool:
    """Whether elements are scores that agree with the order of the chunks beside them."""
    scores = [item for item in items if isinstance(item, int | float)]
    in_order = all(before >= after for before, after in pairwise(scores))
    return len(scores) == len(items) and in_order


def _has_place_alone(item: object) -> bool:
    """Whether an object names a chunk by its place, without a text."""
    if not is_object(item) or any(isinstance(item.get(name), str) for name in named("hit")["text"]):
        return False
    places = (item.get(name) for name in named("reranker")["place"])
    return any(type(place) is int for place in places)


def _is_score_alone(item: object) -> bool:
    """Whether an object has a score, and no text of its own or deeper."""
    if not is_object(item) or _document_of(item).text is not None:
        return False
    scores = (item.get(name) for name in named("reranker")["score"])
    return not _is_stores_hit(item) and any(type(score) in (int, float) for score in scores)


def _scores_by_id(value: object) -> str | None:
    """The path of an object that is named as a ranking, and has a number by a document's id."""
    ids = {
        _document_of(item).id
        for path, items in _lists_in(value)
        if _are_inputs(path, items)
        for item in items
    }
    for path, held in _objects_in(value):
        are_numbers = all(type(number) in (int, float) for number in held.values())
        if _is_ranking(path) and are_numbers and not ids.isdisjoint(held):
            return path
    return None


# --- lists of a record, and which of them is which


def _lists_in(value: object, path: str = "", depth: int = 0) -> Iterator[tuple[str, Hits]]:
    value = opened_json(value)
    if is_list(value) and path:
        yield path, value
    elif is_object(value) and depth <= _DEEPEST:
        for name, held in value.items():
            yield from _lists_in(held, f"{path}.{name}" if path else name, depth + 1)


def _objects_in(
    value: object, path: str = "", depth: int = 0
) -> Iterator[tuple[str, Mapping[str, object]]]:
    value = opened_json(value)
    if not is_object(value) or depth > _DEEPEST:
        return
    if path:
        yield path, value
    for name, held in value.items():
        yield from _objects_in(held, f"{path}.{name}" if path else name, depth + 1)


def _name_of(path: str) -> str:
    return path.rpartition(".")[2]


def _words_of(path: str) -> set[str]:
    return {word for part in path.split(".") for word in name_words(part)}


def _is_ranking(path: str) -> bool:
    """Whether a list is named as a ranking, itself or by what it is in.

    The documents of a request may be in an object that is named after the reranker.
    """
    name = _name_of(path)
    if not _words_of(name).isdisjoint(_RANKING_WORDS):
        return True
    is_request = name in named("reranker")["documents"]
    return not is_request and not _words_of(path).isdisjoint(_RANKING_WORDS)


def _may_be_results(path: str, items: Hits) -> bool:
    if not items or says_gold(path):
        return False
    if all(map(_is_place, items)):
        return True
    return _is_ranking(path) or _name_of(path) in named("reranker")["results"]


def _input_paths(lists: Mapping[str, Hits], results: str) -> list[str]:
    """Where the documents of a request are: under a reranker's names, or else a retrieval's."""
    for names in (named("reranker")["documents"], named("retrieval")["chunks"]):
        paths = [
            path
            for path, items in lists.items()
            if path != results and _name_of(path) in names and _are_inputs(path, items)
        ]
        if paths:
            return paths
    return []


def _are_inputs(path: str, items: Hits) -> bool:
    """Whether a list holds documents with their texts."""
    if not items or _is_ranking(path) or says_gold(path):
        return False
    return all(_document_of(item).text is not None for item in items)


# --- what an element says


def _is_place(item: object) -> bool:
    """Whether an element of a response names a document by its place in the request."""
    return is_object(item) and _place_of(item) is not None and _score_of(item) is not None


def _place_of(item: Mapping[str, object]) -> int | None:
    places = (item.get(name) for name in named("reranker")["index"])
    return next((place for place in places if type(place) is int), None)


def _score_of(item: Mapping[str, object]) -> float | None:
    names = (*named("reranker")["score"], *named("hit")["score"])
    scores = (item.get(name) for name in names)
    return next((score for score in scores if isinstance(score, int | float)), None)


def _document_of(item: object) -> _Document:
    """The document that an element is, or that is in it under ``document``."""
    if isinstance(item, str):
        return _Document(id=None, text=item, fields={})
    if not is_object(item):
        return _Document(id=None, text=None, fields={})
    inner = item.get("document")
    fields = {**item, **inner} if is_object(inner) else item
    texts = (text_of(fields.get(name)) for name in named("hit")["text"])
    ids = (fields.get(name) for name in named("hit")["id"])
    id = next((one for one in ids if type(one) in (str, int) and one != ""), None)
    return _Document(
        id=None if id is None else as_id(id),
        text=next((text for text in texts if text is not None), None),
        fields=fields,
    )


def _results_in(path: str, items: Hits) -> list[_Result] | None:
    """The elements of a list as results; None where one of them is not understood.

    A list that is not named as a ranking is one by its scores.
    """
    results: list[_Result] = []
    for item in items:
        known: Mapping[str, object] = item if is_object(item) else {}
        place, score = _place_of(known), _score_of(known)
        document = _document_of(item)
        if document.id is None and document.text is None and (place is None or score is None):
            return None
        if not _is_ranking(path) and (score is None or _is_stores_hit(known)):
            return None
        results.append(_Result(place=place, score=score, document=document))
    return results


def _is_stores_hit(item: Mapping[str, object]) -> bool:
    """Whether an element holds its text deeper, as a hit of a store does."""
    if _document_of(item).text is not None:
        return False
    return any(is_object(held) for name, held in item.items() if name != "document")


# --- results beside a request


class _Request:
    """The documents that a reranker was asked to rank."""

    def __init__(self, path: str, items: Hits, results: str) -> None:
        self.path = path
        self.results = results
        """The path of the results."""
        self.documents = [_document_of(item) for item in items]
        self._has_ids = any(document.id is not None for document in self.documents)
        self._are_texts = all(isinstance(item, str) for item in items)

    def may_hold(self, result: _Result) -> bool:
        """Whether a result refers to the documents, rather than being a document of its own."""
        own = result.document
        if result.place is not None or own.text is None:
            return True
        return any(
            own.text == asked.text or (own.id is not None and own.id == asked.id)
            for asked in self.documents
        )

    def in_order(self, results: Sequence[_Result]) -> Hits:
        """The documents that the results name, as hits of a reranker's response.

        Raises:
            ValueProblem: one of them names none, or one that an earlier one names.
        """
        hits: list[object] = []
        seen: set[object] = set()
        for result in results:
            place = self._place_of(result)
            document = result.document if place is None else self._of_both(result, place)
            name = (document.id, document.text) if place is None else place
            if name in seen:
                self._refuse_double(document, place)
            seen.add(name)
            hits.append(_hit(document, place, result.score))
        return hits

    def _place_of(self, result: _Result) -> int | None:
        """The place of a result's document; None where it brings its own text and id along."""
        if result.place is not None:
            return self._checked(result, result.place)
        document = result.document
        if document.text is None:
            return self._by_id(document.id or "")
        if document.id is not None:
            return self._whole(document)
        return self._by_text(document.text)

    def _checked(self, result: _Result, place: int) -> int:
        if not 0 <= place < len(self.documents):
            self._refuse(
                f"{place} is not the place of a document: there are {len(self.documents)}, "
                "counted from 0"
            )
        own, asked = result.document.id, self.documents[place].id
        if own is not None and asked is not None and own != asked:
            self._refuse(
                f"a result names the document '{own}' by its id, and by its place, {place}, "
                f"the document '{asked}'"
            )
        return place

    def _by_id(self, id: str) -> int | None:
        places = [at for at, document in enumerate(self.documents) if document.id == id]
        if not places and self._are_texts:
            return self._by_text(id)  # a list of texts, or of ids
        if not places:
            self._refuse(f"'{id}' is not the id of a document in '{self.path}'")
        if len({self.documents[place].text for place in places}) > 1:
            self._refuse(
                f"'{id}' is the id of {len(places)} documents in '{self.path}' with different texts"
            )
        return places[0]

    def _whole(self, document: _Document) -> int | None:
        for place, asked in enumerate(self.documents):
            if (asked.id, asked.text) == (document.id, document.text):
                return place
        return None

    def _by_text(self, text: str) -> int | None:
        places = [at for at, document in enumerate(self.documents) if document.text == text]
        if places:
            return places[0]
        as_ids = [at for at, document in enumerate(self.documents) if document.id == text]
        if as_ids:
            return self._by_id(text)
        if self._has_ids or " " not in text.strip():
            self._refuse(f"'{_shortened(text)}' is no document in '{self.path}', nor its id")
        return None

    def _of_both(self, result: _Result, place: int) -> _Document:
        """What the request and the result say of a document."""
        asked, own = self.documents[place], result.document
        text = own.text
        if text is None or text == asked.id:
            text = asked.text
        fields = {**asked.fields, **own.fields}
        return _Document(id=asked.id or own.id, text=text, fields=fields)

    def _refuse_double(self, document: _Document, place: int | None) -> NoReturn:
        if place is None or document.id is not None:
            called = f"'{document.id or _shortened(document.text or '')}'"
            self._refuse(f"the document {called} is ranked twice")
        self._refuse(f"the document at place {place} is ranked twice")

    def _refuse(self, what: str) -> NoReturn:
        raise ValueProblem(
            f"field '{self.results}': {what}. To read the documents as they went into the "
            f"reranker: --field chunks={self.path}"
        )


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _hit(document: _Document, place: int | None, score: float | None) -> dict[str, object]:
    """A document as a hit of the form of a reranker's response."""
    fields = {name: held for name, held in document.fields.items() if name != "document"}
    known: dict[str, object] = {**fields, "text": document.text}
    known.pop("id", None)
    if document.id is not None:
        known["id"] = document.id
    hit: dict[str, object] = {"relevance_score": score, "document": known}
    if place is not None:
        hit["index"] = place
    metadata = next(
        (fields[name] for name in named("hit")["metadata"] if is_object(fields.get(name))), None
    )
    if metadata is not None:
        hit["metadata"] = metadata
    return hit
