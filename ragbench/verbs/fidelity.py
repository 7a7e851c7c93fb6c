"""fidelity(): whether made-up questions rank retrievers as real ones do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from ragbench.core.case import Case
from ragbench.core.case_table import clusters_among
from ragbench.core.chunk import Chunk, Document
from ragbench.core.fusion import reciprocal_rank_fusion
from ragbench.core.record import Record, replace
from ragbench.errors import DataError, MissingExtraError, Problem
from ragbench.metrics.matching import Matching
from ragbench.metrics.rank import reciprocal_rank
from ragbench.plugins import Floats, np
from ragbench.safe_text import shortened_line
from ragbench.search.embedders.embedder import DEFAULT_EMBEDDER, NO_EMBEDDER, open_embedder
from ragbench.search.pipeline.agreement import VectorIndex
from ragbench.search.pipeline.baseline import Bm25Index
from ragbench.search.pipeline.documents import (
    ChunkSize,
    document_chunks,
    make_chunker,
    whole_documents,
)
from ragbench.search.pipeline.index import ENGLISH_EMBEDDER, are_english
from ragbench.stats.agreement import Estimated, Scored, best_of, kendall_tau, tau_interval
from ragbench.stats.mean import Interval, cluster_codes, mean_interval, mean_of
from ragbench.text.tokens import tokenise
from ragbench.verbs.tune import scores_of

if TYPE_CHECKING:
    Search: TypeAlias = Callable[[Sequence[str], int], list[list[Chunk]]]

K = 10
"""Chunks that count: what is measured is MRR@10."""
_DEPTH = 100
"""Chunks of each ranking that a hybrid search fuses."""
_WORDS: Mapping[str, tuple[int, float, float, int]] = {
    "bm25": (0, 1.2, 0.75, 2),
    "bm25 k1=0.3": (0, 0.3, 0.75, 2),
    "bm25 k1=4": (0, 4.0, 0.75, 2),
    "bm25 b=0": (0, 1.2, 0.0, 2),
    "bm25 b=1": (0, 1.2, 1.0, 2),
    "bm25 no titles": (0, 1.2, 0.75, 0),
    "bm25 256 tokens": (256, 1.2, 0.75, 2),
    "bm25 128 tokens": (128, 1.2, 0.75, 2),
    "bm25 64 tokens": (64, 1.2, 0.75, 2),
    "bm25 32 tokens": (32, 1.2, 0.75, 2),
}
"""Searches by words: tokens of a chunk (0: whole documents), k1, b, and how often titles count."""
_SMALL = 128
"""Tokens of the smaller chunks that are compared by vectors."""
_FEWEST_REAL, _FEWEST_MADE = 20, 10
_FEWEST_CLUSTERS = 10
_DRAWN = (5, 10, 20, 30, 50, 100, 200)
"""Real questions whose order is compared with that of the others."""
_FEW = 10
"""Made-up questions worth no more than so many real ones are not to be used."""
_DRAWS = 1_000
_UNTOLD = 0.3
"""Tau of two halves of the real questions below which they do not rank the retrievers either."""


class Worth(StrEnum):
    """What made-up questions come to."""

    AS_REAL = "as good as real ones"
    SOME = "some use"
    DO_NOT_USE = "do not use"
    CANNOT_TELL = "cannot tell"


class Questions(Record):
    """One of the two sets, and what its questions are like."""

    questions: int
    """With gold that can be compared."""
    skipped: int
    """Without, or whose gold is not in the corpus."""
    clusters: int
    """Independent of each other."""
    matching: Matching
    """How chunks are compared with their gold."""
    mrr: float
    """Mean over all retrievers."""
    duplicates: int
    """Questions with the same words as an earlier one, whatever their order and endings."""
    copied: float | None
    """Mean share of a question's words that its gold has, too; None where no gold text is known."""


class Retriever(Record):
    """One of the built-in searches, and its MRR by both sets."""

    name: str
    real: float
    made: float


class Drawn(Record):
    """So many real questions, drawn at random, beside the made-up ones.

    Both orders are compared with that of the real questions that were not drawn.
    """

    questions: int
    tau: float
    """Mean of the draws."""
    made_tau: float
    cost: float
    """MRR that is lost by taking the retriever that they find best."""
    made_cost: float
    better: float
    """Share of draws in which the drawn questions have the higher tau; of ties the half."""


class Fidelity(Record):
    """How far made-up questions lead to the decisions that real ones lead to."""

    k: int
    seed: int
    real: Questions
    made: Questions
    shared: int
    """Made-up questions with the same words as a real one."""
    tau: Estimated
    """Kendall's tau-b of the two orders."""
    retrievers: tuple[Retriever, ...]
    """The best by real questions first."""
    best: str
    """By real questions."""
    chosen: tuple[str, ...]
    """By the made-up ones: several where they find them equally good."""
    cost: Interval
    """Real MRR that the choice by the made-up questions loses; of several the mean."""
    inflation: Estimated
    """Mean MRR by made-up questions minus that by real ones."""
    draws: tuple[Drawn, ...]
    """The last draws half of the real questions: the ceiling."""
    equals: int | None
    """The fewest real questions that rank better in most draws; None where not even half do."""
    worth: Worth
    notes: tuple[str, ...] = ()


