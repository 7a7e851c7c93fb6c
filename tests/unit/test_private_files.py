"""What ragbench writes of users' data is for its owner alone, whatever the process' umask says."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragbench.io.atomic import folder_written_whole, written_whole
from ragbench.ledger.journal import Journal
from ragbench.ledger.scores import ScoreStore
from ragbench.private_files import make_private_file, make_private_folder, open_private

if sys.platform == "win32":
    pytest.skip("files have no such rights", allow_module_level=True)


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    earlier = os.umask(0o022)
    yield
    os.umask(earlier)


def rights(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_file_that_is_written_whole_is_private(tmp_path: Path) -> None:
    with written_whole(tmp_path / "export.jsonl") as file:
        file.write(b"{}\n")

    assert rights(tmp_path / "export.jsonl") == 0o600


def test_a_configuration_to_share_has_the_usual_rights(tmp_path: Path) -> None:
    with written_whole(tmp_path / "ragbench.yaml", is_private=False) as file:
        file.write(b"top_k: 5\n")

    assert rights(tmp_path / "ragbench.yaml") == 0o644


def test_a_folder_that_is_written_whole_is_private(tmp_path: Path) -> None:
    with folder_written_whole(tmp_path / "hf", replaceable=lambda _: True) as draft:
        (draft / "rows").write_bytes(b"x")

    assert rights(tmp_path / "hf") == 0o700


def test_a_file_that_grows_is_private_from_its_first_line_on(tmp_path: Path) -> None:
    with open_private(tmp_path / "labels.jsonl", "ab") as file:
        file.write(b"{}\n")

    assert rights(tmp_path / "labels.jsonl") == 0o600


def test_rights_that_a_user_widened_stay(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.touch(mode=0o644)

    with open_private(path, "ab") as file:
        file.write(b"{}\n")
    make_private_file(path)

    assert rights(path) == 0o644


def test_a_database_that_is_there_keeps_its_time(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.touch()
    os.utime(path, (1000, 1000))

    make_private_file(path)

    assert path.stat().st_mtime == 1000


def test_a_folder_is_private_and_those_above_it_are_as_usual(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "above" / "mine")

    assert rights(tmp_path / "above" / "mine") == 0o700
    assert rights(tmp_path / "above") == 0o755


def test_a_journal_is_private_in_a_folder_that_is_not(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.sqlite"):
        pass

    assert rights(tmp_path / "journal.sqlite") == 0o600


def test_a_store_of_scores_is_private(tmp_path: Path) -> None:
    with ScoreStore(tmp_path / "scores.sqlite"):
        pass

    assert rights(tmp_path / "scores.sqlite") == 0o600
