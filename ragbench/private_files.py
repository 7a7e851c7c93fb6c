"""Files and folders that only their owner can read: they hold what users asked and were answered.

Whatever ragbench makes outside a run's folder is made here. What is there already keeps its rights:
whoever widened them wants to share it. On Windows, a file has the rights of its folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal

_FILE = 0o600
_FOLDER = 0o700


def open_private(path: Path, mode: Literal["ab", "a+b", "wb", "wb+", "xb+"]) -> BinaryIO:
    """Opens a file to write that only its owner can read, from its first byte on.

    A file that is there already keeps its rights: whoever widened them wants to share it.
    """
    return open(path, mode, opener=_open_descriptor)  # its caller closes it


def _open_descriptor(path: str, flags: int) -> int:
    """Opens a file for Python's `open`, which calls this, with the rights of its owner alone.

    Without it a new file would be readable by others until its rights are changed.
    """
    return os.open(path, flags, _FILE)


def make_private_file(path: Path) -> None:
    """Makes an empty file that only its owner can read, where there is none.

    A database that is opened there stays private: SQLite would make the file with the usual rights.
    It gives the files beside it the rights of the database.
    """
    with suppress(FileExistsError):
        path.touch(mode=_FILE, exist_ok=False)


def make_private_folder(path: Path) -> None:
    """Makes a folder that only its owner can read, where there is none.

    The folders above it have the usual rights. Stores, caches and reports hold what users asked and
    were answered.
    """
    path.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
