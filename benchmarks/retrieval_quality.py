"""How well sparse, dense and hybrid searches rank, on labelled collections.

    python -m benchmarks.retrieval_quality DATA_DIR [--embedder NAME]
        [--setting NAME=VALUE ...] [--cache FOLDER] [--limit N] [--tune] [NAME ...]

DATA_DIR holds the collections named below; NAME chooses some of them. Each is indexed by
`ragbench.search` into a store in the cache folder, where a later run finds it, and searched by
`ragbench.search`, whole documents as chunks. nDCG@10 takes grades as gains, recall@10 is over
all documents with a grade above 0; both by ir_measures. ``reference`` is BM25 over the same tokens
by a program of a few lines that shares no code with the index; ``dense`` and all others are at the
defaults, so without a threshold; ``kept`` is dense at the threshold 0; ``pipeline`` is hybrid as a
pipeline's file opens it; ``weight`` is that of the vectors in both, as the index measured it
without a label; ``gain`` is what hybrid has over the better of its two legs, with the 95% interval
of the paired differences (Student's t, over questions).

``--tune`` measures several weights of the dense ranking, each in ``search`` and as a pipeline's
file sets it: on the collections that are named, or else on others than those that are reported. It
is how the embedders' ``hybrid_weight`` and ``agreeing_weight`` were chosen.

``--words`` compares ragbench's BM25 with Qdrant's ranking of the same words (``index --words
store``): nDCG@10 and recall@10 of both, how many of the first ten are the same, how many questions
have the same ten in the same order, the greatest difference of their scores. Then the same where a
fifth of the chunks has been replaced: while those still count in Qdrant's frequencies, as they do
on a server until it has rewritten their segment, and when they no longer do. The average length is
then still that of the earlier chunks.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ir_measures

from benchmarks.rerank_data import load
from ragbench import Chunk, Document, open_embedder, read_cases, read_documents
from ragbench.core.search_query import SearchQuery
from ragbench.ledger.fingerprint import fingerprint
from ragbench.search.embedders.embedder import NO_EMBEDDER, Embedder
from ragbench.search.pipeline.documents import (
    Documents,
    Indexing,
    IndexingSettings,
    WordsPlace,
    make_chunker,
)
from ragbench.search.pipeline.index import index_documents, words_of
from ragbench.search.pipeline.retrieval import HybridRetrieval
from ragbench.search.pipeline.search_engine import RetrievalEngine
from ragbench.search.pipeline.strategies import RetrievalSettings
from ragbench.search.stores.database import open_database
from ragbench.text.tokens import chunk_tokens, tokenise
from ragbench_cli.stores import settings_of

DEPTH = 10
NDCG = ir_measures.nDCG @ DEPTH
RECALL = ir_measures.R @ DEPTH
WEIGHTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)


@dataclass(frozen=True, kw_only=True)
class Labelled:
    name: str
    documents: list[Document]
    queries: dict[str, str]
    gains: dict[str, dict[str, int]]


def squad(path: Path) -> Labelled:
    cases = [case for case in read_cases(path) if case.reference_context_ids]
    return Labelled(
        name=path.name.split(".")[0],
        documents=list(read_documents(path)),
        queries={case.id: case.query for case in cases},
        gains={case.id: dict.fromkeys(case.reference_context_ids or (), 1) for case in cases},
    )


def other(path: Path) -> Labelled:
    collection = load(str(path), limit=10**9)
    return Labelled(
        name=collection.name,
        documents=[
            Document(id=one.id, text=one.text, title=one.metadata.get("title"))
            for one in collection.chunks
        ],
        queries={str(at): one.text for at, one in enumerate(collection.questions)},
        gains={
            str(at): {id_: int(grade) for id_, grade in one.gains.items()}
            for at, one in enumerate(collection.questions)
        },
    )


REPORTED: Mapping[str, Callable[[Path], Labelled]] = {
    "beir/cranfield": other,
    "beir/vaswani": other,
    "xquad_en.squad.json": squad,
    "xquad_zh.squad.json": squad,
    "covidqa": other,
    "clapnq_dev": other,
    str(Path(__file__).parents[1] / "datasets/pellorin"): squad,
}
TUNED: Mapping[str, Callable[[Path], Labelled]] = {
    "policyqa_dev": other,
    "squad2_dev_half": other,
}


def limited(given: Labelled, limit: int) -> Labelled:
    if len(given.queries) <= limit:
        return given
    chosen = random.Random(7).sample(sorted(given.queries), limit)
    return Labelled(
        name=given.name,
        documents=given.documents,
        queries={id_: given.queries[id_] for id_ in chosen},
        gains={id_: given.gains[id_] for id_ in chosen},
    )


def reference_bm25(given: Labelled) -> dict[str, dict[str, float]]:
    """Lucene's BM25, straight from the formula: k1 1.2, b 0.75, titles counted twice."""
    texts = {one.id: Counter(chunk_tokens(one.text, one.title, 2)) for one in given.documents}
    lengths = {id_: sum(counts.values()) for id_, counts in texts.items()}
    average = sum(lengths.values()) / len(lengths)
    postings: dict[str, list[str]] = {}
    for id_, counts in texts.items():
        for token in counts:
            postings.setdefault(token, []).append(id_)
    found: dict[str, dict[str, float]] = {}
    for query_id, query in given.queries.items():
        scores: dict[str, float] = {}
        for token in tokenise(query):
            holding = postings.get(token, [])
            idf = math.log(1 + (len(texts) - len(holding) + 0.5) / (len(holding) + 0.5))
            for id_ in holding:
                times = texts[id_][token]
                part = times / (times + 1.2 * (0.25 + 0.75 * lengths[id_] / average))
                scores[id_] = scores.get(id_, 0.0) + idf * part
        best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:DEPTH]
        found[query_id] = dict(best)
    return found


