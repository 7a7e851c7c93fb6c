"""What an endpoint understands of the interface, found out once and remembered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

from ragbench.llm.chat import Message

__all__ = ["Dialect", "Structured"]


class Structured(StrEnum):
    """How an endpoint is asked for JSON."""

    AUTO = "auto"
    """The strongest of the others that it accepts."""
    JSON_SCHEMA = "json_schema"
    """``response_format`` with a schema that the answer must follow."""
    JSON_OBJECT_SCHEMA = "json_object+schema"
    """``json_object`` with a schema beside it, as llama.cpp's Python server takes it."""
    JSON_OBJECT = "json_object"
    """Any JSON object; the schema stands in the prompt."""
    NONE = "none"
    """The schema stands in the prompt, and that is all."""


_LADDER = (
    Structured.JSON_SCHEMA,
    Structured.JSON_OBJECT_SCHEMA,
    Structured.JSON_OBJECT,
    Structured.NONE,
)
_REJECTING = frozenset({400, 404, 415, 422, 501})
_ABOUT_FORMAT = re.compile(
    r"response_format|json_schema|json_object|literal_error|structured|grammar|guided",
    re.IGNORECASE,
)
_IN_PROMPT = "Reply with one JSON value that follows this JSON schema, and with nothing else:\n"


class Dialect:
    """What one endpoint was found to understand."""

    def __init__(self, structured: Structured = Structured.AUTO) -> None:
        """Knows nothing yet.

        Args:
            structured: how JSON is asked for, if that is not to be found out.
        """
        self._fixed = structured is not Structured.AUTO
        self.structured = structured if self._fixed else _LADDER[0]
        """What calls start with."""
        self.known = self._fixed
        """Whether an answer has confirmed it."""
        self.token_limit = "max_tokens"
        """The name of the field that limits an answer's length."""

    def payload(
        self,
        model: str,
        messages: Sequence[Message],
        parameters: Mapping[str, Any],
        schema: Mapping[str, Any] | None,
        mode: Structured,
    ) -> dict[str, Any]:
        """The body of a request.

        Args:
            model: the model's name.
            messages: the conversation.
            parameters: further fields; ``max_tokens`` is named as the endpoint wants it.
            schema: a JSON schema that the answer shall follow, with a ``title``.
            mode: how it is asked for.
        """
        told = [{"role": message.role, "content": message.content} for message in messages]
        body: dict[str, Any] = {"model": model, "messages": told}
        for name, value in parameters.items():
            body[self.token_limit if name == "max_tokens" else name] = value
        if schema is None:
            return body
        if mode is Structured.JSON_SCHEMA:
            body["response_format"] = {"type": "json_schema", "json_schema": _named(schema)}
            return body
        told[-1]["content"] += f"\n\n{_IN_PROMPT}{json.dumps(schema, ensure_ascii=False)}"
        if mode is Structured.JSON_OBJECT_SCHEMA:
            body["response_format"] = {"type": "json_object", "schema": schema}
        elif mode is Structured.JSON_OBJECT:
            body["response_format"] = {"type": "json_object"}
        return body

    def weaker(self, mode: Structured, status: int, text: str) -> Structured | None:
        """What to try after a rejection of a request that asked for JSON.

        Args:
            mode: how the rejected request asked.
            status: the HTTP status.
            text: the body of the answer.

        Returns:
            The next way of asking; None when the rejection has another reason, or no way is left.
        """
        if self._fixed or mode is Structured.NONE:
            return None
        if self.known and _LADDER.index(mode) < _LADDER.index(self.structured):
            return self.structured  # another call has found it out meanwhile
        about_it = _ABOUT_FORMAT.search(text) is not None
        if about_it if status >= 500 else status in _REJECTING and (about_it or not self.known):
            return _LADDER[_LADDER.index(mode) + 1]
        return None

    def confirmed(self, mode: Structured) -> None:
        """An answer came to a request that asked for JSON this way."""
        if not self.known:
            self.structured, self.known = mode, True

    def renames_token_limit(self, status: int, text: str) -> bool:
        """Whether a rejection asks for the newer name of the length limit; takes it up if so."""
        newer = "max_completion_tokens"
        if status in _REJECTING and self.token_limit != newer and newer in text:
            self.token_limit = newer
            return True
        return False


def _named(schema: Mapping[str, Any]) -> dict[str, Any]:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", str(schema.get("title", "")))[:64] or "answer"
    return {"name": name, "schema": dict(schema), "strict": _is_strict(schema)}


def _is_strict(schema: object) -> bool:
    """Whether every object in a schema names all its fields: what strict servers demand."""
    if isinstance(schema, Mapping):
        known = cast("Mapping[str, Any]", schema)
        if "properties" in known or known.get("type") == "object":
            named, required = set(known.get("properties", ())), set(known.get("required", ()))
            if known.get("additionalProperties") is not False or named != required:
                return False
        return all(_is_strict(value) for value in known.values())
    if isinstance(schema, (list, tuple)):
        return all(_is_strict(value) for value in cast("Sequence[object]", schema))
    return True
