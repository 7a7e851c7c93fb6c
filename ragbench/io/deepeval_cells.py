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
"""Code in Markdown: a block, or a part of a line."""
_BETWEEN_BLANKS = re.compile(r"(?<=[ \t])\|(?=[ \t])")
"""A ``|`` with a blank on both sides."""
_DELIMITER_ROW = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")
"""The row below the header of a Markdown table, such as ``| --- | :-: |``."""
_TABLE_ROW = re.compile(r"[ \t]*\|(?:[^|\n]*\|)+[ \t]*")
"""A line that is a row of a table, wherever its table begins."""
_SHOWN = 20
"""Characters on each side of an unclear ``|`` that an error shows."""


def split_texts(cell: str) -> tuple[list[str], bool]:
    """The texts that DeepEval joined by ``|`` in a cell, and whether any has a ``|`` of its own.

    DeepEval does not escape a ``|`` inside a text. A text that is cut in the wrong place is one
    that no retrieval can find, so an unclear cell is refused rather than guessed.

    Raises:
        ValueProblem: it is unclear whether a ``|`` joins two texts.
    """
    # Positions of each ``|`` that is a part of a text; any other one joins two texts.
    pipes_of_texts: set[int] = set()
    pipes_of_texts.update(_pipes_in_code(cell))
    pipes_of_texts.update(_pipes_in_tables(cell))
    pipes_of_texts.update(_pipes_at_edges(cell))
    for match in _BETWEEN_BLANKS.finditer(cell):
        pipes_of_texts.add(match.start())

    texts: list[str] = []
    start = 0
    for position in _positions_of_pipes(cell, 0, len(cell)):
        if position in pipes_of_texts:
            continue
        if not _joins_two_texts(cell, position, pipes_of_texts):
            shown = cell[max(position - _SHOWN, 0) : position + _SHOWN + 1].replace("\n", "\\n")
            raise ValueProblem(
                f"it is unclear whether '|' joins two texts in '{shown}'. Save the dataset as JSON "
                '(dataset.save_as(file_type="json", ...)), or read each cell as one text: '
                "--format csv --field reference_contexts=context "
                "--field retrieved_contexts=retrieval_context"
            )
        texts.append(cell[start:position])
        start = position + 1
    texts.append(cell[start:])
    return texts, bool(pipes_of_texts)


def _joins_two_texts(cell: str, position: int, pipes_of_texts: set[int]) -> bool:
    """Whether the ``|`` at a position of a DeepEval cell joins two texts, as DeepEval writes it.

    It does where neither a blank nor another ``|`` that could join is beside it. False means
    unclear, not that it belongs to a text: those are in ``pipes_of_texts``.
    """
    # There is a character on both sides: `_pipes_at_edges` has each ``|`` at an end of the cell.
    ends_before = _may_end_text(cell, position - 1, pipes_of_texts)
    begins_behind = _may_end_text(cell, position + 1, pipes_of_texts)
    return ends_before and begins_behind


def _may_end_text(cell: str, position: int, pipes_of_texts: set[int]) -> bool:
    """Whether a text of a DeepEval cell may end, or begin, with the character at a position.

    DeepEval puts no blank beside the ``|`` that joins two texts. Another ``|`` can be beside it
    only as a part of a text itself (``pipes_of_texts``).
    """
    character = cell[position]
    if character == "|":
        return position in pipes_of_texts
    return character not in " \t"


def _pipes_at_edges(cell: str) -> Iterator[int]:
    """Yields the positions of a ``|`` at the very beginning and end of a cell, blanks aside.

    Such a ``|`` has no text on one side: it joins nothing, and is a part of a text.
    """
    first_position = len(cell) - len(cell.lstrip())
    last_position = len(cell.rstrip()) - 1
    for position in (first_position, last_position):
        if 0 <= position < len(cell) and cell[position] == "|":
            yield position


def _pipes_in_code(cell: str) -> Iterator[int]:
    """Yields the positions of each ``|`` in Markdown code of a cell, where it is an operator.

    Such a ``|`` is a part of a text, and does not join two texts.
    """
    for code in _CODE.finditer(cell):
        yield from _positions_of_pipes(cell, code.start(), code.end())


def _positions_of_pipes(cell: str, start: int, end: int) -> list[int]:
    """The positions, in the whole cell, of each ``|`` from ``start`` to before ``end``.

    DeepEval joins texts by ``|``, so each of them is a possible border between two texts.
    """
    return [position for position in range(start, end) if cell[position] == "|"]


def _pipes_in_tables(cell: str) -> Iterator[int]:
    """Yields the positions of each ``|`` that draws a Markdown table in a cell of DeepEval's.

    Such a ``|`` is a part of a text. A text may end behind a row of the table, and begin before its
    header in the same line: those ``|`` join two texts and are not yielded.
    """
    # The positions at which each line of the cell starts and ends.
    lines: list[tuple[int, int]] = []
    start = 0
    for line in cell.split("\n"):
        end = start + len(line)
        lines.append((start, end))
        start = end + 1  # behind the line feed

    for number, (start, end) in enumerate(lines):
        # A row such as | a | b | is one without its delimiter row, too.
        if _TABLE_ROW.fullmatch(cell, start, end) and _has_blanks_inside(cell, start, end):
            yield from _positions_of_pipes(cell, start, end)
        delimiter_row = _DELIMITER_ROW.match(cell, start, end)
        if delimiter_row is None or number == 0:  # the header stands in the line above
            continue
        delimiters = _positions_of_pipes(cell, *delimiter_row.span())
        header = _positions_of_pipes(cell, *lines[number - 1])
        width = len(delimiters)
        if not width or len(header) < width:
            continue
        # A text before the table may end in the header's line: the last columns are the table's.
        yield from header[-width:]
        yield from delimiters
        # The rows that follow have as many columns, and begin with a ``|`` if this one does.
        is_framed = cell[start:end].lstrip().startswith("|")
        for row_start, row_end in lines[number + 1 :]:
            row = _positions_of_pipes(cell, row_start, row_end)
            is_row_framed = cell[row_start:row_end].lstrip().startswith("|")
            if len(row) < width or is_row_framed is not is_framed:
                break
            yield from row[:width]
            if len(row) > width:  # the text ends behind this row
                break


def _has_blanks_inside(cell: str, start: int, end: int) -> bool:
    """Whether each ``|`` of a line, but the outer two, has a blank on both sides, as in a table.

    A ``|`` without a blank may join two texts of DeepEval's: such a line is no table row for sure.
    """
    inner_positions = _positions_of_pipes(cell, start, end)[1:-1]
    for position in inner_positions:
        if cell[position - 1] not in " \t" or cell[position + 1] not in " \t":
            return False
    return True
