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
"""Bytes that one read of a file fetches: each may be a request to a server."""
_VERSION_KEYS = ("size", "ETag", "etag", "generation", "mtime")
"""What fsspec's file systems say of a file that differs once the file has changed. Each of them
says one or two of these."""


def is_address(text: str) -> bool:
    """Whether a source is named by an address, and not by a path."""
    return _ADDRESS.match(text) is not None


def open_address(address: str) -> BinaryIO:
    """Opens a file to read its bytes, from wherever its scheme says that it is."""
    path = _shared_path(address)
    if path is not None:
        return path.open("rb", buffering=_BUFFER)
    files, name = _file_system(address)
    with _as_os_errors():
        return cast("BinaryIO", io.BufferedReader(_RemoteFile(files.open(name, "rb")), _BUFFER))


def size_of_address(address: str) -> int:
    """Bytes of a file.

    Raises:
        OSError: it cannot be read by ranges.
    """
    path = _shared_path(address)
    if path is not None:
        return path.stat().st_size
    files, name = _file_system(address)
    with _as_os_errors():
        size = files.size(name)
    if not isinstance(size, int) or size < 1:
        raise OSError(None, "its size is not known")
    read_range(address, 0, 1)  # a server may send all, whatever it is asked for
    return size


def version_of_address(address: str) -> tuple[str, ...]:
    """What differs once the file has changed, as far as the place where it is shows that.

    Of a shared path that is its size and the time of the last change, else its size and its mark
    of version (``ETag``), where the server gives one.
    """
    path = _shared_path(address)
    if path is not None:
        status = path.stat()
        return str(status.st_size), str(status.st_mtime_ns)
    files, name = _file_system(address)
    with _as_os_errors():
        files.invalidate_cache()  # it would say again what the file was when it was opened
        info = files.info(name)
    marks: list[str] = []
    for key in _VERSION_KEYS:
        value = info.get(key)
        # A weak ETag may differ between servers that hold the same bytes.
        if value is not None and not str(value).startswith("W/"):
            marks.append(f"{key}={value}")
    return tuple(marks)


def read_range(address: str, start: int, end: int) -> bytes:
    """The bytes of a file from one position to before another.

    Raises:
        OSError: they cannot be read, or there are fewer (`ShortReadError`).
    """
    path = _shared_path(address)
    if path is not None:
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
    else:
        files, name = _file_system(address)
        with _as_os_errors():
            data = cast("bytes", files.cat_file(name, start=start, end=end))
    if len(data) != end - start:
        raise ShortReadError(None, f"{end - start:,} bytes were asked for and {len(data):,} came")
    return data


class ShortReadError(OSError):
    """Fewer bytes came than the file had when it was looked at."""


def _shared_path(address: str) -> Path | None:
    """The path that a ``file://`` address names, which needs no fsspec; None for other schemes."""
    parts = urlsplit(address)
    if parts.scheme != "file":
        return None
    return Path(unquote(f"{parts.netloc}{parts.path}"))


@lru_cache(maxsize=16)
def _file_system(address: str) -> tuple[Any, str]:
    """The file system of fsspec for an address, and what the file is called there."""
    from ragbench.plugins import require  # few sources are addresses

    core: Any = require("fsspec.core", extra="remote")
    try:
        return cast("tuple[Any, str]", core.url_to_fs(address))
    except (ImportError, ValueError) as error:
        scheme = address.partition(":")[0]
        raise ConfigError(
            f"'{scheme}://' cannot be opened: {error}. pip install 'fsspec[{scheme}]' adds support"
            " if there is such a scheme"
        ) from error


@contextmanager
def _as_os_errors() -> Generator[None]:
    """Errors of the many packages behind fsspec as errors of reading."""
    try:
        yield
    except FileNotFoundError as error:
        # What fsspec also says where nobody answers: the cause knows better.
        cause = error.__cause__
        if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
            raise OSError(None, str(cause)) from error
        raise
    except OSError:
        raise
    except Exception as error:
        raise OSError(None, f"{type(error).__name__}: {error}") from error


class _RemoteFile(io.RawIOBase):
    """A file of fsspec as `io` wants one, to be buffered."""

    def __init__(self, file: Any) -> None:
        """Takes a file that fsspec opened to read bytes."""
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        """Whether the store serves any part of the file: a Parquet file is read from its end."""
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves to a place; this asks some stores for the file's size, which may fail."""
        with _as_os_errors():
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any, /) -> int:
        """Fills a buffer, with as many bytes as one answer of the store has; 0 at the end."""
        with _as_os_errors():
            data: bytes = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Closes fsspec's file, too: it holds the connection, and blocks that it fetched ahead."""
        self._file.close()
        super().close()
