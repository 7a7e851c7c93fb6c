"""Operators that write the text for generation."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, cast
from xml.sax.saxutils import escape

from msgspec import Meta

from ragbench.core.checked import Checked, Filled, NotNegative, refuse
from ragbench.core.readable_metadata import readable_metadata
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
        """Writes the turns in the order of the chunks: the text that generation gets as context.

        The chunks stay as they are, for metrics and pages.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        turns: list[tuple[str, str]] = []
        for entry in context.chunks:
            value = entry.chunk.metadata.get(self.role_field) or ""
            # On one line: a line break in a name could begin a turn of its own.
            role = " ".join(str(value).split())
            turns.append((role or self.default_role, entry.chunk.text))
        if self.style == "json":
            messages = [{"role": role, "content": text} for role, text in turns]
            history_text = json.dumps(messages, ensure_ascii=False)
        else:
            blocks: list[str] = []
            for role, text in turns:
                # Further lines are indented: no text can pass for the next turn.
                indented = "\n  ".join(text.splitlines())
                blocks.append(f"{role}: {indented}")
            history_text = "\n".join(blocks)
        return OperatorOutput(chunks=context.chunks, history_text=history_text)


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
        """Puts every other chunk first, in order, and those between them behind, in reverse.

        So the best chunks are at both ends, which language models use best.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        first_and_every_second = context.chunks[::2]
        between = context.chunks[1::2]
        return (*first_and_every_second, *reversed(between))


Field = Literal[
    "rank",
    "id",
    "text",
    "score",
    "document_id",
    "start",
    "end",
    "metadata",
    "initial_rank",
    "initial_score",
]
"""What an object of `JsonFormat` may hold of a chunk."""

_RANKING_FIELDS = ("rank", "score", "initial_rank", "initial_score")
"""Those that are known of a chunk's place among the others; the rest are the chunk's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonFormat(Checked):
    """Writes a JSON array with an object a chunk. Unknown values are null.

    Metadata come without embeddings and internal fields, see
    `ragbench.core.readable_metadata`. Values that JSON does not know are written as text; NaN and
    infinities as null.
    """

    name = "format.structured"

    fields: Annotated[Sequence[Field], Meta(min_length=1)] = (
        "rank",
        "id",
        "text",
        "score",
        "metadata",
    )
    """Fields of each object, in this order; metadata without embeddings and internal fields."""
    indent: NotNegative | None = None
    """Spaces a level; all in one line when not given."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """Writes a JSON array with an object for each chunk as the text for generation.

        The chunks stay as they are.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        objects: list[dict[str, object]] = []
        for entry in context.chunks:
            values: dict[str, object] = {}
            for field in self.fields:
                # An entry has a score, too, and its chunk the one that retrieval gave.
                holder = entry if field in _RANKING_FIELDS else entry.chunk
                value = getattr(holder, field)
                if field == "metadata":
                    value = readable_metadata(value)
                values[field] = _json_value(value)
            objects.append(values)
        text = json.dumps(objects, ensure_ascii=False, indent=self.indent, allow_nan=False)
        return OperatorOutput(chunks=context.chunks, history_text=text)


def _json_value(value: object) -> object:
    """The value as JSON can hold it: metadata may have anything that a user's program put there.

    NaN and infinities become null, and other kinds of value a text.
    """
    # A flag is an int to Python, and JSON writes it as true or false.
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        plain: dict[str, object] = {}
        for key, item in cast("dict[Any, Any]", value).items():
            plain[str(key)] = _json_value(item)
        return plain
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in cast("list[Any]", value)]
    return str(value)


