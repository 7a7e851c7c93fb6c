"""What is left of a collection when its indexing goes wrong: killed, twice at once, on a full disk.

Run from the root of the project, with the stores' extras::

    python benchmarks/store_faults.py kills --kills 20
    python benchmarks/store_faults.py two
    python benchmarks/store_faults.py disk      # as root, on Linux: mounts a small tmpfs

Every trial ends in one of: *whole* (complete, and holds exactly the corpus), *refused* (a search
says in one line that the collection is not complete, or not there) or *BAD*, which is everything
else: called complete and not the corpus, an end by a signal, an error of many lines.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, "-c", "from ragbench_cli.main import run; run()")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}",
    "NO_COLOR": "1",
    "COLUMNS": "2000",
}
STORES = ("memory:m", "qdrant:q")


def write_corpus(path: Path, name: str, documents: int) -> None:
    """Writes documents of forty words."""
    rng = random.Random(name)
    with path.open("w", encoding="utf-8") as file:
        for at in range(documents):
            text = " ".join(f"w{rng.randrange(3000)}" for _ in range(40))
            file.write(json.dumps({"id": f"{name}{at}", "text": text}) + "\n")


def indexing(folder: Path, store: str, corpus: str) -> subprocess.Popen[str]:
    """Starts an indexing."""
    options = ("--store", store, "--collection", "kb", "--embedder", "hashing:64", "-q", "--json")
    return subprocess.Popen(
        [*COMMAND, "index", corpus, *options],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def state(folder: Path, store: str, wanted: set[str]) -> str:
    """What a stranger finds: see the module."""
    code = (
        "import json, sys; from ragbench.search.stores.database import open_store;"
        "s = open_store(sys.argv[1], 'kb');"
        "print(json.dumps([s.info().complete, sorted(s.digests())])); s.close()"
    )
    read = subprocess.run(
        [sys.executable, "-c", code, store],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    asked = ("search", "w1 w2", "--store", store, "--collection", "kb", "--strategy", "sparse")
    searched = subprocess.run(
        [*COMMAND, *asked],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    if read.returncode == 0:
        complete, ids = json.loads(read.stdout.splitlines()[-1])
        if complete:
            return "whole" if set(ids) == wanted and searched.returncode == 0 else "BAD: mixed"
    if searched.returncode == 2 and searched.stderr.startswith("Error: "):
        return "refused"
    return f"BAD: exit {searched.returncode} {searched.stderr[-200:]!r}"


def kills(folder: Path, store: str, documents: int, trials: int, seed: int) -> Counter[str]:
    """Kills indexings at random moments; each is then continued, and must become whole."""
    rng = random.Random(seed)
    found: Counter[str] = Counter()
    for trial in range(trials):
        place = folder / str(trial)
        place.mkdir()
        write_corpus(place / "a.jsonl", "a", documents)
        process = indexing(place, store, "a.jsonl")
        time.sleep(rng.uniform(0.6, 6.0))
        early = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        wanted = {f"a{at}" for at in range(documents)}
        found["after the kill: " + state(place, store, wanted) + (" (done)" if early else "")] += 1
        again = indexing(place, store, "a.jsonl")
        error = again.communicate()[1]
        end = f"continued: exit {again.returncode}, {state(place, store, wanted)}"
        found[f"{end} BAD: {error}" if again.returncode else end] += 1
    return found


def two(folder: Path, store: str, documents: int, trials: int) -> Counter[str]:
    """Two indexings of two corpora into one collection, into none and into one that is there."""
    found: Counter[str] = Counter()
    for trial in range(trials):
        place = folder / str(trial)
        place.mkdir()
        for name in "ab":
            write_corpus(place / f"{name}.jsonl", name, documents)
        for kind in ("new", "there"):
            both = [indexing(place, store, f"{name}.jsonl") for name in "ab"]
            errors = [process.communicate()[1] for process in both]
            codes = sorted(process.returncode for process in both)
            lines = sum(text.count("Error: ") for text in errors)
            one = [{f"{name}{at}" for at in range(documents)} for name in "ab"]
            ends = {state(place, store, wanted) for wanted in one}
            told = all("another 'ragbench index' is writing" in text for text in errors if text)
            how = "whole" if "whole" in ends else " / ".join(sorted(ends))
            clear = f"{lines} clear" if told else f"RAW: {errors}"
            found[f"{kind}: exits {codes}, {clear} errors, {how}"] += 1
    return found


@contextmanager
def small_disk(folder: Path, size: int) -> Generator[Path]:
    """A file system of so many MiB."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={size}m", "tmpfs"]
    subprocess.run(["mount", *options, str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def disk(folder: Path, store: str, documents: int, sizes: list[int]) -> Counter[str]:
    """Indexings on disks that are too small, by some or by much."""
    found: Counter[str] = Counter()
    wanted = {f"a{at}" for at in range(documents)}
    for size in sizes:
        with small_disk(folder / f"{size}", size) as place:
            write_corpus(folder / "a.jsonl", "a", documents)
            process = indexing(place, store, str(folder / "a.jsonl"))
            error = process.communicate()[1]
            clear = error.startswith("Error: ") and process.returncode == 2
            said = "done" if process.returncode == 0 else "one line" if clear else f"RAW {error}"
            end = state(place, store, wanted)
            found[f"{size} MiB: exit {process.returncode}, {said}, {end}"] += 1
    return found


def main() -> None:
    """Prints what became of every trial."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", choices=("kills", "two", "disk"))
    parser.add_argument("--stores", nargs="+", default=list(STORES))
    parser.add_argument("--documents", type=int, default=6000)
    parser.add_argument("--trials", "--kills", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="+", default=[3, 20, 60, 90, 120])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bad = 0
    for store in options.stores:
        with tempfile.TemporaryDirectory() as name:
            folder, count = Path(name), options.documents
            if options.fault == "kills":
                found = kills(folder, store, count, options.trials, options.seed)
            elif options.fault == "two":
                found = two(folder, store, count, options.trials)
            else:
                found = disk(folder, store, count, options.sizes)
        print(store)
        for what, times in sorted(found.items()):
            print(f"  {times:>3} x {what}", flush=True)
            bad += times * any(word in what for word in ("BAD", "RAW"))
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
