"""What tables and paragraphs in a terminal are made of."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ragbench.views.run_document import waterfall

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from ragbench.core.attribution import CauseCount


def print_block(console: Console, block: RenderableType) -> None:
    """Prints without the spaces that rich pads lines with."""
    with console.capture() as captured:
        console.print(block)
    for line in captured.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")


def paragraph(title: str, lines: Iterable[tuple[str, str]]) -> Iterator[RenderableType]:
    """A title and lines that hang below it, in a style each; nothing when there are no lines."""
    from rich.padding import Padding

    for position, (line, style) in enumerate(lines):
        if position == 0:
            yield ""
            yield styled((title, "dim"))
        yield Padding(styled((line, style)), (0, 0, 0, 2))


def bare_table(*columns: str, gap: int = 2) -> Table:
    """An empty table: the first column to the left and folded, the others to the right."""
    from rich.table import Table

    found = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
    for position, column in enumerate(columns):
        is_first = position == 0
        found.add_column(
            column,
            justify="left" if is_first else "right",
            no_wrap=not is_first,
            overflow="fold",
        )
    return found


def printable(line: str) -> str:
    """A text of the user's on one line, without letters that steer a terminal."""
    words = " ".join(line.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in words)


def styled(*parts: str | tuple[str, str]) -> Text:
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
    found = bare_table("what became of the cases", "cases", "share", "")
    for fall in waterfall(causes):
        style = "red" if fall.cause.is_loss else ""
        found.add_row(
            styled(f"  {fall.cause.label}"),
            styled((f"{fall.cases:,}", style)),
            styled(f"{fall.share:.0%}"),
            styled(fall.note),
        )
    return found
