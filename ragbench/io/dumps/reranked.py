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
from ragbench.io.fields import field_names, name_words, says_gold
from ragbench.io.values import ValueProblem, as_id, is_list, is_object
from ragbench.shell import shell_quoted

_DEEPEST = 3
"""Levels of objects that are searched for lists: a log may keep request and reply in objects."""
_LONGEST_SHOWN = 60
"""Characters of a document's text in a message: enough to find it by."""
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
"""Words in the name of a field that holds what a reranker returned."""
_ORDER_WORDS = _RANKING_WORDS | {"order", "ordered", "sorted", "permutation", "indices", "indexes"}
"""Words in the name of a list of whole numbers that are places: elsewhere they may be anything."""


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
    """The documents of a logged reranking, in the order of its results; None without such results.

    The log has the documents in the order from before: read so, they would be scored wrongly.

    Raises:
        ValueProblem: a result is none of the documents, or names one that another one names, too.

    The form in ``forms.toml`` names this function, and how its hits are read: see
    `_hit_of_document`.
    """
    # The first request of a record counts, and the others are not read.
    for request, results in _requests_in(value):
        return [request.in_order(results)]
    return None


def request_fields(value: object) -> frozenset[str]:
    """The fields of a record that hold the documents of a reranker's request, and its results.

    The record's other fields may become a case's; these two are read as its retrieval. Empty for a
    record without such a request.
    """
    # The first request alone: `reranked` reads no other.
    for request, _ in _requests_in(value):
        documents_field = request.path.partition(".")[0]
        results_field = request.results_path.partition(".")[0]
        return frozenset({documents_field, results_field})
    return frozenset()


def own_hits(hits: Hits) -> list[dict[str, object]]:
    """Documents in a reranker's order, as `reranked` returns them, as ragbench's own chunks.

    So a case file that logs a reranker is read on like one with plain chunks.
    """
    chunks: list[dict[str, object]] = []
    for hit in hits:
        assert is_object(hit)  # as `_hit_of_document` makes it
        document = hit["document"]
        assert is_object(document)
        chunk = {"text": document["text"], "score": hit["relevance_score"]}
        if "id" in document or "index" in hit:
            # Without an id the chunk goes by its place in the request.
            chunk["id"] = document.get("id", hit.get("index"))
        if "metadata" in hit:
            chunk["metadata"] = hit["metadata"]
        chunks.append(chunk)
    return chunks


def _requests_in(value: object) -> Iterator[tuple[_Request, list[_Result]]]:
    """The requests to a reranker in a record, each with its results.

    A list is taken for results only beside the one list of documents that they may rank, and if
    they refer to these or are named as a ranking.
    """
    lists = dict(_lists_in(value))
    for path, items in lists.items():
        if not _may_be_results(path, items):
            continue
        document_paths = _document_paths(lists, path)
        if len(document_paths) != 1:
            continue  # none, or it is in doubt which of them were ranked
        results = _results_in(path, items)
        if results is None:
            continue
        request = _Request(document_paths[0], lists[document_paths[0]], path)
        if _is_ranking(path) or any(map(request.may_hold, results)):
            yield request, results


def holds_ranking(value: object) -> bool:
    """Whether a record has a list, or numbers by id, that is named as a ranking of its chunks.

    Then its chunks may be in the order from before that ranking, and are looked at closer.
    """
    if any(items and _is_ranking(path) for path, items in _lists_in(value)):
        return True
    return _scores_by_id(value) is not None


def unread_ranking(value: object, chunks: str) -> str | None:
    """The path of a list that ranks a record's chunks in a form that is not known.

    None without such a list. A reader refuses a record with one: the order of its chunks may be the
    one before the ranking.

    Args:
        chunks: the path of the chunks.
    """
    for path, items in _lists_in(value):
        is_of_chunks = path == chunks or path.startswith(f"{chunks}.")
        if is_of_chunks or not items or says_gold(path):
            continue
        if _ranks_unread(path, items):
            return path
    return _scores_by_id(value)


