"""PDF, HTML and Word documents as text, by the packages of the extra ``documents``.

HTML and Word become Markdown: headings, lists and tables stay what they are, and chunkers cut
there. Of a web page the main text is kept, without navigation, banners and footers. A PDF gives its
text page by page, in the order in which the file holds it; a scanned one has none.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ragbench.errors import RagbenchError
from ragbench.io.limits import ReadLimits
from ragbench.plugins import require
from ragbench.safe_text import shortened_line

EXTRA = "documents"
"""The extra that brings the packages."""
MARKDOWN = frozenset({".html", ".htm", ".xhtml", ".docx"})
"""Suffixes of what becomes Markdown."""


class ConversionError(ValueError):
    """A document cannot be read; says why, in words for its owner."""


class Convert(Protocol):
    """Gives a document's text, and its title where it says one."""

    def __call__(self, data: bytes, limits: ReadLimits) -> tuple[str, str | None]:
        """Converts the bytes of a file."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Converter:
    """How documents of one kind are read."""

    package: str
    """Import name of the package that reads it."""
    convert: Convert

    @property
    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None


def converter_of(suffix: str) -> Converter | None:
    """What reads files of a suffix such as ``".pdf"``; None for all others."""
    return CONVERTED.get(suffix.lower())


def _pdf(data: bytes, limits: ReadLimits) -> tuple[str, str | None]:
    package = require("pypdf", extra="documents")
    with _told("PDF"):
        reader = package.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ConversionError("the PDF is locked by a password: save it without one")
        pages: list[str] = []
        size = 0
        for page in reader.pages:
            pages.append(page.extract_text())
            size += len(pages[-1])
            limits.check_held(size)
        return "\n\n".join(text for page in pages if (text := page.strip())), None


def _html(data: bytes, limits: ReadLimits) -> tuple[str, str | None]:
    package = require("trafilatura", extra="documents")
    with _told("HTML"):
        # Links say where, not what; recall: a short page is main text, too.
        text = package.extract(
            data, output_format="markdown", include_tables=True, favor_recall=True, fast=False
        )
        said = package.extract_metadata(data)
        title = None if said is None else said.title
        return text or "", title.strip() if isinstance(title, str) and title.strip() else None


def _docx(data: bytes, limits: ReadLimits) -> tuple[str, str | None]:
    package = require("docx", extra="documents")
    with _told("Word"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            limits.check_archive(archive)
        document = package.Document(io.BytesIO(data))
        title = str(document.core_properties.title or "").strip()
        blocks = [_block(block) for block in document.iter_inner_content()]
        return "\n\n".join(block for block in blocks if block), title or None


def _block(block: Any) -> str:
    """A paragraph or a table of a Word document in Markdown."""
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
def _told(kind: str) -> Generator[None]:
    """What a package raises over a damaged file, in one line; they raise whatever comes to them."""
    # What they log of it stands in the error, or was repaired.
    loggers = [logging.getLogger(name) for name in ("pypdf", "trafilatura", "htmldate")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except (ConversionError, OSError, MemoryError, RagbenchError):
        raise
    except Exception as error:
        said = shortened_line(str(error)) or type(error).__name__
        raise ConversionError(f"it is no {kind} document that can be read: {said}") from error
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


_WORD = Converter(package="docx", convert=_docx)
_WEB = Converter(package="trafilatura", convert=_html)
CONVERTED: Mapping[str, Converter] = {
    ".pdf": Converter(package="pypdf", convert=_pdf),
    ".html": _WEB,
    ".htm": _WEB,
    ".xhtml": _WEB,
    ".docx": _WORD,
}
"""By suffix."""
