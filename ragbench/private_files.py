"""Files and folders that only their owner can read: they hold what users asked and were answered.

Whatever ragbench makes outside a run's folder is made here. What is there already keeps its rights:
whoever widened them wants to share it. On Windows, a file has the rights of its folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal, cast

_FILE = 0o600
_FOLDER = 0o700


def open_private(path: Path, mode: Literal["ab", "a+b", "wb", "wb+", "xb+"]) -> BinaryIO:
    """Opens a file to write; a new one is private from its first byte on."""
    file = open(path, mode, opener=_open_descriptor)  # noqa: SIM115  # its caller closes it
    return cast("BinaryIO", file)


def _open_descriptor(path: str, flags: int) -> int:
    """What `open` opens a file with."""
    return os.open(path, flags, _FILE)


def make_private_file(path: Path) -> None:
    """Makes an empty file where there is none: a database that is opened there stays private.

    SQLite gives the files beside it the rights of the database.
    """
    with suppress(FileExistsError):
        path.touch(mode=_FILE, exist_ok=False)


def make_private_folder(path: Path) -> None:
    """Makes a folder where there is none; the folders above it have the usual rights."""
    path.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
