"""Which relevant context each retrieved chunk is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from ragbench.core.case import Case
from ragbench.core.metric import Skip
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.text.tokens import multilingual_tokens

__all__ = [
    "UNJUDGED",
    "Gold",
    "Matching",
    "Ranking",
    "comparable_ids",
    "decide_matching",
    "document_of",
    "gold_of",
    "gold_texts",
    "holds",
    "normalised",
    "ranking_of",
]

_LONG = 40
"""Characters from which a text is long enough to be recognised when it is not verbatim."""
_SHARED = 0.5
"""Smallest share of the shorter text's words that the longer one has: tells most pairs apart before
their characters are compared, which takes a millisecond."""
_SIMILAR = 90.0
"""Smallest partial ratio (0 to 100) of two texts that count as the same passage."""
_TELLING = 20
"""UTF-8 bytes from which a span hardly turns up by chance: 20 Latin or 7 Chinese letters."""
_NUMBER = re.compile(r"\d+")


@lru_cache(maxsize=4096)
def normalised(text: str) -> str:
    """The text in NFKC, without regard to case and kind of white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def gold_texts(case: Case) -> tuple[str, ...] | None:
    """The normalised texts that a relevant chunk holds, each once.

    These are the evidence spans, as they do not depend on how documents were cut; but the
    reference contexts where a span is so short that it turns up by chance. Short spans alone are
    used as they are: a passage with the answer in it counts as relevant (Karpukhin et al. 2020,
    arXiv:2004.04906).

    Returns:
        None when neither is known; empty when it is known that there is none.
    """
    spans = _distinct(evidence.text for evidence in case.evidence)
    if spans and all(len(span.encode()) >= _TELLING for span in spans):
        return spans
    if case.reference_contexts is not None:
        return _distinct(case.reference_contexts)
    return spans or None


def holds(chunk: str, gold: str) -> bool:
    """Whether a chunk holds a gold text, both normalised.

    It does when the gold text stands in it. Of two long texts it is enough that the shorter one
    resembles a part of the longer one (half of its words, and rapidfuzz's partial ratio at least
    90), so that chunks cut elsewhere and small changes of wording are recognised; but every number
    of the shorter must stand in the longer, since near-duplicates often differ in just those.
    """
    if gold in chunk:
        return True
    shorter, longer = sorted((gold, chunk), key=len)
    if len(shorter) < _LONG:
        return False
    words, others = _words(shorter), _words(longer)
    if len(words & others) < _SHARED * len(words):
        return False
    if not set(_NUMBER.findall(shorter)) <= set(_NUMBER.findall(longer)):
        return False
    from rapidfuzz.fuzz import partial_ratio

    return bool(partial_ratio(shorter, longer, score_cutoff=_SIMILAR))


@lru_cache(maxsize=512)
def _words(text: str) -> frozenset[str]:
    return frozenset(multilingual_tokens(text))


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found for text in texts if (found := normalised(text))))


NO_GOLD = "no relevant context is known"
_NO_GOLD = Skip(NO_GOLD)
_NO_IDS = Skip("retrieval gave no context ids, and no relevant text is known to compare with")
_DOCUMENT_KEYS = ("document_id", "doc_id", "source")


