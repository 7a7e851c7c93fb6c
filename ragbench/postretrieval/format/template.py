"""A text for each chunk, from a template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.ranked import RankedChunk

__all__ = ["Template"]

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_OF_CHUNK = ("text", "id", "rank", "score", "document_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """Writes each chunk by a template, one below the other.

    A template holds ``{text}``, ``{id}``, ``{rank}``, ``{score}``, ``{document_id}`` and
    ``{metadata.KEY}``; what is not known is written as nothing. ``{question}`` stands in every
    template. ``{{`` and ``}}`` are braces.

    Raises:
        ConfigError: a template holds something else in braces.
    """

    template: str = "[{rank}] {text}"
    """Of each chunk."""
    separator: str = "\n\n"
    """What stands between two chunks; taken as it is."""
    header: str = ""
    """What stands before the first chunk."""
    footer: str = ""
    """What stands behind the last chunk."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(
            _problem("template", self.template, (*_OF_CHUNK, "question"), metadata=True),
            _problem("header", self.header, ("question",)),
            _problem("footer", self.footer, ("question",)),
        )

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "format.template"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`: the chunks stay, the text is written."""
        question = context.query.text
        blocks = [_filled(self.template, _known(entry, question)) for entry in context.chunks]
        around = {"question": question}
        text = "".join(
            (
                _filled(self.header, around),
                self.separator.join(blocks),
                _filled(self.footer, around),
            )
        )
        return OperatorOutput(chunks=context.chunks, history_text=text)


def _known(entry: RankedChunk, question: str) -> dict[str, object]:
    chunk = entry.chunk
    known: dict[str, object] = {f"metadata.{key}": value for key, value in chunk.metadata.items()}
    score = "" if entry.score is None else f"{entry.score:.4g}"
    return known | {
        "text": chunk.text,
        "id": chunk.id,
        "rank": entry.rank,
        "score": score,
        "document_id": chunk.document_id,
        "question": question,
    }


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