class Ranked(NamedTuple):
    """Both sets with the scores of each retriever."""

    real: _Side
    made: _Side
    notes: tuple[str, ...]


def rank(
    made: Sequence[Case],
    real: Sequence[Case],
    documents: Sequence[Document],
    embedder: str | None = None,
    advance: Callable[[str], None] = lambda _: None,
) -> Ranked:
    """Asks the built-in retrievers both sets of questions.

    Args:
        embedder: makes the vectors; None takes ``english`` or ``multilingual`` by the language of
            the documents, ``none`` leaves vectors out but for hashed words.

    Raises:
        DataError: too few questions whose gold is in the corpus.
    """
    if not documents:
        raise DataError([Problem(message="the corpus holds no documents")])
    # What stands in the metadata may name other documents than the gold does.
    plain = [replace(one, metadata={}) for one in documents]
    notes: list[str] = []
    found: dict[str, list[list[Chunk]]] = {}
    for name, search in _searches(plain, embedder, notes):
        advance(name)
        found[name] = search([case.query for case in (*real, *made)], K)
    texts, split = {one.id: one.text for one in documents}, len(real)
    first = {name: each[:split] for name, each in found.items()}
    second = {name: each[split:] for name, each in found.items()}
    return Ranked(
        _Side.of("real", real, first, texts, _FEWEST_REAL),
        _Side.of("made-up", made, second, texts, _FEWEST_MADE),
        tuple(notes),
    )


def _searches(
    documents: Sequence[Document], named: str | None, notes: list[str]
) -> Iterator[tuple[str, Search]]:
    """The retrievers by name; each is made when it is asked for."""
    chunked = {0: whole_documents(documents)}
    for name, (tokens, k1, b, title_weight) in _WORDS.items():
        if tokens not in chunked:
            cut = make_chunker("tokens", ChunkSize(tokens=tokens))
            chunked[tokens] = [one for text in documents for one in document_chunks(text, cut)]
        index = Bm25Index(chunked[tokens], k1=k1, b=b, title_weight=title_weight)
        yield name, index.batch_search
    words = Bm25Index(chunked[0])
    if named is None:
        is_english = are_english([one.text for one in documents[:200]])
        named = ENGLISH_EMBEDDER if is_english else DEFAULT_EMBEDDER
    hashed = VectorIndex(chunked[0], open_embedder("hashing:512"))
    yield "hashed words", hashed.batch_search
    sizes, indexes = () if named == NO_EMBEDDER else (0, _SMALL), list[VectorIndex]()
    try:
        indexes = [VectorIndex(chunked[one], open_embedder(named)) for one in sizes]
    except MissingExtraError as error:
        notes.append(f"No retriever compares meanings: {error}")
    if not indexes:
        yield "bm25 + hashed words", partial(_fused, hashed, words, 1.0)
        return
    yield named, indexes[0].batch_search
    yield f"{named} {_SMALL} tokens", indexes[1].batch_search
    yield "hybrid", partial(_fused, indexes[0], words, indexes[0].weight)
    yield "hybrid 1:1", partial(_fused, indexes[0], words, 1.0)


def _fused(
    dense: VectorIndex, words: Bm25Index, weight: float, queries: Sequence[str], k: int
) -> list[list[Chunk]]:
    legs = (dense.batch_search(queries, _DEPTH), words.batch_search(queries, _DEPTH))
    return [
        reciprocal_rank_fusion(pair, weights=(weight, 1.0), top_k=k)
        for pair in zip(*legs, strict=True)
    ]


class _Side(NamedTuple):
    seen: Questions
    names: Sequence[str]
    words: Sequence[frozenset[str]]
    table: Sequence[Sequence[float]]
    """A row for each question, a column for each retriever."""
    clusters: Sequence[str | None]
    scored: Scored

    @classmethod
    def of(
        cls,
        what: str,
        cases: Sequence[Case],
        found: Mapping[str, Sequence[Sequence[Chunk]]],
        texts: Mapping[str, str],
        fewest: int,
    ) -> _Side:
        mrr = reciprocal_rank
        verdict, scores = scores_of(cases, found, k=K, measure=mrr, corpus=lambda: texts)
        rows = zip(cases, zip(*scores.values(), strict=True), strict=True)
        by_text = verdict.matching is Matching.TEXT
        kept = [
            (case, cast("tuple[float, ...]", row))
            for case, row in rows
            if None not in row and (by_text or any(id in texts for id in case.relevant_ids))
        ]
        clusters = clusters_among([case for case, _ in kept])
        groups = len(set(cluster_codes(clusters)))
        if len(kept) < fewest or groups < _FEWEST_CLUSTERS:
            some = f"{len(kept):,} of {len(cases):,} {what} questions"
            need = f"{fewest} questions in {_FEWEST_CLUSTERS} clusters are needed"
            raise _too_few(f"{some} in {groups:,} clusters", need, cases, texts)
        words = [frozenset(tokenise(case.query)) for case, _ in kept]
        table = [row for _, row in kept]
        seen = Questions(
            questions=len(kept),
            skipped=len(cases) - len(kept),
            clusters=groups,
            matching=verdict.matching,
            mrr=math.fsum(map(math.fsum, table)) / len(table) / len(scores),
            duplicates=len(words) - len(set(words)),
            copied=_copied([case for case, _ in kept], words, texts),
        )
        return cls(seen, [*scores], words, table, clusters, Scored.of(table, clusters))


