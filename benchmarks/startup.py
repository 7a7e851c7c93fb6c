"""Wall time until a command line has shown its help, beside its floor and beside its peers.

Run from the root of the project::

    python benchmarks/startup.py --repeats 15

Each command is run once to fill the file cache, then in turn with the others, so that a busy
moment of the machine hits all of them. Printed are medians, and how many times the median of
``import typer`` each is. Peers are measured where they are installed beside this Python.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLOOR = "import typer"
CASE = str(Path(tempfile.gettempdir()) / "ragbench-startup" / "case.jsonl")
PEERS = {
    "ragas --help": ("ragas", "--help"),
    "lm_eval --help": ("lm_eval", "--help"),
    "deepeval --help": ("deepeval", "--help"),
    "inspect --help": ("inspect", "--help"),
}


def commands() -> dict[str, list[str]]:
    """What is measured, by name."""
    ragbench = [sys.executable, "-m", "ragbench_cli"]
    found = {
        "python -c pass": [sys.executable, "-c", "pass"],
        FLOOR: [sys.executable, "-c", "import typer"],
        "import typer, pydantic": [sys.executable, "-c", "import typer, pydantic"],
        "ragbench --help": [*ragbench, "--help"],
        "ragbench eval --help": [*ragbench, "eval", "--help"],
        "ragbench show metrics": [*ragbench, "show", "metrics"],
        "ragbench doctor": [*ragbench, "doctor"],
        "ragbench eval, one case": [*ragbench, "eval", CASE, "-q", "-m", "recall@5", "--fresh"],
    }
    for name, (program, *arguments) in PEERS.items():
        path = shutil.which(program, path=str(Path(sys.executable).parent))
        if path is not None:
            found[name] = [path, *arguments]
    return found


def seconds(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(
        command,
        cwd=Path(CASE).parent,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=15)
    repeats: int = parser.parse_args().repeats
    Path(CASE).parent.mkdir(exist_ok=True)
    Path(CASE).write_text(
        '{"query": "When?", "response": "On Monday.", "retrieved_context_ids": ["a"], '
        '"reference_context_ids": ["a"]}\n'
    )
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
    measured: dict[str, list[float]] = {name: [] for name in commands()}
    for name, command in commands().items():
        try:
            seconds(command, environment)
        except subprocess.CalledProcessError:
            print(f"{name}: does not run")
            del measured[name]
    for _ in range(repeats):
        for name in measured:
            measured[name].append(seconds(commands()[name], environment))
    floor = statistics.median(measured[FLOOR])
    print(f"{'command':<24} {'median':>8} {'fastest':>8} {'x typer':>8}")
    for name, times in measured.items():
        median = statistics.median(times)
        print(f"{name:<24} {median:>7.3f}s {min(times):>7.3f}s {median / floor:>8.2f}")


if __name__ == "__main__":
    main()
