"""Which relevant context each retrieved chunk is.

The gold of a case is a list of documents, or chunks, by id; or a list of texts, which may have a
place in a document. A chunk is compared by its id, by the document that it was cut from, by its
offsets there, or by its text. Which of these are right in a run is decided from all of its
cases: see `ragbench.metrics.gold_space`.

What a rank counts follows from what is relevant. Where that is documents, a ranking is one of
documents: each stands once, at its best chunk (MaxP; Dai and Callan 2019, arXiv:1905.09217), as in
a TREC run, so that figures are those of trec_eval however documents were cut and whatever the
chunks are called. Where it is chunks or passages, ranks are those that generation is given.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from ragbench.core.case import Case, Evidence
from ragbench.core.matched import Match, Matched, MatchedBy
from ragbench.core.metric import Skip
from ragbench.core.record import Record, field
from ragbench.core.result import RetrievalResult
from ragbench.text.tokens import multilingual_tokens

COMPARING = 2
"""The version of how retrieved chunks are compared with relevant ones.

It is a part of the version of each metric that reads a ranking, so that values of another one in a
run's folder are not used.

2: a text that is retrieved twice is one chunk."""
_LEAST_LONG = 40
"""Characters from which a text is long enough to be recognised when it is not verbatim."""
_LEAST_SHARED_WORDS = 0.5
"""Smallest share of the shorter text's words that the longer one has: separates most pairs before
their characters are compared, which takes a millisecond."""
_LEAST_RATIO = 90.0
"""Smallest partial ratio (0 to 100) of two texts that count as the same passage."""
_TELLING_BYTES = 20
"""UTF-8 bytes from which a span hardly turns up by chance: 20 Latin or 7 Chinese letters."""
_NUMBER = re.compile(r"\d+")


@lru_cache(maxsize=4096)
def normalised(text: str) -> str:
    """A text in the form in which chunks and gold compare: NFKC, small letters, single spaces.

    Two programs that cut the same document differ in just these. Another form would change which
    chunks are relevant: raise `COMPARING` with it.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def gold_texts(case: Case) -> tuple[str, ...] | None:
    """The normalised texts that a relevant chunk holds, each once.

    These are the evidence spans, as they do not depend on how documents were cut; but the reference
    contexts where a span is so short that it turns up by chance. Short spans alone are used as they
    are: a passage with the answer in it counts as relevant (Karpukhin et al. 2020,
    arXiv:2004.04906). None when neither is known. Another choice changes every rank metric: raise
    `COMPARING` with it.
    """
    spans = _distinct_texts(evidence.text for evidence in case.evidence)
    if spans and all(map(is_telling, spans)):
        return spans
    if case.reference_contexts is not None:
        return _distinct_texts(case.reference_contexts)
    return spans or None


def is_telling(text: str) -> bool:
    """Whether a normalised text is so long that it hardly turns up in a chunk by chance.

    A gold text of a word or two is in many chunks that are not relevant. Raise `COMPARING` with
    another result: rank metrics follow from it.
    """
    return len(text.encode()) >= _TELLING_BYTES


def holds(chunk: str, gold: str) -> bool:
    """Whether a chunk holds a gold text, or is a part of it; both normalised.

    It does when the gold text stands in it, or at least half of a gold text of 40 characters or
    more stands at its beginning or end, where it was cut. Of two long texts it is enough that the
    shorter one resembles a part of the longer one (half of its words, and rapidfuzz's partial ratio
    at least 90), so that chunks cut elsewhere and small changes of wording are recognised; but
    every number of the shorter must stand in the longer, since near-duplicates often differ in just
    those.

    Another rule or limit changes every rank metric: raise `COMPARING` with it.
    """
    if gold in chunk:
        return True
    if len(gold) >= _LEAST_LONG and _is_cut(chunk, gold):
        return True
    shorter, longer = sorted((gold, chunk), key=len)
    if len(shorter) < _LEAST_LONG:
        return False
    words = _distinct_words(shorter)
    if len(words & _distinct_words(longer)) < _LEAST_SHARED_WORDS * len(words):
        return False
    numbers = set(_NUMBER.findall(shorter))
    if not numbers <= set(_NUMBER.findall(longer)):
        return False
    # Loaded only where it is needed: most pairs are told apart before.
    from rapidfuzz.fuzz import partial_ratio

    return bool(partial_ratio(shorter, longer, score_cutoff=_LEAST_RATIO))


