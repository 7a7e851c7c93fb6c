"""A run that is killed while its system writes into its own project repeats the call in flight."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runs import environment
from tests.integration.writing_rag import OPENED, WRITERS

CASES = 12
CHECKED = 3
"""Answers of a finished run that are asked for again, to see whether they are still the same."""
QUICK = ("cache_object", "native_open", "program_files", "sqlite")
"""The ways that are tried with each change; the others take too long for that."""
NEVER = -1
WAYS = sorted([*WRITERS, *OPENED])
SEEN = [way for way in WAYS if not way.startswith("program")]
"""A system that starts programs is asked again by each finished run."""


def parameters(ways: list[str]) -> list[object]:
    """Ways of writing, as parameters of a test."""
    rows: list[object] = []
    for name in ways:
        marks: list[pytest.MarkDecorator] = []
        if name not in QUICK:
            marks.append(pytest.mark.nightly)
        rows.append(pytest.param(name, marks=marks))
    return rows


class Project:
    """A project with a system that writes in one way, beside a list of its calls."""

    def __init__(self, folder: Path, way: str) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.way = way
        self.call_list = folder / "calls"
        (self.folder / "pyproject.toml").touch()
        shutil.copy(Path(__file__).with_name("writing_rag.py"), self.folder)
        lines: list[str] = []
        for number in range(CASES):
            case = {"query": f"q {number}", "reference": f"answer q {number}"}
            lines.append(json.dumps(case) + "\n")
        (self.folder / "cases.jsonl").write_text("".join(lines), "utf-8")

    def evaluate(self, *, last_call: int = NEVER) -> int:
        """Runs the evaluation, which a call may kill; gives its exit code."""
        command = ("eval", "cases.jsonl", "--rag", "writing_rag.py:Writing", "--out", "run")
        variables = {
            "WRITER": self.way,
            "WRITER_CALLS": str(self.call_list),
            "RAGBENCH_WRITER_LAST_CALL": str(last_call),
        }
        with (self.folder / "out.txt").open("ab") as out:
            done = subprocess.run(
                [sys.executable, "-m", "ragbench_cli", *command],
                cwd=self.folder,
                stdout=out,
                stderr=out,
                env=environment(**variables),
                check=False,
            )
        return done.returncode

    @property
    def calls(self) -> int:
        return len(self.call_list.read_text("utf-8").splitlines())

    @property
    def output(self) -> str:
        return (self.folder / "out.txt").read_text("utf-8")


@pytest.mark.parametrize("way", parameters(WAYS))
def test_a_kill_repeats_the_call_in_flight(tmp_path: Path, way: str) -> None:
    project = Project(tmp_path, way)

    for last_call in (5, 3):
        assert project.evaluate(last_call=last_call) == -signal.SIGKILL
    assert project.evaluate() == 0

    assert project.calls == CASES + 2, project.output


@pytest.mark.parametrize("way", parameters(SEEN))
def test_a_finished_run_is_not_asked_again(tmp_path: Path, way: str) -> None:
    project = Project(tmp_path, way)

    assert project.evaluate() == 0
    assert project.evaluate() == 0

    assert project.calls == CASES + CHECKED, project.output