def _ranks_unread(path: str, items: Hits) -> bool:
    """Whether the elements of a list in a record give the chunks beside it an order of their own.

    Args:
        path: where the list is; its names say what the elements mean.
    """
    # Bare whole numbers are places only under a name that says so.
    if all(type(item) is int for item in items):
        return not _words_of(path).isdisjoint(_ORDER_WORDS)
    if _is_ranking(path):
        return not _are_falling(items)
    if _name_of(path) in field_names("reranker")["results"]:
        return any(_has_place_alone(item) or _is_score_alone(item) for item in items)
    return all(_has_place_alone(item) for item in items)


def _are_falling(items: Hits) -> bool:
    """Whether elements are scores that agree with the order of the chunks beside them.

    Such a list needs no refusal: read with or without it, the chunks have the same ranks.
    """
    scores = [item for item in items if isinstance(item, int | float)]
    if len(scores) < len(items):
        return False
    return all(before >= after for before, after in pairwise(scores))


def _has_place_alone(item: object) -> bool:
    """Whether an element names a chunk by its place, without a text: it ranks a list beside it.

    A reader that ignored it would judge the chunks in the order from before the ranking.
    """
    if not is_object(item):
        return False
    if any(isinstance(item.get(name), str) for name in field_names("hit")["text"]):
        return False
    return any(type(item.get(name)) is int for name in field_names("reranker")["place"])


def _is_score_alone(item: object) -> bool:
    """Whether an element has a score and no text at any depth: it scores a chunk of another list.

    A reader that ignored it would judge the chunks in the order from before the ranking.
    """
    if not is_object(item):
        return False
    if _document_of(item).text is not None or _is_stores_hit(item):
        return False
    return any(type(item.get(name)) in (int, float) for name in field_names("reranker")["score"])


def _scores_by_id(value: object) -> str | None:
    """The path of an object of a record that has a score by document's id, and a ranking's name.

    None without such an object. Its scores would change the order of the documents in the record.
    """
    ids: set[str | None] = set()
    for path, items in _lists_in(value):
        if _are_documents(path, items):
            ids.update(_document_of(item).id for item in items)
    for path, fields in _objects_in(value):
        # Numbers by anything else than ids of these documents rank nothing here.
        if not _is_ranking(path) or ids.isdisjoint(fields):
            continue
        if all(type(number) in (int, float) for number in fields.values()):
            return path
    return None


# --- lists of a record, and which of them is which


def _lists_in(value: object, path: str = "", depth: int = 0) -> Iterator[tuple[str, Hits]]:
    """The lists of a record with their paths, those in objects too.

    A log may keep a reranker's request and reply in objects, or as JSON in a text.

    Args:
        path: of the value; empty for the record itself.
        depth: of the value in its record, from 0; one more for each call of itself.
    """
    value = opened_json(value)
    if is_list(value) and path:
        yield path, value
    elif is_object(value) and depth <= _DEEPEST:
        for name, inner in value.items():
            inner_path = f"{path}.{name}" if path else name
            yield from _lists_in(inner, inner_path, depth + 1)