def _is_cut(chunk: str, gold: str) -> bool:
    """Whether half or more of a gold text is at an end of a chunk, cut off by the chunk's end.

    A chunker cuts through passages: the chunk with the larger half is relevant, too. Raise
    `COMPARING` with another result: rank metrics follow from it.
    """
    half = (len(gold) + 1) // 2
    # The chunk ends within the gold text.
    start = chunk.rfind(gold[:half])
    if start >= 0 and gold.startswith(chunk[start:]):
        return True
    # The chunk begins within the gold text.
    start = chunk.find(gold[-half:])
    return start >= 0 and gold.endswith(chunk[: start + half])


@lru_cache(maxsize=512)
def _distinct_words(text: str) -> frozenset[str]:
    """The distinct words of a text.

    A cheap comparison of them saves most comparisons of characters. Remembered, since each chunk is
    compared with several gold texts.
    """
    return frozenset(multilingual_tokens(text))


def _distinct_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Texts in normalised form, each once and none empty, in their order.

    A text that is relevant twice would count twice in recall.
    """
    distinct = dict.fromkeys(map(normalised, texts))
    distinct.pop("", None)
    return tuple(distinct)


NO_GOLD = "no relevant context is known"
NOT_COMPARABLE = (
    "not comparable: no retrieved id is one of the gold's, and no relevant text is known"
)
IDS_ALONE = "the texts of the retrieved chunks are not known, only their ids"
_NO_GOLD = Skip(NO_GOLD)
_IDS_ALONE = Skip(f"{IDS_ALONE}, and relevant contexts are known by text")
_NO_IDS = Skip("retrieval gave no context ids, and no relevant text is known to compare with")
_NO_TEXTS = Skip("chunks are compared by their text, and only ids of what is relevant are known")
_NOT_COMPARABLE = Skip(NOT_COMPARABLE)
_DOCUMENT_KEYS = ("document_id", "doc_id", "source")
_PART_MARKS = ("#", "::")
"""What stands in a chunk's id between its document's id and its own part."""


class Matching(StrEnum):
    """How retrieved chunks are compared with relevant ones.

    In a case in which one side has no ids, texts are compared.
    """

    AUTO = "auto"
    """Decided from all cases of a run. For a case by itself: by id or document, else by text."""
    ID = "id"
    """By the chunk's own id alone."""
    DOCUMENT_ID = "document_id"
    """By the document that a chunk was cut from: the one that its metadata name (``document_id``,
    ``doc_id`` or ``source``), or that its id begins with, before ``#`` or ``::``. By the chunk's
    own id where neither is there. Documents are ranked, unless a chunk itself is relevant."""
    TEXT = "text"
    """By whether a chunk holds a reference context or an evidence span. By offsets where chunk and
    evidence name the same document and have them."""
    NOT_COMPARABLE = "not_comparable"
    """Not by ids: those of retrieval and gold have nothing in common. What an evaluation decides
    where no texts are known either; cases are skipped."""


