"""What an evaluation costs by its length, and every command that reads it afterwards.

Run from the root of the project::

    python benchmarks/long_run.py --cases 10000 100000 1000000
    python benchmarks/long_run.py --cases 100000 --engine processes

The cases have recorded answers: three chunks of about 15 words, made as in ``long_dump.py``, of
which one is relevant, and an answer. Two runs of them are made, in the second of which some answers
are worse; the gate holds the second against the first. Memory is the highest resident size that the
system knows of the command. Files are made in a temporary folder and deleted.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]

from benchmarks.long_dump import COMMAND, rows, size, watched  # noqa: E402
from ragbench import open_source  # noqa: E402

CHUNKS, LETTERS = 3, 60
LANGUAGES = ("en", "de", "zh")


def cases(count: int, right: float) -> Iterator[dict[str, Any]]:
    """Cases with what a system answered; so large a share of the answers is right."""
    chance = random.Random(19)
    for number, row in enumerate(rows(count, CHUNKS, LETTERS)):
        found, gold = row["chunks"], number % 4
        answer = f"{number} days after the {chance.randrange(9999)}th reading"
        yield {
            "id": f"c{number}",
            "query": row["query"],
            "reference": answer,
            "reference_context_ids": [f"{number}-{gold}"],
            "retrieved_contexts": [chunk["text"] for chunk in found],
            "retrieved_context_ids": [chunk["id"] for chunk in found],
            "response": answer if chance.random() < right else f"{number} hours",
            "tags": [f"topic-{number % 7}"],
            "language": LANGUAGES[number % 3],
        }


def made(path: Path, count: int, right: float) -> Path:
    """Writes cases."""
    with path.open("wb") as file:
        for case in cases(count, right):
            file.write(orjson.dumps(case, option=orjson.OPT_APPEND_NEWLINE))
    return path


def measured(name: str, count: int, arguments: Sequence[str], grows: Path) -> None:
    """Runs a command and prints what it took."""
    watch, wall = watched([*COMMAND, *arguments], grows, expected=(0, 1))
    cpu, theirs = watch.cpu[watch.command], sum(watch.cpu[one] for one in watch.workers)
    peak = watch.peaks[watch.command]
    largest = max((watch.peaks[one] for one in watch.workers), default=0.0)
    print(
        f"{name}\t{count:,}\t{wall:.0f}\t{cpu:.0f}\t{cpu / count * 1e3:.3f}\t{theirs:.0f}\t"
        f"{peak:.0f}\t{largest:.0f}",
        flush=True,
    )


def reading(source: Path, count: int) -> None:
    """What it takes only to read and parse the cases, as the command does before all else."""
    began = time.process_time()
    with open_source(source) as opened:
        found = sum(1 for _ in opened)
    cpu = time.process_time() - began
    print(f"reading alone\t{found:,}\t\t{cpu:.0f}\t{cpu / count * 1e3:.3f}\t\t\t", flush=True)


def run(folder: Path, count: int, engine: str) -> None:
    """Measures an evaluation of so many cases, and what reads it."""
    runs = folder / "main", folder / "branch"
    options = ["-q", "--engine", engine, *(() if engine == "local" else ("--workers", "2"))]
    for path, right in zip(runs, (0.75, 0.7), strict=True):
        source = made(folder / f"{path.name}.jsonl", count, right)
        reading(source, count)
        command = ["eval", str(source), "-o", str(path), *options]
        measured(f"eval ({path.name})", count, command, path / "journal.sqlite")
    main, branch = map(str, runs)
    kept = str(folder / "baseline.json")
    afterwards = {
        "eval again": ["eval", str(folder / "main.jsonl"), "-o", main, *options],
        "report": ["report", main],
        "report --baseline": ["report", branch, "--baseline", main, "--html", f"{folder}/a.html"],
        "explain CASE": ["explain", main, "c1"],
        "cases --worst": ["cases", main, "--worst", "exact_match"],
        "gate --baseline": ["gate", branch, "--baseline", main, "--max-drop", "exact_match=0.01"],
        "compare": ["compare", main, branch],
        "baseline add": ["baseline", "add", main, "-o", kept],
        "baseline add, again": ["baseline", "add", branch, "-o", kept],
        "gate --baseline FILE": ["gate", branch, "-b", kept, "--max-drop", "exact_match=0.01"],
        "history": ["history", kept],
        "export": ["export", main, "--to", "ragas", "--out", f"{folder}/samples.jsonl"],
    }
    for name, arguments in afterwards.items():
        measured(name, count, arguments, folder / "none")
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(f"# {file.relative_to(folder)}\t{size(file):.1f} MB")


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--engine", default="local", choices=["local", "processes", "ray"])
    parser.add_argument("--folder", type=Path, help="for the files; they stay there")
    given = parser.parse_args()
    print("command\tcases\twall s\tCPU s\tCPU ms/case\tof workers s\tMB\tworker MB")
    for count in given.cases:
        with tempfile.TemporaryDirectory() as name:
            run(given.folder or Path(name), count, given.engine)


if __name__ == "__main__":
    main()
