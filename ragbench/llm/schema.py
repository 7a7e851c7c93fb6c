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
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from ragbench.core.chat import ChatModel, Message
from ragbench.core.record import Record
from ragbench.errors import LLMReplyError
from ragbench.llm.answers import THINKS, shortened
from ragbench.masking import hidden
from ragbench.plugins import require

_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
"""What a model thinks in tags, before its answer."""
_END_OF_THOUGHTS = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
"""The end of thoughts whose beginning a server cut off."""
_FENCE = re.compile(r"```[\w-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
"""A block of code, whatever language it names."""
_OPENING = re.compile(r"[{\[]")
"""A bracket that may begin a value."""
_BEGINNING = re.compile(r"\{\s*\"|\[\s*[\[{\"\d-]")
"""How a JSON value begins, other than a bracket of the prose."""
_MOST_STARTS = 50
"""How many brackets of a text are tried as the beginning of a value: each try reads on from it."""


def json_values(text: str) -> Iterator[object]:
    """The JSON values in a model's answer, the likeliest one first.

    The whole text, where it is JSON; then what stands in fences, the last fence first; then every
    object and list that stands among words, the last first.
    """
    answer = without_thoughts(text)
    for candidate in (answer, *reversed(_FENCE.findall(answer))):
        value = _parsed_json(candidate)
        if value is not _NOT_JSON:
            # A value that fills the text or a fence leaves no doubt: brackets in words are not
            # read.
            yield value
            return
    yield from reversed(_among_words(answer))


_NOT_JSON = object()
"""Stands for the value of a text that has none; None is the value of ``null``."""


def without_thoughts(text: str) -> str:
    """The text of a model's answer behind its thoughts, where the model thinks in tags.

    Thoughts may hold JSON that is not the answer. Some servers cut the opening tag off: then all
    before the closing one is thought.
    """
    # A text that is a JSON value as a whole stays as it is: a string in it may quote such a tag.
    if _parsed_json(text) is not _NOT_JSON:
        return text
    *_, answer = _END_OF_THOUGHTS.split(_THOUGHTS.sub("", text))
    return answer


def _parsed_json(text: str) -> object:
    """The value of a text that is JSON as a whole, or `_NOT_JSON`.

    Deviations that models are known for (raw line breaks, commas before a bracket, lone
    backslashes) are mended, since they leave no doubt; nothing is guessed.
    """
    stripped = text.strip().lstrip("\ufeff")
    # As it is first: mending could change a text that is valid.
    for candidate in (stripped, _mended_json(stripped)):
        with suppress(ValueError, RecursionError):
            return _DECODER.decode(candidate)
    return _NOT_JSON


def _among_words(text: str) -> list[object]:
    """The JSON objects and lists among the words of an answer.

    The list is empty where a value begins and never ends. What lies inside of an unended value is a
    part of an answer, and what lies before it was not the answer.
    """
    values: list[object] = []
    remainder = text
    for _ in range(_MOST_STARTS):
        bracket = _OPENING.search(remainder)
        if bracket is None:
            return values
        remainder = remainder[bracket.start() :]
        # Mended from the bracket on: a lone quote before it is no beginning of a string.
        for candidate in (remainder, _mended_json(remainder)):
            try:
                value, end = _DECODER.raw_decode(candidate)
            except (ValueError, RecursionError):
                continue
            values.append(value)
            remainder = candidate[end:]
            break
        else:
            # It looks like a value, yet it does not end as one.
            if _BEGINNING.match(remainder):
                return []
            remainder = remainder[1:]  # a bracket of the prose
    return values


def _refuse_constant(name: str) -> object:
    """Raises for NaN and Infinity, which Python reads as numbers, and JSON does not know.

    A score must not become NaN: no comparison with it holds.
    """
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _mended_json(text: str) -> str:
    """A model's text without commas before closing brackets, and with lone backslashes doubled.

    Models write such near-JSON often, and its meaning is not in doubt.
    """
    return _STRING_OR_COMMA.sub(_mended_part, text)


def _mended_part(match: re.Match[str]) -> str:
    """The repair of one match of `_STRING_OR_COMMA` in a model's faulty JSON.

    A comma before a closing bracket becomes nothing; in a string, backslashes that escape nothing
    are doubled. Strings are matched as a whole so that commas inside of them stay.
    """
    string_or_comma = match[0]
    if string_or_comma == ",":
        return ""
    return _ESCAPE.sub(_mended_escape, string_or_comma)


def _mended_escape(match: re.Match[str]) -> str:
    """A valid JSON escape as it is; a backslash that escapes nothing doubled, so that it is one.

    Models write paths and formulas into strings without escaping them.
    """
    escape = match[0]
    if escape == "\\":
        return "\\\\"
    return escape


_STRING_OR_COMMA = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|,(?=\s*[\]}])', re.DOTALL)
"""Strings, also one that never ends; commas before a closing bracket."""
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
"""A whole escape, or a backslash that escapes nothing."""