class Gold(Record):
    """The gold contexts of a case, in the form in which chunks are compared with them."""

    labels: Mapping[str, int]
    """Their ids, or their normalised texts, each with its position."""
    grades: tuple[int, ...]
    """Of each of them; 1 of texts."""
    matching: Matching
    """What is compared: ids, documents or texts."""
    has_ids: bool = True
    """Whether the chunks have ids of their own."""
    spans: Mapping[str, Evidence] = field(default_factory=dict[str, Evidence])
    """The place of a text in its document, where that is known."""

    def matches_in(
        self, id: str | None, metadata: Mapping[str, Any], text: str
    ) -> list[tuple[int, MatchedBy]]:
        """The positions of the gold contexts that a chunk is or holds, and what shows each.

        Empty for a chunk that is not relevant. By ids a chunk is one gold context at most; by texts
        it may hold several.

        Args:
            metadata: of the chunk, where it may name its document.
        """
        if self.matching is Matching.TEXT:
            return self._text_matches(metadata, text)
        labels = self.labels
        # Ids of chunks that a reader numbered itself are no names: an equal gold id would be
        # chance.
        if not self.has_ids:
            id = None
        if id is not None and id in labels and self.matching is not Matching.DOCUMENT_ID:
            return [(labels[id], MatchedBy.ID)]
        # Ids alone: the metadata may name a document that is gold too, and must not count.
        if self.matching is Matching.ID:
            return []
        match = named_by(id, documents_of(id, metadata), labels)
        if match is None:
            return []
        label, by = match
        return [(labels[label], by)]

    def _text_matches(self, metadata: Mapping[str, Any], text: str) -> list[tuple[int, MatchedBy]]:
        """The gold texts that a chunk holds, as `matches_in` gives them.

        Where chunk and gold name a place in the same document, the places decide, and wording does
        not: the same sentence may be in it twice.
        """
        chunk = normalised(text)
        matches: list[tuple[int, MatchedBy]] = []
        for gold, position in self.labels.items():
            # True, False or None: False is a place elsewhere in the document, which equal wording
            # cannot mend.
            overlaps = _shares_place(metadata, self.spans.get(gold))
            if overlaps:
                matches.append((position, MatchedBy.OVERLAP))
            elif overlaps is None and holds(chunk, gold):
                matches.append((position, MatchedBy.TEXT))
        return matches

    def held_by(self, id: str | None, metadata: Mapping[str, Any], text: str) -> tuple[int, ...]:
        """The positions of the gold contexts that a chunk is or holds.

        As `matches_in`, for callers that need not know by what a gold context was recognised.
        """
        return tuple(position for position, _ in self.matches_in(id, metadata, text))


def gold_of(
    case: Case, result: RetrievalResult[Any], matching: Matching, *, only_relevant: bool = True
) -> Gold | Skip:
    """The gold contexts of a case, in the form in which retrieved chunks are compared with them.

    Ids come before texts, unless the whole run compares by text.

    Args:
        matching: how chunks are compared in this run. In a case where one side has no ids, texts
            are.
        only_relevant: whether ids that are judged as not relevant are left out.

    Returns:
        A `Skip` that says why, where there is nothing to compare with.
    """
    grades = case.judgements
    if matching is not Matching.TEXT and grades is not None:
        grade_by_id = {id: grade for id, grade in grades.items() if grade > 0 or not only_relevant}
        if not grade_by_id:
            return _NO_GOLD
        # Without a relevant document trec_eval counts 0; but a question without an answer has none.
        has_relevant = max(grade_by_id.values()) >= 1
        if case.answerable is False and not has_relevant:
            return _NO_GOLD
        has_ids = result.context_ids is not None
        # An empty retrieval can be recognized by id or document, too.
        if has_ids or not result.contexts or _names_documents(result, matching):
            if matching is Matching.NOT_COMPARABLE:
                return _NOT_COMPARABLE
            return Gold(
                labels={label: position for position, label in enumerate(grade_by_id)},
                grades=tuple(grade_by_id.values()),
                matching=matching,
                has_ids=has_ids,
            )
    # Ids are not to be compared, or cannot be: then texts are.
    texts = gold_texts(case)
    if texts and result.is_ids_alone:
        return _IDS_ALONE
    if texts:
        return _gold_of_texts(texts, case.evidence)
    if texts is not None or not grades:
        return _NO_GOLD
    if matching is Matching.TEXT:
        return _NO_TEXTS
    return _NO_IDS


def _gold_of_texts(texts: Sequence[str], evidence: Sequence[Evidence]) -> Gold:
    """Gold that is known by texts, each of which is as relevant as the others.

    A text has no grade in the datasets that are read, so each counts 1.

    Args:
        texts: in normalised form, each once.
        evidence: the spans of the case, some with a place in their document.
    """
    spans: dict[str, Evidence] = {}
    for span in evidence:
        # Only a span with a place can be compared by place; the others are found by wording.
        if span.start is not None:
            spans[normalised(span.text)] = span
    return Gold(
        labels={text: position for position, text in enumerate(texts)},
        grades=(1,) * len(texts),
        matching=Matching.TEXT,
        spans=spans,
    )


