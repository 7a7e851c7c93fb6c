"""What printed pages are made of: texts, tables without lines, paragraphs that hang."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["bare_table", "paragraph", "print_block", "printable", "styled"]


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

    return Text.assemble(*parts)
