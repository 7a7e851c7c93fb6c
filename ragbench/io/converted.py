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
from pathlib import Path
from typing import Any

from ragbench.errors import RagbenchError
from ragbench.io.json_files import Line, decode_line, read_bytes
from ragbench.io.limits import ReadLimits, UnreadableError
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import line_feeds
from ragbench.plugins import require, silenced
from ragbench.safe_text import shortened_line

EXTRA = "documents"
MARKDOWN = frozenset({".html", ".htm", ".xhtml", ".docx"})


def _pdf(data: bytes, limits: ReadLimits) -> tuple[str, str | None]:
    package = require("pypdf", extra="documents")
    with _reported("PDF"):
        reader = package.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("the PDF is locked by a password: save it without one")
        pages: list[str] = []
        size = 0
        for page in reader.pages:
            pages.append(page.extract_text())
            size += len(pages[-1])
            limits.check_held(size)
        return "\n\n".join(text for page in pages if (text := page.strip())), None


def _html(data: bytes, limits: ReadLimits) -> tuple[str, str | None]:
    package = require("trafilatura", extra="documents")
    with _reported("HTML"):
        # Links say where, not what; recall: a short page is main text, too.
        text = package.extract(
            data, output_format="markdown", include_tables=True, favor_recall=True, fast=False
        )
        said = package.extract_metadata(data)
        title = None if said is None else said.title
        return text or "", title.strip() if isinstance(title, str) and title.strip() else None


def _docx(data: bytes, limits: ReadLimits) -> tuple[str, str | None]:
    package = require("docx", extra="documents")
    with _reported("Word"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            limits.check_archive(archive)
        document = package.Document(io.BytesIO(data))
        title = str(document.core_properties.title or "").strip()
        blocks = [_block(block) for block in document.iter_inner_content()]
        return "\n\n".join(block for block in blocks if block), title or None


def _block(block: Any) -> str:
    if not hasattr(block, "rows"):
        text = str(block.text).strip()
        style = str(block.style.name) if block.style is not None else ""
        if not text:
            return ""
        if style == "Title":
            return f"# {text}"
        level = style.removeprefix("Heading ")
        if style.startswith("Heading ") and level.isdecimal():
            return f"{'#' * min(int(level), 6)} {text}"
        return f"- {text}" if style.startswith("List") else text
    rows = [[" ".join(cell.text.split()) for cell in row.cells] for row in block.rows]
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join([*lines[:1], "|" + "---|" * len(rows[0]), *lines[1:]] if rows else [])


@contextmanager
def _reported(kind: str) -> Generator[None]:
    """What a package raises over a damaged file, in one line; they raise whatever comes to them."""
    try:
        with silenced("pypdf", "trafilatura", "htmldate"):
            yield
    except (OSError, MemoryError, RagbenchError):
        raise
    except Exception as error:
        said = shortened_line(str(error)) or type(error).__name__
        raise UnreadableError(f"it is no {kind} document that can be read: {said}") from error


CONVERTED: Mapping[str, tuple[str, Callable[[bytes, ReadLimits], tuple[str, str | None]]]] = {
    ".pdf": ("pypdf", _pdf),
    **dict.fromkeys((".html", ".htm", ".xhtml"), ("trafilatura", _html)),
    ".docx": ("docx", _docx),
}
"""By suffix the package, and what makes of a file's bytes its text, and its title if it says one.
"""


SUFFIXES = frozenset({".txt", ".md", ".markdown", *CONVERTED})


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a file, in the order of their paths; the id is the path in the folder.

    A Markdown file's first heading of the first level is its title. PDF, HTML and Word files are
    converted; in a folder those are left out whose package is not installed. Memory holds one file.
    """
    if kind != "documents":
        raise UnreadableError("text files hold documents, not cases")
    files: Iterable[str] = [source.name if source.path is None else source.path.name]
    if source.path is not None and source.is_folder:
        files = text_files(source.path)
    for name in files:
        file = source.child(name) if source.is_folder else source
        if file is None:
            continue
        found = (_converted if file.suffix in CONVERTED else _plain_text)(file, problems)
        if found is not None:
            # Names of files may hold bytes that are no text.
            id = name.encode("utf-8", "backslashreplace").decode()
            yield Row(file.name, None, {"id": id, "text": found[0], "title": found[1]})


def text_files(folder: Path, *, others: bool = False) -> Iterator[str]:
    """Paths of the files below a folder that `read` reads, or does not, but for hidden ones."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            suffix = Path(name).suffix.lower()
            package, _ = CONVERTED.get(suffix, ("", None))
            is_there = not package or importlib.util.find_spec(package) is not None
            if not name.startswith(".") and (suffix in SUFFIXES and is_there) is not others:
                yield (Path(parent) / name).relative_to(folder).as_posix()


def _converted(file: Source, problems: Problems) -> tuple[str, str | None] | None:
    """The text and title of a document; None, and a problem, when it cannot be read."""
    with file.opened(problems) as stream:
        if stream is not None:
            text, title = CONVERTED[file.suffix][1](file.limits.read_all(stream), file.limits)
            if len(text.encode()) > file.limits.record:
                raise UnreadableError(file.limits.long_record("the text"))
            return text, title
    return None


def _plain_text(file: Source, problems: Problems) -> tuple[str, str | None] | None:
    """The same of a text; the title of a Markdown file is its first heading."""
    raw = read_bytes(file, problems)
    if raw is not None and len(raw) > file.limits.record:
        problems.add(file.limits.long_record("the text"), path=file.name)
        return None
    text = None if raw is None else decode_line(Line(1, 0, raw), file.name, problems)
    if text is None:
        return None
    text = line_feeds(text)
    lines = () if file.suffix == ".txt" else text.splitlines()
    headings = (line[2:].strip() for line in lines if line.startswith("# "))
    return text, next(filter(None, headings), None)