class Matching(StrEnum):
    """How retrieved chunks are compared with relevant ones."""

    AUTO = "auto"
    """Case by case: by id where both sides have ids, else by text."""
    ID = "id"
    """By the chunks' ids; by text in a case in which one side has none."""
    DOCUMENT_ID = "document_id"
    """By the chunk's id, else by the document that its metadata names (``document_id``, ``doc_id``
    or ``source``): gold ids that name documents, against a retriever that returns their chunks."""
    TEXT = "text"
    """By whether a chunk holds a reference context or an evidence span."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """What a case retrieved, as far as it matters for rank metrics: grades in the place of chunks.

    Equal rankings are one object, as far as they are remembered, so that a metric computes each
    ranking once.

    In most cases each chunk is at most one of the gold contexts, and no two are the same one. Else
    (a chunk holds two gold contexts, two chunks hold the same one) ``grades`` and ``gains`` differ:
    what is relevant by itself is not always something new. Metrics of gain read ``gains`` and
    ``ideal``, so that no ranking can gain more than the ideal one.
    """

    grades: tuple[int, ...]
    """The grade of each retrieved chunk, best first, the highest where it holds several gold
    contexts; `UNJUDGED` where it is none of those that are known. Of a repeated id only the first
    place is kept."""
    golds: tuple[int, ...]
    """The grades of all gold contexts, highest first; at least one."""
    gains: tuple[int, ...]
    """The summed grades of the gold contexts that no chunk before it held; `UNJUDGED` where it
    brings none."""
    ideal: tuple[int, ...]
    """The gains of the best order, highest first."""
    ranks: tuple[tuple[int, int], ...] | None = None
    """The grade of each gold context that some chunk holds, with the rank of the first one that
    does, from 1; None where that can be seen from ``grades``."""

    def relevant(self, level: int = 1) -> int:
        """How many gold contexts have a grade of ``level`` or more."""
        if self.golds[-1] >= level:
            return len(self.golds)
        return len([grade for grade in self.golds if grade >= level])

    def found(self, k: int | None = None, level: int = 1) -> int:
        """How many of those the first k chunks hold; all chunks where k is None."""
        if self.ranks is None:
            return len([grade for grade in self.grades[:k] if grade >= level])
        last = len(self.grades) if k is None else k
        return len([rank for grade, rank in self.ranks if grade >= level and rank <= last])

    def judged(self) -> Ranking:
        """The same without the chunks that nobody has judged.

        As in trec_eval, a grade below 0 counts as none here.
        """
        grades = tuple([grade for grade in self.grades if grade >= 0])
        if self.ranks is None:
            return Ranking(grades, self.golds, grades, self.ideal)
        kept = [rank for rank, grade in enumerate(self.grades, 1) if grade >= 0]
        moved = {old: new for new, old in enumerate(kept, 1)}
        gains = tuple([gain for gain in self.gains if gain >= 0])
        ranks = [(grade, moved[rank]) for grade, rank in self.ranks if rank in moved]
        return Ranking(grades, self.golds, gains, self.ideal, tuple(ranks))


UNJUDGED = -(1 << 31)
"""In the place of a grade: the chunk is none of those whose relevance is known."""


@lru_cache(maxsize=8192)
def _regular(grades: tuple[int, ...], golds: tuple[int, ...]) -> Ranking:
    """A ranking in which each chunk is one gold context at most, and none twice."""
    return Ranking(grades, golds, grades, golds)


@lru_cache(maxsize=8192)
def _of_slots(slots: tuple[tuple[int, ...], ...], grades: tuple[int, ...]) -> Ranking:
    """A ranking by the gold contexts in each chunk, as positions in their grades."""
    ranks: dict[int, int] = {}
    gains: list[int] = []
    for rank, slot in enumerate(slots, 1):
        new = [gold for gold in slot if gold not in ranks]
        ranks.update(dict.fromkeys(new, rank))
        gains.append(sum(grades[gold] for gold in new) if new else UNJUDGED)
    of_chunks = tuple(max((grades[gold] for gold in slot), default=UNJUDGED) for slot in slots)
    golds = tuple(sorted(grades, reverse=True))
    if sum(map(len, slots)) == len(ranks) and all(len(slot) <= 1 for slot in slots):
        return _regular(of_chunks, golds)
    missed = [grade for gold, grade in enumerate(grades) if gold not in ranks]
    ideal = sorted([*missed, *(gain for gain in gains if gain != UNJUDGED)], reverse=True)
    found = tuple((grades[gold], rank) for gold, rank in ranks.items())
    return Ranking(of_chunks, golds, tuple(gains), tuple(ideal), found)


def ranking_of(trace: Trace, matching: Matching) -> Ranking | Skip:
    """Compares what a case retrieved with what is relevant to it.

    Args:
        trace: a case with a retrieval result.
        matching: how to compare.

    Returns:
        The ranking, or the reason why there is nothing to compare.
    """
    result, case = trace.context.value, trace.case
    if result is None:
        return Skip("retrieval gave no result")
    known = matching is not Matching.TEXT and (
        case.grades is not None or case.reference_context_ids is not None
    )
    if known:
        if not (case.reference_context_ids if case.grades is None else case.grades):
            return _NO_GOLD
        if matching is Matching.DOCUMENT_ID:
            return _by_document(result, case.judgements or {})
        if result.context_ids is not None:
            return _by_id(result.context_ids, case)
    texts = gold_texts(case)
    if texts:
        return _by_text(result, texts)
    return _NO_IDS if texts is None and known else _NO_GOLD


def _by_id(ids: Sequence[str], case: Case) -> Ranking:
    if len(set(ids)) < len(ids):
        ids = list(dict.fromkeys(ids))
    if case.grades is None:
        wanted = set(case.reference_context_ids or ())
        return _regular(tuple([1 if id in wanted else UNJUDGED for id in ids]), (1,) * len(wanted))
    known = case.grades
    grades = tuple([known.get(id, UNJUDGED) for id in ids])
    return _regular(grades, tuple(sorted(known.values(), reverse=True)))


def comparable_ids(traces: Sequence[Trace]) -> bool:
    """Whether retrieved ids and gold ids come from the same id space.

    Returns:
        True when any retrieved id is among the gold ids of any of the cases.
    """
    gold = _gold_ids(traces)
    return bool(gold) and any(
        not gold.isdisjoint(result.context_ids)
        for result in _results(traces)
        if result.context_ids is not None
    )


def decide_matching(traces: Sequence[Trace]) -> Matching:
    """Chooses, once for a run, how to compare.

    Args:
        traces: the first cases of the run.

    Returns:
        ``ID`` when ids are comparable; else ``DOCUMENT_ID`` when the chunks' metadata names gold
        documents; else ``TEXT`` when any case knows relevant texts; else ``ID``, by which
        retrieval has then found nothing.
    """
    if comparable_ids(traces):
        return Matching.ID
    gold = _gold_ids(traces)
    if gold and any(
        document in gold for result in _results(traces) for document in _documents(result)
    ):
        return Matching.DOCUMENT_ID
    if any(gold_texts(trace.case) for trace in traces):
        return Matching.TEXT
    return Matching.ID


def _gold_ids(traces: Sequence[Trace]) -> set[str]:
    return {id for trace in traces for id in trace.case.judgements or ()}


def _results(traces: Sequence[Trace]) -> Iterator[RetrievalResult[Any]]:
    for trace in traces:
        if trace.context.value is not None:
            yield trace.context.value


def _documents(result: RetrievalResult[Any]) -> list[str | None]:
    """The document that each chunk's metadata names."""
    if result.context_metadata is None:
        return [None] * len(result)
    return [document_of(metadata) for metadata in result.context_metadata]


