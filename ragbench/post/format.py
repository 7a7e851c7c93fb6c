"""Operators that write the text for generation."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast
from xml.sax.saxutils import escape

from msgspec import Meta

from ragbench.core.checked import Checked, Filled, NotNegative, refuse
from ragbench.post.operator import OperatorInput, OperatorOutput, RankedChunk


@dataclass(frozen=True, kw_only=True, slots=True)
class Chat(Checked):
    """Writes each chunk as a turn of a conversation.

    For chunks that are turns of earlier conversations. Who spoke stands in the metadata.
    """

    name = "format.chat"

    role_field: Filled = "role"
    """The metadata key of who spoke."""
    default_role: Filled = "user"
    """The speaker, if the metadata has none."""
    style: Literal["text", "json"] = "text"
    """``"text"``: lines ``role: text``, further lines of a turn indented. ``"json"``: an array of
    objects with ``role`` and ``content``, as chat interfaces take them."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        turns: list[tuple[str, str]] = []
        for entry in context.chunks:
            role = " ".join(str(entry.chunk.metadata.get(self.role_field) or "").split())
            turns.append((role or self.default_role, entry.chunk.text))
        if self.style == "json":
            objects = [{"role": role, "content": text} for role, text in turns]
            text = json.dumps(objects, ensure_ascii=False)
        else:  # indented, so that no text can pass for the next turn
            lines = [f"{role}: " + "\n  ".join(said.splitlines()) for role, said in turns]
            text = "\n".join(lines)
        return OperatorOutput(chunks=context.chunks, history_text=text)


@dataclass(frozen=True, kw_only=True, slots=True)
class LongContext:
    """Puts the first chunk first, the second last, the third second, and so on.

    Language models use what stands at the ends of a long context better than what stands in its
    middle (Liu et al. 2023, "Lost in the Middle: How Language Models Use Long Contexts"). Five
    chunks come to stand as 1, 3, 5, 4, 2. It belongs behind every operator that cuts: what is
    left out then is the end, and no longer the worst. Rank metrics read the new order.
    """

    name = "format.long_context"

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        chunks = context.chunks
        return (*chunks[::2], *chunks[1::2][::-1])


