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
    r"""Whether the text that names a source is an address such as ``s3://``, and not a path.

    Addresses are opened by fsspec, paths by Python itself. A scheme has two letters at least, so
    that ``C:\cases.jsonl`` of Windows is a path.
    """
    return _ADDRESS.match(text) is not None


def open_address(address: str) -> BinaryIO:
    """Opens the file at an address to read its bytes: on a shared path, or through fsspec.

    Readers of sources get the same kind of stream as of a local file, so that they need not know
    where the file is.
    """
    path = _shared_path(address)
    if path is not None:
        return path.open("rb", buffering=_BUFFER)
    files, name = _file_system(address)
    with _as_os_errors():
        # Buffered: each small read would be a request of its own.
        return cast("BinaryIO", io.BufferedReader(_RemoteFile(files.open(name, "rb")), _BUFFER))


def size_of_address(address: str) -> int:
    """Bytes of the file at an address, by which a dump is split into ranges for several nodes.

    Raises:
        OSError: the file cannot be read, its size is not known, or its server sends no ranges.
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
    """The marks of a file that differ once the file has changed, as far as its place shows that.

    Nodes that read ranges of one file compare these marks before and after: a file that was
    replaced in between would give records of two versions. Of a shared path the marks are its size
    and the time of the last change, else its size and its mark of version (``ETag``), where the
    server gives one.
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
    """The bytes of a file from position ``start`` to before ``end``: the part of one node.

    Raises:
        OSError: the bytes cannot be read, or fewer came (`ShortReadError`): the file may have been
            replaced by a shorter one.
    """
    path = _shared_path(address)
    if path is not None:
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
    else:
        # `cat_file` sends one request for just these bytes: an opened file would read ahead.
        files, name = _file_system(address)
        with _as_os_errors():
            data = cast("bytes", files.cat_file(name, start=start, end=end))
    if len(data) != end - start:
        raise ShortReadError(None, f"{end - start:,} bytes were asked for and {len(data):,} came")
    return data


class ShortReadError(OSError):
    """Fewer bytes came than the file had when it was looked at."""


def _shared_path(address: str) -> Path | None:
    """The path that a ``file://`` address names; None for other schemes.

    A path that all nodes share needs neither fsspec nor a request, so it is opened directly.
    """
    parts = urlsplit(address)
    if parts.scheme != "file":
        return None
    return Path(unquote(f"{parts.netloc}{parts.path}"))


@lru_cache(maxsize=16)
def _file_system(address: str) -> tuple[Any, str]:
    """The file system object of fsspec for an address, and the name of the file in that system.

    Cached, because each range that is read asks again, and a new file system may log in anew.

    Raises:
        ConfigError: fsspec knows no such scheme, or the package of the scheme is not installed.
    """
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
    """Turns whatever the packages behind fsspec raise in the block into an `OSError`.

    Each cloud's package has errors of its own. Callers catch `OSError` alone, as of a local file.
    """
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
        # Two arguments, since callers show `strerror`, which a single one leaves empty.
        raise OSError(None, f"{type(error).__name__}: {error}") from error


class _RemoteFile(io.RawIOBase):
    """A file of fsspec as `io` wants one, to be buffered."""

    def __init__(self, file: Any) -> None:
        """Takes a file that fsspec opened to read bytes; this adapter makes it one of `io`.

        Files at addresses such as ``s3://`` are then read by code that knows Python's own files
        alone.
        """
        self._file = file

    def readable(self) -> bool:
        """True: `io.BufferedReader` refuses a raw file that does not say that it can be read.

        A remote file is one at an address such as ``s3://``, opened to be read.
        """
        return True

    def seekable(self) -> bool:
        """Whether the remote store serves any part of a file: Parquet is read from the end.

        The store's package answers: some servers send a file from its beginning only.
        """
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves to a position of the remote file, and returns the new position.

        Some stores ask their server for the file's size here, which may fail: that is an `OSError`,
        too.
        """
        with _as_os_errors():
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        """The position in the remote file from which the next bytes are read.

        Needed to be a raw file of `io`: a reader of a Parquet file asks for it.
        """
        return int(self._file.tell())

    def readinto(self, buffer: Any, /) -> int:
        """Fills a buffer with the next bytes of the remote file, as many as one answer has.

        Returns:
            How many bytes were put into the buffer; 0 at the end of the file, as `io` wants it.
        """
        with _as_os_errors():
            data: bytes = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Closes fsspec's file, too: it holds a connection, and blocks that it fetched ahead."""
        self._file.close()
        super().close()
