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
from ragbench.safe_text import counted, shortened_line
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
from ragbench.stats.mean import MeanInterval, cluster_codes, mean_interval, mean_of
from ragbench.text.tokens import tokenise
from ragbench.verbs.tune import scores_of

if TYPE_CHECKING:
    Search: TypeAlias = Callable[[Sequence[str], int], list[list[Chunk]]]

K = 10
"""Chunks that count: what is measured is MRR@10."""
_DEPTH = 100
"""Chunks of each ranking that a hybrid search fuses."""


class _WordSearch(NamedTuple):
    """The settings of a search by words."""

    tokens: int = 0
    """Of a chunk; 0: whole documents."""
    k1: float = 1.2
    b: float = 0.75
    title_weight: int = 2
    """How often the words of a title count."""


# They differ from the first in one setting each, so that some are better and some worse.
_WORD_SEARCHES: Mapping[str, _WordSearch] = {
    "bm25": _WordSearch(),
    "bm25 k1=0.3": _WordSearch(k1=0.3),
    "bm25 k1=4": _WordSearch(k1=4.0),
    "bm25 b=0": _WordSearch(b=0.0),
    "bm25 b=1": _WordSearch(b=1.0),
    "bm25 no titles": _WordSearch(title_weight=0),
    "bm25 256 tokens": _WordSearch(tokens=256),
    "bm25 128 tokens": _WordSearch(tokens=128),
    "bm25 64 tokens": _WordSearch(tokens=64),
    "bm25 32 tokens": _WordSearch(tokens=32),
}
_SMALL = 128
"""Tokens of the smaller chunks that are compared by vectors; a search by words has them, too."""
_FEWEST_REAL = 20
"""Real questions without which nothing is compared."""
_FEWEST_MADE = 10
"""Made-up questions without which nothing is compared."""
_FEWEST_CLUSTERS = 10
"""Independent groups of questions that either set must have."""
_DRAW_COUNTS = (5, 10, 20, 30, 50, 100, 200)
"""Real questions whose order is compared with that of the others."""
_FEW = 10
"""Made-up questions worth no more than so many real ones are not to be used."""
_HASHED_DIMENSION = 512
"""Numbers of a vector of hashed words: enough that few words share one."""
_LANGUAGE_SAMPLE = 200
"""Documents that are enough to recognise the corpus' language."""
_DRAWS = 1_000
"""Resamples behind each interval, and draws of real questions of each number."""
_LEAST_CEILING = 0.3
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
    cost: MeanInterval
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
    """Both sets with the scores of each retriever: all that `fidelity` compares them by."""

    real: _ScoredSet
    made: _ScoredSet
    notes: tuple[str, ...]


def rank(
    made: Sequence[Case],
    real: Sequence[Case],
    documents: Sequence[Document],
    embedder: str | None = None,
    advance: Callable[[str], None] = lambda _: None,
) -> Ranked:
    """Asks the built-in retrievers both sets of questions.

    The sets are real and made-up questions. Many retrievers, so that there is an order of them in
    which the sets can differ.

    Args:
        embedder: makes the vectors; None takes ``english`` or ``multilingual`` by the language of
            the documents, ``none`` leaves vectors out but for hashed words.

    Raises:
        DataError: too few questions whose gold is in the corpus.
    """
    if not documents:
        raise DataError([Problem(message="the corpus holds no documents")])
    # Without metadata: an id in there would be compared with the gold, too, and may be another
    # document's.
    plain = [replace(document, metadata={}) for document in documents]
    texts = {document.id: document.text for document in documents}
    # Real and made-up questions in one list: each retriever searches once for all, and its rankings
    # are split again by position.
    queries = [case.query for case in (*real, *made)]
    notes: list[str] = []
    rankings_of_real: dict[str, list[list[Chunk]]] = {}
    rankings_of_made: dict[str, list[list[Chunk]]] = {}
    for name, search in _named_searches(plain, embedder, notes):
        # Called before the search is used, since its index is built and asked now.
        advance(name)
        rankings = search(queries, K)
        rankings_of_real[name] = rankings[: len(real)]
        rankings_of_made[name] = rankings[len(real) :]
    scored_real = _scored_set("real", real, rankings_of_real, texts, _FEWEST_REAL)
    scored_made = _scored_set("made-up", made, rankings_of_made, texts, _FEWEST_MADE)
    return Ranked(scored_real, scored_made, tuple(notes))