def _copied(
    cases: Sequence[Case], words: Sequence[frozenset[str]], texts: Mapping[str, str]
) -> float | None:
    """By documents in both sets where their gold is documents; else by the passages they name."""
    shares: list[float] = []
    for case, asked in zip(cases, words, strict=True):
        held = [texts[id] for id in case.relevant_ids if id in texts]
        known = held or case.reference_contexts or [one.text for one in case.evidence]
        if asked and known:
            shares.append(len(asked & {*tokenise("\n".join(known))}) / len(asked))
    return mean_of(shares)


def _too_few(some: str, need: str, cases: Sequence[Case], texts: Mapping[str, str]) -> DataError:
    gold = next((id for case in cases for id in case.relevant_ids), "no id")
    first, there = shortened_line(gold), shortened_line(next(iter(texts)))
    message = f"only {some} have gold that is in the corpus: {need} (gold {first}, corpus {there})"
    return DataError([Problem(message=message)])


def fidelity(ranked: Ranked, seed: int = 0) -> Fidelity:
    real, made, notes = ranked
    names, by_real, by_made = real.names, real.scored.means, made.scored.means
    best, chosen = int(by_real.round(9).argmax()), best_of(by_made)[0]
    sets = enumerate((real.scored, made.scored), 2 * seed)
    first, second = (each.resampled(at, _DRAWS) for at, each in sets)
    gaps = second.mean(axis=1) - first.mean(axis=1)
    low, high = (float(np.quantile(gaps, share)) for share in (0.025, 0.975))
    lost = [row[best] - float(chosen @ row) for row in real.table]
    tau = tau_interval(float(kendall_tau(by_real, by_made)[0]), kendall_tau(first, second))
    draws = tuple(_draws(real.scored, by_made, seed))
    equals = next((one.questions for one in draws if one.better > 0.5), None)
    order = sorted(range(len(names)), key=lambda at: (-by_real[at].round(9), at))
    return Fidelity(
        k=K,
        seed=seed,
        real=real.seen,
        made=made.seen,
        shared=sum(words in set(real.words) for words in made.words),
        tau=tau,
        retrievers=tuple(
            Retriever(name=names[at], real=float(by_real[at]), made=float(by_made[at]))
            for at in order
        ),
        best=names[best],
        chosen=tuple(name for name, share in zip(names, chosen, strict=True) if share),
        cost=mean_interval(lost, real.clusters, bounds=(-1.0, 1.0)),
        inflation=Estimated(value=float(by_made.mean() - by_real.mean()), low=low, high=high),
        draws=draws,
        equals=equals,
        worth=_worth(tau, draws[-1].tau, equals),
        notes=notes,
    )


def _draws(real: Scored, by_made: Floats, seed: int) -> Iterator[Drawn]:
    total = int(real.sizes.sum())
    for count in [*(one for one in _DRAWN if 2 * one < total), total // 2]:
        pairs = [*real.parts(count, _DRAWS, seed)]
        part, rest = (np.stack(side) for side in zip(*pairs, strict=True))
        made = np.broadcast_to(by_made, part.shape)
        taus = [np.nan_to_num(kendall_tau(one, rest)) for one in (part, made)]
        lost = [rest.max(axis=1) - (best_of(one) * rest).sum(axis=1) for one in (part, made)]
        gap = np.round(taus[0] - taus[1], 9)
        yield Drawn(
            questions=count,
            tau=float(taus[0].mean()),
            made_tau=float(taus[1].mean()),
            cost=float(lost[0].mean()),
            made_cost=float(lost[1].mean()),
            better=float(((gap > 0) + 0.5 * (gap == 0)).mean()),
        )


def _worth(tau: Estimated, ceiling: float, equals: int | None) -> Worth:
    if tau.value is None or ceiling < _UNTOLD:
        return Worth.CANNOT_TELL
    if equals is None:
        return Worth.AS_REAL
    return Worth.DO_NOT_USE if equals <= _FEW else Worth.SOME
