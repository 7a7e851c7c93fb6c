"""How much of an input is taken into memory: a small file may unpack to more than there is."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ragbench.core.in_words import UnreadableError
from ragbench.core.record import Record, field
from ragbench.core.sizes import long_record, record_limit, size_of, size_text

if TYPE_CHECKING:
    import zipfile

FILE_VARIABLE = "RAGBENCH_MAX_FILE"
_MAX_EXPANSION = 200
"""Times its size to which a file may unpack. Texts are packed to a tenth, tables of repeated words
to a hundredth; what unpacks to more was made to fill memory: deflate can reach 1,032 times."""


class ReadLimits(Record):
    """What is refused as too large: by ``RAGBENCH_MAX_RECORD`` and ``RAGBENCH_MAX_FILE``, if set.

    Each error names the option that allows more.
    """

    record: int = field(default_factory=record_limit)
    """Bytes of one record: a line, a cell, an element of a JSON array, a text file."""
    file: int = field(default_factory=lambda: size_of(os.environ.get(FILE_VARIABLE) or "1GB"))
    """Bytes of a file that has to be held whole. One that is read record by record may be larger,
    unless it unpacks to more than 200 times its size."""

    def long_record(self, subject: str) -> str:
        """The error's text for a record above the limit, with the option that allows more.

        Each reader calls its record in its own words; the option is the same for all.

        Args:
            subject: what the sentence calls it, such as ``the line``.
        """
        return long_record(subject, self.record)

    def large_file(self, subject: str) -> str:
        """The error's text for a file above the limit, with the option that allows more.

        The error is the same for every reader, so that users find the option in each.

        Args:
            subject: the beginning of the sentence, such as ``it is larger than``.
        """
        return (
            f"{subject} {size_text(self.file)}, the limit for a file that is held whole or "
            f"unpacked. Where that is meant, allow more: ragbench --max-file SIZE ... or "
            f"{FILE_VARIABLE}=SIZE"
        )

    def check_held(self, size: int) -> None:
        """Refuses a file that has to be held in memory whole and is larger than the limit allows.

        Args:
            size: the file's bytes, or those read so far.

        Raises:
            UnreadableError: the size is above the limit.
        """
        if size > self.file:
            raise UnreadableError(self.large_file("it is larger than"))

    def read_data(self, path: Path) -> bytes:
        """The content of a data file that has to be held whole, such as a workbook.

        Raises:
            UnreadableError: the file is larger than the limit.
        """
        with path.open("rb") as file:
            self.check_held(os.fstat(file.fileno()).st_size)
            return self.read_all(file)  # a pipe has no size

    def read_all(self, stream: BinaryIO) -> bytes:
        """The rest of a stream that has to be held whole, if it is within the limit for files.

        One byte more than allowed is read, since a stream does not say its size.

        Raises:
            UnreadableError: more than the limit is left.
        """
        data = stream.read(self.file + 1)
        self.check_held(len(data))
        return data

    def read_settings(self, path: Path) -> bytes:
        """The content of a file that people write, such as a configuration.

        The content counts as one record, whose limit is lower than that of a file: people do not
        write more by hand.

        Raises:
            UnreadableError: the file is longer than a record may be.
        """
        with path.open("rb") as file:
            data = file.read(self.record + 1)
        if len(data) > self.record:
            raise UnreadableError(self.long_record("the file"))
        return data

    def check_archive(self, archive: zipfile.ZipFile) -> None:
        """Refuses a ZIP file, such as a workbook, that would unpack to too much.

        Nothing is unpacked for it: `zipfile` gives no more of a part than its directory says,
        whatever the data hold.
        """
        unpacked_size = sum(part.file_size for part in archive.infolist())
        if unpacked_size > self.file:
            raise UnreadableError(self.large_file("it unpacks to more than"))

    def check_unpacked(self, packed: int, size: int) -> None:
        """Refuses a Parquet column that unpacks to far more than its packed size, before it does.

        A column may hold one text that every row repeats: a small file then fills the memory.

        Args:
            packed: the column's bytes in the file.
            size: its bytes once it is unpacked.
        """
        if size > max(self.record, _MAX_EXPANSION * packed):
            subject = f"a column that unpacks to more than {_MAX_EXPANSION} times its size"
            raise UnreadableError(self.long_record(subject))

    def check_cells(self, cells: Iterable[object]) -> None:
        """Refuses a row in which a text is longer than a record may be; other cells have no length.

        Raises:
            UnreadableError: a text is too long.
        """
        for cell in cells:
            if isinstance(cell, (str, bytes)) and len(cell) > self.record:
                raise UnreadableError(self.long_record("a cell"))


class Unpacked(io.RawIOBase):
    """The bytes that a gzip stream unpacks to, as long as they are no more than is allowed.

    Closing it closes the packed stream, too, but for standard input.
    """

    def __init__(self, packed: BinaryIO, limits: ReadLimits) -> None:
        """Takes the packed stream, and the limits of how much it may unpack to.

        The packed bytes are counted as they are read: how far a file may unpack depends on them.
        """
        import gzip  # most files are not packed

        self._packed = _CountingReader(packed)
        """Counts the packed bytes, of which the limit is a multiple."""
        self._stream: Any = gzip.GzipFile(fileobj=cast("Any", self._packed), mode="rb")
        self._limits = limits
        self._size = 0
        """Unpacked bytes that were read so far."""

    def readable(self) -> bool:
        """True: a buffered reader refuses a raw stream of `io` that cannot be read.

        This stream unpacks gzip as it is read, and counts how much comes out.
        """
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Unpacks the next bytes of the gzip stream into a buffer, and returns how many.

        The reading stops with an error before a small file has filled disk or memory. A file that
        unpacks to much may be honest: only beyond both limits it is refused.
        """
        count: int = self._stream.readinto(buffer)
        self._size += count
        if self._size > max(self._limits.file, _MAX_EXPANSION * self._packed.size):
            subject = f"it unpacks to more than {_MAX_EXPANSION} times its size, and to more than"
            raise UnreadableError(self._limits.large_file(subject))
        return count

    def close(self) -> None:
        """Closes the packed stream, too, which `gzip` leaves open.

        Standard input is not ours to close.
        """
        super().close()
        if self._packed.stream is not getattr(sys.stdin, "buffer", None):
            self._packed.stream.close()


class _CountingReader:
    """A stream that counts the bytes that unpacking has read of it."""

    def __init__(self, stream: BinaryIO) -> None:
        """Takes the packed stream; ``size`` counts the bytes that are read of it from here on.

        gzip itself does not say how many packed bytes it has read.
        """
        self.stream = stream
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        """Reads packed bytes and counts them: their number limits how much may be unpacked.

        A file of a few bytes may unpack to gigabytes, which would fill disk or memory.
        """
        data = self.stream.read(size)
        self.size += len(data)
        return data