def _names_documents(result: RetrievalResult[Any], matching: Matching) -> bool:
    """Whether the metadata of any chunk name its document, and the comparison may go by documents.

    Then chunks without ids can be compared with gold ids all the same.
    """
    if matching is Matching.ID:
        return False
    return any(documents_of(None, metadata) for metadata in result.context_metadata or ())


def match(case: Case, result: RetrievalResult[Any], matching: Matching) -> Matched | Skip:
    """Compares what was retrieved for a case with what is relevant to it.

    All rank metrics, and the pages of cases, are made of the result. A change of it needs a higher
    `COMPARING`.

    Returns:
        A `Skip` that says why, where there is nothing to compare with.
    """
    gold = gold_of(case, result, matching, only_relevant=False)
    if isinstance(gold, Skip):
        return gold
    is_by_id = gold.matching is not Matching.TEXT
    ids: Sequence[str] = ()
    if is_by_id and gold.has_ids:
        ids = plain_ids(result)
    if ids:  # most retrievals: an id is looked up, and there is nothing else to ask
        matches, repeated = _match_plain(ids, gold)
    else:
        matches, repeated = _match_chunks(result, gold)
    return Matched(
        golds=tuple(gold.labels),
        grades=gold.grades,
        is_by_id=is_by_id,
        chunks=len(result.contexts),
        matches=tuple(matches),
        repeated=tuple(repeated),
    )


def _match_plain(ids: Sequence[str], gold: Gold) -> tuple[list[Match], list[int]]:
    """The matches of a ranking of ids alone, and the ranks of ids that came before.

    The fast way for most retrievals: it must give the same as `_match_chunks`. A repeated chunk has
    no place of its own, as in a TREC run. Raise `COMPARING` with another result: rank metrics
    follow from it.
    """
    matches: list[Match] = []
    repeated: list[int] = []
    seen: set[str] = set()
    for rank, id in enumerate(ids, 1):
        # A repeated id is looked at first: its gold was matched at its first rank already.
        if id in seen:
            repeated.append(rank)
        elif id in gold.labels:
            matches.append(Match(rank=rank, gold=gold.labels[id], by=MatchedBy.ID))
        seen.add(id)
    return matches, repeated


def _match_chunks(result: RetrievalResult[Any], gold: Gold) -> tuple[list[Match], list[int]]:
    """The matches of chunks of any kind, and the ranks that are no place of their own.

    A chunk that repeats an earlier one has none, nor has one whose document is further above. Raise
    `COMPARING` with another result: rank metrics follow from it.
    """
    is_by_id = gold.matching is not Matching.TEXT
    matches: list[Match] = []
    repeated: list[int] = []
    seen: set[str] = set()
    # A retrieval may have no ids or no metadata at all: then each is None, rank by rank.
    chunks = zip_longest(result.context_ids or (), result.context_metadata or (), result.contexts)
    for rank, (id, metadata, text) in enumerate(chunks, 1):
        name = id if is_by_id else _text_name(text, metadata or {}, gold)
        if name is not None:
            if name in seen:
                # Repeated ranks have no match either: their gold is matched at the first one.
                repeated.append(rank)
                continue
            seen.add(name)
        for position, by in gold.matches_in(id, metadata or {}, text):
            matches.append(Match(rank=rank, gold=position, by=by))
    # Documents may be the gold: two different chunks of one are then one place as well.
    if is_by_id and gold.matching is not Matching.ID:
        golds = tuple(gold.labels)
        label_by_rank = {match.rank: golds[match.gold] for match in matches}
        further = _further_chunks(result, label_by_rank, skipped=repeated)
        repeated = sorted({*repeated, *further})
    return matches, repeated


def _text_name(text: str, metadata: Mapping[str, Any], gold: Gold) -> str | None:
    """The name by which a chunk is known where texts are compared: its text.

    A second chunk of that name is the same one again, and has no place in the ranking. None where
    the chunk has no text. Where offsets are compared, equal texts of two places differ. Raise
    `COMPARING` with another result: rank metrics follow from it.
    """
    name = normalised(text)
    if not name:
        return None
    if gold.spans and metadata.get("start") is not None:
        # A normalised text holds no line break, so the parts cannot run into each other.
        documents = ",".join(documents_of(None, metadata))
        return f"{name}\n{documents}\n{metadata['start']}"
    return name


