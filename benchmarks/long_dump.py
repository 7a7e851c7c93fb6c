"""What a dump costs by its length: processor time, memory, files, and the time of the end.

Run from the root of the project, with the extra ``ray`` for that engine::

    python benchmarks/long_dump.py make dump.jsonl --queries 1000000
    python benchmarks/long_dump.py validate --queries 1000 10000 100000 1000000
    python benchmarks/long_dump.py validate --queries 100000 --engine ray --address

A query has a few chunks of some words each, put together from the sentences of the dataset
pellorin, in three languages, with numbers of their own: no two chunks are the same. Memory is the
highest resident size that the system knows of each process, read until it ends; *the end* is what
follows the last verdict. ``--trace 60`` prints each minute how far a run is, and what it has used.
Files are made in a temporary folder and deleted.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "datasets" / "pellorin"
COMMAND = (sys.executable, "-c", "from ragbench_cli.main import run; run()")
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
TICK = os.sysconf("SC_CLK_TCK")
EVERY = 0.5
"""Seconds between two looks at the processes."""


def rows(queries: int, chunks: int, letters: int) -> Iterator[dict[str, Any]]:
    """The queries of a dump.

    Args:
        queries: how many.
        chunks: per query.
        letters: how long a chunk is at least; it ends with a sentence.
    """
    chance = random.Random(18)
    sentences: list[str] = []
    for line in (PAGES / "corpus.jsonl").read_bytes().splitlines():
        text: str = orjson.loads(line)["text"]
        sentences += [one.strip() for one in re.split(r"(?<=[.!?。])\s+", text) if one.strip()]
    asked = [
        orjson.loads(one)["query"] for one in (PAGES / "cases.jsonl").read_bytes().splitlines()
    ]

    def renumbered(text: str) -> str:
        return re.sub(r"\d+", lambda _: str(chance.randint(1, 9999)), text)

    def chunk(number: int, place: int) -> dict[str, Any]:
        text = f"Section {number}.{place}."
        while len(text) < letters:
            text += f" {renumbered(chance.choice(sentences))}"
        source = {"source": f"page-{chance.randrange(5000)}"}
        return {
            "id": f"{number}-{place}",
            "text": text,
            "score": 1 - place / 10,
            "metadata": source,
        }

    for number in range(queries):
        found = [chunk(number, place) for place in range(chunks)]
        query = renumbered(chance.choice(asked))
        if number % 3 == 0:
            found[number % chunks]["text"] += f" {query.rstrip('?')}: {number} days."
        yield {"query_id": f"q{number}", "query": query, "chunks": found}


def make(path: Path, queries: int, chunks: int, letters: int) -> Path:
    """Writes a dump."""
    with path.open("wb") as file:
        for row in rows(queries, chunks, letters):
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return path


@dataclass
class Watch:
    """What a command and the processes below it have used."""

    command: int
    cpu: dict[int, float] = field(default_factory=dict[int, float])
    """Seconds, by process."""
    peaks: dict[int, float] = field(default_factory=dict[int, float])
    """MB, by process."""
    workers: set[int] = field(default_factory=set[int])
    last: tuple[int, float, float] = (0, 0.0, 0.0)
    """Bytes of the file that grows, when it last grew, and the peak of the command by then."""

    def said(self) -> str:
        """Seconds and MB of the command and of its workers, so far."""
        mine = f"{self.cpu[self.command]:.0f} s {self.peaks[self.command]:.0f} MB"
        theirs = [f"{self.cpu[one]:.0f} s {self.peaks[one]:.0f} MB" for one in sorted(self.workers)]
        return "\t".join([mine, *theirs])

    def look(self, grows: Path) -> None:
        """Notes what the system says now."""
        for pid in (self.command, *below(self.command)):
            try:
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                status = Path(f"/proc/{pid}/status").read_text()
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if peak := re.search(r"VmHWM:\s+(\d+)", status):
                self.cpu[pid] = (int(stat[11]) + int(stat[12])) / TICK
                self.peaks[pid] = int(peak[1]) / 1024
            if line.startswith(b"ray::_Actor") or b"spawn_main" in line:
                self.workers.add(pid)
        size = grows.stat().st_size if grows.exists() else self.last[0]
        if size != self.last[0]:
            self.last = size, time.monotonic(), self.peaks.get(self.command, 0.0)


def below(command: int) -> Iterator[int]:
    """The processes that a process started, and those that they did."""
    above: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        above[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    for pid in above:
        at = pid
        while (at := above.get(at, 0)) > 1:
            if at == command:
                yield pid
                break


def watched(
    command: Sequence[str], grows: Path, *, expected: Sequence[int] = (0,), trace: float = 0
) -> tuple[Watch, float]:
    """Runs a command to its end; also the wall seconds that it took.

    Args:
        command: what is started.
        grows: the file whose last growth is noted.
        expected: exit codes that are no failure.
        trace: seconds after which a line tells how far it is; 0 for never.
    """
    started = told = time.monotonic()
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as process:
        watch = Watch(process.pid)
        while process.poll() is None:
            watch.look(grows)
            if trace and time.monotonic() - told > trace:
                told = time.monotonic()
                lines = grows.read_bytes().count(b"\n") if grows.exists() else 0
                print(f"# {told - started:.0f} s\t{lines:,}\t{watch.said()}", flush=True)
            time.sleep(EVERY)
    if process.returncode not in expected:
        raise SystemExit(f"the command failed ({process.returncode})")
    return watch, time.monotonic() - started


def size(path: Path) -> float:
    """MB of a file."""
    return path.stat().st_size / 1e6


def validate(
    dump: Path, queries: int, engine: str, workers: int, *, address: bool, trace: float
) -> None:
    """Judges a dump, and prints what it took."""
    folder, out = dump.parent, dump.parent / "verdicts.jsonl"
    named = dump.as_uri() if address else str(dump)
    options = ["-q", "--validator", "lexical", "--engine", engine, "--workers", str(workers)]
    command = [*COMMAND, "validate", named, "-o", str(out), *options]
    watch, wall = watched(command, folder / "verdicts.jsonl.partial", trace=trace)
    ended = time.monotonic()
    _, grew, before = watch.last
    mine = watch.cpu[watch.command]
    theirs = sum(watch.cpu[one] for one in watch.workers)
    largest = max((watch.peaks[one] for one in watch.workers), default=0.0)
    journal = size(folder / "verdicts.jsonl.journal")
    print(
        f"{engine}\t{'address' if address else 'path'}\t{queries:,}\t{wall:.0f}\t"
        f"{(mine + theirs) / queries * 1e3:.2f}\t{mine / queries * 1e3:.2f}\t"
        f"{sum(watch.cpu.values()):.0f}\t{before:.0f}\t{watch.peaks[watch.command]:.0f}\t"
        f"{largest:.0f}\t{size(dump):.0f}\t{journal:.0f}\t{size(out):.0f}\t{ended - grew:.1f}",
        flush=True,
    )


HEAD = (
    "engine\tnamed by\tqueries\twall s\tCPU ms/query\tof which command\tCPU s of all processes\t"
    "command MB\tand at the end\tworker MB\tdump MB\tjournal MB\tverdicts MB\tend s"
)


def main() -> None:
    """Makes a dump, or measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "validate"])
    parser.add_argument("path", nargs="?", type=Path, help="for make: the file")
    parser.add_argument("--queries", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--chunks", type=int, default=5)
    parser.add_argument("--letters", type=int, default=60, help="of a chunk, at least")
    parser.add_argument("--engine", default="processes", choices=["local", "processes", "ray"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--address", action="store_true", help="let workers read the dump")
    parser.add_argument("--trace", type=float, default=0, help="seconds between two lines")
    parser.add_argument("--folder", type=Path, help="for the files; they stay there")
    given = parser.parse_args()
    if given.what == "make":
        make(given.path, given.queries[-1], given.chunks, given.letters)
        return
    print(HEAD)
    for queries in given.queries:
        with tempfile.TemporaryDirectory() as name:
            folder = given.folder or Path(name)
            dump = make(folder / "dump.jsonl", queries, given.chunks, given.letters)
            validate(
                dump, queries, given.engine, given.workers, address=given.address, trace=given.trace
            )


if __name__ == "__main__":
    main()
