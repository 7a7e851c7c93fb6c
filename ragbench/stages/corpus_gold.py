"""Whether the searched documents hold a case's gold at all; kept beside the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, json

from ragbench.core.attribution import CorpusGold
from ragbench.core.case import Case
from ragbench.core.chunk import Document
from ragbench.ledger.folder import write_atomic
from ragbench.metrics.matching import Matching, gold_texts, holds, normalised
from ragbench.stages.attribution import is_unanswerable

CORPUS_GOLD = "corpus_gold.json"
"""The file in a run's folder."""
_MOST_PAIRS = 200_000
"""Texts times documents up to which small differences of wording are looked for: 20 s at most."""


class _CaseGold(NamedTuple):
    """What a document has to be, or to hold, so that a case's gold is there."""

    ids: tuple[str, ...]
    """Any of them will do; empty where ids do not count."""
    texts: tuple[str, ...]
    """Any of them will do as well."""


def corpus_gold(
    cases: Iterable[Case], documents: Sequence[Document], matching: Matching
) -> CorpusGold:
    """Looks for every case's gold (the text with its answer) in the documents of a system.

    No retrieval can find gold that no document holds: such a case is lost before any search. An id
    is there when a document has it, a text when a document holds it. Where no gold id is a
    document's, ids decide nothing, and only texts count. Gold that could not be looked for is not
    called absent.
    """
    golds: dict[str, _CaseGold] = {}
    gold_ids: set[str] = set()
    for case in cases:
        gold = _gold_of_case(case, matching)
        if gold is not None:
            golds[case.id] = gold
            gold_ids.update(gold.ids)
    present_ids = gold_ids & {document.id for document in documents}

    # Documents are read only where an id did not settle it.
    unsettled: dict[str, _CaseGold] = {}
    unsettled_texts: set[str] = set()
    for case_id, gold in golds.items():
        if present_ids.isdisjoint(gold.ids):
            unsettled[case_id] = gold
            unsettled_texts.update(gold.texts)
    document_texts: list[str] = []
    if unsettled:
        document_texts = [normalised(document.text) for document in documents]
    # Each text once, however many cases share it.
    missing = _not_verbatim(unsettled_texts, document_texts)
    can_compare = len(missing) * len(document_texts) <= _MOST_PAIRS
    if can_compare:
        missing = _not_held(missing, document_texts)

    absent: dict[str, tuple[str, ...]] = {}
    for case_id, gold in unsettled.items():
        if gold.texts:
            # Absent only if all of its texts are: one of them found anywhere is enough.
            # Without the longer comparison, a text that is worded otherwise would seem missing.
            is_absent = can_compare and missing.issuperset(gold.texts)
        else:
            # Where no gold id is a document's, the documents have ids of another kind.
            is_absent = bool(present_ids)
        if is_absent:
            absent[case_id] = gold.ids or gold.texts
    return CorpusGold(documents=len(documents), absent=absent)


def _not_verbatim(texts: Iterable[str], document_texts: Sequence[str]) -> set[str]:
    """The gold texts that no document contains word by word, so far not found in the corpus.

    A quick first look: only for these texts is the slow comparison worth its time.
    """
    missing: set[str] = set()
    for gold_text in texts:
        if not any(gold_text in document for document in document_texts):
            missing.add(gold_text)
    return missing


def _not_held(texts: Iterable[str], document_texts: Sequence[str]) -> set[str]:
    """The gold texts that no document holds, small differences of wording aside.

    Gold that is quoted with other spaces or quotes is in the corpus all the same. Slow: each text
    is compared with each document.
    """
    missing: set[str] = set()
    for gold_text in texts:
        if not any(holds(document, gold_text) for document in document_texts):
            missing.add(gold_text)
    return missing


def _gold_of_case(case: Case, matching: Matching) -> _CaseGold | None:
    """The ids and texts to look for in the corpus, any of which shows that a case's gold is there.

    None where a case has no gold to look for: its answer cannot be called absent from the corpus.
    """
    if is_unanswerable(case):
        return None
    ids = case.relevant_ids
    texts = gold_texts(case) or ()
    # With text matching, ids are never compared: only texts can show the gold.
    if ids and matching is not Matching.TEXT:
        return _CaseGold(ids, texts)
    if texts:
        return _CaseGold((), texts)
    return None


class _Stored(Struct):
    """The file's content."""

    run: dict[str, str | None]
    """Fingerprints of the dataset and the RAG."""
    documents: int
    """How many were searched."""
    absent: dict[str, tuple[str, ...]]
    """By case id the gold that no document holds."""


def write_corpus_gold(folder: Path, run: Mapping[str, str], gold: CorpusGold) -> None:
    """Keeps in the run's folder which cases have gold that no searched document holds.

    The causes of lost cases are decided by that file, long after the corpus was searched.

    Args:
        folder: the run's folder.
        run: the run's fingerprints, by the name of the part: dataset, rag.
    """
    stored = _Stored(_run_key(run), gold.documents, {**gold.absent})
    write_atomic(folder / CORPUS_GOLD, json.format(json.encode(stored)) + b"\n")


def read_corpus_gold(folder: Path, run: Mapping[str, str]) -> CorpusGold | None:
    """Which cases of a run have gold that no document holds, as kept in its folder.

    None where nothing is kept, or the file is of another run: then the corpus is searched anew.
    """
    with suppress(Exception):  # whatever is wrong with it, it is found anew
        stored = json.decode((folder / CORPUS_GOLD).read_bytes(), type=_Stored)
        if stored.run == _run_key(run):
            return CorpusGold(documents=stored.documents, absent=stored.absent)
    return None


def _run_key(run: Mapping[str, str]) -> dict[str, str | None]:
    """The fingerprints of a run on which the search of its corpus depends.

    A file with other fingerprints is of another dataset or system, and does not hold for this run.
    """
    return {name: run.get(name) for name in ("dataset", "rag")}
