"""What tables and paragraphs in a terminal are made of."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ragbench.core.attribution import LOSSES
from ragbench.views.run_document import waterfall

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from ragbench.core.attribution import CauseCount
    from ragbench.stats.mean import Interval

    Cell: TypeAlias = str | tuple[str, str]
    """A text, or one with its style."""


def draw(console: Console, blocks: Iterable[RenderableType]) -> None:
    """Prints without the spaces that rich pads lines with."""
    for block in blocks:
        with console.capture() as captured:
            console.print(block)
        for line in captured.get().splitlines():
            console.file.write(f"{line.rstrip()}\n")


def paragraph(title: str, lines: Iterable[Cell]) -> Iterator[RenderableType]:
    """A title and lines that hang below it; nothing when there are no lines."""
    from rich.padding import Padding

    for position, line in enumerate(lines):
        if position == 0:
            yield ""
            yield styled((title, "dim"))
        yield Padding(styled(line), (0, 0, 0, 2))


def table(columns: Sequence[str], rows: Iterable[Iterable[Cell]], *, gap: int = 2) -> Table:
    """The first column to the left and folded, the others to the right."""
    from rich.table import Table

    found = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
    for position, column in enumerate(columns):
        is_first = position == 0
        found.add_column(
            column, justify="left" if is_first else "right", no_wrap=not is_first, overflow="fold"
        )
    for row in rows:
        found.add_row(*map(styled, row))
    return found


def range_text(interval: Interval, *, sign: bool = False) -> str:
    if interval.low is None or interval.high is None:
        return "-"
    form = "+.3f" if sign else ".3f"
    return f"{interval.low:{form}} .. {interval.high:{form}}"


def fitted_table(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    missed: Sequence[str],
    sparse: bool = False,
    spare: int = 0,
    gap: int = 2,
) -> Table:
    """A table that a narrow terminal shows without the columns that can best be missed.

    Args:
        missed: those columns, the first to go first.
        sparse: columns behind the second that hold nothing are left out in any case.
        spare: letters by which the first column may be folded.
        gap: between the columns of one that did not fit.
    """
    from rich.measure import Measurement

    wide = console.options.update_width(10_000)
    shown = [*range(len(columns))]
    if sparse:
        shown = [at for at in shown if at < 2 or any(row[at] != "-" for row in rows)]

    def drawn(gap: int) -> Table:
        titles = [columns[at] for at in shown]
        return table(titles, ([row[at] for at in shown] for row in rows), gap=gap)

    found = drawn(2)
    for name in missed:
        if Measurement.get(console, wide, found).maximum - spare <= console.width:
            break
        shown = [at for at in shown if columns[at] != name]
        found = drawn(gap)
    return found


def can_show(console: Console, letter: str) -> bool:
    """Whether the encoding of a terminal has a letter."""
    try:
        letter.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def styled(*parts: Cell) -> Text:
    """A text that is never read as markup: names and messages are the user's."""
    from rich.text import Text

    from ragbench.safe_text import shown_text

    # Escaped before it is laid out: its width is that of what is shown.
    safe = (shown_text(p) if isinstance(p, str) else (shown_text(p[0]), p[1]) for p in parts)
    return Text.assemble(*safe)


def entry(name: str, text: str, *, width: int = 24, indent: int = 2) -> str:
    """A line or more: a name too long for its column stands on a line of its own."""
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


def causes_table(causes: Sequence[CauseCount]) -> Table:
    rows = (
        (
            f"  {fall.cause.label}",
            (f"{fall.cases:,}", "red" if fall.cause in LOSSES else ""),
            f"{fall.share:.0%}",
            fall.note,
        )
        for fall in waterfall(causes)
    )
    return table(("what became of the cases", "cases", "share", ""), rows)