def _objects_in(
    value: object, path: str = "", depth: int = 0
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The objects of a record with their paths, those in objects too.

    Scores by id are looked for among these objects.

    Args:
        path: of the value; empty for the record itself.
        depth: of the value in its record, from 0; one more for each call of itself.
    """
    value = opened_json(value)
    if not is_object(value) or depth > _DEEPEST:
        return
    if path:
        yield path, value
    for name, inner in value.items():
        inner_path = f"{path}.{name}" if path else name
        yield from _objects_in(inner, inner_path, depth + 1)


def _name_of(path: str) -> str:
    """The last name of the path of a list: it says the same, however deep a log puts the list.

    By it a list is known as a request's documents or as results.
    """
    return path.rpartition(".")[2]


def _words_of(path: str) -> set[str]:
    """The words of all names of a list's path: one in ``reranker.output`` is a reranker's, too.

    Names are cut into words at underscores and capitals, so that ``rerankedDocs`` counts.
    """
    words: set[str] = set()
    for name in path.split("."):
        words.update(name_words(name))
    return words


def _is_ranking(path: str) -> bool:
    """Whether a list or an object is named as a ranking, itself or by the objects that it is in.

    The documents of a request may be in an object that is named after the reranker: they are none.
    """
    name = _name_of(path)
    if not _words_of(name).isdisjoint(_RANKING_WORDS):
        return True
    if name in field_names("reranker")["documents"]:
        return False
    return not _words_of(path).isdisjoint(_RANKING_WORDS)


def _may_be_results(path: str, items: Hits) -> bool:
    """Whether a list looks like a reranker's results, by its elements or by its name.

    Whether its elements are understood is decided afterwards; `unread_ranking` finds the lists that
    rank the documents and are not understood.
    """
    if not items or says_gold(path):
        return False
    if all(map(_is_place, items)):
        return True
    return _is_ranking(path) or _name_of(path) in field_names("reranker")["results"]


def _document_paths(lists: Mapping[str, Hits], results: str) -> list[str]:
    """The paths of the lists of documents in a record that a reranker may have ranked.

    Names of a reranker's request come first; only without them those of a retrieval.

    Args:
        lists: the lists of the record by path.
        results: the path of the results, which are no documents.
    """
    for names in (field_names("reranker")["documents"], field_names("retrieval")["chunks"]):
        paths: list[str] = []
        for path, items in lists.items():
            if path != results and _name_of(path) in names and _are_documents(path, items):
                paths.append(path)
        if paths:
            return paths
    return []


def _are_documents(path: str, items: Hits) -> bool:
    """Whether a list holds documents with their texts, as a reranker is asked to rank.

    A list that is named as a ranking, or as gold, is neither.
    """
    if not items or _is_ranking(path) or says_gold(path):
        return False
    return all(_document_of(item).text is not None for item in items)


# --- what an element says


def _is_place(item: object) -> bool:
    """Whether an element of a list is a reranker's result: a place in the request, and a score.

    A list of such elements needs no telling name to be recognised as results.
    """
    if not is_object(item):
        return False
    return _written_place(item) is not None and _written_score(item) is not None


def _written_place(item: Mapping[str, object]) -> int | None:
    """The place in the request by which a result names its document; None where it has none.

    The type itself is compared: to Python a truth value is a whole number, too.
    """
    for name in field_names("reranker")["index"]:
        place = item.get(name)
        if type(place) is int:
            return place
    return None


def _written_score(item: Mapping[str, object]) -> float | None:
    """The score of a reranker's result, by the names of a reranker first; None where it has none.

    A document that is passed on may still have the similarity of the retrieval beside it.
    """
    for name in (*field_names("reranker")["score"], *field_names("hit")["score"]):
        score = item.get(name)
        if isinstance(score, int | float):
            return score
    return None


def _document_of(item: object) -> _Document:
    """The document that an element of a request or of results is, or has under ``document``.

    Its id and its text are None where it has none under a known name: then the element may be a
    result that names its document in another way.
    """
    if isinstance(item, str):
        return _Document(id=None, text=item, fields={})
    if not is_object(item):
        return _Document(id=None, text=None, fields={})
    fields = item
    inner = item.get("document")
    if is_object(inner):
        # What stands beside the document, such as its id, counts where it lacks that itself.
        fields = {**item, **inner}
    id = None
    for name in field_names("hit")["id"]:
        value = fields.get(name)
        # By the exact type, since True is a whole number to Python and no id.
        if type(value) in (str, int) and value != "":
            id = as_id(value)
            break
    for name in field_names("hit")["text"]:
        text = text_of(fields.get(name))
        if text is not None:
            return _Document(id=id, text=text, fields=fields)
    return _Document(id=id, text=None, fields=fields)


def _results_in(path: str, items: Hits) -> list[_Result] | None:
    """The elements of a list as a reranker's results; None where one of them is not understood.

    Where the list's name does not say that it is a ranking, each element must have a score.

    Args:
        path: where the list is.
    """
    results: list[_Result] = []
    for item in items:
        fields: Mapping[str, object] = item if is_object(item) else {}
        place = _written_place(fields)
        score = _written_score(fields)
        document = _document_of(item)
        has_document = document.id is not None or document.text is not None
        # An element without a document, and without a place and a score, ranks nothing.
        if not has_document and (place is None or score is None):
            return None
        if not _is_ranking(path) and (score is None or _is_stores_hit(fields)):
            return None
        results.append(_Result(place=place, score=score, document=document))
    return results


def _is_stores_hit(item: Mapping[str, object]) -> bool:
    """Whether an element has its text only deeper, as a hit of a store: then it is no result.

    A store's hits have scores, too, but rank no other list.
    """
    if _document_of(item).text is not None:
        return False
    return any(is_object(inner) for name, inner in item.items() if name != "document")


# --- results beside a request


class _Request:
    """The documents that a reranker was asked to rank."""

    def __init__(self, path: str, items: Hits, results_path: str) -> None:
        """Takes the documents of a request to a reranker, and the paths of both lists for errors.

        Args:
            path: of the documents.
            items: the documents, in the order in which they were sent.
            results_path: of the results.
        """
        self.path = path
        self.results_path = results_path
        self.documents = [_document_of(item) for item in items]
        self._has_ids = any(document.id is not None for document in self.documents)
        """Whether some document has an id: then a result's text that is no document's text is taken
        for an id that names no document."""
        self._are_texts = all(isinstance(item, str) for item in items)
        """Whether the documents are texts alone, of which each may be an id as well."""

    def may_hold(self, result: _Result) -> bool:
        """Whether a result refers to a document of the request, rather than being another one.

        Two lists of documents that share none are two retrievals, not a request and its results. A
        result without a text, or with a place, can only mean a document of the request.
        """
        own = result.document
        if result.place is not None or own.text is None:
            return True
        for document in self.documents:
            has_same_id = own.id is not None and own.id == document.id
            if own.text == document.text or has_same_id:
                return True
        return False

    def in_order(self, results: Sequence[_Result]) -> Hits:
        """The documents of the request that results name, in their order, as hits of a response.

        Raises:
            ValueProblem: one of them names none, or one that an earlier one names.
        """
        hits: list[object] = []
        seen: set[object] = set()
        for result in results:
            place = self._place_of(result)
            if place is None:  # the result brings a document along that the request lacks
                document = result.document
                identity: object = (document.id, document.text)
            else:
                document = self._merged_document(result, place)
                identity = place
            if identity in seen:
                self._refuse_double(document, place)
            seen.add(identity)
            hits.append(_hit_of_document(document, place, result.score))
        return hits

    def _place_of(self, result: _Result) -> int | None:
        """The place in the request of a result's document; None where it brings another one along.

        Each reranker names documents in its own way: by the place in the request, by id, by text,
        or with the whole document.

        Raises:
            ValueProblem: the result names no document, or it is in doubt which one.
        """
        # A place is the surest: ids and texts may repeat.
        if result.place is not None:
            return self._checked_place(result, result.place)
        document = result.document
        if document.text is None:
            return self._place_by_id(document.id or "")
        if document.id is not None:
            return self._place_by_id_and_text(document)
        return self._place_by_text(document.text)

    def _checked_place(self, result: _Result, place: int) -> int:
        """The place that a result names in the request, if it is one and agrees with its id.

        Places that count from 1, or count in another list, show here.

        Raises:
            ValueProblem: there is no such place, or the id is that of another document.
        """
        if not 0 <= place < len(self.documents):
            self._refuse(
                f"{place} is not the place of a document: there are {len(self.documents)}, "
                "counted from 0"
            )
        own_id = result.document.id
        requested_id = self.documents[place].id
        if own_id is not None and requested_id is not None and own_id != requested_id:
            self._refuse(
                f"a result names the document '{own_id}' by its id, and by its place, {place}, "
                f"the document '{requested_id}'"
            )
        return place

    def _place_by_id(self, id: str) -> int | None:
        """The place in the request of the document with an id.

        An id may repeat with the same text: then it does not matter which of them is meant.

        Raises:
            ValueProblem: no document has the id, or two with different texts have.
        """
        places = [place for place, document in enumerate(self.documents) if document.id == id]
        if not places and self._are_texts:
            return self._place_by_text(id)  # a list of texts, or of ids
        if not places:
            self._refuse(f"'{id}' is not the id of a document in '{self.path}'")
        texts = {self.documents[place].text for place in places}
        if len(texts) > 1:
            self._refuse(
                f"'{id}' is the id of {len(places)} documents in '{self.path}' with different texts"
            )
        return places[0]

    def _place_by_id_and_text(self, document: _Document) -> int | None:
        """The place in the request of a document that a result repeats whole; None for another one.

        The chunk is then the document that the result brings along: generation was given that.
        """
        for place, requested in enumerate(self.documents):
            if (requested.id, requested.text) == (document.id, document.text):
                return place
        return None

    def _place_by_text(self, text: str) -> int | None:
        """The place in the request of a document by its text, which may turn out to be an id.

        Some rerankers return texts alone, and some lists of texts are lists of ids.

        None for a text that no document has: the result brings it along. Where documents have ids,
        or the text is one word, it is rather an id that names none, and refused.

        Raises:
            ValueProblem: it looks like an id, and no document has it.
        """
        for place, document in enumerate(self.documents):
            if document.text == text:
                return place
        if any(document.id == text for document in self.documents):
            return self._place_by_id(text)
        if self._has_ids or " " not in text.strip():
            self._refuse(f"'{_shortened(text)}' is no document in '{self.path}', nor its id")
        return None

    def _merged_document(self, result: _Result, place: int) -> _Document:
        """The document of a result, with what the request says of it; the result is the later one.

        Its text may be an id in the place of one: the request then has the text.

        Args:
            place: of the document in the request.
        """
        requested = self.documents[place]
        own = result.document
        text = own.text
        if text is None or text == requested.id:
            text = requested.text
        fields = {**requested.fields, **own.fields}
        return _Document(id=requested.id or own.id, text=text, fields=fields)

    def _refuse_double(self, document: _Document, place: int | None) -> NoReturn:
        """Refuses results that rank a document of the request twice: its true rank is in doubt.

        Args:
            place: of the document in the request; None if the result brought it along.

        Raises:
            ValueProblem: always.
        """
        if place is None or document.id is not None:
            name = document.id or _shortened(document.text or "")
            self._refuse(f"the document '{name}' is ranked twice")
        self._refuse(f"the document at place {place} is ranked twice")

    def _refuse(self, reason: str) -> NoReturn:
        """Refuses the record of the request, with the option to read it without the results.

        Which document is meant decides its rank: in doubt the record is not guessed.

        Raises:
            ValueProblem: always.
        """
        raise ValueProblem(
            f"field '{self.results_path}': {reason}. To read the documents as they went into the "
            f"reranker: --field chunks={shell_quoted(self.path)}"
        )


def _shortened(text: str) -> str:
    """The text of a document, cut to the length in which a message quotes it.

    A message is one line, and a document may be pages long.
    """
    if len(text) <= _LONGEST_SHOWN:
        return text
    return f"{text[: _LONGEST_SHOWN - 3]}..."


def _hit_of_document(
    document: _Document, place: int | None, score: float | None
) -> dict[str, object]:
    """A ranked document as a hit of the form of a reranker's response.

    ``forms.toml`` has this form, so that the hits are decoded like those of any other response: the
    keys here and there have to agree.

    Args:
        place: of the document in the request; None if the result brought it along.
    """
    fields = dict(document.fields)
    # What a nested object ``document`` holds is among `document.fields` already.
    fields.pop("document", None)
    inner: dict[str, object] = {**fields, "text": document.text}
    # The document's id may have come from a field of another name.
    inner.pop("id", None)
    if document.id is not None:
        inner["id"] = document.id
    hit: dict[str, object] = {"relevance_score": score, "document": inner}
    if place is not None:
        hit["index"] = place
    for name in field_names("hit")["metadata"]:
        metadata = fields.get(name)
        if is_object(metadata):
            hit["metadata"] = metadata
            break
    return hit
