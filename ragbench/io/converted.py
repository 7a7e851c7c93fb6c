"""Texts as documents, and PDF, HTML and Word as text, by the packages of the extra ``documents``.

HTML and Word become Markdown: headings, lists and tables stay what they are, and chunkers cut
there. Of a web page the main text is kept, without navigation, banners and footers. A PDF gives its
text page by page, in the order in which the file holds it; a scanned one has none.
"""

from __future__ import annotations

import importlib.util
import io
import os
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ragbench.core.in_words import UnreadableError
from ragbench.core.reading import Reading, words_of
from ragbench.io.json_files import Line, decode_line, read_bytes
from ragbench.io.limits import ReadLimits
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import line_feeds
from ragbench.plugins import require, silenced

EXTRA = "documents"
"""The extra of this package that installs what converts documents."""
MARKDOWN = frozenset({".html", ".htm", ".xhtml", ".docx"})
"""Suffixes of the files whose text becomes Markdown."""
_DEEPEST_HEADING = 6
"""Levels of headings in Markdown; Word has nine."""

TextAndTitle: TypeAlias = tuple[str, str | None]
"""The text of a document, and its title if it says one."""


def _text_of_pdf(data: bytes, limits: ReadLimits) -> TextAndTitle:
    """The text of a PDF, page by page; no title, because the title inside a PDF is rarely one.

    The order of the text is that of the file. The size is checked page by page, as a small file may
    hold very much text.

    Raises:
        UnreadableError: the PDF is damaged, locked by a password, or holds more text than allowed.
    """
    package = require("pypdf", extra="documents")
    with _reporting_damage("PDF"):
        reader = package.PdfReader(io.BytesIO(data))
        # Many PDFs are locked only against changes: these open with an empty password.
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("the PDF is locked by a password: save it without one")
        texts: list[str] = []
        size = 0
        for page in reader.pages:
            text = page.extract_text()
            size += len(text)
            # After each page: a small file may hold very much text.
            limits.check_held(size)
            if text.strip():
                texts.append(text.strip())
        return "\n\n".join(texts), None


def _text_of_html(data: bytes, limits: ReadLimits) -> TextAndTitle:
    """The main text of a web page as Markdown, and its title.

    Navigation, banners and footers are left out: repeated on every page, they would be found for
    any question. Headings and tables stay, because chunkers cut at them.
    """
    package = require("trafilatura", extra="documents")
    with _reporting_damage("HTML"):
        # The addresses of links are left out, as they answer nothing. Recall is favoured, because a
        # short page is main text, too.
        text = package.extract(
            data, output_format="markdown", include_tables=True, favor_recall=True, fast=False
        )
        metadata = package.extract_metadata(data)
        title = ""
        if metadata is not None and isinstance(metadata.title, str):
            title = metadata.title.strip()
        return text or "", title or None


