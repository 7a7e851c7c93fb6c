"""Files by address: where every node of a cluster finds the same bytes, whole or by ranges.

``file://`` is a path that all nodes have, such as a shared folder. Every other scheme (``s3://``,
``gs://``, ``https://`` ...) is opened by fsspec.
"""

from __future__ import annotations

import io
import re
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from ragbench.errors import ConfigError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_BUFFER = 1 << 16
_MARKS = ("size", "ETag", "etag", "generation", "mtime")
"""What fsspec's file systems say of a file that is another one when the file has changed."""


def is_address(text: str) -> bool:
    return _ADDRESS.match(text) is not None


def open_address(address: str) -> BinaryIO:
    path = _shared_path(address)
    if path is not None:
        return path.open("rb", buffering=_BUFFER)
    files, name = _files(address)
    with _translated():
        return cast("BinaryIO", io.BufferedReader(_Remote(files.open(name, "rb")), _BUFFER))


def size_of_address(address: str) -> int:
    """Bytes of a file.

    Raises:
        OSError: it cannot be read by ranges.
    """
    path = _shared_path(address)
    if path is not None:
        return path.stat().st_size
    files, name = _files(address)
    with _translated():
        size = files.size(name)
    if not isinstance(size, int) or size < 1:
        raise OSError(None, "its size is not known")
    read_range(address, 0, 1)  # a server may send all, whatever it is asked for
    return size


def version_of_address(address: str) -> tuple[str, ...]:
    """What is another one when the file has changed, as far as its place shows.

    Of a shared path that is its size and the time of the last change, else its size and its mark
    of version (``ETag``), where the server gives one.
    """
    path = _shared_path(address)
    if path is not None:
        status = path.stat()
        return str(status.st_size), str(status.st_mtime_ns)
    files, name = _files(address)
    with _translated():
        files.invalidate_cache()
        info = files.info(name)
    marks = [f"{mark}={info[mark]}" for mark in _MARKS if info.get(mark) is not None]
    # A weak one may differ between servers that hold the same bytes.
    return tuple(mark for mark in marks if "=W/" not in mark)


def read_range(address: str, start: int, end: int) -> bytes:
    path = _shared_path(address)
    if path is not None:
        with path.open("rb") as file:
            file.seek(start)
            found = file.read(end - start)
    else:
        files, name = _files(address)
        with _translated():
            found = cast("bytes", files.cat_file(name, start=start, end=end))
    if len(found) != end - start:
        raise ShortReadError(None, f"{end - start:,} bytes were asked for and {len(found):,} came")
    return found


class ShortReadError(OSError):
    """Fewer bytes came than the file had when it was looked at."""


def _shared_path(address: str) -> Path | None:
    parts = urlsplit(address)
    return Path(unquote(f"{parts.netloc}{parts.path}")) if parts.scheme == "file" else None


@lru_cache(maxsize=16)
def _files(address: str) -> tuple[Any, str]:
    from ragbench.plugins import require  # few sources are addresses

    core: Any = require("fsspec.core", extra="remote")
    try:
        found = core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        scheme = address.partition(":")[0]
        raise ConfigError(
            f"'{scheme}://' cannot be opened: {error}. pip install 'fsspec[{scheme}]' adds support"
            " if there is such a scheme"
        ) from error
    return cast("tuple[Any, str]", found)


@contextmanager
def _translated() -> Generator[None]:
    """Errors of the many packages behind fsspec as errors of reading."""
    try:
        yield
    except FileNotFoundError as error:
        # What fsspec also says where nobody answers.
        if isinstance(error.__cause__, OSError) and not isinstance(
            error.__cause__, FileNotFoundError
        ):
            raise OSError(None, str(error.__cause__)) from error
        raise
    except OSError:
        raise
    except Exception as error:
        raise OSError(None, f"{type(error).__name__}: {error}") from error


class _Remote(io.RawIOBase):
    """A file of fsspec as the rest of Python knows files."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        with _translated():
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any, /) -> int:
        with _translated():
            found: bytes = self._file.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()
        super().close()