def _named_searches(
    documents: Sequence[Document], embedder: str | None, notes: list[str]
) -> Iterator[tuple[str, Search]]:
    """The built-in retrievers by name, each as a function from queries to chunks.

    Each is made only when its turn comes, as its index takes memory. The report names the
    retrievers as they are named here.

    Args:
        embedder: makes the vectors; None picks one by the documents' language.
        notes: gets a note on a retriever that could not be made.
    """
    # Chunks of a size are made once, and kept: the search by vectors uses some of them.
    chunks_by_size = {0: whole_documents(documents)}
    for name, (tokens, k1, b, title_weight) in _WORD_SEARCHES.items():
        if tokens not in chunks_by_size:
            chunker = make_chunker("tokens", ChunkSize(tokens=tokens))
            chunks: list[Chunk] = []
            for document in documents:
                chunks += document_chunks(document, chunker)
            chunks_by_size[tokens] = chunks
        index = Bm25Index(chunks_by_size[tokens], k1=k1, b=b, title_weight=title_weight)
        yield name, index.batch_search
    whole = chunks_by_size[0]
    words = Bm25Index(whole)
    if embedder is None:
        sample = [document.text for document in documents[:_LANGUAGE_SAMPLE]]
        embedder = ENGLISH_EMBEDDER if are_english(sample) else DEFAULT_EMBEDDER
    # Vectors without a model: there is a dense search on any machine.
    hashing = open_embedder(f"hashing:{_HASHED_DIMENSION}")
    hashed = VectorIndex(whole, hashing)
    yield "hashed words", hashed.batch_search

    indexes: list[VectorIndex] = []
    if embedder != NO_EMBEDDER:
        try:
            for chunks in (whole, chunks_by_size[_SMALL]):
                indexes.append(VectorIndex(chunks, open_embedder(embedder)))
        except MissingExtraError as error:
            notes.append(f"No retriever compares meanings: {error}")
    # Without a model there is still one fused search, so that an order has that kind, too.
    if not indexes:
        yield "bm25 + hashed words", partial(_hybrid_rankings, hashed, words, 1.0)
        return
    dense, dense_small = indexes
    yield embedder, dense.batch_search
    yield f"{embedder} {_SMALL} tokens", dense_small.batch_search
    yield "hybrid", partial(_hybrid_rankings, dense, words, dense.weight)
    yield "hybrid 1:1", partial(_hybrid_rankings, dense, words, 1.0)


def _hybrid_rankings(
    dense: VectorIndex, words: Bm25Index, weight: float, queries: Sequence[str], k: int
) -> list[list[Chunk]]:
    """The rankings of a hybrid search: rankings by vectors and by words, fused by their ranks.

    Args:
        weight: what the ranking by vectors counts, where the one by words counts 1.
    """
    # Deeper than what counts: a chunk that is low in one ranking may be high in the fused one.
    by_vectors = dense.batch_search(queries, _DEPTH)
    by_words = words.batch_search(queries, _DEPTH)
    rankings: list[list[Chunk]] = []
    for legs in zip(by_vectors, by_words, strict=True):
        rankings.append(reciprocal_rank_fusion(legs, weights=(weight, 1.0), top_k=k))
    return rankings


class _ScoredSet(NamedTuple):
    """One of the two sets of questions, scored with every retriever."""

    questions: Questions
    """Its figures for the report."""
    names: Sequence[str]
    """Of the retrievers."""
    words: Sequence[frozenset[str]]
    """Of each question."""
    table: Sequence[Sequence[float]]
    """A row for each question, a column for each retriever."""
    clusters: Sequence[str | None]
    """Of each question: those of one cluster are not independent."""
    scored: Scored
    """Scores and clusters, in the form that is resampled."""


