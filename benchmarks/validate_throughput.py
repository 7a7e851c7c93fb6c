"""Chunks a second and peak memory of ``ragbench validate``, by size of the dump.

Run from the root of the project::

    python benchmarks/validate_throughput.py --chunks 100000 1000000

Each dump is judged by the command itself, in a process of its own; the peak is that of its largest
process. ``read`` only reads the dump and checks it, without a verdict; ``json`` is one JSON array
instead of JSONL; ``again`` is the command for JSONL once more: every verdict is reused. Dumps are
made in a temporary folder and deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WORDS = [f"w{number:03}" for number in range(600)]
PER_QUERY = 20
COMMAND = "import sys; from ragbench_cli.main import main; sys.exit(main(sys.argv[1:]))"
READ = """
import sys
from ragbench.io.joined import open_dump
from ragbench.validators.inspect import inspect_chunks
with open_dump(sys.argv[1]) as dump:
    print(sum(len(inspect_chunks(one.query, one.chunks).chunks) for one in dump))
"""


def records(chunks: int) -> Iterator[dict[str, Any]]:
    """Queries with twenty chunks of about 100 words, in sentences, one of which answers."""
    chance = random.Random(7)
    pool = [" ".join(chance.choices(WORDS, k=18)) for _ in range(500)]
    for number in range(chunks // PER_QUERY):
        subject = " ".join(chance.choices(WORDS, k=4))
        found = [". ".join(chance.choices(pool, k=5)) + "." for _ in range(PER_QUERY)]
        found[3] += f" The {subject} has {number} parts."
        yield {
            "query_id": f"q{number}",
            "query": f"How many parts does the {subject} have?",
            "chunks": [
                {"id": f"{number}-{place}", "text": text, "score": 1 - place / 40, "metadata": {}}
                for place, text in enumerate(found)
            ],
        }


def made(folder: Path, chunks: int, form: str) -> Path:
    """Writes a dump."""
    path = folder / f"dump-{chunks}.{'json' if form == 'json' else 'jsonl'}"
    with path.open("w", encoding="utf-8") as file:
        for number, record in enumerate(records(chunks)):
            if form == "json":
                file.write("[\n" if number == 0 else ",\n")
                file.write(json.dumps(record))
            else:
                file.write(json.dumps(record) + "\n")
        if form == "json":
            file.write("\n]\n")
    return path


def run(arguments: list[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak MB of a process and its children."""
    paths = f"{ROOT}{os.pathsep}{ROOT / 'cli'}"
    program = (
        "import os, resource, subprocess, sys\n"
        "done = subprocess.run([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)\n"
    )
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": paths},
        check=True,
        capture_output=True,
        text=True,
    )
    wall = time.perf_counter() - start
    code, cpu, peak = done.stdout.split()
    if code != "0":
        raise SystemExit(f"failed: {done.stderr}")
    return wall, float(cpu), int(peak) / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--validator", default="lexical")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--forms", nargs="+", default=["read", "json", "jsonl", "again"])
    wanted = parser.parse_args()
    print("form\tworkers\tchunks\twall s\tchunks/s\tCPU us/chunk\tpeak MB (largest process)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for chunks in wanted.chunks:
            for form in wanted.forms:
                path = made(folder, chunks, form)
                for workers in wanted.workers if form == "jsonl" else wanted.workers[-1:]:
                    out = str(folder / "verdicts.jsonl")
                    options = ["--validator", wanted.validator, "--workers", str(workers)]
                    if form != "again":
                        options.append("--fresh")
                    command = ["validate", str(path), "-q", "-o", out, *options]
                    arguments = (
                        ["-c", READ, str(path)] if form == "read" else ["-c", COMMAND, *command]
                    )
                    wall, cpu, peak = run(arguments)
                    print(
                        f"{form}\t{workers}\t{chunks:,}\t{wall:.1f}\t{chunks / wall:,.0f}\t"
                        f"{cpu / chunks * 1e6:.0f}\t{peak:.0f}",
                        flush=True,
                    )
                path.unlink()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