T_co = TypeVar("T_co", covariant=True)
ValueT = TypeVar("ValueT")
_SHOWN = 600
"""Characters of an answer that an error shows."""


class Schema(Record, Generic[T_co]):
    """A JSON schema, and what makes a checked value of JSON."""

    definition: Mapping[str, Any]
    """The JSON schema. Part of the cache key: equal schemas share answers."""
    check: Callable[[object], T_co]
    """Gives the value for parsed JSON, or raises `ValueError` saying what is wrong."""


def schema_of(kind: type[ValueT]) -> Schema[ValueT]:
    """The JSON schema of a type, and the check that makes a value of that type of parsed JSON.

    Of a dataclass, a `TypedDict`, a pydantic model or any type that pydantic knows.

    Every field is asked for, also those with a default, and objects are closed: servers that hold
    a model to a schema demand both.
    """
    pydantic = require("pydantic", extra="llm")
    adapter: Any = pydantic.TypeAdapter(kind)
    definition: dict[str, Any] = changed(adapter.json_schema(), _closed_object)
    # Named types bring a title of their own; OpenAI wants a name for every schema.
    definition.setdefault("title", kind.__name__)
    return Schema(definition=definition, check=partial(_validated, adapter))


def _validated(adapter: Any, value: object) -> Any:
    """The checked value that pydantic makes of a model's parsed JSON.

    The model is asked once to correct its answer, so the error lists each problem with its place,
    in pydantic's words.

    Args:
        adapter: pydantic's `TypeAdapter` of the type that is wanted.

    Raises:
        ValueError: the value does not fit the type.
    """
    pydantic = require("pydantic", extra="llm")
    try:
        return adapter.validate_python(value)
    except pydantic.ValidationError as error:
        problems: list[str] = []
        for problem in error.errors()[:5]:  # a model need not be told more at once
            problems.append(f"{_place_in_value(problem['loc'])}: {problem['msg']}")
        raise ValueError("; ".join(problems)) from None


def read_structure(text: str, schema: Schema[ValueT]) -> ValueT:
    """The first JSON value in a model's answer that passes the schema's check.

    Words around the value are common, so each value in the text is tried.

    Raises:
        LLMReplyError: no value passes; the error says what is wrong with the likeliest one.
    """
    problems: list[str] = []
    for candidate in json_values(text):
        try:
            return schema.check(candidate)
        except ValueError as error:
            problems.append(str(error))
    problem = "it holds no JSON"
    if problems:
        # Of the likeliest value: the others are more often brackets of the prose.
        problem = problems[0]
    line = " ".join(hidden(text).split())
    excerpt = shortened(line, _SHOWN)
    raise LLMReplyError(f"the model's answer is not as asked: {problem}: '{excerpt}'", reply=text)


def _place_in_value(location: tuple[object, ...]) -> str:
    """The place of a problem within a JSON value, such as ``verdicts.0.reason``.

    The request for a corrected answer names it.
    """
    return ".".join(str(part) for part in location) or "the value"


