from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragbench import parse_metrics
from ragbench.errors import RunMismatchError
from ragbench.ledger import manifest
from ragbench.ledger.manifest import git_state, read_manifest, write_manifest

METRICS = parse_metrics("recall@5, P(rel=2)@3")
DATASET: Any = {"name": "d", "source": "d.jsonl", "fingerprint": "00", "cases": 3, "sample": 3}
MANIFEST = manifest.Manifest(
    dataset=manifest.DatasetInfo(**DATASET, seed=1),
    rag=manifest.RagInfo(name="R", description={"class": "m:R"}, stages={"retrieve": "ab"}),
    metrics=tuple(map(manifest.MetricInfo.of, METRICS)),
    settings={"matching": "id", "top_k": None},
    packages={"ragbench": "0.1"},
    git={"commit": "c0ffee", "dirty": False},
).with_fingerprints()


def test_a_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_manifest(MANIFEST, first)
    found = read_manifest(first)
    write_manifest(found, second)
    assert first.read_bytes() == second.read_bytes()
    assert replace(found, metrics=()) == replace(MANIFEST, metrics=())
    assert manifest.metrics_of(found) == METRICS


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", b'{"schema_version": 1}', b"\xff"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(content)
    with pytest.raises(RunMismatchError, match="is not a manifest of ragbench"):
        read_manifest(path)


def test_a_field_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    write_manifest(replace(MANIFEST, schema_version=2), path)
    with pytest.raises(RunMismatchError, match="has schema version 2, this ragbench reads 1"):
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
        manifest.write_atomic(path, b"new content")
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
