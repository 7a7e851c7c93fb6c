"""A name, and beside it what is to be said of it, wrapped to the terminal."""

from __future__ import annotations

import shutil
import textwrap

__all__ = ["entry"]


def entry(name: str, text: str, *, width: int = 24, indent: int = 2) -> str:
    """A line or more: a name too long for its column stands on a line of its own.

    Args:
        name: what is listed.
        text: what it is.
        width: columns that names take.
        indent: columns before the name.
    """
    columns = max(40, min(100, shutil.get_terminal_size((80, 24)).columns))
    room = indent + width
    lines = textwrap.wrap(text, columns - room, break_on_hyphens=False)
    hanging = [f"{'':{room}}{line}" for line in lines]
    if len(name) >= width:
        listed = [f"{'':{indent}}{name}", *hanging]
    else:
        first = lines[0] if lines else ""
        listed = [f"{'':{indent}}{name:<{width}}{first}", *hanging[1:]]
    return "\n".join(line.rstrip() for line in listed)
