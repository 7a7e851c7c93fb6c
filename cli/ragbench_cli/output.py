"""What a command shows: blocks in a terminal, in which no text acts; Markdown, pages."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias, cast

import typer

from ragbench.core.record import Record, field, replace
from ragbench.errors import ConfigError
from ragbench.safe_text import shown_text
from ragbench_cli import console
from ragbench_cli.options import JsonOption, Panel, option

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from ragbench.views.document import Document, Section
    from ragbench.views.html.page import Page as HtmlPage

Cell: TypeAlias = "str | tuple[str, str]"
"""A text, or one with its style."""
Blocks: TypeAlias = "Iterator[RenderableType]"


def draw(blocks: Iterable[RenderableType]) -> None:
    """Prints on standard output, without the spaces that rich pads lines with."""
    page = console.data_console()
    for block in blocks:
        with page.capture() as captured:
            page.print(styled(block) if isinstance(block, str) else block)
        for line in captured.get().splitlines():
            page.file.write(f"{line.rstrip()}\n")


def show(data: object, screen: Callable[[], object], *, json: bool) -> None:
    """Prints a result as JSON, or as a screen shows it."""
    if json:
        console.print_json(data)
    else:
        screen()


def styled(*parts: Cell) -> Text:
    """A text that is never read as markup: names and messages are the user's."""
    from rich.text import Text

    # Escaped before it is laid out: its width is that of what is shown.
    safe = (shown_text(p) if isinstance(p, str) else (shown_text(p[0]), p[1]) for p in parts)
    return Text.assemble(*safe)


def paragraph(title: str, lines: Iterable[Cell]) -> Blocks:
    """A title and lines that hang below it; nothing when there are no lines."""
    from rich.padding import Padding

    for position, line in enumerate(lines):
        if position == 0:
            yield ""
            yield styled((title, "dim"))
        yield Padding(styled(line), (0, 0, 0, 2))


def document_blocks(document: Document) -> Blocks:
    """A document in a terminal: of each section its table and its lines, the notes last."""
    yield styled((document.title, "bold"), f": {document.headline}")
    for section in document.shown:
        if section.rows:
            yield ""
            yield section_table(section)
        yield from paragraph(section.title.lower(), section.lines)


def section_table(section: Section) -> Table:
    """The rows below the section's title, without columns of drawings."""
    places = [place for place, name in enumerate(section.columns) if name][1:]
    rows = ((f"  {row[0]}", *(str(row[place]) for place in places)) for row in section.rows)
    return table((section.title, *(section.columns[place] for place in places)), rows)


def table(columns: Sequence[str], rows: Iterable[Iterable[Cell]], *, gap: int = 2) -> Table:
    """The first column to the left and folded, the others to the right."""
    from rich.table import Table

    found = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
    for at, column in enumerate(columns):
        found.add_column(
            shown_text(column), justify="right" if at else "left", no_wrap=at > 0, overflow="fold"
        )
    for row in rows:
        found.add_row(*map(styled, row))
    return found


def fitted_table(
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
    from rich.cells import cell_len

    texts = [columns, *([cell if isinstance(cell, str) else cell[0] for cell in r] for r in rows)]
    widths = [
        max(cell_len(shown_text(text)) for text in column) for column in zip(*texts, strict=True)
    ]
    shown = [*range(len(columns))]
    if sparse:
        shown = [at for at in shown if at < 2 or any(row[at] != "-" for row in rows)]
    used, room = 2, console.data_console().width
    for name in missed:
        if sum(widths[at] + used for at in shown) - used - spare <= room:
            break
        shown = [at for at in shown if columns[at] != name]
        used = gap
    return table([columns[at] for at in shown], ([r[at] for at in shown] for r in rows), gap=used)


def can_show(letter: str) -> bool:
    """Whether the encoding of the terminal has a letter."""
    try:
        letter.encode(console.data_console().encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def entry(name: str, text: str, *, width: int = 24, indent: int = 2) -> str:
    """A line or more: a name too long for its column stands on a line of its own."""
    columns = max(40, min(100, shutil.get_terminal_size((80, 24)).columns))
    room = indent + width
    lines = textwrap.wrap(text, columns - room, break_on_hyphens=False)
    hanging = [f"{'':{room}}{line}" for line in lines]
    if len(name) >= width:
        listed = [f"{'':{indent}}{name}", *hanging]
    else:
        listed = [f"{'':{indent}}{name:<{width}}{''.join(lines[:1])}", *hanging[1:]]
    return "\n".join(line.rstrip() for line in listed)


class Page(Record):
    """Where a result goes as a page."""

    PANEL: ClassVar = Panel.OUTPUT

    html: Path | None = None
    """Write a page as one HTML file that needs nothing else."""
    html_folder: Annotated[Path | None, option("DIR", rare=True)] = None
    """Write the page as index.html with its style and script as files, for servers whose policy
    forbids them inside."""

    @property
    def is_wanted(self) -> bool:
        return self.html is not None or self.html_folder is not None

    def write(self, page: HtmlPage) -> None:
        from ragbench.views.html.page import write_html, write_html_folder

        page = replace(page, body=[*page.body])
        if self.html is not None:
            write_html(self.html, page)
            console.say(f"page    {self.html}")
        if self.html_folder is not None:
            console.say(f"page    {write_html_folder(self.html_folder, page)}")


class Output(Record):
    """The forms in which a result is printed and written."""

    PANEL: ClassVar = Panel.OUTPUT

    md: Annotated[str | None, option("FILE")] = None
    """Write the result as Markdown; - prints it."""
    page: Page = field(default_factory=Page)
    json: JsonOption = False

    def __post_init__(self) -> None:
        if self.json and self.md == "-":
            raise ConfigError("--json and --md - both want standard output: give --md a file")

    def show(
        self,
        document: Callable[[], Document],
        *,
        data: Callable[[], object],
        screen: Callable[[], None],
        marker: str = "",
    ) -> None:
        """Writes the document's files, and prints it in the form that was asked for.

        Args:
            marker: what Markdown begins with.
        """
        text = self.write(document, marker=marker)
        if self.json:
            console.print_json(data())
        elif self.md == "-":
            typer.echo(text, nl=False)
        else:
            screen()

    def write(self, document: Callable[[], Document], *, marker: str = "") -> str:
        """Writes the document's files; the Markdown, where it is asked for."""
        from ragbench.io.atomic import write_whole
        from ragbench.views.document import markdown

        text = ""
        if self.md is not None or self.page.is_wanted:
            made = document()
            text = f"{marker}{markdown(made)}"
            if self.page.is_wanted:
                from ragbench.views.html.document import document_page

                folder = self.page.html_folder or cast("Path", self.page.html).parent
                self.page.write(document_page(made, folder))
        if self.md is not None and self.md != "-":
            write_whole(Path(self.md), text.encode())
        return text
