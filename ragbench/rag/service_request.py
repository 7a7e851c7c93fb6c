"""What a foreign service is asked with: its address, its fields and its headers for one question.

Placeholders such as ``{query}`` are replaced in the parsed fields, never in JSON as text: a quote
in a question stays a quote. A value that is one placeholder alone keeps the placeholder's type.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode
from uuid import uuid4

import orjson

from ragbench.core.case import Said
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.settings import below
from ragbench.io.values import is_list, is_object
from ragbench.masking import hide
from ragbench.rag.json_path import Each, JsonPath, parse_path, text_of
from ragbench.safe_text import did_you_mean

PLACEHOLDERS = ("query", "history", "messages", "top_k", "session_id")
"""Names that are replaced in what is sent; `Question` says by what."""

# Doubled braces keep a name in braces as it is, for prompts that are sent as templates.
_PLACEHOLDER = re.compile(r"\{\{(?P<literal>\w+)\}\}|\{(?P<name>\w+)\}")
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)\}")
FORM = "application/x-www-form-urlencoded"
"""The type of a body as browsers send forms; a header with it has fields sent so."""
_BODILESS = ("GET", "DELETE", "HEAD")
"""Methods that send fields as parameters of the address."""


class Question(Record):
    """One question with all that may be sent of it."""

    query: str
    top_k: int | None = None
    said: Said = ()
    """The messages before it, each with ``role`` and ``content``."""

    def values(self) -> dict[str, object]:
        """The value of each placeholder for this question; None for one that it has no value of.

        The session id is new for each request: a service that remembers starts a new conversation.
        """
        history = [dict(message) for message in self.said]
        return {
            "query": self.query,
            "history": history,
            "messages": [*history, {"role": "user", "content": self.query}],
            "top_k": self.top_k,
            # Of its own for each request: a service that remembers starts a new conversation.
            "session_id": str(uuid4()),
        }


def placeholders_of(template: object) -> set[str]:
    """The placeholders in a template, however deep.

    A mapping is checked by them: one that does not send the question asks nothing.

    Raises:
        SettingsError: one has an unknown name; it has the place of the text with it.
    """
    if isinstance(template, str):
        return _placeholders_in(template)
    names: set[str] = set()
    for key, entry in _entries_of(template):
        # An error then has the place of the text within the object.
        with below(key):
            names |= placeholders_of(entry)
    return names


def _placeholders_in(text: str) -> set[str]:
    """The names of the placeholders in a text; refuses a name that there is none of.

    A name in doubled braces is none.
    """
    names: set[str] = set()
    for match in _PLACEHOLDER.finditer(text):
        name = match["name"]
        # Doubled braces: sent as single ones, and no placeholder.
        if name is None:
            continue
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
            raise ConfigError(
                f"there is no placeholder {{{name}}}.{did_you_mean(name, PLACEHOLDERS)} There "
                f"are {known}. Write {{{{{name}}}}} to send {{{name}}} as it is"
            )
        names.add(name)
    return names


def _entries_of(template: object) -> list[tuple[str | int, object]]:
    """The entries of an object or a list with their keys or positions; of other values none.

    Templates and settings are walked through by it, whatever they are nested in.
    """
    if is_object(template):
        return list(template.items())
    if is_list(template):
        return list(enumerate(template))
    return []


class _Omitted:
    """The value of a placeholder that has none: its key is left out."""


_OMITTED = _Omitted()


def filled(template: object, values: Mapping[str, object]) -> Any:
    """A template of a request's fields with its placeholders replaced.

    A key whose placeholder has no value, such as ``top_k`` without a number, is left out.
    """
    if isinstance(template, str):
        return _filled_text(template, values)
    if is_object(template):
        fields: dict[str, Any] = {}
        for key, entry in template.items():
            value = filled(entry, values)
            if value is not _OMITTED:
                fields[key] = value
        return fields
    if is_list(template):
        elements = [filled(entry, values) for entry in template]
        # An element without a value is left out like such a key; those behind it move up.
        return [element for element in elements if element is not _OMITTED]
    return template


def _filled_text(template: str, values: Mapping[str, object]) -> object:
    """A text of a template with its placeholders replaced.

    Where the text is one placeholder alone, the result is the value itself, in its own type.
    """
    whole = _PLACEHOLDER.fullmatch(template)
    if whole is not None and whole["name"] is not None:
        value = values[whole["name"]]
        return _OMITTED if value is None else value
    return _PLACEHOLDER.sub(partial(_replacement_of_placeholder, values), template)


def _replacement_of_placeholder(values: Mapping[str, object], match: re.Match[str]) -> str:
    """The text in place of one placeholder, such as ``{query}``, within a longer text.

    Doubled braces become single ones: they are no placeholder.

    Args:
        values: each placeholder's value.
    """
    if match["literal"] is not None:
        return f"{{{match['literal']}}}"
    return _placeholder_text(values[match["name"]])


def _placeholder_text(value: object) -> str:
    """A placeholder's value as a part of a longer text; of messages a line each.

    A line per message keeps the speakers apart.
    """
    if value is None:
        return ""
    if is_list(value):
        messages = cast("Sequence[Mapping[str, str]]", value)
        return "\n".join(f"{message['role']}: {message['content']}" for message in messages)
    return str(value)


# --- what users write


def read_send(lines: Sequence[str]) -> dict[str, Any]:
    """The fields of the lines of ``--send``; later lines win.

    A line is KEY=VALUE, an object of JSON, or @FILE with one.

    Raises:
        ConfigError: a line is none of these, or two do not go together.
    """
    fields: dict[str, Any] = {}
    for line in lines:
        text = line.strip()
        if text.startswith(("@", "{")):
            fields = merged_fields(fields, _object_of(text))
            continue
        # A quoted key may hold the sign: ["a=b"]=1.
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(
                f"--send {line}: expected KEY=VALUE such as question={{query}}, an object of JSON, "
                "or @body.json"
            )
        _put_at_path(fields, parse_path(key), _value_of_text(value), line)
    return fields


def _object_of(text: str) -> dict[str, Any]:
    """The object of a JSON text of ``--send``, or of the file that is named behind an @.

    A body with objects in it is hard to write in single options.
    """
    source = "--send"
    content: str | bytes = text
    if text.startswith("@"):
        path = Path(text[1:])
        source = f"--send {text}"
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{source}: {error.strerror or error}") from None
    try:
        value = cast("object", orjson.loads(content))
    except orjson.JSONDecodeError as error:
        raise ConfigError(
            f"{source} is not JSON: {error}. Expected an object such as "
            '{"question": "{query}"}, in single quotes for the shell'
        ) from None
    # A list or a number cannot be joined with the fields of other lines.
    if not is_object(value):
        raise ConfigError(f'{source} must hold an object such as {{"question": "{{query}}"}}')
    return dict(value)


def _value_of_text(text: str) -> object:
    """The value behind the sign in a line of ``--send``: JSON where it is JSON, else a text.

    As JSON, 5 and true keep their types, and "5" in quotes is a text.
    """
    try:
        return cast("object", orjson.loads(text))
    except orjson.JSONDecodeError:
        return text


def send_lines(fields: Mapping[str, Any] | Sequence[str] | None) -> list[str]:
    """The lines of ``--send`` that give these fields, as reports and proposals show them.

    Lines stay as they are.

    Example:
        >>> send_lines({"question": "{query}", "k": 5, "zip": "5"})
        ['question={query}', 'k=5', 'zip="5"']
    """
    if not is_object(fields):
        return list(fields or ())
    lines: list[str] = []
    for key, value in fields.items():
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        # A text that would be read as JSON, such as 5, gets quotes.
        if isinstance(value, str) and _value_of_text(text) != value:
            text = orjson.dumps(value).decode()
        # Without the leading dot, as users write keys.
        lines.append(f"{text_of([key])[1:]}={text}")
    return lines


def _put_at_path(fields: dict[str, Any], path: JsonPath, value: object, line: str) -> None:
    """Puts the value of a line of ``--send`` where its path leads in the fields.

    The objects and lists on the way are built.

    Args:
        line: as the user wrote it, for messages.
    """
    if not path.steps or isinstance(path.steps[0], int):
        raise ConfigError(f"--send {line}: a key is missing before '='")
    holder: Any = fields
    # The next step decides whether an object or a list is made in between.
    for step, next_step in zip(path.steps, (*path.steps[1:], None), strict=True):
        if isinstance(step, Each):
            raise ConfigError(f"--send {line}: [] has no position; write [0], or a JSON list")
        _make_place_for_step(holder, step, line)
        if next_step is None:
            holder[step] = value
        elif holder[step] is None:
            holder[step] = [] if isinstance(next_step, int) else {}
        holder = holder[step]


def _make_place_for_step(holder: Any, step: str | int, line: str) -> None:
    """Makes the place for a step of a path in an object or a list, empty where it is new.

    Args:
        line: of ``--send``, as the user wrote it, for messages.
    """
    if isinstance(step, str) and isinstance(holder, dict):
        cast("dict[str, object]", holder).setdefault(step, None)
        return
    if isinstance(step, int) and isinstance(holder, list):
        elements = cast("list[object]", holder)
        # The next free position may be new; a gap before it could not be sent.
        if step == len(elements):
            elements.append(None)
        if 0 <= step < len(elements):
            return
    raise ConfigError(f"--send {line}: another --send puts something else in place of this")


def merged_fields(fields: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request with further ones in them, which win.

    Objects are merged key by key; anything else is replaced.
    """
    merged = dict(fields)
    for key, value in more.items():
        present = merged.get(key)
        # Two objects are joined, so that one option can add to a preset's.
        if is_object(present) and is_object(value):
            merged[key] = merged_fields(present, value)
        else:
            merged[key] = value
    return merged


