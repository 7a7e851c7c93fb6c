from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragbench import parse_metrics
from ragbench.errors import RunLockedError, RunMismatchError
from ragbench.ledger.folder import (
    DatasetInfo,
    Manifest,
    MetricInfo,
    RagInfo,
    RunFolder,
    git_state,
    metrics_of,
    read_manifest,
    run_name,
    write_atomic,
    write_manifest,
)

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
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        yield holder


@pytest.mark.parametrize("end", ["done", "killed"])
def test_a_second_process_is_refused_until_the_first_has_ended(tmp_path: Path, end: str) -> None:
    folder = RunFolder(path=tmp_path / "run")
    with another_process(folder.path) as holder:
        message = rf"process \(pid {holder.pid}\) is working on"
        with pytest.raises(RunLockedError, match=message) as refused, folder.locked():
            pass
        assert refused.value.__cause__ is None  # what a command takes for the user's own code
        if end == "killed":
            holder.kill()
        else:
            holder.communicate(end)
    with folder.locked():
        pass  # free again


def test_a_new_journal_replaces_what_a_run_wrote_and_nothing_else(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    with folder.new_journal() as path:
        assert folder.report.exists(), "the old run stays until the new journal is there"
        path.write_text("new", encoding="utf-8")
    assert folder.journal.read_text(encoding="utf-8") == "new"
    assert names(folder.path) == {
        "journal.sqlite",
        "journal.txt",
        "notes.md",
        "report.docx",
        "report.old",
        "samples.jsonl",
    }


def test_a_new_journal_that_fails_leaves_the_old_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    before = names(folder.path)
    with pytest.raises(ValueError, match="bad cases"), folder.new_journal() as path:
        path.write_text("half", encoding="utf-8")
        raise ValueError("bad cases")
    assert names(folder.path) == before
    assert folder.journal.read_text(encoding="utf-8") == "ours"


@pytest.mark.parametrize(
    ("dataset", "rag", "name"),
    [
        ("pellorin", "baseline", "pellorin-baseline-01234567"),
        ("a/b c", "my.module:RAG", "a-b-c-my.module-RAG-01234567"),
        ("../..", "", "run-run-01234567"),
        ("数据", "é", "run-run-01234567"),
        ("x" * 99, "y", f"{'x' * 40}-y-01234567"),
    ],
)
def test_a_run_has_a_name_that_any_file_system_takes(dataset: str, rag: str, name: str) -> None:
    assert run_name(dataset, rag, "0123456789") == name


METRICS = parse_metrics("recall@5, P(rel=2)@3")
DATASET: Any = {"name": "d", "source": "d.jsonl", "fingerprint": "00", "cases": 3, "sample": 3}
MANIFEST = Manifest(
    dataset=DatasetInfo(**DATASET, seed=1),
    rag=RagInfo(name="R", description={"class": "m:R"}, stages={"retrieve": "ab"}),
    metrics=tuple(map(MetricInfo.of, METRICS)),
    settings={"matching": "id", "top_k": None},
    packages={"ragbench": "0.1"},
    git={"commit": "c0ffee", "dirty": False},
)


def test_a_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_manifest(MANIFEST, first)
    found = read_manifest(first)
    write_manifest(found, second)
    assert first.read_bytes() == second.read_bytes()
    known: dict[str, Any] = {"metrics": (), "fingerprints": {}}
    assert replace(found, **known) == replace(MANIFEST, **known)
    assert metrics_of(found) == METRICS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b'{"schema_version": 1}',
        b"\xff",
        b'{"schema_version": 2}',
    ],
)
def test_a_file_of_another_kind_or_version_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(content)
    newer = "has schema version 2, this ragbench reads 1"
    with pytest.raises(RunMismatchError, match=newer if b"2" in content else "is not a manifest"):
        read_manifest(path)


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:2])
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new content")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def git(folder: Path, *arguments: str) -> None:
    names = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    command = ["git", "-C", str(folder), *arguments]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | names)


def test_the_commit_and_whether_tracked_files_changed(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "a").write_text("1", encoding="utf-8")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "--no-gpg-sign", "-m", "one")
    (tmp_path / "untracked").write_text("x", encoding="utf-8")
    clean = git_state(tmp_path)
    assert clean is not None and clean["dirty"] is False
    (tmp_path / "a").write_text("2", encoding="utf-8")
    assert git_state(tmp_path) == clean | {"dirty": True}
