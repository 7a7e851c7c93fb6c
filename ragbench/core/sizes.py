"""Sizes in words, such as 64MB, and the limit for one record."""

from __future__ import annotations

import os
import re
from functools import cache

RECORD_VARIABLE = "RAGBENCH_MAX_RECORD"
_UNITS = {"TB": 1 << 40, "GB": 1 << 30, "MB": 1 << 20, "KB": 1 << 10}
"""The largest first: a size is shown in the first that is not larger than it."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])?i?B)?", re.IGNORECASE)


@cache
def size_of(text: str) -> int:
    """Bytes of a size in words; a kB is 1024 of them.

    Options and variables have limits in that form.

    Raises:
        ConfigError: the text is no size.

    Example:
        >>> size_of("64MB"), size_of("1.5 GB"), size_of("100")
        (67108864, 1610612736, 100)
    """
    match = _SIZE.fullmatch(text.strip())
    size = 0.0
    if match is not None:
        number, unit_letter = match.groups()
        # Without a letter this is no unit of the table: the number counts bytes.
        size = float(number) * _UNITS.get(f"{unit_letter}B".upper(), 1)
    if size < 1:
        from ragbench.errors import ConfigError  # nearly every module loads this one

        raise ConfigError(f"'{text}' is not a size: expected such as 500MB or 2GB")
    return int(size)


def size_text(size: int) -> str:
    """A size as people read it, such as ``1.5 GB``.

    Errors about limits show it; the units are those that `size_of` reads.
    """
    for unit, factor in _UNITS.items():
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} bytes"


def record_limit() -> int:
    """Bytes of the longest record that is read: a line, a cell, an answer over HTTP.

    The option ``--max-record`` sets the variable. The default of 64 MB is far above any record that
    a person made, and keeps a damaged file from filling the memory.
    """
    return size_of(os.environ.get(RECORD_VARIABLE) or "64MB")


def long_record(subject: str, limit: int) -> str:
    """The message about a record that is longer than the limit, with the way to allow more.

    Args:
        subject: the record's name in the sentence, such as ``the line``.
    """
    return (
        f"{subject} is longer than {size_text(limit)}, the limit for one record. Where that is "
        f"meant, allow more: ragbench --max-record SIZE ... or {RECORD_VARIABLE}=SIZE"
    )