def read_headers(lines: Sequence[str]) -> dict[str, str]:
    """The headers of ``--header``: NAME=VALUE, or NAME: VALUE as curl has them.

    Users copy them from commands of curl.

    Raises:
        ConfigError: a line is neither.
    """
    headers: dict[str, str] = {}
    for line in lines:
        match = re.match(r"\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+?)\s*[=:]\s*(.*)", line, re.DOTALL)
        if match is None:
            # The line itself may hold a credential.
            raise ConfigError(
                '--header expects NAME=VALUE, such as "Authorization=Bearer ${API_KEY}"'
            )
        headers[match[1]] = match[2]
    return headers


def with_variables(text: str, where: str) -> str:
    """A text of the user's with each ``${NAME}`` replaced by the environment variable of that name.

    Credentials so stay out of settings and shell histories; the values are masked as secrets.

    Args:
        where: the option or setting with the text, for messages.

    Raises:
        ConfigError: a variable is not set.
    """
    return _VARIABLE.sub(partial(_value_of_variable, where), text)


def _value_of_variable(where: str, match: re.Match[str]) -> str:
    """The environment variable's value in place of one ``${NAME}``, which becomes a secret.

    From then on the value is masked wherever it would be printed or stored.

    Args:
        where: the option that needs the variable, for the error where it is not set.
    """
    value = os.environ.get(match["name"])
    # Set to nothing counts as not set: an empty key is a slip.
    if not value:
        raise ConfigError(
            f"{where} needs the environment variable {match['name']}, which is not set"
        )
    hide(value)
    return value


