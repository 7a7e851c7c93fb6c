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
    """Prints a result's blocks on standard output, without the spaces that rich pads lines with.

    Blocks are texts and tables of rich. Padding would get into files and copied lines.
    """
    page = console.data_console()
    for block in blocks:
        if isinstance(block, str):
            block = styled(block)
        # Drawn into a text first, of which each line's end is cut.
        with page.capture() as captured:
            page.print(block)
        for line in captured.get().splitlines():
            page.file.write(f"{line.rstrip()}\n")


def show(data: object, screen: Callable[[], object], *, json: bool) -> None:
    """Prints a result as JSON where ``--json`` asks for it, or else calls ``screen``.

    Args:
        data: the result as JSON has it.
        screen: prints the result for people.
    """
    if json:
        console.print_json(data)
    else:
        screen()


def styled(*parts: Cell) -> Text:
    """A text for the terminal from parts, each plain or with a style such as ``bold``.

    It is never read as markup: names and messages are the user's.
    """
    from rich.text import Text

    text = Text()
    for part in parts:
        # Escaped before the text is laid out: its width must be that of what is shown.
        if isinstance(part, str):
            text.append(shown_text(part))
        else:
            letters, style = part
            text.append(shown_text(letters), style)
    return text


def paragraph(title: str, lines: Iterable[Cell]) -> Blocks:
    """The blocks of a title and lines that hang below it; none when there are no lines.

    So a part of a report that is empty leaves no title behind.
    """
    from rich.padding import Padding

    for position, line in enumerate(lines):
        # With the first line: whether there is any is known only then.
        if position == 0:
            yield ""
            yield styled((title, "dim"))
        yield Padding(styled(line), (0, 0, 0, 2))


def document_blocks(document: Document) -> Blocks:
    """The blocks that show a document in a terminal: of each section its table and lines.

    The same document is written as Markdown and as a page: no figure differs between them.
    """
    yield styled((document.title, "bold"), f": {document.headline}")
    # `shown` leaves out sections that are empty.
    for section in document.shown:
        if section.rows:
            yield ""
            yield section_table(section)
        yield from paragraph(section.title.lower(), section.lines)


def section_table(section: Section) -> Table:
    """The table of a document's section for the terminal, without columns of drawings.

    The title takes the place of the first column's name, which saves a line.
    """
    # A column of drawings has no name; the title takes the place of the first column's.
    named_columns = [index for index, name in enumerate(section.columns) if name][1:]
    columns = [section.title]
    for index in named_columns:
        columns.append(section.columns[index])
    rows: list[list[str]] = []
    for row in section.rows:
        cells = [str(row[index]) for index in named_columns]
        rows.append([f"  {row[0]}", *cells])
    return table(columns, rows)


