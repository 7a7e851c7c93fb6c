"""The chunks as XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.ranked import RankedChunk

__all__ = ["Xml"]

_NAME = re.compile(r"(?!xml)[A-Za-z_][\w.-]*", re.ASCII | re.IGNORECASE)
# What XML 1.0 has no way to write, section 2.2: controls, surrogates, two non-characters.
_IMPOSSIBLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A reader turns a bare carriage return into a line feed, section 2.11 ...
_IN_TEXT = {"\r": "&#13;"}
# ... and white space in an attribute into spaces, section 3.3.3.
_IN_ATTRIBUTE = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;", '"': "&quot;"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Xml:
    """Writes one element a chunk inside an element for all.

    Attributes of a chunk's element: ``index`` from 1, ``id``, and where they are known ``score``,
    ``document_id`` and the metadata ``fields``. Whatever a text holds, a reader gets the same text
    back; only characters that XML cannot hold become U+FFFD.

    Raises:
        ConfigError: something is no name in XML, or an attribute would stand there twice.
    """

    root: str = "documents"
    """Name of the element around all."""
    element: str = "document"
    """Name of each chunk's element."""
    fields: Sequence[str] = ()
    """Metadata keys that become attributes."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(
            _no_name("root", self.root),
            _no_name("element", self.element),
            *(_no_name("fields", field) for field in self.fields),
            _repeated(("index", "id", "score", "document_id", *self.fields)),
        )

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "format.xml"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`: the chunks stay, the text is written."""
        lines = [self._line(entry) for entry in context.chunks]
        text = "\n".join([f"<{self.root}>", *lines, f"</{self.root}>"])
        return OperatorOutput(chunks=context.chunks, history_text=text)

    def _line(self, entry: RankedChunk) -> str:
        chunk = entry.chunk
        known: dict[str, object] = {"index": entry.rank, "id": chunk.id}
        if entry.score is not None:
            known["score"] = f"{entry.score:.4g}"
        if chunk.document_id is not None:
            known["document_id"] = chunk.document_id
        known |= {
            field: chunk.metadata[field]
            for field in self.fields
            if chunk.metadata.get(field) is not None
        }
        attributes = "".join(
            f' {name}="{_escaped(str(value), _IN_ATTRIBUTE)}"' for name, value in known.items()
        )
        return f"<{self.element}{attributes}>{_escaped(chunk.text, _IN_TEXT)}</{self.element}>"


def _escaped(text: str, more: dict[str, str]) -> str:
    return escape(_IMPOSSIBLE.sub("\ufffd", text), more)


def _no_name(field: str, name: str) -> str | None:
    if _NAME.fullmatch(name):
        return None
    return f"{field} holds '{name}', which is no name in XML: letters, digits, '_', '-' and '.'"


def _repeated(names: tuple[str, ...]) -> str | None:
    if len(set(names)) == len(names):
        return None
    return "fields name an attribute twice; index, id, score and document_id are always there"
