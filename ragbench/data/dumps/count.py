"""How many records a dump has, where that can be told without reading them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["count_lines"]

_BLOCK = 1 << 20
_SUFFIXES = (".jsonl", ".ndjson")


def count_lines(path: str | Path) -> int | None:
    """The lines of a JSONL file: about its queries, for a progress bar.

    Args:
        path: a file, or ``-``.

    Returns:
        None for standard input, other containers, and what cannot be read.
    """
    file = Path(path)
    if file.suffix.lower() not in _SUFFIXES:
        return None
    try:
        with file.open("rb") as stream:
            lines, last = 0, b"\n"
            while block := stream.read(_BLOCK):
                lines += block.count(b"\n")
                last = block[-1:]
            return lines + (last != b"\n")
    except OSError:
        return None