def measured(given: Labelled, run: Mapping[str, Mapping[str, float]]) -> tuple[float, float]:
    known = {query: dict(found) for query, found in run.items()}
    values = ir_measures.calc_aggregate([NDCG, RECALL], given.gains, known)
    return float(values[NDCG]), float(values[RECALL])


def per_question(given: Labelled, run: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    known = {query: dict(found) for query, found in run.items()}
    found = dict.fromkeys(given.queries, 0.0)
    found |= {one.query_id: one.value for one in ir_measures.iter_calc([NDCG], given.gains, known)}
    return found


def gained(ours: Mapping[str, float], other: Mapping[str, float]) -> str:
    """The mean paired difference and its 95% interval."""
    from scipy import stats

    differences = [ours[query] - other[query] for query in ours]
    mean = statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    half = float(stats.t.ppf(0.975, len(differences) - 1)) * error
    return f"{mean:+.4f} ({mean - half:+.4f} .. {mean + half:+.4f})"


def as_run(
    queries: Sequence[str], rankings: Sequence[Sequence[Chunk]]
) -> dict[str, dict[str, float]]:
    """By rank, so that equal scores keep their order."""
    return {
        query: {chunk.id: float(DEPTH - rank) for rank, chunk in enumerate(ranking)}
        for query, ranking in zip(queries, rankings, strict=True)
    }


class Searcher:
    def __init__(
        self,
        given: Labelled,
        address: str,
        embedder: Embedder,
        name: str,
        words: WordsPlace | None = None,
    ) -> None:
        self._given = given
        self._database = open_database(address)
        self._embedder = embedder
        self._name = name
        self.index(given.documents, words)

    def index(self, documents: Sequence[Document], words: WordsPlace | None = None) -> None:
        """Brings the collection to the state of the documents."""
        where = (self._database, self._given.name)
        whole = make_chunker("whole")
        index_documents(
            documents,
            *where,
            embedder=self._embedder,
            embedder_name=self._name,
            chunker=whole,
            words=words_of(words, *where, documents, whole),
        )

    def weight(self) -> float:
        with self._database.open(self._given.name) as store:
            known = store.info().made_by
        own = self._embedder.hybrid_weight
        return own if known.dense_weight is None else known.dense_weight

    def kept_open(self) -> AbstractContextManager[object]:
        """While it lasts the engine keeps the collection loaded."""
        return self._database.open(self._given.name)

    def rankings(self, **settings: Any) -> list[list[Chunk]]:
        """The chunks for each question with these `RetrievalSettings`."""
        engine = RetrievalEngine(
            self._database, embedder=self._embedder, settings=RetrievalSettings(**settings)
        )
        texts = list(self._given.queries.values())
        rankings = engine.batch_search(self._given.name, texts, top_k=DEPTH)
        engine.close()
        return rankings

    def measure(self, **settings: Any) -> tuple[float, float]:
        """nDCG@10 and recall@10 with these `RetrievalSettings`."""
        return measured(self._given, self.run(**settings))

    def run(self, **settings: Any) -> dict[str, dict[str, float]]:
        """The rankings with these `RetrievalSettings`."""
        return as_run(list(self._given.queries), self.rankings(**settings))

    def pipeline(self, dense_weight: float | None = None) -> dict[str, dict[str, float]]:
        """The rankings of ``retrieval: {type: hybrid}`` over the same collection."""
        address, name = self._database.address, self._given.name
        settings = IndexingSettings(store=address, collection=name)
        indexing = Indexing(settings=settings, embedder=self._embedder, embedder_name=self._name)
        queries = list(self._given.queries)
        opened = HybridRetrieval(dense_weight=dense_weight).open(Documents(), indexing)
        asked = [SearchQuery(text=self._given.queries[id_]) for id_ in queries]
        rankings = opened.search(asked, DEPTH)
        return as_run(queries, rankings)


class Remembering:
    """Embeds each query once, however many strategies ask."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[str, Any] = {}
        self.identity = inner.identity
        self.dimension = inner.dimension
        self.hybrid_weight = inner.hybrid_weight
        self.agreeing_weight = getattr(inner, "agreeing_weight", inner.hybrid_weight)
        self.languages = getattr(inner, "languages", ())

    def embed_queries(self, texts: Sequence[str]) -> Any:
        import numpy as np

        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._inner.embed_queries(new), strict=True))
        return np.stack([self._known[text] for text in texts])

    def embed_passages(self, texts: Sequence[str]) -> Any:
        return self._inner.embed_passages(texts)

    def close(self) -> None:
        self._inner.close()


def report(given: Labelled, searcher: Searcher) -> None:
    reference = measured(given, reference_bm25(given))
    sparse = searcher.measure(strategy="sparse")
    dense = searcher.measure(strategy="dense")
    kept = searcher.measure(strategy="dense", score_threshold=0.0)
    hybrid = searcher.run(strategy="hybrid")
    pipeline = searcher.pipeline()
    cells = [reference, sparse, dense, kept, measured(given, hybrid), measured(given, pipeline)]
    shown = " | ".join(f"{ndcg:.4f} / {recall:.4f}" for ndcg, recall in cells)
    leg = searcher.run(strategy="sparse" if sparse >= dense else "dense")
    gain = gained(per_question(given, hybrid), per_question(given, leg))
    print(
        f"| {given.name} | {len(given.documents):,} | {len(given.queries):,} | {shown} "
        f"| {searcher.weight()} | {gain} |",
        flush=True,
    )


def tune(given: Labelled, searcher: Searcher) -> None:
    sparse = searcher.measure(strategy="sparse")
    dense = searcher.measure(strategy="dense")
    leg = per_question(given, searcher.run(strategy="sparse" if sparse >= dense else "dense"))
    print(f"{given.name}: sparse {sparse[0]:.4f}, dense {dense[0]:.4f} (nDCG@10)")
    for weight in WEIGHTS:
        run = searcher.run(strategy="hybrid", dense_weight=weight)
        ndcg, recall = measured(given, run)
        gain = gained(per_question(given, run), leg)
        same = "" if searcher.pipeline(weight) == run else "  A PIPELINE DIFFERS"
        print(f"  weight {weight:<4} {ndcg:.4f} / {recall:.4f}  {gain}{same}", flush=True)


def compare_words(given: Labelled, folder: Path) -> None:
    """Both rankings by words, on a corpus indexed once, and after a fifth of it was replaced."""
    embedder = open_embedder(NO_EMBEDDER)
    wanted = Searcher(given, "memory:", embedder, NO_EMBEDDER).rankings(strategy="sparse")
    address = f"qdrant:{folder}"
    searcher = Searcher(given, f"{address}/once", embedder, NO_EMBEDDER, "store")
    print(compared(given, "indexed once", wanted, searcher.rankings(strategy="sparse")))
    pairs = zip(given.documents, reversed(given.documents), strict=True)
    before = [
        replace(other, id=f"earlier {one.id}") if at % 5 == 0 else one
        for at, (one, other) in enumerate(pairs)
    ]
    earlier = replace(given, documents=before)
    searcher = Searcher(earlier, f"{address}/twice", embedder, NO_EMBEDDER, "store")
    with searcher.kept_open():
        searcher.index(given.documents)
        found = searcher.rankings(strategy="sparse")
    print(compared(given, "a fifth replaced", wanted, found))
    found = searcher.rankings(strategy="sparse")
    print(compared(given, "a fifth replaced, opened again", wanted, found))


def compared(
    given: Labelled, what: str, wanted: Sequence[list[Chunk]], found: Sequence[list[Chunk]]
) -> str:
    """A line of the table."""
    runs = [as_run(list(given.queries), one) for one in (wanted, found)]
    cells = ["{:.4f} / {:.4f}".format(*measured(given, one)) for one in runs]
    pairs = [
        ({chunk.id: chunk for chunk in one[:10]}, {chunk.id: chunk for chunk in other[:10]})
        for one, other in zip(wanted, found, strict=True)
    ]
    shared = statistics.fmean(
        len(one.keys() & other) / len(one) if one else float(not other) for one, other in pairs
    )
    same = sum(list(one) == list(other) for one, other in pairs)
    worst = max(
        abs((one[id_].score or 0.0) - (other[id_].score or 0.0))
        for one, other in pairs
        for id_ in one.keys() & other
    )
    return (
        f"| {given.name}, {what} | {len(given.documents):,} | {len(pairs):,} | {' | '.join(cells)} "
        f"| {shared:.4f} | {same:,} | {worst:.6f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--embedder", default="multilingual")
    parser.add_argument("--setting", action="append")
    parser.add_argument("--cache", type=Path, default=Path("/tmp/ragbench-retrieval-quality"))
    parser.add_argument("--limit", type=int, default=10**9)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--words", action="store_true")
    given = parser.parse_args()
    if given.words:
        chosen = [name for name in REPORTED if not given.names or name in given.names]
        columns = "collection documents queries here store overlap@10 same difference"
        print("| " + " | ".join(columns.split()) + " |")
        for name in chosen:
            labelled = limited(REPORTED[name](given.data / name), given.limit)
            with tempfile.TemporaryDirectory() as folder:
                compare_words(labelled, Path(folder))
        return
    embedder = Remembering(open_embedder(given.embedder, **settings_of(given.setting, "--setting")))
    cache = given.cache / fingerprint(dict(embedder.identity))[:12]
    if not given.tune:
        columns = "collection documents queries reference sparse dense kept hybrid pipeline"
        print("| " + " | ".join([*columns.split(), "weight", "gain"]) + " |")
        print("|---|" + "--:|" * 10)
    every = {**TUNED, **REPORTED} if given.names else TUNED if given.tune else REPORTED
    for name, read in every.items():
        if not given.names or any(wanted in name for wanted in given.names):
            labelled = limited(read(given.data / name), given.limit)
            searcher = Searcher(labelled, f"memory:{cache}", embedder, given.embedder)
            (tune if given.tune else report)(labelled, searcher)


if __name__ == "__main__":
    main()
