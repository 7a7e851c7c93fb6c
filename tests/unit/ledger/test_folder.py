"""A run's folder: who works on it, which files are the run's, and its manifest."""

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
    forget_repeats,
    git_state,
    keep_repeats,
    metrics_of,
    read_manifest,
    repeat_folder,
    repeat_folders,
    run_name,
    write_atomic,
    write_manifest,
)

# --- one process at a time


HOLD_FOLDER = """
import sys
from pathlib import Path
from ragbench.ledger.folder import RunFolder
with RunFolder(path=Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(path: Path) -> Generator[subprocess.Popen[str]]:
    """A process that works on a folder until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_FOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder


def test_a_second_process_is_refused_with_the_first_ones_number(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path / "run")

    with another_process(folder.path) as holder:
        with pytest.raises(RunLockedError) as refusal, folder.locked():
            pass
        holder.communicate()

    assert f"process (pid {holder.pid}) is working on" in str(refusal.value)
    # A command takes an error with a cause for one of the user's own code.
    assert refusal.value.__cause__ is None


def test_a_folder_is_free_after_its_process_has_ended(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path / "run")
    with another_process(folder.path) as holder:
        holder.communicate()

    with folder.locked() as is_new:
        assert not is_new


def test_a_folder_is_free_after_its_process_was_killed(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path / "run")
    with another_process(folder.path) as holder:
        holder.kill()

    with folder.locked() as is_new:
        assert not is_new


# --- the files of a run


def names(path: Path) -> list[str]:
    """The entries of a folder; that it was locked does not count."""
    return sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(".lock"))


def make_run(path: Path) -> RunFolder:
    """A run in a folder in which the user keeps files, too."""
    path.mkdir()
    for name in ("journal.sqlite", "manifest.json", "report.json", "report.md", "cases.csv"):
        (path / name).write_text("ours", encoding="utf-8")
    for name in ("report.docx", "journal.txt", "notes.md", "samples.jsonl"):
        (path / name).write_text("the user's", encoding="utf-8")
    (path / "report.old").mkdir()
    return RunFolder(path=path)


def test_a_new_journal_replaces_what_a_run_wrote_and_nothing_else(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")

    with folder.new_journal() as path:
        path.write_text("new", encoding="utf-8")

    assert folder.journal.read_text(encoding="utf-8") == "new"
    assert names(folder.path) == [
        "journal.sqlite",
        "journal.txt",
        "notes.md",
        "report.docx",
        "report.old",
        "samples.jsonl",
    ]


def test_the_old_run_stays_until_the_new_journal_is_there(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")

    with folder.new_journal() as path:
        assert folder.report.exists()
        assert folder.journal.read_text(encoding="utf-8") == "ours"
        path.write_text("new", encoding="utf-8")


def test_a_new_journal_that_fails_leaves_the_old_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    names_before = names(folder.path)

    with pytest.raises(ValueError, match="bad cases"), folder.new_journal() as path:
        path.write_text("half", encoding="utf-8")
        raise ValueError("bad cases")

    assert names(folder.path) == names_before
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


# --- the repeats of a run


def test_the_first_time_is_in_the_run_and_each_repeat_in_a_folder_of_its_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "repeats").mkdir()

    keep_repeats(tmp_path, 3)

    assert repeat_folder(tmp_path, 1) == tmp_path
    assert repeat_folders(tmp_path) == (tmp_path / "repeats" / "2", tmp_path / "repeats" / "3")


def test_repeats_that_no_longer_count_keep_their_answers(tmp_path: Path) -> None:
    answers = repeat_folder(tmp_path, 2) / "journal.sqlite"
    answers.parent.mkdir(parents=True)
    answers.touch()
    keep_repeats(tmp_path, 2)

    forget_repeats(tmp_path)

    assert repeat_folders(tmp_path) == ()
    assert answers.exists()


def test_a_run_that_was_never_repeated_has_no_repeats(tmp_path: Path) -> None:
    assert repeat_folders(tmp_path) == ()


@pytest.mark.parametrize("content", ["", "two", "0", "-1", "²"])
def test_a_broken_number_of_repeats_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "repeats" / "count"
    path.parent.mkdir()
    path.write_text(content, encoding="utf-8")

    with pytest.raises(RunMismatchError, match=r"count holds no number of repeats: run eval again"):
        repeat_folders(tmp_path)


# --- the manifest


METRICS = parse_metrics("recall@5, P(rel=2)@3")
MANIFEST = Manifest(
    dataset=DatasetInfo(
        name="d", source="d.jsonl", fingerprint="00", cases=3, limit=None, sample=3, seed=1
    ),
    rag=RagInfo(name="R", description={"class": "m:R"}, stages={"retrieve": "ab"}),
    metrics=tuple(MetricInfo.of(metric) for metric in METRICS),
    settings={"matching": "id", "top_k": None},
    packages={"ragbench": "0.1"},
    git={"commit": "c0ffee", "dirty": False},
)


def test_a_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    write_manifest(MANIFEST, path)

    manifest = read_manifest(path)

    # Fingerprints are added when it is written, and metrics come back in plain values.
    without: dict[str, Any] = {"metrics": (), "fingerprints": {}}
    assert replace(manifest, **without) == replace(MANIFEST, **without)
    assert metrics_of(manifest) == METRICS


def test_a_manifest_that_was_read_is_written_with_the_same_bytes(tmp_path: Path) -> None:
    original = tmp_path / "original"
    copy = tmp_path / "copy"
    write_manifest(MANIFEST, original)

    write_manifest(read_manifest(original), copy)

    assert copy.read_bytes() == original.read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{}", id="an object without fields"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"schema_version": 1}', id="a version and nothing else"),
        pytest.param(b"\xff", id="no UTF-8"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(content)

    with pytest.raises(RunMismatchError, match="is not a manifest"):
        read_manifest(path)


def test_a_manifest_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(b'{"schema_version": 2}')

    with pytest.raises(RunMismatchError, match="has schema version 2, this ragbench reads 1"):
        read_manifest(path)


def test_a_folder_without_a_manifest_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match=r"is not a run folder: it has no manifest\.json"):
        read_manifest(tmp_path / "manifest.json")


def test_a_run_that_ended_before_its_manifest_can_be_continued(tmp_path: Path) -> None:
    RunFolder(path=tmp_path).journal.touch()

    with pytest.raises(RunMismatchError, match="ended too early; the command that began it"):
        read_manifest(tmp_path / "manifest.json")


# --- writing a file


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(self: Path, target: Path) -> Path:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)

    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new content")

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


# --- the state of the repository


def git(folder: Path, *arguments: str) -> None:
    author = {
        "GIT_AUTHOR_NAME": "x",
        "GIT_AUTHOR_EMAIL": "x",
        "GIT_COMMITTER_NAME": "x",
        "GIT_COMMITTER_EMAIL": "x",
    }
    subprocess.run(
        ["git", "-C", str(folder), *arguments],
        check=True,
        capture_output=True,
        env=os.environ | author,
    )


def test_the_state_is_the_commit_and_whether_tracked_files_changed(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "a").write_text("1", encoding="utf-8")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "--no-gpg-sign", "-m", "first")
    (tmp_path / "untracked").write_text("x", encoding="utf-8")

    clean = git_state(tmp_path)
    (tmp_path / "a").write_text("2", encoding="utf-8")
    changed = git_state(tmp_path)

    assert clean is not None
    assert clean["dirty"] is False
    assert changed == {"commit": clean["commit"], "dirty": True}


def test_a_repository_without_a_commit_has_no_state(tmp_path: Path) -> None:
    git(tmp_path, "init")

    assert git_state(tmp_path) is None
