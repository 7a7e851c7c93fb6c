"""Lines of CSV that a spreadsheet shows and never runs: every table of ours is written by these.

A text stands in quotation marks and anything else does not: ``""`` is an empty text, and nothing at
all is not known. A text that a spreadsheet would take for a formula gets an apostrophe before it,
which `unguarded` takes away when ragbench reads the table back. Numbers stay numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

from ragbench.io.json_text import json_text, plain

_FORMULA = re.compile(r"'*(?:[\t\r\n]|\s*[=+\-@＝＋－＠])")
"""How a formula begins, with apostrophes of ours or of the text before it, and white space, which
some spreadsheets cut off (OWASP, "CSV Injection")."""


def guarded(text: str) -> str:
    """A text that no spreadsheet runs: one that would be a formula gets an apostrophe before it.

    A cell such as ``=HYPERLINK(...)`` in a corpus would run on the machine of any reader of a
    report. `unguarded` undoes it exactly: change the two together.

    Example:
        >>> [guarded(text) for text in ("=1+1", "'=1+1", "one = 1")]
        ["'=1+1", "''=1+1", 'one = 1']
    """
    if _FORMULA.match(text) is None:
        return text
    # A text that has the apostrophe already gets a second one, or it would lose its own.
    return f"'{text}"


def unguarded(text: str) -> str:
    """The text as it was before `guarded` put an apostrophe before it.

    Example:
        >>> [unguarded(cell) for cell in ("'=1+1", "''=1+1", "'tis")]
        ['=1+1', "'=1+1", "'tis"]
    """
    # Other apostrophes are the text's own.
    if not text.startswith("'") or _FORMULA.match(text) is None:
        return text
    return text[1:]


def csv_line(values: Iterable[object]) -> str:
    """A record as one line of CSV, with a plain line feed at its end; a list is a JSON text.

    The same values give the same bytes on each system, so that files can be compared.
    """
    cells = [_csv_cell(value) for value in values]
    return ",".join(cells) + "\n"


def _csv_cell(value: object) -> str:
    """A value as a CSV cell that a spreadsheet shows and never runs; None is an empty cell.

    Text is always in quotation marks, and nothing else is: so an empty text is not the same as no
    value when the file is read back.
    """
    if value is None:
        return ""
    if isinstance(value, list):
        value = json_text(cast("list[object]", value))
    if isinstance(value, str):
        # Always in quotation marks: where the comma is no separator but the semicolon is,
        # "yes;=1+1" would be two cells, and the second one a formula.
        doubled = guarded(value).replace('"', '""')
        return f'"{doubled}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(plain(value))
