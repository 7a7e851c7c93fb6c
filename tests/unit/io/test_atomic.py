from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ragbench.errors import InputError
from ragbench.io.atomic import folder_written_whole, written_whole


def test_a_file_appears_only_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "new" / "o.txt"
    with written_whole(target, make_folders=True) as file:
        file.write(b"text")
        assert not target.exists()
    assert target.read_bytes() == b"text"
    assert [path.name for path in target.parent.iterdir()] == ["o.txt"]


def test_a_full_disk_is_an_error_that_names_the_output(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with (
        pytest.raises(InputError, match=r"o.txt: cannot be written: No space left"),
        written_whole(tmp_path / "o.txt"),
    ):
        raise full
    with (
        pytest.raises(InputError, match=r"o: cannot be written: No space left"),
        folder_written_whole(tmp_path / "o", replaceable=lambda _: False),
    ):
        raise full
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_cannot_be_read_is_not_blamed_on_the_output(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), written_whole(tmp_path / "o.txt"):
        (tmp_path / "missing").read_bytes()


def test_an_interruption_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "o.txt"
    target.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), written_whole(target, make_folders=True) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_folder_takes_an_empty_folders_place(tmp_path: Path) -> None:
    target = tmp_path / "o"
    target.mkdir()
    with folder_written_whole(target, replaceable=lambda _: False) as folder:
        (folder / "x").write_bytes(b"1")
    assert [path.name for path in target.iterdir()] == ["x"]
    assert list(tmp_path.iterdir()) == [target]
