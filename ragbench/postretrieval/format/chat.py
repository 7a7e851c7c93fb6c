"""The chunks as the turns of a conversation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, refuse
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.postretrieval.settings import not_empty, one_of

__all__ = ["Chat"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chat:
    """Writes each chunk as something that somebody said.

    For chunks that are turns of earlier conversations. Who spoke stands in the metadata.

    Raises:
        ConfigError: a name is empty, or there is no such style.
    """

    role_field: str = "role"
    """The metadata key of who spoke."""
    default_role: str = "user"
    """Who spoke where the metadata does not say."""
    style: Literal["text", "json"] = "text"
    """``"text"``: lines ``role: text``, further lines of a turn indented. ``"json"``: an array of
    objects with ``role`` and ``content``, as chat interfaces take them."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(
            not_empty("role_field", self.role_field),
            not_empty("default_role", self.default_role),
            one_of("style", self.style, ("text", "json")),
        )

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "format.chat"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`: the chunks stay, the text is written."""
        turns = [(self._role(entry), entry.chunk.text) for entry in context.chunks]
        if self.style == "json":
            text = json.dumps(
                [{"role": role, "content": said} for role, said in turns], ensure_ascii=False
            )
        else:  # indented, so that no text can pass for the next turn
            text = "\n".join(f"{role}: " + "\n  ".join(said.splitlines()) for role, said in turns)
        return OperatorOutput(chunks=context.chunks, history_text=text)

    def _role(self, entry: RankedChunk) -> str:
        role = entry.chunk.metadata.get(self.role_field)
        return " ".join(str(role).split()) if role not in (None, "") else self.default_role