def _scored_set(
    set_name: str,
    cases: Sequence[Case],
    rankings: Mapping[str, Sequence[Sequence[Chunk]]],
    texts: Mapping[str, str],
    fewest: int,
) -> _ScoredSet:
    """Scores the made-up or the real questions by the rankings of each retriever.

    Questions whose gold cannot be compared, or is not in the corpus, are left out and counted. Too
    few of them are an error.

    Args:
        texts: the documents' texts, by their ids.
        fewest: how many usable questions are needed.
    """
    # `corpus` is called only where ids have to be looked up.
    verdict, scores = scores_of(cases, rankings, k=K, measure=reciprocal_rank, corpus=lambda: texts)
    by_text = verdict.matching is Matching.TEXT
    comparable: list[Case] = []
    table: list[tuple[float, ...]] = []
    rows = zip(*scores.values(), strict=True)  # of columns, one for each retriever
    for case, row in zip(cases, rows, strict=True):
        # Where ids are compared, no retriever can find gold that is not in the corpus.
        is_in_corpus = by_text or any(id in texts for id in case.relevant_ids)
        # None: the question's gold cannot be compared with what was found.
        if None not in row and is_in_corpus:
            comparable.append(case)
            table.append(cast("tuple[float, ...]", row))

    clusters = clusters_among(comparable)
    # Questions of one cluster say the same twice: too few clusters are too few questions.
    cluster_count = len(set(cluster_codes(clusters)))
    if len(comparable) < fewest or cluster_count < _FEWEST_CLUSTERS:
        count = (
            f"{len(comparable):,} of {len(cases):,} {set_name} questions in "
            f"{counted(cluster_count, 'cluster')}"
        )
        need = f"{fewest} questions in {_FEWEST_CLUSTERS} clusters are needed"
        raise _too_few_error(count, need, cases, texts)
    words = [frozenset(tokenise(case.query)) for case in comparable]
    total = math.fsum(map(math.fsum, table))
    questions = Questions(
        questions=len(comparable),
        skipped=len(cases) - len(comparable),
        clusters=cluster_count,
        matching=verdict.matching,
        # The mean over questions and retrievers.
        mrr=total / len(table) / len(scores),
        duplicates=len(words) - len(set(words)),
        copied=_copied_share(comparable, words, texts),
    )
    scored = Scored.of(table, clusters)
    return _ScoredSet(questions, [*scores], words, table, clusters, scored)


def _copied_share(
    cases: Sequence[Case], words: Sequence[frozenset[str]], texts: Mapping[str, str]
) -> float | None:
    """The mean share of a question's words that its gold has, too.

    Questions that a model writes with the passage before it copy its words, and a search by words
    finds them too easily. The gold's documents are taken where they are in the corpus, so that both
    sets are compared by texts of one length; else the passages that the case names.
    """
    shares: list[float] = []
    for case, query_words in zip(cases, words, strict=True):
        gold_texts: Sequence[str] = [texts[id] for id in case.relevant_ids if id in texts]
        if not gold_texts and case.reference_contexts:
            gold_texts = case.reference_contexts
        if not gold_texts:
            # The passages as the case names them, where no document is at hand.
            gold_texts = [evidence.text for evidence in case.evidence]
        if query_words and gold_texts:
            gold_words = set(tokenise("\n".join(gold_texts)))
            copied = query_words & gold_words
            shares.append(len(copied) / len(query_words))
    return mean_of(shares)


def _too_few_error(
    count: str, need: str, cases: Sequence[Case], texts: Mapping[str, str]
) -> DataError:
    """The error of a set with too few usable questions, with an id of gold and one of the corpus.

    Most often the two are ids of different kinds, which shows by eye.
    """
    gold = "no id"
    for case in cases:
        if case.relevant_ids:
            gold = next(iter(case.relevant_ids))
            break
    # Cut to a line: ids of users may be long, or hold anything.
    gold_id = shortened_line(gold)
    corpus_id = shortened_line(next(iter(texts)))
    message = (
        f"only {count} have gold that is in the corpus: {need} (gold {gold_id}, corpus {corpus_id})"
    )
    return DataError([Problem(message=message)])


