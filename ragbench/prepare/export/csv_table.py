"""A case a row, as CSV (RFC 4180 with plain line feeds, UTF-8).

Texts always stand in quotation marks, everything else never does: ``""`` is an empty text and
nothing at all is not known. Lists and mappings are JSON texts. A number that is not finite is
``NaN``, ``Infinity`` or ``-Infinity``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

from ragbench.data.atomic import written_whole
from ragbench.errors import InputError
from ragbench.prepare.export.base import Exported, Scores, Tally
from ragbench.prepare.export.json_text import json_text, plain
from ragbench.prepare.export.table import columns, table_row
from ragbench.runs.trace import Trace

__all__ = ["write"]


def write(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """Writes a header, then a row for every case.

    Raises:
        InputError: the path cannot be written, metadata holds something without a JSON form, or
            a text holds a lone surrogate, which UTF-8 cannot store.
    """
    tally = Tally()
    with written_whole(path, make_folders=True) as file:
        names = [column.name for column in columns(scores)]
        file.write(_line(names, "the header"))
        for trace in traces:
            row = table_row(trace, scores)
            file.write(_line([row[name] for name in names], f"case '{trace.case.id}'"))
            tally.written += 1
    return tally.exported(path)


def _line(values: Iterable[object], what: str) -> bytes:
    text = ",".join([_cell(value) for value in values]) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{what} holds a lone surrogate, which CSV cannot store; export to jsonl instead"
        ) from None


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return _quoted(json_text(cast("list[object]", value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(plain(value))


def _quoted(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"'