Field = Literal[
    "rank", "id", "text", "score", "document_id", "start", "end", "metadata",
    "initial_rank", "initial_score",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonFormat(Checked):
    """Writes a JSON array with an object a chunk. Unknown values are null.

    Values in metadata that JSON does not know are written as text; NaN and infinities as null.
    """

    name = "format.structured"

    fields: Annotated[Sequence[Field], Meta(min_length=1)] = (
        "rank", "id", "text", "score", "metadata",
    )  # fmt: skip
    """Fields of each object, in this order."""
    indent: NotNegative | None = None
    """Spaces a level; all in one line when not given."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        own = ("rank", "score", "initial_rank", "initial_score")
        objects = [
            {
                field: _plain(getattr(entry if field in own else entry.chunk, field))
                for field in self.fields
            }
            for entry in context.chunks
        ]
        text = json.dumps(objects, ensure_ascii=False, indent=self.indent, allow_nan=False)
        return OperatorOutput(chunks=context.chunks, history_text=text)


def _plain(value: object) -> object:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("list[Any]", value)]
    return str(value)


_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_OF_CHUNK = ("text", "id", "rank", "score", "document_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """Writes each chunk by a template, one below the other.

    A template holds ``{text}``, ``{id}``, ``{rank}``, ``{score}``, ``{document_id}`` and
    ``{metadata.KEY}``; what is not known is written as nothing. ``{question}`` stands in every
    template. ``{{`` and ``}}`` are braces.
    """

    name = "format.template"

    template: str = "[{rank}] {text}"
    """Of each chunk."""
    separator: str = "\n\n"
    """Text between two chunks; taken as it is."""
    header: str = ""
    """Text before the first chunk."""
    footer: str = ""
    """Text behind the last chunk."""

    def __post_init__(self) -> None:
        refuse(
            _problem("template", self.template, (*_OF_CHUNK, "question"), metadata=True),
            _problem("header", self.header, ("question",)),
            _problem("footer", self.footer, ("question",)),
        )

    def apply(self, context: OperatorInput) -> OperatorOutput:
        around: dict[str, object] = {"question": context.query.text}
        blocks: list[str] = []
        for entry in context.chunks:
            chunk = entry.chunk
            known = {f"metadata.{key}": value for key, value in chunk.metadata.items()} | around
            known |= {"text": chunk.text, "id": chunk.id, "document_id": chunk.document_id}
            score = "" if entry.score is None else f"{entry.score:.4g}"
            blocks.append(_filled(self.template, {**known, "rank": entry.rank, "score": score}))
        header, footer = _filled(self.header, around), _filled(self.footer, around)
        text = f"{header}{self.separator.join(blocks)}{footer}"
        return OperatorOutput(chunks=context.chunks, history_text=text)


def _filled(template: str, known: Mapping[str, object]) -> str:
    """Filled in one pass: braces within a value stay as they are."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        found = known.get(match[1])
        return "" if found is None else str(found)

    return _PLACE.sub(value, template)


def _problem(
    field: str, template: str, names: tuple[str, ...], *, metadata: bool = False
) -> str | None:
    for match in _PLACE.finditer(template):
        name = match[1]
        if match[0] in ("{{", "}}") or name in names:
            continue
        if metadata and name is not None and name.startswith("metadata.") and name != "metadata.":
            continue
        known = (*names, "metadata.KEY") if metadata else names
        listed = ", ".join(f"{{{each}}}" for each in known)
        return f"{field} holds '{match[0]}'. Known: {listed}; {{{{ and }}}} for braces"
    return None


_NAME = re.compile(r"(?!xml)[A-Za-z_][\w.-]*", re.ASCII | re.IGNORECASE)
# What XML 1.0 has no way to write, section 2.2: controls, surrogates, two non-characters.
_IMPOSSIBLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A reader turns a bare carriage return into a line feed, section 2.11 ...
_IN_TEXT = {"\r": "&#13;"}
# ... and white space in an attribute into spaces, section 3.3.3.
_TWICE = "fields name an attribute twice; index, id, score and document_id are always there"
_IN_ATTRIBUTE = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;", '"': "&quot;"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Xml:
    """Writes one element a chunk inside an element for all.

    Attributes of a chunk's element: ``index`` from 1, ``id``, and where they are known ``score``,
    ``document_id`` and the metadata ``fields``. Whatever a text holds, a reader gets the same text
    back; only characters that XML cannot hold become U+FFFD.
    """

    name = "format.xml"

    root: str = "documents"
    """Name of the element around all."""
    element: str = "document"
    """Name of each chunk's element."""
    fields: Sequence[str] = ()
    """Metadata keys that become attributes."""

    def __post_init__(self) -> None:
        names = ("index", "id", "score", "document_id", *self.fields)
        refuse(
            _no_name("root", self.root),
            _no_name("element", self.element),
            *(_no_name("fields", field) for field in self.fields),
            None if len(set(names)) == len(names) else _TWICE,
        )

    def apply(self, context: OperatorInput) -> OperatorOutput:
        lines: list[str] = []
        for entry in context.chunks:
            chunk = entry.chunk
            known: dict[str, object] = {
                "index": entry.rank,
                "id": chunk.id,
                "score": None if entry.score is None else f"{entry.score:.4g}",
                "document_id": chunk.document_id,
                **{field: chunk.metadata.get(field) for field in self.fields},
            }
            attributes = "".join(
                f' {name}="{_escaped(str(value), _IN_ATTRIBUTE)}"'
                for name, value in known.items()
                if value is not None
            )
            text = _escaped(chunk.text, _IN_TEXT)
            lines.append(f"<{self.element}{attributes}>{text}</{self.element}>")
        text = "\n".join([f"<{self.root}>", *lines, f"</{self.root}>"])
        return OperatorOutput(chunks=context.chunks, history_text=text)


def _escaped(text: str, more: dict[str, str]) -> str:
    return escape(_IMPOSSIBLE.sub("\ufffd", text), more)


def _no_name(field: str, name: str) -> str | None:
    if _NAME.fullmatch(name):
        return None
    return f"{field} holds '{name}', which is not a name in XML: letters, digits, '_', '-' and '.'"
