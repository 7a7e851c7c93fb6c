"""Which documents a system used for an answer: those that it retrieved, and those that it cites.

A document goes by the id of a chunk, the part of it before ``#``, or a field of the chunk's
metadata such as ``source``; with and without folders.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ragbench.core.cited_sources import CITED_SOURCES, SOURCE_FIELDS, as_citations
from ragbench.core.metric import Skip
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.io.values import as_object
from ragbench.metrics.citations import cited
from ragbench.text.citations import bracketed_names, listed_sources


def spelled(text: str) -> str:
    """A text in the form in which names compare: one form of Unicode, no case, single spaces.

    A case that expects "Café.md" is met by "café.md" of a file system that splits the accent off.
    Another result changes which expectations hold.
    """
    folded = unicodedata.normalize("NFC", text).casefold()
    # Folding the case may part letters and accents again, so the form is made once more.
    normalised = unicodedata.normalize("NFC", folded)
    return " ".join(normalised.split())


def retrieved_names(result: RetrievalResult[Any]) -> frozenset[str]:
    """Every form of the names of the retrieved documents; empty if no id or source is known.

    A case that expects ``returns.md`` is met by the chunk ``docs/returns.md#3``.
    """
    names = list(result.context_ids or ())
    for metadata in result.context_metadata or ():
        names += _names_of(metadata)
    return _all_forms(names)


class CitedNames(NamedTuple):
    """Which documents an answer cites."""

    names: frozenset[str]
    """Every form of their names."""
    are_documents: bool
    """Whether a name is surely that of a document. Words in brackets may be a remark."""
    are_known: bool = True
    """False if the answer has marks, and no chunk behind them has a name."""


def cited_names(
    generation: GenerationResult[Any], retrieval: RetrievalResult[Any] | None
) -> CitedNames:
    """The documents that an answer cites.

    They are in its text (``[returns.md]``, ``Source: returns.md``), in what its system or the
    record says that it cites, and behind its marks (``[1]`` is the first chunk). All of these
    count: whether an answer names its documents in brackets or by number is its system's habit.
    Another result changes which expectations hold.
    """
    # In any order: the forms of the names end in a set.
    documents = list(_names_in_metadata(generation, retrieval))
    documents += listed_sources(generation.response)
    has_marks = False
    if retrieval is not None:
        sentences = cited(generation, retrieval)
        if not isinstance(sentences, Skip):
            has_marks = True
            for sentence in sentences:
                for place in sentence.chunks:
                    # A mark that points to no chunk names no document.
                    if place is not None:
                        documents += _names_at(retrieval, place)
    names = _all_forms([*documents, *bracketed_names(generation.response)])
    are_documents = bool(documents)
    return CitedNames(
        names=names,
        are_documents=are_documents,
        # A mark whose chunk names no document leaves open which document was meant.
        are_known=are_documents or not has_marks,
    )


def wanted_names(names: Iterable[str]) -> frozenset[str]:
    """Names of documents as a case gives them, in the form in which names compare.

    Without further forms: a name with a folder demands that folder.
    """
    return frozenset(spelled(name) for name in names)


def _names_in_metadata(
    generation: GenerationResult[Any], retrieval: RetrievalResult[Any] | None
) -> Iterator[str]:
    """The names of documents that an answer's metadata or the record of the answer lists as cited.

    A number that is not an id is the rank of a chunk, from 1.
    """
    metadata = as_object(generation.metadata)
    # Systems and records use the one name or the other; both are read.
    for field in (CITED_SOURCES, "citations"):
        for name in as_citations(metadata.get(field)):
            yield name
            # "3" may be a document's name or a rank: both are yielded, since either may be meant.
            if retrieval is not None and name.isdecimal():
                yield from _names_of_number(retrieval, name)


_MOST_DIGITS = 9
"""Digits of a rank that are read: no retrieval has more chunks, and Python refuses huge numbers."""


def _names_of_number(retrieval: RetrievalResult[Any], number: str) -> Iterator[str]:
    """The names of the chunk that a cited number points to: by its id, else by its rank from 1.

    Nothing where no chunk has it. Systems report "3" for the third chunk as well as for a chunk of
    that id.
    """
    ids = list(retrieval.context_ids or ())
    if number in ids:
        place = ids.index(number)
    else:
        # Digits beyond any rank are cut: a long id of digits would be a huge number.
        place = int(number[:_MOST_DIGITS]) - 1
    if 0 <= place < len(retrieval):
        yield from _names_at(retrieval, place)


def _names_at(result: RetrievalResult[Any], place: int) -> Iterator[str]:
    """The names of one retrieved chunk and of its document, as far as the retrieval has any.

    Any of them may be the name that a case expects.

    Args:
        place: of the chunk in the retrieval, from 0.
    """
    if result.context_ids:
        yield result.context_ids[place]
    if result.context_metadata:
        yield from _names_of(result.context_metadata[place])


def _names_of(metadata: Mapping[str, Any] | None) -> Iterator[str]:
    """The names of a document in a chunk's metadata, from the fields that hold names of sources.

    A number may be a name, too.
    """
    if not metadata:
        return
    for field in SOURCE_FIELDS:
        name = metadata.get(field)
        # To Python True is a number, and no name of a document.
        is_name = isinstance(name, (str, int)) and not isinstance(name, bool)
        if is_name and name != "":
            yield str(name)


def _all_forms(names: Iterable[str]) -> frozenset[str]:
    """Every form of some names of documents: one form in common is enough to be the same.

    See `_forms_of_name` for the forms.
    """
    forms: set[str] = set()
    for name in names:
        forms.update(_forms_of_name(name))
    return frozenset(forms)


def _forms_of_name(name: str) -> Iterator[str]:
    """A document's name as it is, without the number of a chunk (``doc#3``), and without folders.

    Datasets and systems name one document differently: ``docs/returns.md#3`` and ``returns.md``.
    Another result changes which expectations hold.
    """
    whole = spelled(name)
    document, _, _ = whole.rpartition("#")
    if not document:
        document = whole
    for form in (whole, document):
        yield form
        _, _, file_name = form.replace("\\", "/").rpartition("/")
        yield file_name
