"""What a format yields and what it is asked for: the one primitive behind every format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

from ragbench.data.problems import Problems
from ragbench.data.source import Source

__all__ = ["Kind", "Row", "RowReader"]

Kind = Literal["cases", "documents"]
"""What is being read."""


class Row(NamedTuple):
    """One record of a source, before its fields are understood.

    A named tuple, not a dataclass: one is made for every line of files with millions of lines.
    """

    path: str
    """The file that it stands in, as the user named it."""
    line: int | None
    """Its 1-based line, or its number where the format has no lines."""
    values: Mapping[str, object]
    """Its fields, as JSON values."""
    cells: bool = False
    """Whether the values are text cells, in which lists and truth values are still spelled out."""


class RowReader(Protocol):
    """A format: a function from a source to rows.

    It notes what it cannot read in ``problems`` and goes on with the next record where that is
    possible. It never checks fields: that is done once, for all formats.
    """

    def __call__(self, source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
        """Yields the rows that hold cases, or documents, one at a time."""
        ...
