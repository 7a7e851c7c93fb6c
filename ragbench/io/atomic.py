"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import errno
import gzip
import io
import os
import secrets
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from ragbench.errors import InputError
from ragbench.masking import hidden_bytes, hidden_in_table
from ragbench.private_files import make_private_folder, open_private

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that can only be the output's fault, whatever else the block reads or writes."""
_LONGEST_LINE = 1 << 24
"""Bytes of a line that are held back at most: memory must not hold a file without line ends."""


class _Masked(io.BufferedIOBase):
    """A file of text in UTF-8 without the credentials that this process knows of.

    It is written line by line: a credential that a writer hands over in two pieces is found.
    """

    def __init__(self, file: BinaryIO, hide: Callable[[bytes], bytes]) -> None:
        """Takes the output file, and the function that masks the credentials in its bytes.

        A text file that is written whole passes through this layer: no credential may be in it.
        """
        self._file = file
        self._hide = hide
        self._rest = b""
        """The begun line that is not written yet: its credential may be there only in part."""

    def writable(self) -> bool:
        """True, where the base class says False: a text layer on top of the file asks for it.

        The layer masks credentials in each line that is written to the output file.
        """
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # no other buffers are written
        """Passes all whole lines on to the file, masked, and keeps the rest for the next call.

        A writer may hand over a credential in two pieces: half of one is not recognised. A line
        that grows beyond `_LONGEST_LINE` is passed on without its end, because memory must not hold
        it all.

        Returns:
            How many bytes were taken, which are all, as `io` wants to know.
        """
        block = bytes(data)
        after_last_line = block.rfind(b"\n") + 1
        if after_last_line or len(self._rest) > _LONGEST_LINE:
            self._file.write(self._hide(self._rest + block[:after_last_line]))
            self._rest = b""
        self._rest += block[after_last_line:]
        return len(block)

    def finish(self) -> None:
        """Writes the last line, which `write` held back because no line end had come.

        A credential may come in two pieces, so lines are written whole, each with the credentials
        masked that this process knows of. The file stays open: `written_whole` still has to sync it
        to the disk.
        """
        self._file.write(self._hide(self._rest))
        self._rest = b""


@contextmanager
def written_whole(
    path: Path,
    *,
    make_folders: bool = False,
    is_text: bool = True,
    is_table: bool = False,
    is_private: bool = True,
) -> Generator[BinaryIO]:
    """A draft file beside ``path`` that takes the name of ``path`` when the block ends well.

    When the block raises, the draft is removed and ``path`` stays as it was: no reader ever sees
    half a file. What is written to a name that ends in ``.gz`` is compressed, without a time stamp,
    so that the same content gives the same bytes.

    Args:
        make_folders: make the folders above ``path`` that are missing.
        is_text: the content is text in UTF-8, in which credentials are masked.
        is_table: the content is a text without fields' names, in which its writer masks all but the
            ids.
        is_private: only its owner can read the file. A configuration that is shared is not private.

    Raises:
        InputError: ``path`` is a folder or cannot be written; the message names ``path``.
    """
    with _naming_output(path):
        if path.is_dir():
            raise InputError(f"{path}: cannot be written: it is a folder; name a file in it")
        target = path.resolve()
        draft = _draft_beside(target, make_folders=make_folders)
        handle = open_private(draft, "xb+") if is_private else draft.open("xb+")
    try:
        with _naming_output(path, only_full=True), handle:  # closing it writes what is left
            packed = None
            if target.suffix.lower() == ".gz":
                packed = gzip.GzipFile(filename="", fileobj=handle, mode="wb", mtime=0)
            with packed or nullcontext():
                out = handle if packed is None else cast("BinaryIO", packed)
                masked = _Masked(out, hidden_in_table if is_table else hidden_bytes)
                yield cast("BinaryIO", masked) if is_text else out
                masked.finish()
            # Before the rename: after a loss of power the name must not lead to an empty file.
            with _naming_output(path):
                handle.flush()
                os.fsync(handle.fileno())
        with _naming_output(path):
            draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file of text whole or not at all, with credentials masked and for its owner alone.

    The form of `written_whole` for content that is at hand as a single block.
    """
    with written_whole(path) as file:
        file.write(data)


@contextmanager
def folder_written_whole(path: Path, *, replaceable: Callable[[Path], bool]) -> Generator[Path]:
    """A draft folder beside ``path`` that takes the name of ``path`` when the block ends well.

    When the block raises, the draft is removed: no reader ever sees half an export.

    Args:
        replaceable: whether a folder that is already at ``path`` is of the same kind: only such a
            folder is overwritten, and never anything else that the user keeps there.

    Raises:
        InputError: ``path`` is a file, a folder with other content, or cannot be written.
    """
    with _naming_output(path):
        # An empty folder holds nothing that could be lost.
        if path.is_dir() and any(path.iterdir()) and not replaceable(path):
            raise InputError(
                f"{path}: cannot be written: the folder holds something else; name a new folder"
            )
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: cannot be written: it is a file; name a folder")
        draft = _draft_beside(path, make_folders=True)
        make_private_folder(draft)
    try:
        with _naming_output(path, only_full=True):
            yield draft
        with _naming_output(path):
            _replace_folder(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _replace_folder(new: Path, path: Path) -> None:
    """Puts a finished folder in the place of an old one, and removes the old one.

    A system cannot replace a full folder in one step: between the two renames neither is at
    ``path``. When the second rename fails, the old folder goes back to its place.
    """
    if not path.exists():
        new.replace(path)
        return
    old = _draft_beside(path, make_folders=False)
    path.replace(old)
    try:
        new.replace(path)
    except OSError:
        old.replace(path)
        raise
    shutil.rmtree(old)


def _draft_beside(path: Path, *, make_folders: bool) -> Path:
    """An unused name for a draft in the folder of its target.

    In the same folder, so that the rename of the finished draft to its target's name stays on one
    file system, where it happens at once. The name is hidden, and random, so that two processes
    never share a draft.
    """
    if make_folders:
        path.parent.mkdir(parents=True, exist_ok=True)
    return path.parent / f".ragbench-{secrets.token_hex(8)}.tmp"


@contextmanager
def _naming_output(path: Path, *, only_full: bool = False) -> Generator[None]:
    """Turns errors of the system in the block into an `InputError` that names the output.

    Args:
        only_full: turns only errors of a full disk. The caller's code is in the block: an input
            that it cannot open is not the output's fault.
    """
    try:
        yield
    except OSError as error:
        if only_full and error.errno not in _DISK_FULL:
            raise
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
