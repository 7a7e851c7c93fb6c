"""Whether the searched documents hold a case's gold at all; kept beside the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import MsgspecError, Struct, json

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


class _WantedGold(NamedTuple):
    """What a document has to be, or to hold."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]


def corpus_gold(
    cases: Iterable[Case], documents: Sequence[Document], matching: Matching
) -> CorpusGold:
    """Looks for every case's gold in the documents that a system searches.

    An id is there when a document has it, a text when a document holds it. Where no gold id is a
    document's, ids say nothing, and only texts count. What could not be looked for is not called
    absent.
    """
    known = {case.id: gold for case in cases if (gold := _gold(case, matching))}
    here = {document.id for document in documents}
    ids = {id for gold in known.values() for id in gold.ids} & here
    left = {case: gold for case, gold in known.items() if ids.isdisjoint(gold.ids)}
    texts = [normalised(document.text) for document in documents] if left else []
    pending = {text for gold in left.values() for text in gold.texts}
    missing = {text for text in pending if not any(text in document for document in texts)}
    if len(missing) * len(texts) <= _MOST_PAIRS:
        missing = {gold for gold in missing if not any(holds(text, gold) for text in texts)}
    else:
        left = {case: gold for case, gold in left.items() if not gold.texts}
    absent = {
        case: gold.ids or gold.texts
        for case, gold in left.items()
        if missing.issuperset(gold.texts) and (gold.texts or ids)
    }
    return CorpusGold(documents=len(documents), absent=absent)


def _gold(case: Case, matching: Matching) -> _WantedGold | None:
    if is_unanswerable(case):
        return None
    ids, texts = case.relevant_ids, gold_texts(case) or ()
    if matching is not Matching.TEXT and ids:
        return _WantedGold(ids, texts)
    return _WantedGold((), texts) if texts else None


class _Kept(Struct):
    run: dict[str, str | None]
    """What was asked: the dataset and the RAG."""
    documents: int
    absent: dict[str, tuple[str, ...]]


def write_corpus_gold(folder: Path, run: Mapping[str, str], found: CorpusGold) -> None:
    kept = _Kept(_asked_of(run), found.documents, {**found.absent})
    write_atomic(folder / CORPUS_GOLD, json.format(json.encode(kept)) + b"\n")


def read_corpus_gold(folder: Path, run: Mapping[str, str]) -> CorpusGold | None:
    """What is kept of a run; None where there is nothing, or it is of another run."""
    with suppress(OSError, MsgspecError):
        kept = json.decode((folder / CORPUS_GOLD).read_bytes(), type=_Kept)
        if kept.run == _asked_of(run):
            return CorpusGold(documents=kept.documents, absent=kept.absent)
    return None


def _asked_of(run: Mapping[str, str]) -> dict[str, str | None]:
    return {name: run.get(name) for name in ("dataset", "rag")}
