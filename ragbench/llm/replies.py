"""One reader of what models reply: text without thoughts, structure where the endpoint has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from ragbench.core.chat import ChatModel, Message
from ragbench.errors import LLMReplyError
from ragbench.llm.schema import Schema, read_structure, without_thoughts

ValueT = TypeVar("ValueT")
_UNENDED = re.compile(r"\s*<(think|thinking|reasoning)>", re.IGNORECASE)


@runtime_checkable
class StructuredChat(ChatModel, Protocol):
    """A language model whose endpoint can be held to a JSON schema."""

    def ask_structure(self, messages: Sequence[Message], schema: Schema[ValueT]) -> ValueT:
        """Answers a conversation by a value."""
        ...


def said_text(reply: str) -> str:
    """What a model said, without what it thought before.

    Thoughts stand in ``<think>``, ``<thinking>`` or ``<reasoning>``; some servers cut the opening
    tag off. Thoughts that never end leave nothing: the answer was cut off before it began.
    """
    told = without_thoughts(reply)
    return "" if _UNENDED.match(told) else told.strip()


def ask_text(chat: ChatModel, messages: Sequence[Message]) -> str:
    reply = chat.complete(messages)
    text = said_text(reply)
    if not text:
        raise LLMReplyError("the model's answer is empty", reply=reply)
    return text


def ask_structure(
    chat: ChatModel,
    messages: Sequence[Message],
    schema: Schema[ValueT],
    *,
    read: Callable[[str], ValueT] | None = None,
) -> ValueT:
    """Asks for a value: held to the schema where the model can be, else read out of its text."""
    try:
        if isinstance(chat, StructuredChat):
            return chat.ask_structure(messages, schema)
        reply = chat.complete(messages)
        return read_structure(reply, schema) if said_text(reply) else _nothing(reply)
    except LLMReplyError as error:
        said = said_text(error.reply or "")
        if read is None or not said:
            raise
        return read(said)


def _nothing(reply: str) -> Any:
    raise LLMReplyError("the model's answer is empty", reply=reply)


def field_schema(
    key: str, form: Mapping[str, Any], check: Callable[[object], ValueT]
) -> Schema[ValueT]:
    definition = {
        "title": key,
        "type": "object",
        "properties": {key: dict(form)},
        "required": [key],
        "additionalProperties": False,
    }

    def checked(value: object) -> ValueT:
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"it is not a JSON object with '{key}'")
        return check(cast("dict[str, object]", value)[key])

    return Schema(definition=definition, check=checked)
