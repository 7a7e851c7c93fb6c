"""Seconds and peak memory of ``ragbench gate`` and ``ragbench compare`` on large runs.

Run from the root of the project::

    python benchmarks/gate_memory.py --cases 10000 100000

Two runs of recorded answers, 70% and 69% of them right, are made in a temporary folder and deleted.
Each command is a process of its own; its peak is what the system reports of it, imports included.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

METRICS = "recall@5,nDCG@10,token_f1,exact_match"
COMMANDS = {
    "gate": ("gate", "b", "-b", "a"),
    "gate --json": ("gate", "b", "-b", "a", "--json"),
    "compare": ("compare", "a", "b"),
    "compare --json": ("compare", "a", "b", "--json"),
}


def write_answers(path: Path, count: int, right: float) -> None:
    chance = random.Random(path.name)
    with path.open("w", encoding="utf-8") as file:
        for at in range(count):
            found = at if chance.random() < right else at + 1
            text = f"Parameter {found} of section {at % 977} has value {found}, says the handbook."
            case = {
                "id": f"case-{at:06}",
                "user_input": f"Which value has parameter {at} of section {at % 977}?",
                "reference": f"value {at}",
                "reference_context_ids": [f"d{at}"],
                "retrieved_contexts": [text, text[::-1], text.upper()],
                "retrieved_context_ids": [f"d{found}", f"d{at + 7}", f"d{at + 9}"],
                "response": f"value {at}" if found == at else "I do not know what it could be",
            }
            file.write(f"{json.dumps(case)}\n")


def measured(folder: Path, *arguments: str) -> tuple[float, float]:
    """Seconds, and the peak in MB."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "ragbench_cli", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - start, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=int, nargs="+", default=[10_000, 100_000])
    print(f"{'cases':>9}  {'command':<14}  {'seconds':>7}  {'MB':>5}")
    for count in parser.parse_args().cases:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for run, right in (("a", 0.70), ("b", 0.69)):
                write_answers(folder / f"{run}.jsonl", count, right)
                measured(folder, "eval", f"{run}.jsonl", "-q", "-m", METRICS, "--out", run)
            for label, arguments in COMMANDS.items():
                seconds, peak = measured(folder, *arguments)
                print(f"{count:>9,}  {label:<14}  {seconds:>7.1f}  {peak:>5.0f}")


if __name__ == "__main__":
    main()
