"""Lists of texts in DeepEval's tables: ``|`` joins them, and is not escaped inside a text.

DeepEval puts nothing beside the ``|`` that joins two texts. One in a Markdown table, in code or
with a blank on both sides is therefore a part of a text. What fits neither is refused: a text that
is cut in the wrong place is one that no retrieval can find.

The rule looks at what is next to each ``|`` alone, so that the same text is cut in the same way in
every cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragbench.io.values import ValueProblem

_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_BETWEEN_BLANKS = re.compile(r"(?<=[ \t])\|(?=[ \t])")
_DELIMITER_ROW = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")
"""The row below the header of a Markdown table, such as ``| --- | :-: |``."""
_ROW = re.compile(r"[ \t]*\|(?:[^|\n]*\|)+[ \t]*")
"""A line that is a row of a table, wherever its table begins."""
_SHOWN = 20


def split_texts(cell: str) -> tuple[list[str], bool]:
    """The texts of a cell, and whether any of them holds a ``|`` of its own.

    Raises:
        ValueProblem: it is unclear whether a ``|`` joins two texts.
    """
    own = {*_in_code(cell), *_in_tables(cell), *_at_edges(cell)}
    own.update(match.start() for match in _BETWEEN_BLANKS.finditer(cell))
    texts: list[str] = []
    begin = 0
    for match in re.finditer(r"\|", cell):
        place = match.start()
        if place in own:
            continue
        if not _joins(cell, place, own):
            shown = cell[max(place - _SHOWN, 0) : place + _SHOWN + 1].replace("\n", "\\n")
            raise ValueProblem(
                f"it is unclear whether '|' joins two texts in '{shown}'. Save the dataset as JSON "
                '(dataset.save_as(file_type="json", ...)), or read each cell as one text: '
                "--format csv --field reference_contexts=context "
                "--field retrieved_contexts=retrieval_context"
            )
        texts.append(cell[begin:place])
        begin = place + 1
    texts.append(cell[begin:])
    return texts, bool(own)


def _joins(cell: str, place: int, own: set[int]) -> bool:
    """Whether a ``|`` joins two texts: no blank is beside it, and no other that could join, too."""
    return _is_end(cell, place - 1, own) and _is_end(cell, place + 1, own)


def _is_end(cell: str, place: int, own: set[int]) -> bool:
    """Whether a text may end, or begin, with the character at a place."""
    character = cell[place]
    if character == "|":
        return place in own
    return character not in " \t"


def _at_edges(cell: str) -> Iterator[int]:
    """A ``|`` with nothing before or behind it joins nothing."""
    for place in (len(cell) - len(cell.lstrip()), len(cell.rstrip()) - 1):
        if 0 <= place < len(cell) and cell[place] == "|":
            yield place


def _in_code(cell: str) -> Iterator[int]:
    for code in _CODE.finditer(cell):
        yield from _pipes(cell, code.start(), code.end())


def _pipes(cell: str, begin: int, end: int) -> list[int]:
    return [place for place in range(begin, end) if cell[place] == "|"]


def _in_tables(cell: str) -> Iterator[int]:
    """The ``|`` of Markdown tables; a text may end behind a row, and begin before the header."""
    lines: list[tuple[int, int]] = []
    begin = 0
    for line in cell.split("\n"):
        lines.append((begin, begin + len(line)))
        begin += len(line) + 1
    for number, (begin, end) in enumerate(lines):
        if _ROW.fullmatch(cell, begin, end) and _has_blanks_inside(cell, begin, end):
            yield from _pipes(cell, begin, end)
        row = _DELIMITER_ROW.match(cell, begin, end)
        inside = [] if row is None else _pipes(cell, row.start(), row.end())
        if not inside or number == 0:
            continue
        header = _pipes(cell, *lines[number - 1])
        if len(header) < len(inside):
            continue
        yield from header[-len(inside) :]
        yield from inside
        is_framed = cell[begin:end].lstrip().startswith("|")
        for row_begin, row_end in lines[number + 1 :]:
            body = _pipes(cell, row_begin, row_end)
            starts = cell[row_begin:row_end].lstrip().startswith("|")
            if len(body) < len(inside) or starts is not is_framed:
                break
            yield from body[: len(inside)]
            if len(body) > len(inside):  # the text ends behind this row
                break


def _has_blanks_inside(cell: str, begin: int, end: int) -> bool:
    """Whether each ``|`` of a row, but the outer ones, has a blank on both sides."""
    inner = _pipes(cell, begin, end)[1:-1]
    return all(cell[place - 1] in " \t" and cell[place + 1] in " \t" for place in inner)