def values_with_variables(template: object, where: str) -> Any:
    """A template with the environment variables in its texts; only ``${NAME}`` alone is replaced.

    A longer text may be a template of another language, with such signs of its own.

    Args:
        where: the option with the template, for messages.

    Raises:
        SettingsError: a variable is not set; it has the place of the text with it.
    """
    if isinstance(template, str) and _VARIABLE.fullmatch(template):
        return with_variables(template, where)
    values: dict[str | int, Any] = {}
    for key, entry in _entries_of(template):
        with below(key):
            values[key] = values_with_variables(entry, where)
    if is_object(template):
        return values
    if is_list(template):
        # In order: the keys of a list are its positions.
        return list(values.values())
    return template


# --- what is sent


class Request(Record):
    """A request as it goes out."""

    method: str
    address: str
    json: object = None
    """The body as JSON; None where there is none."""
    form: Mapping[str, object] | None = None
    """The body as a form."""


def request_of(
    method: str,
    address: str,
    template: Mapping[str, object],
    headers: Mapping[str, str],
    question: Question,
) -> Request:
    """The request that asks a service one question.

    Fields go into the address with a method without a body, into a form where the headers name one,
    and into JSON else.
    """
    values = question.values()
    address = _filled_address(address, values)
    fields = filled(template, values)
    if method in _BODILESS:
        return Request(method=method, address=_with_parameters(address, fields))
    # The user's header decides; without it the fields are JSON.
    for name, value in headers.items():
        if name.lower() == "content-type" and FORM in value.lower():
            return Request(method=method, address=address, form=_form_fields(fields))
    return Request(method=method, address=address, json=fields)


def _filled_address(address: str, values: Mapping[str, object]) -> str:
    """The service's address with its placeholders replaced, each escaped.

    A question with an ampersand stays one parameter.
    """
    return _PLACEHOLDER.sub(partial(_escaped_replacement, values), address)


def _escaped_replacement(values: Mapping[str, object], match: re.Match[str]) -> str:
    """The text in place of one placeholder of an address, escaped: it may hold any character."""
    return quote(_replacement_of_placeholder(values, match), safe="")


def _with_parameters(address: str, fields: Mapping[str, object]) -> str:
    """The service's address with the fields as further parameters.

    A GET request has no body for them.
    """
    if not fields:
        return address
    sign = "&" if "?" in address else "?"
    return f"{address}{sign}{urlencode(_form_fields(fields), doseq=True)}"


def _form_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Fields as forms and parameters have them, where all values are texts.

    A list repeats its key, an object is JSON, and true and false are written as JSON has them.
    """
    flat: dict[str, object] = {}
    for key, value in fields.items():
        # A list with objects has no form of its own: it is JSON as a whole.
        if is_list(value) and not any(is_object(element) for element in value):
            flat[key] = [_form_text(element) for element in value]
        else:
            flat[key] = _form_text(value)
    return flat


def _form_text(value: object) -> str:
    """A value as the text of a form's field, or of a parameter of the address.

    Any value but a text is JSON.
    """
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()