def _text_of_word(data: bytes, limits: ReadLimits) -> TextAndTitle:
    """The text of a Word document as Markdown, and its title.

    Paragraphs and tables keep their order, and headings their level, because chunkers cut at them.

    Raises:
        UnreadableError: the file is no Word document, or unpacks to more than the limits allow.
    """
    package = require("docx", extra="documents")
    with _reporting_damage("Word"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            limits.check_archive(archive)
        document = package.Document(io.BytesIO(data))
        title = str(document.core_properties.title or "").strip()
        blocks: list[str] = []
        for block in document.iter_inner_content():
            if hasattr(block, "rows"):  # a table
                text = _markdown_table(block)
            else:
                text = _markdown_paragraph(block)
            if text:
                blocks.append(text)
        return "\n\n".join(blocks), title or None


def _markdown_paragraph(paragraph: Any) -> str:
    """A paragraph of Word as Markdown: a heading or a list item where its style's name says so.

    Chunkers cut at headings and keep them with their text. Word has nine levels of headings,
    Markdown six: deeper ones become the sixth.
    """
    text = str(paragraph.text).strip()
    if not text:
        return ""
    style = "" if paragraph.style is None else str(paragraph.style.name)
    if style == "Title":
        return f"# {text}"
    level = style.removeprefix("Heading ")
    if style.startswith("Heading ") and level.isdecimal():
        marks = "#" * min(int(level), _DEEPEST_HEADING)
        return f"{marks} {text}"
    if style.startswith("List"):
        return f"- {text}"
    return text


def _markdown_table(table: Any) -> str:
    """A table of Word as Markdown, the first row as header, so that cells keep their columns.

    A bar in a cell is escaped, as it would end the cell.
    """
    lines: list[str] = []
    for row in table.rows:
        # Markdown has one line a row, and a bar ends a cell.
        cells: list[str] = []
        for cell in row.cells:
            line = " ".join(cell.text.split())
            cells.append(line.replace("|", "\\|"))
        lines.append(f"| {' | '.join(cells)} |")
        if len(lines) == 1:
            lines.append("|" + "---|" * len(cells))
    return "\n".join(lines)


@contextmanager
def _reporting_damage(kind: str) -> Generator[None]:
    """Turns an error of a package that converts documents into one line for the document's owner.

    Packages for PDF, HTML and Word raise anything over a damaged file, and print warnings of their
    own, which are held back: only the one line is of use.

    Args:
        kind: the kind of document as the line names it, such as ``PDF``.
    """
    with (
        Reading(partial(_unreadable_document, kind)),
        silenced("pypdf", "trafilatura", "htmldate"),
    ):
        yield


def _unreadable_document(kind: str, error: Exception) -> UnreadableError:
    """The error of a document that its package gave up on, in words for the document's owner.

    Args:
        kind: the kind of document, such as ``PDF``.
        error: whatever the package raised.
    """
    return UnreadableError(f"it is no {kind} document that can be read: {words_of(error)}")


CONVERTED: Mapping[str, tuple[str, Callable[[bytes, ReadLimits], TextAndTitle]]] = {
    ".pdf": ("pypdf", _text_of_pdf),
    ".html": ("trafilatura", _text_of_html),
    ".htm": ("trafilatura", _text_of_html),
    ".xhtml": ("trafilatura", _text_of_html),
    ".docx": ("docx", _text_of_word),
}
"""Suffix of a file, to the package that is needed and the function that reads the file's bytes."""

SUFFIXES = frozenset({".txt", ".md", ".markdown", *CONVERTED})
"""Suffixes of the files that are documents."""


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per file of text, in the order of their paths, which are the rows' ids.

    A Markdown file's first heading of the first level is its title. PDF, HTML and Word files are
    converted; in a folder those are left out whose package is not installed. Memory holds one file.
    """
    if kind != "documents":
        raise UnreadableError("text files hold documents, not cases")
    names: Iterable[str]
    if source.path is None:
        names = [source.name]
    elif source.is_folder:
        names = text_files(source.path)
    else:
        names = [source.path.name]
    for name in names:
        file = source.child(name) if source.is_folder else source
        if file is None:
            continue
        if file.suffix in CONVERTED:
            document = _converted_document(file, problems)
        else:
            document = _plain_text(file, problems)
        if document is not None:
            text, title = document
            # Names of files may hold bytes that are no text.
            id = name.encode("utf-8", "backslashreplace").decode()
            yield Row(file.name, None, {"id": id, "text": text, "title": title})


def text_files(folder: Path, *, others: bool = False) -> Iterator[str]:
    """Yields the paths of a folder's documents, also in folders below it, in a fixed order.

    Hidden files and folders are left out. The order is the order of the corpus, so the same folder
    gives the same documents on every machine.

    Args:
        others: yields the files that are no documents instead, so that a user learns of them.
    """
    for parent, folders, names in os.walk(folder):
        # In place: the walk goes into the folders that stay in the list, in this order.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith("."):
                continue
            if _can_be_read(Path(name).suffix.lower()) is not others:
                path = Path(parent) / name
                yield path.relative_to(folder).as_posix()


def _can_be_read(suffix: str) -> bool:
    """Whether files of a suffix can be read as documents, with the packages that are installed.

    PDF, HTML and Word need packages of an extra: without them such a file is left out of a folder.
    """
    if suffix in CONVERTED:
        package, _ = CONVERTED[suffix]
        return importlib.util.find_spec(package) is not None
    return suffix in SUFFIXES


def _converted_document(file: Source, problems: Problems) -> TextAndTitle | None:
    """The text and title of a PDF, HTML or Word file; None, and a problem, if it cannot be opened.

    Raises:
        UnreadableError: the document is damaged, or its text is longer than a record may be.
    """
    with file.opened(problems) as stream:
        if stream is not None:
            _, convert = CONVERTED[file.suffix]
            text, title = convert(file.limits.read_all(stream), file.limits)
            # In bytes, as all records are measured.
            if len(text.encode()) > file.limits.record:
                raise UnreadableError(file.limits.long_record("the text"))
            return text, title
    return None


def _plain_text(file: Source, problems: Problems) -> TextAndTitle | None:
    """The text and title of a file of plain text or Markdown; None, and a problem, if unreadable.

    The title of a Markdown file is its first heading of the first level. A ``.txt`` file has no
    title, since a ``#`` there may be anything.
    """
    raw = read_bytes(file, problems)
    if raw is None:
        return None
    if len(raw) > file.limits.record:
        problems.add(file.limits.long_record("the text"), path=file.name)
        return None
    text = decode_line(Line(1, 0, raw), file.name, problems)
    if text is None:
        return None
    text = line_feeds(text)
    if file.suffix != ".txt":
        for line in text.splitlines():
            heading = line.removeprefix("# ").strip()
            if line.startswith("# ") and heading:
                return text, heading
    return text, None
