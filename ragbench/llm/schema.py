"""What a model replied: text without thoughts, the structure asked for, JSON found in text.

Read are the deviations that models are known for and that leave no doubt about what is meant: a
fence or words around the value, thoughts before it, raw line breaks in strings, commas before a
closing bracket, backslashes that escape nothing. Anything that would have to be guessed (a string
that never ends, a missing bracket) is not JSON: half a list of verdicts must not pass for a whole
one, and the model can be asked again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from ragbench.core.chat import ChatModel, Message
from ragbench.core.record import Record
from ragbench.errors import LLMReplyError
from ragbench.llm.answers import THINKS, shortened
from ragbench.masking import hidden
from ragbench.plugins import require

_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHTS = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[{\[]")
_BEGINNING = re.compile(r"\{\s*\"|\[\s*[\[{\"\d-]")
_MOST_STARTS = 50


def json_values(text: str) -> Iterator[object]:
    """The JSON values in a text, the likeliest answer first.

    The whole text, where it is JSON; then what stands in fences, the last fence first; then every
    object and list that stands among words, the last first.
    """
    answer = without_thoughts(text)
    for candidate in (answer, *reversed(_FENCE.findall(answer))):
        if (value := _whole(candidate)) is not _NOTHING:
            yield value
            return
    yield from reversed(_among_words(answer))


_NOTHING = object()


def without_thoughts(text: str) -> str:
    """What a model said behind its thoughts, where it thinks in tags.

    Some servers cut the opening tag off.
    """
    # Not within a value: a text about tags may quote one.
    if _whole(text) is not _NOTHING:
        return text
    *_, last = _END_OF_THOUGHTS.split(_THOUGHTS.sub("", text))
    return last


def _whole(text: str) -> object:
    """The value that a text is, but for known deviations."""
    stripped = text.strip().lstrip("\ufeff")
    for candidate in (stripped, _mended(stripped)):
        with suppress(ValueError, RecursionError):
            return _DECODER.decode(candidate)
    return _NOTHING


def _among_words(text: str) -> list[object]:
    """Objects and lists among words; none when one begins and never ends.

    What stands inside of it is a part of an answer, and what stands before it was not the answer.
    """
    values: list[object] = []
    rest = text
    for _ in range(_MOST_STARTS):
        found = _OPENING.search(rest)
        if found is None:
            return values
        rest = rest[found.start() :]
        for candidate in (rest, _mended(rest)):  # mended from here: a quote before it means nothing
            try:
                value, end = _DECODER.raw_decode(candidate)
            except (ValueError, RecursionError):
                continue
            values.append(value)
            rest = candidate[end:]
            break
        else:
            if _BEGINNING.match(rest):
                return []
            rest = rest[1:]  # a bracket of the prose
    return values


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _mended(text: str) -> str:
    """The text without commas before a closing bracket, and with lone backslashes doubled."""

    def mend(found: re.Match[str]) -> str:
        if found[0] == ",":
            return ""
        return _ESCAPE.sub(lambda escape: escape[0] if escape[0] != "\\" else "\\\\", found[0])

    return _STRING_OR_COMMA.sub(mend, text)


_STRING_OR_COMMA = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|,(?=\s*[\]}])', re.DOTALL)
"""Strings, also one that never ends; commas before a closing bracket."""
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
"""A whole escape, or a backslash that escapes nothing."""


T_co = TypeVar("T_co", covariant=True)
ValueT = TypeVar("ValueT")
_SHOWN = 600


class Schema(Record, Generic[T_co]):
    """A JSON schema, and what makes a checked value of JSON."""

    definition: Mapping[str, Any]
    """The JSON schema. Part of the cache key: equal schemas share answers."""
    check: Callable[[object], T_co]
    """Gives the value for parsed JSON, or raises `ValueError` saying what is wrong."""


def schema_of(kind: type[ValueT]) -> Schema[ValueT]:
    """The schema of a dataclass, a `TypedDict`, a pydantic model or any type that pydantic knows.

    Every field is asked for, also those with a default, and objects are closed: servers that hold
    a model to a schema demand both.
    """
    pydantic = require("pydantic", extra="llm")
    adapter: Any = pydantic.TypeAdapter(kind)
    definition: dict[str, Any] = changed(adapter.json_schema(), _closed)
    definition.setdefault("title", kind.__name__)

    def check(value: object) -> ValueT:
        try:
            return cast("ValueT", adapter.validate_python(value))
        except pydantic.ValidationError as error:
            problems = [f"{_place(item['loc'])}: {item['msg']}" for item in error.errors()[:5]]
            raise ValueError("; ".join(problems)) from None

    return Schema(definition=definition, check=check)


def read_structure(text: str, schema: Schema[ValueT]) -> ValueT:
    problems: list[str] = []
    for candidate in json_values(text):
        try:
            return schema.check(candidate)
        except ValueError as error:
            problems.append(str(error))
    problem = next(iter(problems), "it holds no JSON")
    shown = shortened(" ".join(hidden(text).split()), _SHOWN)
    raise LLMReplyError(f"the model's answer is not as asked: {problem}: '{shown}'", reply=text)


def _place(location: tuple[object, ...]) -> str:
    return ".".join(str(part) for part in location) or "the value"


def changed(
    schema: object, change: Callable[[str, dict[str, Any]], dict[str, Any]], name: str = ""
) -> Any:
    """A JSON schema with a change made to each part; that of a property is given its name, too."""
    if isinstance(schema, list):
        return [changed(item, change) for item in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key in ("properties", "$defs") and isinstance(value, dict):  # keys of these are names
            named = cast("dict[str, Any]", value)
            found[key] = {own: changed(inner, change, own) for own, inner in named.items()}
        else:
            found[key] = changed(value, change)
    return change(name, found)


def _closed(_: str, part: dict[str, Any]) -> dict[str, Any]:
    """Objects allow no other fields and demand all of theirs; defaults are left out."""
    part.pop("default", None)
    if isinstance(part.get("properties"), dict):
        part["required"] = list(part["properties"])
        part.setdefault("additionalProperties", False)
    return part


@runtime_checkable
class StructuredChat(ChatModel, Protocol):
    """A language model whose endpoint can be held to a JSON schema."""

    def ask_structure(self, messages: Sequence[Message], schema: Schema[ValueT]) -> ValueT: ...


def ask_text(chat: ChatModel, messages: Sequence[Message]) -> str:
    """What a model says, without what it thought before.

    Thoughts that never end leave nothing: the answer was cut off before it began.
    """
    reply = chat.complete(messages)
    said = without_thoughts(reply).strip()
    if not said or THINKS.match(said):
        raise LLMReplyError("the model's answer is empty", reply=reply)
    return said


def ask_structure(chat: ChatModel, messages: Sequence[Message], schema: Schema[ValueT]) -> ValueT:
    """Asks for a value: held to the schema where the model can be, else read out of its text."""
    if isinstance(chat, StructuredChat):
        return chat.ask_structure(messages, schema)
    return read_structure(ask_text(chat, messages), schema)


def field_schema(
    key: str, form: Mapping[str, Any], check: Callable[[object], ValueT]
) -> Schema[ValueT]:
    closed = {"required": [key], "additionalProperties": False}
    definition = {"title": key, "type": "object", "properties": {key: dict(form)}, **closed}

    def checked(value: object) -> ValueT:
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"it is not a JSON object with '{key}'")
        return check(cast("dict[str, object]", value)[key])

    return Schema(definition=definition, check=checked)
