"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ragbench.errors import InputError

__all__ = ["atomic_file", "atomic_folder"]

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def atomic_file(path: Path) -> Generator[BinaryIO, None, None]:
    """A temporary file beside ``path`` that takes its name when the block ends well.

    The file can be read as well as written. When the block raises, it is removed and ``path``
    stays as it was. Folders above ``path`` are made.

    Raises:
        InputError: ``path`` is a folder, or cannot be written.
    """
    with _saying(path):
        if path.is_dir():
            raise InputError(f"cannot write '{path}': it is a folder; name a file in it")
        temporary = _beside(path)
        handle = temporary.open("xb+")
    try:
        with handle:
            with _saying(path, only_full=True):
                yield handle
            with _saying(path):
                handle.flush()
                os.fsync(handle.fileno())
        with _saying(path):
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(
    path: Path, *, replaceable: Callable[[Path], bool]
) -> Generator[Path, None, None]:
    """A temporary folder beside ``path`` that takes its name when the block ends well.

    Args:
        path: the folder to make. Folders above it are made as well.
        replaceable: whether a folder with something in it may be replaced, so that a slip of the
            hand cannot wipe out a folder of other things.

    Raises:
        InputError: ``path`` is a file, holds something else, or cannot be written.
    """
    with _saying(path):
        if path.is_dir() and any(path.iterdir()) and not replaceable(path):
            raise InputError(
                f"cannot write '{path}': the folder holds something else; name a new folder"
            )
        if path.exists() and not path.is_dir():
            raise InputError(f"cannot write '{path}': it is a file; name a folder")
        temporary = _beside(path)
        temporary.mkdir()
    try:
        with _saying(path, only_full=True):
            yield temporary
        with _saying(path):
            _swap(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _swap(new: Path, path: Path) -> None:
    """Puts a folder in another's place; only the time between two renames has neither."""
    if not path.exists():
        new.replace(path)
        return
    old = _beside(path)
    path.replace(old)
    try:
        new.replace(path)
    except OSError:
        old.replace(path)
        raise
    shutil.rmtree(old)


def _beside(path: Path) -> Path:
    """An unused name in the same folder, so that the rename stays on one file system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.parent / f".ragbench-{secrets.token_hex(8)}.tmp"


@contextmanager
def _saying(path: Path, *, only_full: bool = False) -> Generator[None, None, None]:
    """Turns an operating system's error into one that names the output."""
    try:
        yield
    except OSError as error:
        if only_full and error.errno not in _DISK_FULL:
            raise
        raise InputError(f"cannot write '{path}': {error.strerror or error}") from error