def changed(
    schema: object, change: Callable[[str, dict[str, Any]], dict[str, Any]], name: str = ""
) -> Any:
    """A JSON schema with a change made to each of the objects in it, the inner ones first.

    Validators and servers want other forms of the same schema. The schema that comes in is not
    changed.

    Args:
        change: gives an object's new form; it gets the name of the property or definition that
            the object describes, or an empty one, and the object.
        name: of what this schema describes.
    """
    # Entries of a list have no name of their own.
    if isinstance(schema, list):
        return [changed(part, change) for part in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    changed_schema: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        # The keys of these two are names, not words of JSON Schema; they are no object of it.
        if key in ("properties", "$defs") and isinstance(value, dict):
            changed_parts: dict[str, Any] = {}
            for part_name, part in cast("dict[str, Any]", value).items():
                changed_parts[part_name] = changed(part, change, part_name)
            changed_schema[key] = changed_parts
        else:
            changed_schema[key] = changed(value, change)
    return change(name, changed_schema)


def _closed_object(_: str, part: dict[str, Any]) -> dict[str, Any]:
    """A schema's object that allows no other fields and demands all its fields, without defaults.

    Servers that hold a model to a schema demand this form. The object is part of cache keys:
    another form makes stored answers unknown.

    Args:
        part: the object, which is changed in place; the name that it goes by does not matter.
    """
    part.pop("default", None)
    # In the order of the fields: cache keys hold this list as it is.
    if isinstance(part.get("properties"), dict):
        part["required"] = list(part["properties"])
        part.setdefault("additionalProperties", False)
    return part


@runtime_checkable
class StructuredChat(ChatModel, Protocol):
    """A language model whose endpoint can be held to a JSON schema."""

    def ask_structure(self, messages: Sequence[Message], schema: Schema[ValueT]) -> ValueT:
        """The value of the schema that a model answers.

        `LLMReplyError` is raised where no answer holds one.
        """
        ...


def ask_text(chat: ChatModel, messages: Sequence[Message]) -> str:
    """The text of a model's answer, without the thoughts before it.

    Thoughts that never end leave nothing: the answer was cut off before it began.
    """
    reply = chat.complete(messages)
    answer = without_thoughts(reply).strip()
    if not answer or THINKS.match(answer):
        raise LLMReplyError("the model's answer is empty", reply=reply)
    return answer


def ask_structure(chat: ChatModel, messages: Sequence[Message], schema: Schema[ValueT]) -> ValueT:
    """The value of a schema that any model answers.

    A model that can be held to the schema is; from another one the value is read out of its text.
    """
    if isinstance(chat, StructuredChat):
        return chat.ask_structure(messages, schema)
    text = ask_text(chat, messages)
    return read_structure(text, schema)


def field_schema(
    key: str, form: Mapping[str, Any], check: Callable[[object], ValueT]
) -> Schema[ValueT]:
    """The schema of an object with one field, for metrics that ask for a single value.

    Models that are held to a schema must answer with an object, so a list goes into a field.

    Args:
        key: the field's name.
        form: the JSON schema of its value.
        check: gives the checked value, or raises `ValueError` saying what is wrong.
    """
    # A part of the cache key: another form makes stored answers unknown.
    definition = {
        "title": key,
        "type": "object",
        "properties": {key: dict(form)},
        "required": [key],
        "additionalProperties": False,
    }
    return Schema(definition=definition, check=partial(_checked_field, key, check))


def _checked_field(key: str, check: Callable[[object], ValueT], value: object) -> ValueT:
    """The checked value of an object's only field, out of a model's parsed JSON.

    The field exists because models that are held to a schema must answer with an object.

    Raises:
        ValueError: the value is no object with the field, or ``check`` refuses what is in it. The
            text is sent to the model, which is asked once to correct its answer.
    """
    if not isinstance(value, dict) or key not in value:
        raise ValueError(f"it is not a JSON object with '{key}'")
    return check(cast("dict[str, object]", value)[key])