def fidelity(ranked: Ranked, seed: int = 0) -> Fidelity:
    """Compares the two orders of the retrievers, and what a choice by made-up questions costs.

    Args:
        seed: of the resamples and draws; the same seed gives the same figures.
    """
    real, made, notes = ranked
    by_real = real.scored.means
    by_made = made.scored.means
    # Rounded: of retrievers that are equally good the first is taken, on every machine.
    best = int(by_real.round(9).argmax())
    # A share for each retriever: 1 for one choice, equal parts where several are equally good.
    chosen = best_of(by_made)[0]
    # The two sets are resampled independently of each other.
    # Even seeds for the real questions, odd ones for the made-up: no seed is used twice.
    real_means = real.scored.resampled(2 * seed, _DRAWS)
    made_means = made.scored.resampled(2 * seed + 1, _DRAWS)
    gaps = made_means.mean(axis=1) - real_means.mean(axis=1)
    inflation = Estimated(
        value=float(by_made.mean() - by_real.mean()),
        low=float(np.quantile(gaps, 0.025)),
        high=float(np.quantile(gaps, 0.975)),
    )
    [tau_of_means] = kendall_tau(by_real, by_made)
    resampled_taus = kendall_tau(real_means, made_means)
    tau = tau_interval(float(tau_of_means), resampled_taus)
    # Of several retrievers that are equally good to the made-up questions, their mean counts.
    # For each real question what the choice loses against the best retriever.
    costs = [row[best] - float(chosen @ row) for row in real.table]

    draws = tuple(_draws_of_real(real.scored, by_made, seed))
    equals = None
    for drawn in draws:
        # In most draws: half of the ties count for each side.
        if drawn.better > 0.5:
            equals = drawn.questions
            break
    names = real.names
    retrievers: list[Retriever] = []
    # Of equally good ones in their own order; rounded, so that it is the same on every machine.
    best_first = sorted(range(len(names)), key=lambda column: (-by_real[column].round(9), column))
    for column in best_first:
        retriever = Retriever(
            name=names[column], real=float(by_real[column]), made=float(by_made[column])
        )
        retrievers.append(retriever)
    chosen_names: list[str] = []
    for name, share in zip(names, chosen, strict=True):
        if share:
            chosen_names.append(name)
    real_words = set(real.words)
    # By their words alone, whatever the order: a reworded copy counts as shared.
    shared = sum(words in real_words for words in made.words)
    return Fidelity(
        k=K,
        seed=seed,
        real=real.questions,
        made=made.questions,
        shared=shared,
        tau=tau,
        retrievers=tuple(retrievers),
        best=names[best],
        chosen=tuple(chosen_names),
        cost=mean_interval(costs, real.clusters, bounds=(-1.0, 1.0)),
        inflation=inflation,
        draws=draws,
        equals=equals,
        # The last draws are halves: the ceiling of what any questions could reach.
        worth=_worth_of_made(tau, draws[-1].tau, equals),
        notes=notes,
    )


def _draws_of_real(real: Scored, by_made: Floats, seed: int) -> Iterator[Drawn]:
    """Draws growing numbers of real questions, and compares each draw with the made-up ones.

    The last draws are half of all real questions. The draws show how many real questions would rank
    the retrievers as well as the made-up ones do: a number that a reader can weigh.

    Args:
        by_made: the mean score of each retriever by the made-up questions.
        seed: of the draws; the same seed gives the same report.
    """
    total = int(real.sizes.sum())
    # Fewer than half, so that the others, by which draws are measured, are more.
    counts = [count for count in _DRAW_COUNTS if 2 * count < total]
    for count in [*counts, total // 2]:
        drawn_means: list[Floats] = []
        other_means: list[Floats] = []
        for drawn, others in real.parts(count, _DRAWS, seed):
            drawn_means.append(drawn)
            other_means.append(others)
        by_drawn = np.stack(drawn_means)
        by_others = np.stack(other_means)
        made = np.broadcast_to(by_made, by_drawn.shape)
        # An order that tells no two retrievers apart has no tau, and ranks as chance does.
        tau = np.nan_to_num(kendall_tau(by_drawn, by_others))
        made_tau = np.nan_to_num(kendall_tau(made, by_others))
        # Rounded: what differs by less is a tie, on every machine.
        gap = np.round(tau - made_tau, 9)
        wins = (gap > 0) + 0.5 * (gap == 0)
        yield Drawn(
            questions=count,
            tau=float(tau.mean()),
            made_tau=float(made_tau.mean()),
            cost=_mean_cost(by_drawn, by_others),
            made_cost=_mean_cost(made, by_others),
            better=float(wins.mean()),
        )


def _mean_cost(means: Floats, by_others: Floats) -> float:
    """The MRR that is lost by taking the retriever that some questions find best.

    The cost to a user who decides by those questions, in the mean of all draws.

    Args:
        means: by draw and retriever, the mean score by the questions that choose.
        by_others: the same by other questions, which decide what the choice is worth.
    """
    best_means = by_others.max(axis=1)
    # Of equally good choices the mean.
    chosen_means = (best_of(means) * by_others).sum(axis=1)
    lost = best_means - chosen_means
    return float(lost.mean())


def _worth_of_made(tau: Estimated, ceiling: float, equals: int | None) -> Worth:
    """Whether made-up questions can take the place of real ones, in one of four words.

    Args:
        ceiling: tau of two halves of the real questions: made-up ones cannot do better.
        equals: real questions that rank as well; None: even half of all do not.
    """
    if tau.value is None or ceiling < _LEAST_CEILING:
        return Worth.CANNOT_TELL
    # None: not even half of the real questions rank better than the made-up ones.
    if equals is None:
        return Worth.AS_REAL
    if equals <= _FEW:
        return Worth.DO_NOT_USE
    return Worth.SOME