def table(columns: Sequence[str], rows: Iterable[Iterable[Cell]], *, gap: int = 2) -> Table:
    """A table for the terminal: the first column to the left and folded, the others to the right.

    The first column holds names, the others figures, which are compared from the right. Texts are
    escaped.

    Args:
        gap: spaces between columns.
    """
    from rich.table import Table

    rich_table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
    # Escaped, since a column may be named after a user's run.
    for index, column in enumerate(columns):
        title = shown_text(column)
        if index == 0:
            rich_table.add_column(title, justify="left", overflow="fold")
        else:
            # `no_wrap` keeps a figure in one line; folding is for a word that is wider than the
            # screen.
            rich_table.add_column(title, justify="right", no_wrap=True, overflow="fold")
    for row in rows:
        rich_table.add_row(*(styled(cell) for cell in row))
    return rich_table


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

    Folded figures cannot be read, so that columns go before any cell is folded.

    Args:
        missed: those columns, the first to go first.
        sparse: columns behind the second that hold nothing are left out in any case.
        spare: letters by which the first column may be folded.
        gap: between the columns of a table that did not fit.
    """
    room = console.data_console().width
    widths = [_column_width(columns, rows, index) for index in range(len(columns))]
    # All columns by position: names may be empty or come twice.
    shown = list(range(len(columns)))
    if sparse:
        # The first two are the name and the verdict: without them a row means nothing.
        shown = [index for index in shown if index < 2 or _has_values(rows, index)]
    # A table that fits keeps the usual gap; `gap` is for one that has lost a column.
    shown_gap = 2
    for name in missed:
        width_of_cells = sum([widths[index] for index in shown])
        width_of_gaps = shown_gap * (len(shown) - 1)
        if width_of_cells + width_of_gaps - spare <= room:
            break
        shown = [index for index in shown if columns[index] != name]
        # A narrower gap may make the next column fit.
        shown_gap = gap
    shown_columns = [columns[index] for index in shown]
    shown_rows: list[list[Cell]] = []
    for row in rows:
        shown_rows.append([row[index] for index in shown])
    return table(shown_columns, shown_rows, gap=shown_gap)


def _has_values(rows: Sequence[Sequence[Cell]], index: int) -> bool:
    """Whether a column of a table holds anything but ``-``, the mark of a missing value.

    A sparse table leaves other columns out.
    """
    return any(row[index] != "-" for row in rows)


def _column_width(columns: Sequence[str], rows: Sequence[Sequence[Cell]], index: int) -> int:
    """The cells of a terminal that a column's widest text takes.

    A letter of Chinese takes two cells, an accent none.
    """
    from rich.cells import cell_len

    width = cell_len(shown_text(columns[index]))
    for row in rows:
        cell = row[index]
        if isinstance(cell, str):
            text = cell
        else:
            text, _ = cell  # the second part is the style
        width = max(width, cell_len(shown_text(text)))
    return width


def can_show(letter: str) -> bool:
    """Whether the terminal's encoding has a letter.

    Where it has not, callers show a plain letter: an unknown one would be an error, or a question
    mark.
    """
    try:
        letter.encode(console.data_console().encoding)
    # An encoding that Python does not know has no letter either.
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def entry(name: str, text: str, *, width: int = 24, indent: int = 2) -> str:
    """A name and its text beside it, for lists; a name too long for its column gets its own line.

    Lines are wrapped to between 40 and 100 letters.

    Args:
        width: columns of the names.
        indent: columns before the name.
    """
    # Lines of more than 100 letters are hard to read, and below 40 no text fits beside a name.
    page_width = max(40, min(100, shutil.get_terminal_size((80, 24)).columns))
    margin = " " * indent
    text_margin = " " * (indent + width)
    text_width = page_width - len(text_margin)
    lines: list[str] = []
    for line in textwrap.wrap(text, text_width, break_on_hyphens=False):
        lines.append(text_margin + line)
    # A name without room beside it gets a line of its own above the text.
    if len(name) >= width or not lines:
        lines.insert(0, margin + name)
    else:
        lines[0] = margin + name.ljust(width) + lines[0].removeprefix(text_margin)
    return "\n".join(line.rstrip() for line in lines)


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
        """Whether the options ask for the result as an HTML page, which takes time to make."""
        return self.html is not None or self.html_folder is not None

    def write(self, page: HtmlPage) -> None:
        """Writes a result's HTML page in each form that the options name, and says where it is.

        A page's body may come as an iterator, and is read once for both files.
        """
        from ragbench.views.html.page import write_html, write_html_folder

        # The body may be an iterator, and both files need it.
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
        """Refuses ``--json`` together with ``--md -``.

        Two forms would be mixed on standard output, and no program could read it.
        """
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
        """Writes a result's files, and prints the result in the form that the options ask for.

        Commands with a document end with it: ``--md``, ``--html`` and ``--json`` work alike in all
        of them.

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
        """Writes a result's page and Markdown where the options ask for them; gives the Markdown.

        The text is empty where neither is asked for: to make the document takes time.

        Args:
            marker: the beginning of the Markdown, such as a hidden line that marks a comment.
        """
        from ragbench.io.atomic import write_whole
        from ragbench.views.document import markdown

        # Most calls want neither: the screen has its own form.
        if self.md is None and not self.page.is_wanted:
            return ""
        built_document = document()
        if self.page.is_wanted:
            from ragbench.views.html.document import document_page

            # The page links to pages of runs, relative to the folder that it lies in.
            folder = self.page.html_folder or cast("Path", self.page.html).parent
            self.page.write(document_page(built_document, folder))
        text = f"{marker}{markdown(built_document)}"
        if self.md is not None and self.md != "-":
            write_whole(Path(self.md), text.encode())
        return text
