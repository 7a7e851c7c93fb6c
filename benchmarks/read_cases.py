"""Rows a second and peak memory of reading 5 KB cases and documents, by format.

Run from the root of the project::

    python benchmarks/read_cases.py --rows 200000

Each format is read in a process of its own, at a quarter of the rows and at all of them: where
memory is flat, the two peaks are alike but for the register of ids (24 to 48 bytes a row). Files
are made in a temporary folder and deleted. JSON arrays are loaded whole, for comparison; ``floor``
parses the lines of the JSONL and does nothing with them.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import itertools
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[1]
WORDS = [f"word{number:03}" for number in range(400)]
FORMATS = ("floor", "jsonl", "csv", "parquet", "beir-corpus", "json")


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Cases of about 5 KB: question, answer, reference, ten contexts, three gold ids."""
    chance = random.Random(5)
    pool = [" ".join(chance.choices(WORDS, k=60)) for _ in range(200)]
    for number in range(count):
        yield {
            "id": f"q{number}",
            "question": " ".join(chance.choices(WORDS, k=10)),
            "answer": " ".join(chance.choices(WORDS, k=12)),
            "ground_truth": " ".join(chance.choices(WORDS, k=12)),
            "contexts": chance.choices(pool, k=10),
            "relevant_ids": [f"d{number % 500}", f"d{number % 499}", f"d{number % 498}"],
        }


def make(name: str, folder: Path, count: int) -> Path:
    """Writes the rows in a format."""
    path = folder / f"cases.{name}"
    if name == "parquet":
        write_parquet(path, count)
    elif name == "beir-corpus":
        path = folder / "corpus.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for row in rows(count):
                text = {
                    "_id": row["id"],
                    "title": row["question"],
                    "text": "\n".join(row["contexts"]),
                }
                file.write(json.dumps(text) + "\n")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            {"floor": write_lines, "jsonl": write_lines, "csv": write_csv, "json": write_array}[
                name
            ](file, count)
    return path


def write_lines(file: TextIO, count: int) -> None:
    """JSON Lines."""
    for row in rows(count):
        file.write(json.dumps(row) + "\n")


def write_array(file: TextIO, count: int) -> None:
    """One JSON array."""
    for number, row in enumerate(rows(count)):
        file.write(("," if number else "[") + json.dumps(row) + "\n")
    file.write("]")


def write_csv(file: TextIO, count: int) -> None:
    """CSV with lists as JSON."""
    writer = csv.writer(file)
    for number, row in enumerate(rows(count)):
        if not number:
            writer.writerow(row)
        writer.writerow([json.dumps(v) if isinstance(v, list) else v for v in row.values()])


def write_parquet(path: Path, count: int) -> None:
    """Parquet with row groups of 10,000 rows."""
    pa: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    source = rows(count)
    table = pa.Table.from_pylist(list(itertools.islice(source, 10_000)))
    with parquet.ParquetWriter(path, table.schema) as writer:
        while len(table):
            writer.write_table(table)
            batch = list(itertools.islice(source, 10_000))
            table = pa.Table.from_pylist(batch, schema=table.schema)


def measure(path: Path) -> None:
    """Reads one file to its end and prints rows, seconds and peak MB as JSON."""
    sys.path.insert(0, str(ROOT))
    import orjson

    from ragbench import read_cases, read_documents

    def floor(path: Path) -> Iterator[Any]:
        with path.open("rb") as lines:
            yield from map(orjson.loads, lines)

    named: dict[str, Callable[..., Iterator[Any]]]
    named = {"corpus.jsonl": read_documents, "cases.floor": floor}
    read = named.get(path.name, read_cases)
    begin, first, count = time.perf_counter(), 0.0, 0
    for _ in read(path):
        count += 1
        first = first or time.perf_counter() - begin
    seconds, used = time.perf_counter() - begin, time.process_time()
    # Linux counts in kB, macOS in bytes.
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    found = {"rows": count, "seconds": seconds, "cpu": used, "first": first, "peak": peak}
    print(json.dumps(found))


def run(*arguments: str) -> str:
    """Runs this script in a new process: a child's peak is never below its parent's."""
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Makes each file twice, reads it in a new process, prints a table."""
    parser = argparse.ArgumentParser(description="Rows a second and peak memory of reading.")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--formats", nargs="*", default=FORMATS, choices=FORMATS)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure)
        return
    if options.make is not None:
        print(make(options.formats[0], options.make, options.rows))
        return
    print("format            rows     MB  wall s   CPU s   rows/s (wall, CPU)  first s  peak MB")
    for name in options.formats:
        for count in (options.rows // 4, options.rows):
            with tempfile.TemporaryDirectory() as folder:
                path = run("--make", folder, "--rows", str(count), "--formats", name).strip()
                size = Path(path).stat().st_size / 1e6
                found = json.loads(run("--measure", path))
            wall, used = found["seconds"], found["cpu"]
            print(
                f"{name:12} {found['rows']:>9} {size:>6.0f} {wall:>7.2f} {used:>7.2f}"
                f" {found['rows'] / wall:>9.0f} {found['rows'] / used:>9.0f}"
                f" {found['first']:>8.3f} {found['peak']:>8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
