"""The engines against one another, in one run: bytes, start, speed, overhead, kills.

Run from the root of the project, with the extras ``onnx`` and ``ray``::

    python benchmarks/engines.py same --queries 10000
    python benchmarks/engines.py speed --queries 60 --validator local
    python benchmarks/engines.py overhead
    python benchmarks/engines.py kills --workers-killed 20 --drivers-killed 3

Ratios are of one run; on a busy machine only they mean something. Files are made in a temporary
folder and deleted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]

from benchmarks.validate_throughput import records  # noqa: E402
from ragbench.workers.engines import opened_engine  # noqa: E402
from ragbench.workers.pool import WorkerPool  # noqa: E402

COMMAND = (sys.executable, "-c", "from ragbench_cli.main import run; run()")
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
ENGINES = ("local", "processes", "ray")


def made(folder: Path, queries: int, chunks: int = 20) -> Path:
    """Writes a dump."""
    import orjson

    path = folder / f"dump-{queries}.jsonl"
    with path.open("wb") as file:
        for record in records(queries * 20):
            record["chunks"] = record["chunks"][:chunks]
            file.write(orjson.dumps(record) + b"\n")
    return path


def validating(dump: Path, out: Path, engine: str, validator: str, workers: int) -> list[str]:
    options = ["-q", "--validator", validator, "--engine", engine, "--workers", str(workers)]
    return [*COMMAND, "validate", str(dump), "-o", str(out), *options]


def timed(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=ENVIRONMENT, check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def same(folder: Path, queries: int) -> None:
    """Start over the local engine, and whether eval and validate give its bytes."""
    one, many = made(folder, 1, 5), made(folder, queries, 5)
    found: dict[str, tuple[bytes, bytes]] = {}
    print("engine\tstart s\tvalidate s\teval s\tsame bytes")
    for engine in ENGINES:
        out, run = folder / f"{engine}.jsonl", folder / f"run-{engine}"
        start = timed(validating(one, folder / f"one-{engine}.jsonl", engine, "lexical", 2))
        wall = timed(validating(many, out, engine, "lexical", 2))
        command = [*COMMAND, "eval", str(many), "-o", str(run), "-q", "--engine", engine]
        command += ["--validate", "lexical", *(["--workers", "2"] if engine != "local" else [])]
        scored = timed(command)
        found[engine] = (out.read_bytes(), (run / "cases.csv").read_bytes())
        is_same = found[engine] == found["local"]
        print(f"{engine}\t{start:.1f}\t{wall:.1f}\t{scored:.1f}\t{is_same}", flush=True)


def speed(folder: Path, queries: int, validator: str) -> None:
    """Seconds of a validator, by engine, over those of one process."""
    dump, one = made(folder, queries, 5), made(folder, 1, 5)
    base = 0.0
    print("engine\tworkers\ts\tof which start\ttimes as fast")
    for engine, workers in (("local", 1), ("processes", 2), ("ray", 2)):
        out = folder / f"{engine}.jsonl"
        start = timed(validating(one, folder / f"one-{engine}.jsonl", engine, validator, workers))
        wall = timed(validating(dump, out, engine, validator, workers))
        base = base or wall - start
        times = base / (wall - start)
        print(f"{engine}\t{workers}\t{wall:.1f}\t{start:.1f}\t{times:.2f}", flush=True)


def letters() -> Callable[[Sequence[str]], list[int]]:
    """Computes nothing to speak of."""
    return lambda items: [*map(len, items)]


def overhead(_folder: Path) -> None:
    """Seconds that a batch of 64 queries of a dump costs beside its computing."""
    items = [str(record)[:2500] for record in records(64 * 20)]  # five chunks of 100 words
    print("engine\tms per batch of 64\tus per query\tshare at 10 ms per query")
    for name in ENGINES[1:]:
        with (
            opened_engine(name, workers=1) as engine,
            WorkerPool(letters, engine, batch=64) as pool,
        ):
            for _ in pool.map(items * 3):
                pass
            started = time.perf_counter()
            batches = 40
            for _ in pool.map(items * batches):
                pass
            each = (time.perf_counter() - started) / batches
        share = each / (64 * 0.010)
        print(f"{name}\t{each * 1e3:.1f}\t{each / 64 * 1e6:.0f}\t{share:.1%}", flush=True)


def workers_of(driver: int) -> Iterator[int]:
    """The worker processes below a driver: its own, or those that its Ray has for its actors."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes()
            is_worker = text.startswith(b"ray::_Actor") or b"spawn_main" in text
            if is_worker and driver in ancestors(int(folder.name)):
                yield int(folder.name)
        except OSError:
            continue


def ancestors(pid: int) -> Iterator[int]:
    """The processes above one."""
    while pid > 1:
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
        yield pid


def kills(folder: Path, queries: int, workers: int, drivers: int, engine: str) -> None:
    """Kills workers and drivers at random; compares with an undisturbed run."""
    chance = random.Random(18)
    dump, out = made(folder, queries, 5), folder / "killed.jsonl"
    command = validating(dump, out, engine, "lexical", 2)
    killed = [0, 0]
    while True:
        process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        until = time.monotonic() + chance.uniform(10, 15)
        while process.poll() is None and (killed[0] < workers or killed[1] < drivers):
            time.sleep(chance.uniform(0.2, 0.8))
            there = sorted(workers_of(process.pid))
            if killed[0] < workers and there:
                os.kill(chance.choice(there), signal.SIGKILL)
                killed[0] += 1
            if killed[1] < drivers and time.monotonic() > until:
                process.kill()
                killed[1] += 1
        if process.wait() == 0:
            break
    whole = folder / "whole.jsonl"
    timed(validating(dump, whole, "local", "lexical", 1))
    with sqlite3.connect(f"{out}.journal") as journal:
        counts = journal.execute("SELECT count(*), count(DISTINCT number) FROM outcomes")
        stored, distinct = counts.fetchone()
    print(f"{engine}: {killed[0]} workers and {killed[1]} drivers killed")
    print(f"same bytes: {whole.read_bytes() == out.read_bytes()}")
    print(f"outcomes {stored:,}, of {distinct:,} queries; the dump has {queries:,}")


def main() -> None:
    """Measures one thing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["same", "speed", "overhead", "kills"])
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--validator", default="lexical")
    parser.add_argument("--engine", default="ray", choices=ENGINES[1:])
    parser.add_argument("--workers-killed", type=int, default=20)
    parser.add_argument("--drivers-killed", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.what == "same":
            same(folder, given.queries)
        elif given.what == "speed":
            speed(folder, given.queries, given.validator)
        elif given.what == "overhead":
            overhead(folder)
        else:
            kills(
                folder,
                given.queries,
                given.workers_killed,
                given.drivers_killed,
                given.engine,
            )


if __name__ == "__main__":
    main()
