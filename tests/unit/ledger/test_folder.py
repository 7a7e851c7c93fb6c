from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragbench.errors import RunLockedError, RunMismatchError
from ragbench.ledger.folder import RunFolder, run_name

HOLD = """
import sys
from pathlib import Path
from ragbench.ledger.folder import RunFolder
with RunFolder(path=Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir() if not entry.name.startswith(".lock")}


def make_run(path: Path) -> RunFolder:
    """A finished run, with files of the user's beside it."""
    path.mkdir()
    for name in ("journal.sqlite", "manifest.json", "report.json", "report.md", "cases.csv"):
        (path / name).write_text("ours", encoding="utf-8")
    for name in ("report.docx", "journal.txt", "notes.md", "samples.jsonl"):
        (path / name).write_text("the user's", encoding="utf-8")
    (path / "report.old").mkdir()
    return RunFolder(path=path)


@contextmanager
def another_process(path: Path) -> Generator[subprocess.Popen[str]]:
    """A process that works on a folder until it is ended."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command, pipe = [sys.executable, "-c", HOLD, str(path)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder


@pytest.mark.parametrize("end", ["done", "killed"])
def test_a_second_process_is_refused_until_the_first_has_ended(tmp_path: Path, end: str) -> None:
    folder = RunFolder(path=tmp_path / "run")
    with another_process(folder.path) as holder:
        message = rf"process \(pid {holder.pid}\) is working on"
        with pytest.raises(RunLockedError, match=message), folder.locked():
            pass
        if end == "killed":
            holder.kill()
        else:
            holder.communicate(end)
    with folder.locked():
        pass  # free again


def test_a_folder_with_other_things_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x", encoding="utf-8")
    for name, reason in (("", "not empty and is not a run folder"),
                         ("thesis.tex", r"is a file\. Choose a folder with --out")):  # fmt: skip
        with pytest.raises(RunMismatchError, match=reason):
            RunFolder(path=tmp_path / name).locked().__enter__()
    assert (tmp_path / "thesis.tex").read_text("utf-8") == "x"
    assert names(tmp_path) == {"thesis.tex"}


def test_a_new_journal_replaces_what_a_run_wrote_and_nothing_else(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    with folder.new_journal() as path:
        assert folder.report.exists(), "the old run stays until the new journal is there"
        path.write_text("new", encoding="utf-8")
    assert folder.journal.read_text(encoding="utf-8") == "new"
    assert names(folder.path) == {
        "journal.sqlite", "journal.txt", "notes.md", "report.docx", "report.old", "samples.jsonl",
    }  # fmt: skip


def test_a_new_journal_that_fails_leaves_the_old_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    before = names(folder.path)
    with pytest.raises(ValueError, match="bad cases"), folder.new_journal() as path:
        path.write_text("half", encoding="utf-8")
        raise ValueError("bad cases")
    assert names(folder.path) == before
    assert folder.journal.read_text(encoding="utf-8") == "ours"


@pytest.mark.parametrize(("dataset", "rag", "name"), [
    ("pellorin", "baseline", "pellorin-baseline-01234567"),
    ("a/b c", "my.module:RAG", "a-b-c-my.module-RAG-01234567"),
    ("../..", "", "run-run-01234567"), ("数据", "é", "run-run-01234567"),
    ("x" * 99, "y", f"{'x' * 40}-y-01234567"),
])  # fmt: skip
def test_a_run_has_a_name_that_any_file_system_takes(dataset: str, rag: str, name: str) -> None:
    assert run_name(dataset, rag, "0123456789") == name