_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
"""A doubled brace, a name in braces, or a brace alone, which is a mistake."""
_CHUNK_NAMES = ("text", "id", "rank", "score", "document_id")
"""Names that a template may have in braces, besides the question and metadata."""


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
        """Refuses placeholders that no chunk can fill, before any question is asked.

        A misspelled name would else be an empty text in every prompt.
        """
        # Header and footer stand for no chunk: only the question is known there.
        refuse(
            _problem_of_template(
                "template", self.template, (*_CHUNK_NAMES, "question"), metadata=True
            ),
            _problem_of_template("header", self.header, ("question",)),
            _problem_of_template("footer", self.footer, ("question",)),
        )

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """Writes each chunk by the template; header and footer know the question alone.

        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        shared: dict[str, object] = {"question": context.query.text}
        blocks: list[str] = []
        for entry in context.chunks:
            chunk = entry.chunk
            values: dict[str, object] = {}
            # Under the full name, so that no key of the user's covers a name of ours.
            for key, value in chunk.metadata.items():
                values[f"metadata.{key}"] = value
            values |= shared
            values["text"] = chunk.text
            values["id"] = chunk.id
            values["document_id"] = chunk.document_id
            values["rank"] = entry.rank
            values["score"] = _score_text(entry)
            blocks.append(_filled_template(self.template, values))
        header = _filled_template(self.header, shared)
        footer = _filled_template(self.footer, shared)
        text = f"{header}{self.separator.join(blocks)}{footer}"
        return OperatorOutput(chunks=context.chunks, history_text=text)


def _score_text(entry: RankedChunk) -> str | None:
    """A chunk's score with four digits, for a prompt; None where nothing scored the chunk.

    More digits would look like a precision that rerankers do not have.
    """
    if entry.score is None:
        return None
    return f"{entry.score:.4g}"


def _filled_template(template: str, values: Mapping[str, object]) -> str:
    """A template with the values of its placeholders.

    It is filled in one pass: braces within a value stay as they are.
    """
    return _PLACEHOLDER.sub(partial(_text_of_placeholder, values), template)


def _text_of_placeholder(values: Mapping[str, object], match: re.Match[str]) -> str:
    """The text in the place of one placeholder of a template, such as ``{rank}``.

    It is empty where the value is not known. A doubled brace becomes one.

    Args:
        values: by the names that may be in braces.
    """
    name = match[1]
    if name is None:  # a doubled brace
        return match[0][0]
    value = values.get(name)
    if value is None:
        return ""
    return str(value)


def _problem_of_template(
    field: str, template: str, names: tuple[str, ...], *, metadata: bool = False
) -> str | None:
    """What is wrong with the braces of a template; None where it can be filled.

    Args:
        field: the setting that holds the template.
        names: what may stand in braces, besides metadata where that may.
        metadata: whether ``{metadata.KEY}`` may stand there.
    """
    for match in _PLACEHOLDER.finditer(template):
        name = match[1]
        # A brace alone has no name, and is in no list of names.
        if match[0] in ("{{", "}}") or name in names:
            continue
        prefix, _, key = (name or "").partition(".")
        if metadata and prefix == "metadata" and key:
            continue
        accepted = names
        if metadata:
            accepted = (*names, "metadata.KEY")
        listed = ", ".join(f"{{{accepted_name}}}" for accepted_name in accepted)
        return f"{field} holds '{match[0]}'. Known: {listed}; {{{{ and }}}} for braces"
    return None


# XML 1.0 keeps all names that begin with "xml" for itself, section 2.3.
_NAME = re.compile(r"(?!xml)[A-Za-z_][\w.-]*", re.ASCII | re.IGNORECASE)
# What XML 1.0 has no way to write, section 2.2: controls, surrogates, two non-characters.
_IMPOSSIBLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A reader turns a bare carriage return into a line feed, section 2.11 ...
_TEXT_ESCAPES = {"\r": "&#13;"}
# ... and white space in an attribute into spaces, section 3.3.3.
_ATTRIBUTE_ESCAPES = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;", '"': "&quot;"}
_TWICE = "fields name an attribute twice; index, id, score and document_id are always there"


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
        """Refuses names that XML does not allow, and an attribute that is named twice.

        No reader could else parse the text that generation is given.
        """
        problems = [_name_problem("root", self.root), _name_problem("element", self.element)]
        for field in self.fields:
            problems.append(_name_problem("fields", field))
        # The fixed ones count, too: XML allows an attribute once.
        attributes = ("index", "id", "score", "document_id", *self.fields)
        if len(set(attributes)) < len(attributes):
            problems.append(_TWICE)
        refuse(*problems)

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """Writes an element for each chunk; values that are not known have no attribute.

        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        lines: list[str] = []
        for entry in context.chunks:
            chunk = entry.chunk
            values: dict[str, object] = {
                "index": entry.rank,
                "id": chunk.id,
                "score": _score_text(entry),
                "document_id": chunk.document_id,
            }
            for field in self.fields:
                values[field] = chunk.metadata.get(field)
            attributes = ""
            # In the order of the fields, so that equal chunks give equal text.
            for name, value in values.items():
                if value is not None:
                    escaped = _escaped(str(value), _ATTRIBUTE_ESCAPES)
                    attributes += f' {name}="{escaped}"'
            text = _escaped(chunk.text, _TEXT_ESCAPES)
            lines.append(f"<{self.element}{attributes}>{text}</{self.element}>")
        elements = "\n".join([f"<{self.root}>", *lines, f"</{self.root}>"])
        return OperatorOutput(chunks=context.chunks, history_text=elements)


def _escaped(text: str, escapes: dict[str, str]) -> str:
    """A text as XML holds it: with ``&``, ``<``, ``>`` and some further characters as references.

    Characters that XML cannot hold become U+FFFD.

    Args:
        escapes: the further characters, with their references.
    """
    writable = _IMPOSSIBLE.sub("\ufffd", text)
    return escape(writable, escapes)


def _name_problem(field: str, name: str) -> str | None:
    """What is wrong with the name of an element or attribute; None where XML allows it.

    Args:
        field: the setting that holds the name.
    """
    if _NAME.fullmatch(name):
        return None
    return f"{field} holds '{name}', which is not a name in XML: letters, digits, '_', '-' and '.'"