def _further_chunks(
    result: RetrievalResult[Any], label_by_rank: Mapping[int, str], *, skipped: Sequence[int]
) -> list[int]:
    """The ranks of chunks whose document is further above already: a document has one place.

    Empty where a chunk is relevant by itself, and not by its document: then chunks are ranked.
    Raise `COMPARING` with another result: rank metrics follow from it.

    Args:
        label_by_rank: the gold context that the chunk at a rank is.
        skipped: ranks that have no place anyway.
    """
    further: list[int] = []
    above: set[str] = set()
    chunks = zip_longest(result.context_ids or (), result.context_metadata or ())
    for rank, (id, metadata) in enumerate(chunks, 1):
        documents = documents_of(id, metadata or {})
        # What the chunk counts as: the gold that it matches, else its document, else itself.
        document = label_by_rank.get(rank)
        if document is None:
            document = documents[0] if documents else id
        # The chunk matched by an id that is none of its documents: chunks are the gold here.
        elif documents and document not in documents:
            return []
        if document is None or rank in skipped:
            continue
        if document in above:
            further.append(rank)
        above.add(document)
    return further


def plain_ids(result: RetrievalResult[Any]) -> Sequence[str]:
    """The ids of a retrieval whose chunks are known by their id alone; else nothing.

    A chunk that names its document, or may, is known by more than its id. Most retrievals are
    plain, and are compared by looking up each id, which is many times faster.
    """
    ids = result.context_ids or ()
    metadata = result.context_metadata
    if (metadata is not None and any(metadata)) or None in ids:
        return ()
    joined = "\n".join(ids)  # one look at all ids is faster than one at each
    if any(mark in joined for mark in _PART_MARKS):
        return ()
    return ids


def documents_of(id: str | None, metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The documents that a chunk may have been cut from, as its metadata or its id name them.

    A gold id is often a document's, where chunks have ids of their own such as ``doc-7#3``. An id
    that begins with the mark names none. Raise `COMPARING` with another result: rank metrics follow
    from it.
    """
    if metadata:
        documents = [str(metadata[key]) for key in _DOCUMENT_KEYS if metadata.get(key) is not None]
        if documents:
            return tuple(documents)
    if id is None:
        return ()
    # Before the mark is the document; an id that begins with a mark names none.
    return tuple([id.partition(mark)[0] for mark in _PART_MARKS if mark in id[1:]])


def named_by(
    id: str | None, documents: Sequence[str], golds: Container[str]
) -> tuple[str, MatchedBy] | None:
    """The gold context that a chunk is, and whether its document or its own id shows it.

    None where it is none of them. A chunk with a document counts by that: its own number may be the
    id of a gold document by chance. Raise `COMPARING` with another result: rank metrics follow from
    it.

    Args:
        golds: the labels of the gold contexts.
    """
    for document in documents:
        if document in golds:
            by = MatchedBy.ID if document == id else MatchedBy.DOCUMENT
            return document, by
    if id is None or id not in golds:
        return None
    if not documents:
        return id, MatchedBy.ID
    # The id of a chunk that says its document counts only where it begins with that: a chunk's own
    # number may be that of a gold document by chance.
    for document in documents:
        for mark in _PART_MARKS:
            if id.startswith(f"{document}{mark}"):
                return id, MatchedBy.ID
    return None


def _shares_place(metadata: Mapping[str, Any], span: Evidence | None) -> bool | None:
    """Whether a chunk and a gold span overlap in a document by half of the shorter one or more.

    None where they do not name the same document, or one of them has no offsets: then texts decide.
    Raise `COMPARING` with another result: rank metrics follow from it.
    """
    if span is None or span.document_id is None or span.start is None:
        return None
    if span.document_id not in documents_of(None, metadata):
        return None
    start = metadata.get("start")
    end = metadata.get("end")
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    # A span without an end reaches as far as its own text.
    span_end = span.end
    if span_end is None:
        span_end = span.start + len(span.text)
    shared = min(end, span_end) - max(start, span.start)
    shorter = min(end - start, span_end - span.start)
    # Doubled instead of halved: offsets are whole numbers.
    return shared > 0 and 2 * shared >= shorter
