"""What a run prints into a file of its project is no change of the system."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runs import environment

RAG = """
from pathlib import Path

from ragbench import RAGInterface


class Noting(RAGInterface):
    def retrieve(self, query, top_k=None):
        with open(Path(__file__).with_name("calls"), "a") as log:
            log.write(f"{query}\\n")
        return [f"text {query}"]

    def generate(self, query, contexts):
        return f"answer {query}"
"""
CASES = 12
CHECKED = 3
"""Answers of a finished run that are asked for again, to see whether they are still the same."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a system that writes a log beside its code."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "my_rag.py").write_text(RAG, "utf-8")
    cases: list[str] = []
    for number in range(CASES):
        query = f"q{number}"
        case = {"id": f"c{number}", "query": query, "reference": f"answer {query}"}
        cases.append(json.dumps(case))
    (tmp_path / "cases.jsonl").write_text("\n".join(cases) + "\n", "utf-8")
    return tmp_path


def evaluate(project: Path, name: str) -> None:
    """Runs the evaluation with what it prints in two files of the project."""
    command = ("eval", "cases.jsonl", "--rag", "my_rag.py:Noting", "--out", "run")
    out_file = project / f"{name}.out"
    err_file = project / f"{name}.err"
    with out_file.open("wb") as out, err_file.open("wb") as err:
        done = subprocess.run(
            [sys.executable, "-m", "ragbench_cli", *command],
            cwd=project,
            stdout=out,
            stderr=err,
            env=environment(),
            check=False,
        )
    assert done.returncode == 0, err_file.read_text("utf-8")


def calls(project: Path) -> int:
    return len((project / "calls").read_text("utf-8").splitlines())


def test_files_that_a_run_prints_into_ask_nothing_again(project: Path) -> None:
    evaluate(project, "first")
    evaluate(project, "second")

    assert calls(project) == CASES + CHECKED
    assert "asked again" not in (project / "run" / "report.md").read_text("utf-8")


def test_another_file_beside_the_code_asks_all_again(project: Path) -> None:
    evaluate(project, "first")
    (project / "prompt.txt").write_text("Be brief.", "utf-8")
    evaluate(project, "second")

    assert calls(project) == 2 * CASES
