"""The chunks as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.postretrieval.settings import at_least, not_empty, one_of

__all__ = ["Structured"]

Field = Literal[
    "rank", "id", "text", "score", "document_id", "start", "end", "metadata",
    "initial_rank", "initial_score",
]  # fmt: skip
_FIELDS = (
    "rank", "id", "text", "score", "document_id", "start", "end", "metadata",
    "initial_rank", "initial_score",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Structured:
    """Writes a JSON array with an object a chunk. What is not known is null.

    Values in metadata that JSON does not know are written as text; NaN and infinities as null.

    Raises:
        ConfigError: an unknown field, or none, or a negative indent.
    """

    fields: Sequence[Field] = ("rank", "id", "text", "score", "metadata")
    """What each object holds, in this order."""
    indent: int | None = None
    """Spaces a level; all in one line when not given."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(
            not_empty("fields", self.fields),
            *(one_of("fields", field, _FIELDS) for field in self.fields),
            None if self.indent is None else at_least("indent", self.indent, 0),
        )

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "format.structured"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`: the chunks stay, the text is written."""
        objects = [
            {field: _value(entry, field) for field in self.fields} for entry in context.chunks
        ]
        text = json.dumps(objects, ensure_ascii=False, indent=self.indent, allow_nan=False)
        return OperatorOutput(chunks=context.chunks, history_text=text)


def _value(entry: RankedChunk, field: Field) -> object:
    if field in ("rank", "score", "initial_rank", "initial_score"):
        return _plain(getattr(entry, field))
    return _plain(getattr(entry.chunk, field))


def _plain(value: object) -> object:
    """A value that JSON knows."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("list[Any]", value)]
    return str(value)
