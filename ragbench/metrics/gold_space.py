"""How the chunks of a run are compared with its gold: decided from all of its cases.

The gold is known before the first call. What was retrieved is tallied while the run goes on, and
the tally is a sum over cases: their order changes nothing of what is decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import zip_longest
from typing import Any, NamedTuple
from unicodedata import is_normalized, normalize
from urllib.parse import unquote

from ragbench.core.case import Case
from ragbench.core.matched import Matched, MatchedBy
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.metrics.matching import (
    Matching,
    documents_of,
    gold_texts,
    holds,
    is_telling,
    match,
    named_by,
    normalised,
    plain_ids,
)

_CHECKED = 512
"""Cases whose ids are checked against their texts, about; more would only take time."""
_DRAWS = 1 << 32
"""How many numbers four bytes of a digest may be."""
_REMEMBERED = 2048
"""Names of what was retrieved that are kept for examples, the first ones in the order of texts."""


_ENDING = re.compile(r"(?<=.)\.(?:md|markdown|txt|pdf|html?|docx?|json)$")
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")


@lru_cache(maxsize=1 << 15)
def loosely(id: str) -> str:
    """An id without what often differs between two programs that mean the same.

    Case, white space and slashes around it, percent signs of URLs, the file's ending, zeros before
    a number, and the two ways to write an accent.

    Two ids with the same loose form are probably one document, written in two ways. They never
    count as equal: the form only serves a note that asks the user to write them alike.

    Example:
        >>> loosely("/Docs/Caf%C3%A9-007.pdf") == loosely("docs/cafe\u0301-7")
        True
    """
    # Each step asks first whether it has anything to do: most ids are plain.
    text = id
    if not id.isascii() or "%" in id:
        text = normalize("NFC", unquote(id))
    text = text.casefold().strip().strip("/").removeprefix("./")
    if "." in text:
        text = _ENDING.sub("", text)
    if "0" in text:
        text = _ZEROS.sub("", text)
    return text


class MatchingVerdict(NamedTuple):
    """How the chunks of a run are compared with its gold, as all of its cases say."""

    matching: Matching
    """Never AUTO."""
    notes: tuple[str, ...] = ()
    """What a reader of scores must know of it."""


@dataclass(slots=True)
class GoldSpace:
    """What is relevant to the cases of a run, gathered as they are read."""

    ids: set[str] = field(default_factory=set[str])
    checkable: int = 0
    """Cases that have both ids and texts."""
    has_texts: bool = False

    def add(self, case: Case) -> None:
        """Takes in the gold of a case: ids of what is relevant to it, and whether it has texts.

        By all cases together it is decided whether ids of the two sides mean the same.
        """
        judgements = case.judgements
        if judgements:
            self.ids.update(judgements)
        if case.reference_contexts or case.evidence:
            self.has_texts = True
            # Only cases with ids and texts can show whether the ids mean the same.
            if judgements:
                self.checkable += 1


@dataclass(slots=True)
class MatchingTally:
    """What the retrievals of a run say of ids, documents and texts."""

    gold: GoldSpace
    named: int = 0
    """Chunks with an id or a document, retrieved for cases with gold ids."""
    unnamed: int = 0
    """Chunks without either."""
    shared: int = 0
    """Chunks whose id, or document, is a gold one of any case."""
    by_id: int = 0
    """Chunks that are gold by their own id."""
    by_document: int = 0
    """Chunks that are gold by their document, or by an id that does not contradict it."""
    of_documents: int = 0
    """Of those, recognized by their document alone."""
    checked: int = 0
    """Chunks that are gold by id or document, of checked cases with reference contexts."""
    agreeing: int = 0
    """Of those, whose text agrees."""
    cases_by_id: int = 0
    """Checked cases of which a gold id was found."""
    cases_by_text: int = 0
    """Checked cases of which a gold text was found."""
    nearly: int = 0
    """Chunks that would be gold if ids were compared less exactly, see `loosely`."""
    _pair: tuple[str, str] | None = None
    """Such an id and the gold one: the first pair in the order of texts."""
    # Retrieved ids and documents, for an example in a note; cut to the first ones now and then.
    _names: set[str] = field(default_factory=set[str])

    def add(self, trace: Trace) -> None:
        """Counts how a case's retrieved chunks agree with its gold, where ids of it are known.

        Only sums are kept, so that cases may come in any order and from any number of windows.
        """
        case = trace.case
        result = trace.context.value
        judgements = case.judgements
        if result is None or not result.contexts or not judgements:
            return
        plain = plain_ids(result)
        if plain:
            # Most retrievals: each chunk has an id, which is all that names it.
            ranks_by_id = [rank for rank, id in enumerate(plain, 1) if id in judgements]
            ranks_by_document = ranks_by_id
            self.named += len(plain)
            self.shared += sum(map(self.gold.ids.__contains__, plain))
            self._names.update(plain)
        else:
            ranks_by_id, ranks_by_document = self._count_named(result, judgements)
        # Cut at twice the size, so that it is not sorted for each case. The first names stay, in
        # any order of cases.
        if len(self._names) > 2 * _REMEMBERED:
            self._names = set(sorted(self._names)[:_REMEMBERED])
        self.by_id += len(ranks_by_id)
        self.by_document += len(ranks_by_document)
        if not ranks_by_id and not ranks_by_document:
            self._count_nearly(result, judgements)
        if result.is_ids_alone or not self._is_in_sample(case):
            return
        texts = gold_texts(case)
        if texts and all(map(is_telling, texts)):  # texts that are found are no accident
            self._check_texts(case, result, {*ranks_by_id, *ranks_by_document})

    def _is_in_sample(self, case: Case) -> bool:
        """Whether a case is one of about `_CHECKED` whose ids are checked against their texts.

        Comparing texts takes time, and a sample shows as much. The case's id decides, so that the
        sample is the same one in any order of the cases.
        """
        # Of a small dataset all cases are compared; 0 means that no case can be.
        checkable = self.gold.checkable
        if checkable <= _CHECKED:
            return bool(checkable)
        # A draw from 0 to `_DRAWS`, the same on each machine: `hash` of a text is not.
        draw = int.from_bytes(blake2b(case.id.encode(), digest_size=4).digest(), "big")
        return draw * checkable < _CHECKED * _DRAWS

    def _count_named(
        self, result: RetrievalResult[Any], judgements: Mapping[str, int]
    ) -> tuple[list[int], list[int]]:
        """Counts the chunks of a retrieval by what names them; returns the ranks of gold ones.

        A name is a chunk's id, or that of a document. The counts show whether ids of retrieval and
        gold mean the same; the ranks are compared with what texts find.

        Returns:
            The ranks, from 1, of chunks that are gold by their own id, and of those by their
            document.
        """
        ranks_by_id: list[int] = []
        ranks_by_document: list[int] = []
        for rank, (id, names) in enumerate(_names_in(result), 1):
            # A chunk without a name is neither gold nor foreign: it cannot be compared by id.
            if names:
                self.named += 1
            else:
                self.unnamed += 1
            if not self.gold.ids.isdisjoint(names):
                self.shared += 1
            self._names.update(names)
            if id in judgements:
                ranks_by_id.append(rank)
            documents = names
            if id is not None:
                documents = names[:-1]  # the last name is the id
            match = named_by(id, documents, judgements)
            if match is None:
                continue
            ranks_by_document.append(rank)
            _, matched_by = match
            if matched_by is MatchedBy.DOCUMENT:
                self.of_documents += 1
        return ranks_by_id, ranks_by_document

    def _count_nearly(self, result: RetrievalResult[Any], judgements: Mapping[str, int]) -> None:
        """Counts the chunks that only an id's writing ("A-07" for "a-7") keeps from being gold.

        Keeps one such pair of ids as an example for the note to the user.

        Args:
            judgements: the grade of each gold id of the case.
        """
        gold_by_form: dict[str, str] = {}
        # A context of grade 0 is judged not relevant: to be like it is no near miss.
        for gold_id, grade in judgements.items():
            if grade > 0:
                gold_by_form[loosely(gold_id)] = gold_id
        for _, names in _names_in(result):
            is_near = False
            for name in names:
                form = loosely(name)
                if form not in gold_by_form:
                    continue
                is_near = True
                pair = (name, gold_by_form[form])
                # The smallest pair, so that the note does not depend on the order of cases.
                if self._pair is None or pair < self._pair:
                    self._pair = pair
            # A chunk counts once, whichever of its names is near.
            if is_near:
                self.nearly += 1

    def _check_texts(self, case: Case, result: RetrievalResult[Any], ranks: set[int]) -> None:
        """Counts whether the gold that ids find has the gold's texts, and whether texts find any.

        Where they disagree, equal ids of the two sides are an accident, as of chunks that are
        numbered from 0 on both.

        Args:
            ranks: of the chunks that are gold by id or document.
        """
        by_text = match(case, result, Matching.TEXT)
        if isinstance(by_text, Matched) and by_text.matches:
            self.cases_by_text += 1
        if ranks:
            self.cases_by_id += 1
        if case.reference_contexts is None:
            return  # a passage of the right document need not hold the evidence
        golds = [normalised(text) for text in case.reference_contexts]
        for rank in ranks:
            chunk = normalised(result.contexts[rank - 1])
            self.checked += 1
            if any(chunk in gold or holds(chunk, gold) for gold in golds):
                self.agreeing += 1

    @property
    def is_sure(self) -> bool:
        """Whether the tally is as if all gold had been known before the first case was added.

        If not, all cases are read again at the end of the run and tallied with the whole gold.
        """
        if not self.gold.ids:
            return True
        return self.shared > 0 and not self.gold.has_texts

    def verdict(self, corpus: Callable[[], Iterable[str]] | None = None) -> MatchingVerdict:
        """Decides how the run's chunks are compared with its gold: by id, document, text, or not.

        The order of the questions matters: each assumes that those above were answered with no. The
        notes go to the reader of the scores.

        Args:
            corpus: gives the ids of all documents. It is asked only where retrieval and gold have
                no id in common: both may be of that corpus all the same.
        """
        gold = self.gold
        if not gold.ids:
            if not gold.has_texts:
                return MatchingVerdict(Matching.TEXT)
            return _text_verdict("the dataset names no ids of what is relevant")
        if self.unnamed and not self.named:
            if not gold.has_texts:
                return MatchingVerdict(Matching.DOCUMENT_ID)
            return _text_verdict("the RAG gives neither ids nor documents")
        # Texts find gold in more than twice as many cases as ids: equal ids are an accident.
        if self.cases_by_text > 2 * self.cases_by_id:
            return _text_verdict(self._reason_not_by_id())
        # Most texts disagree with their ids, and texts find gold in half as many cases at least.
        are_texts_other = 2 * self.agreeing < self.checked
        if are_texts_other and 2 * self.cases_by_text >= self.cases_by_id:
            return _text_verdict(
                f"of {self.checked:,} chunks whose id is a relevant one, {self.agreeing:,} have "
                "its text, so that ids of the two sides do not mean the same"
            )
        if self.shared or not self.named or (corpus and self._are_both_in(corpus())):
            return self._by_id_or_document()
        if gold.has_texts:
            return _text_verdict(self._reason_not_by_id())
        return MatchingVerdict(
            Matching.NOT_COMPARABLE,
            (
                f"Retrieval was not compared with the gold: none of {self.named:,} retrieved ids "
                f"(such as '{min(self._names)}') is one of the gold's (such as '{min(gold.ids)}'), "
                "and no relevant text is known. Give each chunk its document's id as metadata "
                "'document_id', or the cases their reference_contexts.",
                *self._notes_on_writing(),
            ),
        )

    def _are_both_in(self, corpus: Iterable[str]) -> bool:
        """Whether both retrieval and gold have a document in a corpus.

        Then their ids are comparable though no retrieved one is gold: retrieval is just that bad.

        Args:
            corpus: the ids of all documents.
        """
        has_retrieved = False
        has_gold = False
        # The corpus may be long and is read once: the loop ends with the second find.
        for id in corpus:
            if id in self._names:
                has_retrieved = True
            if id in self.gold.ids:
                has_gold = True
            if has_retrieved and has_gold:
                return True
        return False

    def _by_id_or_document(self) -> MatchingVerdict:
        """The verdict that ids are compared, with what a reader must know of it.

        Documents are compared unless the chunks' own ids find more gold: most datasets name
        documents.
        """
        notes: list[str] = []
        matching = Matching.ID
        # Where both find as much, documents: they also find what chunks without an own gold id
        # belong to.
        if self.by_document >= self.by_id:
            matching = Matching.DOCUMENT_ID
        if matching is Matching.DOCUMENT_ID and self.of_documents:
            notes.append(
                f"{self.of_documents:,} of {self.by_document:,} relevant chunks were recognised by "
                "the document that they were cut from: the gold ids are documents, so that ranks "
                "count documents, each at its best chunk."
            )
        # A few that differ may be chunks that were cut otherwise; most of them hint at other ids.
        if 2 * self.agreeing < self.checked:
            notes.append(
                f"Only {self.agreeing:,} of {self.checked:,} chunks whose id is a relevant one "
                "resemble a reference context: check that both sides mean the same ids."
            )
        notes += self._notes_on_writing()
        return MatchingVerdict(matching, tuple(notes))

    def _notes_on_writing(self) -> Iterator[str]:
        """A note that only the writing of ids keeps chunks from being gold; or nothing.

        It gives one pair of ids as an example, so that the user can see and mend the difference.
        """
        if self._pair is None:
            return
        name, gold = self._pair
        subject_and_verb = "chunks do"
        if self.nearly == 1:
            subject_and_verb = "chunk does"
        difference = _difference_of_forms(name, gold)
        yield (
            f"{self.nearly:,} retrieved {subject_and_verb} not count as relevant though only the "
            f"writing of an id differs, such as '{name}' for the gold's '{gold}'{difference}: "
            "ids are compared as they are. Write them alike."
        )

    def _reason_not_by_id(self) -> str:
        """Why ids of retrieval and gold cannot be compared, with the counts that show it.

        A part of the note to the reader that texts were compared instead.
        """
        reason = f"{self.shared:,} of {self.named:,} retrieved ids are gold ids of some case"
        if 2 * self.shared > self.named:
            return f"ids of the two sides do not mean the same, though {reason}"
        return f"the ids of the RAG are not those of the dataset ({reason})"


def _difference_of_forms(name: str, gold: str) -> str:
    """How two ids that look the same differ in Unicode's form; empty for other ids.

    "é" may be one character or two: without this remark the note would show two equal ids.

    Args:
        name: the retrieved id.
        gold: the id of the gold.
    """
    # Otherwise the difference is visible in the two ids, as in "A-07" and "a-7".
    if normalize("NFC", name) != normalize("NFC", gold):
        return ""
    name_form = "NFD"
    gold_form = "NFC"
    if is_normalized("NFC", name):
        name_form = "NFC"
        gold_form = "NFD"
    return f" (its accents are in Unicode's form {name_form}, those of the gold in {gold_form})"


def _text_verdict(reason: str) -> MatchingVerdict:
    """The verdict that texts are compared, with a note to the reader that gives the reason.

    Reports show the note, since ranks then depend on wording.
    """
    note = f"Retrieved chunks were compared with the gold by their text: {reason}."
    return MatchingVerdict(Matching.TEXT, (note,))


def _names_in(result: RetrievalResult[Any]) -> Iterator[tuple[str | None, Sequence[str]]]:
    """For each chunk of a retrieval its id, and the names of its documents with the id behind them.

    A chunk may be gold by any of these names. An id of None is that of a retrieval without ids.
    """
    # Without ids the metadata still pairs with the contexts by rank.
    ids: Sequence[str | None] = result.context_ids or [None] * len(result.contexts)
    for id, metadata in zip_longest(ids, result.context_metadata or ()):
        names = documents_of(id, metadata or {})
        # Behind the documents: `documents_of` may have the id's own beginning already.
        if id is not None:
            names = (*names, id)
        yield id, names