def _by_document(result: RetrievalResult[Any], grades: Mapping[str, int]) -> Ranking:
    positions = {id: position for position, id in enumerate(grades)}
    ids: Sequence[str | None] = result.context_ids or [None] * len(result)
    slots: list[tuple[int, ...]] = []
    for id, document in zip(ids, _documents(result), strict=True):
        gold = id if id in positions else document
        slots.append((positions[gold],) if gold in positions else ())
    return _of_slots(tuple(slots), tuple(grades.values()))


def _by_text(result: RetrievalResult[Any], texts: tuple[str, ...]) -> Ranking:
    slots: list[tuple[int, ...]] = []
    for context in result.contexts:
        chunk = normalised(context)
        slots.append(tuple([n for n, text in enumerate(texts) if holds(chunk, text)]))
    return _of_slots(tuple(slots), (1,) * len(texts))


@dataclass(frozen=True, slots=True)
class Gold:
    """The gold contexts of a case, in the form in which chunks are compared with them."""

    labels: Mapping[str, int]
    """Their ids, or their normalised texts, each with its position."""
    matching: Matching
    """What is compared: ids, documents or texts."""

    def held_by(self, id: str, document: str | None, text: str) -> tuple[int, ...]:
        """Positions of the gold contexts that a chunk holds.

        Args:
            id: the chunk's.
            document: the document that its metadata names; None when it names none.
            text: its text; only read where texts are compared.
        """
        if self.matching is Matching.TEXT:
            chunk = normalised(text)
            return tuple(at for gold, at in self.labels.items() if holds(chunk, gold))
        names = (id, document) if self.matching is Matching.DOCUMENT_ID else (id,)
        found = (self.labels.get(name) for name in names if name is not None)
        return tuple(at for at in found if at is not None)[:1]


def gold_of(trace: Trace, matching: Matching) -> Gold | Skip:
    """The gold contexts that a case's chunks are compared with, chosen as `ranking_of` does.

    Args:
        trace: a case with a retrieval result.
        matching: how to compare.

    Returns:
        The gold contexts, those judged irrelevant left out; or why there is nothing to compare.
    """
    result, case = trace.context.value, trace.case
    if result is None:
        return Skip("retrieval gave no result")
    known = None if matching is Matching.TEXT else case.judgements
    if known is not None and (matching is Matching.DOCUMENT_ID or result.context_ids is not None):
        relevant = tuple(id for id, grade in known.items() if grade > 0)
        mode = matching if matching is Matching.DOCUMENT_ID else Matching.ID
        return Gold(_numbered(relevant), mode) if relevant else _NO_GOLD
    if known is not None and not known:
        return _NO_GOLD
    texts = gold_texts(case)
    if texts:
        return Gold(_numbered(texts), Matching.TEXT)
    return _NO_IDS if texts is None and known is not None else _NO_GOLD


def _numbered(labels: Iterable[str]) -> dict[str, int]:
    return {label: at for at, label in enumerate(labels)}


def document_of(metadata: Mapping[str, Any]) -> str | None:
    """The document that a chunk's metadata names; None when it names none."""
    return next((str(metadata[key]) for key in _DOCUMENT_KEYS if metadata.get(key)), None)
