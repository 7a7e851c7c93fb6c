"""A run whose disk fails at a write ends with an error or continues, and loses nothing.

The makers of SQLite test it so: a fault at the first operation that changes the disk, at the
second, and so on. Here the interpreter's audit events are these operations (to open a file for
writing, to rename, to make or to remove one), and a limit on the size of files stops SQLite's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SAME = ("report.json", "report.md", "cases.csv")

# The n-th operation that changes the run's folder fails, as on a full disk; "all" counts them.
FAILING = """
import errno, os, sys
wanted, folder, count = int(sys.argv[1]), os.path.realpath(sys.argv[2]), 0
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

def fail(event, arguments):
    global count
    if event == "open":
        path, mode, flags = arguments
        if isinstance(path, int) or not flags & WRITING:
            return
    elif event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir"):
        path = arguments[0]
    else:
        return
    if not os.path.abspath(os.fsdecode(path)).startswith(folder):
        return
    count += 1
    if count == wanted:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

sys.addaudithook(fail)
from ragbench_cli.main import main
code = main(sys.argv[3:])
print(f"operations: {count}", file=sys.stderr)
sys.exit(code)
"""
# No file may grow beyond so many bytes, as under `ulimit -f`.
LIMITED = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from ragbench_cli.main import main
sys.exit(main(sys.argv[3:]))
"""
RAG = """
from ragbench import RAGInterface


class Rag(RAGInterface):
    def retrieve(self, query, top_k=None):
        return [f"context of {query} " + "word " * 200]

    def generate(self, query, contexts):
        return f"answer to {query}"
"""


class Ended(NamedTuple):
    code: int
    error: str


class Workplace:
    """A folder with a dataset and a RAG, in which the same command runs with and without faults."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "rag.py").write_text(RAG, encoding="utf-8")
        with (folder / "cases.jsonl").open("w", encoding="utf-8") as file:
            for number in range(20):
                query = f"question {number}"
                case = {"id": f"c{number}", "query": query, "reference": f"answer to {query}"}
                file.write(json.dumps(case) + "\n")

    def run(self, out: str, script: str, fault: int) -> Ended:
        """Runs ``ragbench eval`` by a script that makes something fail."""
        faults = [str(fault), str(self.folder / out)]
        arguments = ["eval", "cases.jsonl", "--rag", "rag.py:Rag", "-m", "token_f1", "--out", out]
        python_path = f"{ROOT}{os.pathsep}{ROOT / 'cli'}"
        done = subprocess.run(
            [sys.executable, "-c", script, *faults, *arguments],
            cwd=self.folder,
            check=False,
            env=os.environ | {"PYTHONPATH": python_path},
            capture_output=True,
            text=True,
        )
        return Ended(done.returncode, done.stderr)

    def report(self, out: str) -> dict[str, bytes]:
        return {name: (self.folder / out / name).read_bytes() for name in SAME}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    workplace = Workplace(tmp_path_factory.mktemp("writes"))
    ended = workplace.run("whole", FAILING, 0)
    assert ended.code == 0, ended.error
    return workplace


def check_that_nothing_is_lost(workplace: Workplace, script: str, fault: int, out: str) -> None:
    """The faulty run is whole or is refused in a line; the same command then makes it whole."""
    faulty = workplace.run(out, script, fault)
    if faulty.code == 0:  # what failed was of no importance, such as the number of the process
        assert workplace.report(out) == workplace.report("whole")
        return
    assert faulty.code == 2, faulty.error
    assert "\nError: " in f"\n{faulty.error}"
    assert "This is a bug" not in faulty.error

    resumed = workplace.run(out, FAILING, 0)

    assert resumed.code == 0, resumed.error
    assert workplace.report(out) == workplace.report("whole")


def nightly(*faults: int) -> list[object]:
    return [pytest.param(fault, marks=pytest.mark.nightly) for fault in faults]


@pytest.mark.parametrize("fault", [2, *nightly(1, *range(3, 33))])
def test_a_fault_at_the_nth_operation_loses_nothing(workplace: Workplace, fault: int) -> None:
    check_that_nothing_is_lost(workplace, FAILING, fault, f"operation-{fault}")


@pytest.mark.parametrize(
    "limit", [65_536, *nightly(1, 512, 4096, 8192, 16_384, 32_768, 131_072, 262_144, 524_288)]
)
def test_a_file_that_may_not_grow_loses_nothing(workplace: Workplace, limit: int) -> None:
    check_that_nothing_is_lost(workplace, LIMITED, limit, f"limit-{limit}")
