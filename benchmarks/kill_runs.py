"""Kills a 500-case run with SIGKILL at 20 random moments and lets each continue.

For each moment: a new run, killed by its parent once so many calls are finished, then started
again. The report must be byte-identical to that of a run that nothing disturbed, and no finished
call of the RAG may be repeated beyond the half millisecond of its work that a crash may cost, and
the call that was just being stored.

Run: ``python benchmarks/kill_runs.py [--cases 500] [--kills 20] [--seed 1]``
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
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent
SAME = ("report.json", "report.md", "cases.csv")
AT_RISK = 0.0005
"""Seconds of finished work that a crash may cost."""


class Call(NamedTuple):
    """A finished call of the RAG."""

    stage: str
    query: str
    seconds: float


def start(folder: Path, out: str) -> subprocess.Popen[bytes]:
    """Starts ``ragbench eval`` in a process of its own."""
    rag = ROOT / "tests" / "integration" / "mortal_rag.py"
    script = "import sys; from ragbench_cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["eval", "cases.jsonl", "--rag", f"{rag}:Mortal", "--out", out, "--quiet"]
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}",
        "MORTAL_LOG": str(folder / f"{out}.log"),
        "MORTAL_WORK": "0.001",
    }
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
    )


def calls(folder: Path, out: str) -> list[Call]:
    """What the RAG has finished."""
    log = folder / f"{out}.log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    rows = [line.split("\t") for line in lines if line.count("\t") == 2]
    return [Call(row[0], row[1], float(row[2])) for row in rows]


def report(folder: Path, out: str) -> list[bytes]:
    """The files that must not differ."""
    return [(folder / out / name).read_bytes() for name in SAME]


def write_cases(folder: Path, count: int) -> None:
    """Cases of which every hundredth cannot be answered by the RAG."""
    with (folder / "cases.jsonl").open("w", encoding="utf-8") as file:
        for number in range(count):
            query = f"question {number}{' bad' * (number % 100 == 50)}"
            row = {
                "id": f"c{number}",
                "query": query,
                "reference": f"answer to {query}",
                "reference_contexts": [f"context of {query}"],
            }
            file.write(json.dumps(row) + "\n")


def kill_after(folder: Path, out: str, finished: int) -> None:
    """Starts a run and kills it as soon as so many calls are finished."""
    process = start(folder, out)
    while process.poll() is None and len(calls(folder, out)) < finished:
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait()


def finish(folder: Path, out: str) -> None:
    """Runs to the end."""
    code = start(folder, out).wait()
    if code != 0:
        raise SystemExit(f"the run '{out}' ended with exit code {code}")


def main() -> None:
    """Kills, continues, compares, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    row = "{:>5} {:>9} {:>10} {:>9} {:>12} {:>10}"
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_cases(folder, options.cases)
        finish(folder, "whole")
        expected, total = report(folder, "whole"), len(calls(folder, "whole"))
        print(f"undisturbed: {total} calls; seed {options.seed}")
        print(row.format("run", "finished", "asked then", "repeated", "repeated ms", "report"))
        for number in range(options.kills):
            out = f"run{number}"
            kill_after(folder, out, rng.randrange(total))
            before = calls(folder, out)
            finish(folder, out)
            after = calls(folder, out)[len(before) :]
            asked_again = {(call.stage, call.query) for call in after}
            repeated = [call for call in before if (call.stage, call.query) in asked_again]
            seconds = sum(call.seconds for call in repeated)
            # The last of them was finished, and was just being stored.
            late = seconds - (repeated[-1].seconds if repeated else 0.0)
            same = report(folder, out) == expected
            bad += not same or late > AT_RISK
            told = (len(before), len(after), len(repeated), f"{seconds * 1e3:.2f}")
            print(row.format(number + 1, *told, "identical" if same else "DIFFERS"), flush=True)
    print(f"{options.kills - bad} of {options.kills} runs as they must be")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
