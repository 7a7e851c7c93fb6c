"""How fast documents become a searchable collection, and how much memory that takes.

    python -m benchmarks.index_throughput [--chunks 100000] [--store ADDRESS]
        [--embedder hashing:384]

Documents of about 120 words from a seeded vocabulary are indexed into an empty folder, then once
more (nothing changes), then opened and searched. Times are seconds on the clock and of the
processor; memory is the most that the process has held so far. With the embedder ``hashing`` it
shows what ragbench and the store cost; a model's own time comes on top.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from ragbench import Document, open_embedder
from ragbench.search.pipeline.documents import make_chunker
from ragbench.search.pipeline.index import IndexResult, index_documents
from ragbench.search.pipeline.search_engine import RetrievalEngine
from ragbench.search.pipeline.strategies import StrategyName
from ragbench.search.stores.database import open_database

ValueT = TypeVar("ValueT")
WORDS = 120
ALL: tuple[StrategyName, ...] = ("dense", "sparse", "hybrid")


def documents(count: int) -> Iterator[Document]:
    draw = random.Random(7)
    # A few frequent words and many rare ones, as in a language.
    vocabulary = [f"w{number}x" for number in range(50_000)]
    weights = [1 / (rank + 10) for rank in range(len(vocabulary))]
    pool = draw.choices(vocabulary, weights, k=2_000_000)
    for number in range(count):
        start = draw.randrange(len(pool) - WORDS)
        text = " ".join(pool[start : start + WORDS])
        yield Document(id=f"d{number}", text=text, metadata={"year": 2000 + number % 25})


def timed(name: str, run: Callable[[], ValueT]) -> ValueT:
    wall, cpu = time.perf_counter(), time.process_time()
    value = run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name:<34} {time.perf_counter() - wall:8.2f} s   {time.process_time() - cpu:8.2f} s CPU"
        f"   {peak:6.0f} MB",
        flush=True,
    )
    return value


def hundred(engine: RetrievalEngine, strategy: StrategyName) -> None:
    for number in range(100):
        engine.search("kb", f"w{number}x w{number * 7}x", strategy=strategy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--store", default="memory:{folder}/store")
    parser.add_argument("--embedder", default="hashing:384")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        address = given.store.format(folder=folder)
        embedder = open_embedder(given.embedder)

        def index() -> IndexResult:
            database = open_database(address)
            try:
                return index_documents(
                    documents(given.chunks),
                    database,
                    "kb",
                    embedder=embedder,
                    embedder_name=given.embedder,
                    chunker=make_chunker(),
                )
            finally:
                database.close()

        def embed_alone() -> None:
            texts = [document.text for document in documents(given.chunks)]
            for start in range(0, len(texts), 128):
                embedder.embed_passages(texts[start : start + 128])

        timed("embedding alone", embed_alone)
        print(timed("indexing", index))
        print(timed("indexing again, nothing changed", index))
        for kept in (False, True, True):
            database = open_database(address)
            engine = RetrievalEngine(
                database, sparse_folder=Path(folder) / "bm25" if kept else None
            )
            note = "kept" if kept else "not kept"
            for strategy in ALL[:2]:
                first = partial(engine.search, "kb", "w17x w4711x", strategy=strategy)
                timed(f"first {strategy} search, BM25 {note}", first)
            for strategy in ALL:
                timed(f"100 {strategy} searches", partial(hundred, engine, strategy))
            engine.close()
            database.close()


if __name__ == "__main__":
    main()
