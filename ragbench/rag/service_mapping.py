"""How a foreign service is asked, and where in its response the answer and the contexts are.

The mapping is what users write with ``--send``, ``--take`` and ``--header``, in the section ``rag``
of ragbench.yaml, or as arguments of `as_rag`; presets bring it along (`presets.toml`).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pkgutil import get_data
from typing import Any, cast

from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.settings import below
from ragbench.io.values import is_list, is_object
from ragbench.masking import mask_url
from ragbench.rag.json_path import JsonPath, PathProblem, described_value, parse_path
from ragbench.rag.response_body import Body, joined_text
from ragbench.rag.service_request import (
    merged_fields,
    placeholders_of,
    read_headers,
    read_send,
    values_with_variables,
    with_variables,
)
from ragbench.safe_text import did_you_mean, shown_line

METHODS = ("POST", "GET", "PUT", "PATCH")

TAKEN = (
    "answer",
    "contexts",
    "ids",
    "scores",
    "metadata",
    "confidence",
    "abstained",
    "usage",
    "prompt_tokens",
    "response_tokens",
    "total_tokens",
    "cost",
    "seconds",
)
"""What can be taken from a response."""
_OTHER_NAMES = {
    "response": "answer",
    "context": "contexts",
    "context_ids": "ids",
    "id": "ids",
    "score": "scores",
    "context_metadata": "metadata",
    "completion_tokens": "response_tokens",
    "tokens": "usage",
    "time": "seconds",
}
"""Names for the same, of ragbench's own contract and of other tools."""
_PER_CONTEXT = ("contexts", "ids", "scores")
_NUMBERS = ("confidence", "prompt_tokens", "response_tokens", "total_tokens", "cost", "seconds")
_SPEC = re.compile(
    r"(?:(?P<prefix>[A-Za-z][A-Za-z0-9_-]*)(?::|\s+))?(?P<url>https?://.*)", re.I | re.S
)
MAYBE = "?"
"""Ends the name of what a response may lack."""


class MappingError(Exception):
    """Why a response gives no result: for the message of the error that is raised of it."""


class Service(Record):
    """The address of a RAG that is a service, with what is written before it."""

    url: str
    method: str | None = None
    """The method in ``POST:https://...``; None where there is none."""
    preset: str | None = None
    """The preset in ``dify:https://...``; None where there is none."""

    @property
    def shown(self) -> str:
        """The service's address without credentials, as reports show it.

        Addresses may hold a password or a key.
        """
        prefix = self.method or self.preset
        url = mask_url(self.url)
        return url if prefix is None else f"{prefix}:{url}"

    @property
    def name(self) -> str:
        """The service's name in reports: host and path of its address, without credentials.

        An address may hold a key, and reports are shared.
        """
        _, name = mask_url(self.url).split("://", 1)
        return name


def read_service(spec: str) -> Service | None:
    """The service that the name of a RAG means; None where it means something else.

    Example:
        >>> read_service("POST:https://host/ask")
        Service(url='https://host/ask', method='POST', preset=None)
        >>> read_service("my_rag.py:ask") is None
        True

    Raises:
        ConfigError: it is neither a method nor a preset that is before the address.
    """
    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        return None
    prefix = match["prefix"]
    url = match["url"]
    if prefix is None:
        return Service(url=url)
    # Methods first; no preset has such a name.
    if prefix.upper() in METHODS:
        return Service(url=url, method=prefix.upper())
    if prefix.lower() in presets():
        return Service(url=url, preset=prefix.lower())
    known = (*METHODS, *presets())
    raise ConfigError(
        f"'{prefix}:' before an address is neither a method nor a preset."
        f"{did_you_mean(prefix, known)} There are {', '.join(known)}"
    )


class Preset(Record):
    """A row of ``presets.toml``: how a well-known service is asked, and what it answers."""

    source: str
    """The page that documents it."""
    path: str
    """What is added to an address that does not end so."""
    send: Mapping[str, Any]
    take: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    """Fields without which it does not answer, and that only the user knows."""
    key: str = ""
    """The environment variable that its key is usually in, for messages."""


@cache
def presets() -> Mapping[str, Preset]:
    """The presets by name: how well-known services are asked, and what they answer.

    Presets are rows of ``presets.toml``: a service with other fields needs a row, and no code.
    """
    content = (get_data("ragbench.rag", "presets.toml") or b"").decode()
    rows: dict[str, Preset] = {}
    for name, row in tomllib.loads(content).items():
        needs = tuple(row.pop("needs", ()))
        rows[name] = Preset(**row, needs=needs)
    return rows


class Taken(Record):
    """One name of what is taken, with the paths that it is looked for at."""

    name: str
    paths: tuple[JsonPath, ...]
    """The first that leads to something counts."""
    may_be_missing: bool = False


class ServiceMapping(Record):
    """A service with all that is sent to it and taken from it."""

    address: str
    """Where it is asked; may hold placeholders and credentials."""
    method: str
    send: Mapping[str, Any]
    """Fields with placeholders; environment variables are replaced already."""
    take: tuple[Taken, ...]
    headers: Mapping[str, str]
    """As they are sent, credentials included."""
    key: str
    """The environment variable that its key is usually in, for messages."""
    written: Mapping[str, Any]
    """What distinguishes it from other mappings, as the user wrote it, without credentials."""

    @property
    def placeholders(self) -> frozenset[str]:
        """The placeholders for parts of a question that the mapping sends, such as ``query``.

        By them a mapping that does not send the question is refused.
        """
        return frozenset(placeholders_of(self.send) | placeholders_of(self.address))

    @property
    def names(self) -> frozenset[str]:
        """The names of what the mapping takes from a response, such as ``answer``.

        Without ``answer`` the service only retrieves.
        """
        return frozenset(taken.name for taken in self.take)


def read_mapping(
    service: Service, *, send: object = None, take: object = None, headers: object = None
) -> ServiceMapping:
    """The mapping of a service: its preset, with what the user writes over it.

    The mapping is checked here, before it is used for the first question.

    Args:
        send: an object of fields, or lines as ``--send`` has them.
        take: an object from names to paths, or lines as ``--take`` has them.
        headers: an object, or lines as ``--header`` has them.

    Raises:
        SettingsError: a part is wrong, or an environment variable is not set; it has the place.
    """
    with below("send"):
        fields = _fields_of(send, "send", read_send)
        # Called for its check alone: an unknown placeholder is refused before it is sent.
        placeholders_of(fields)
    with below("take"):
        paths = _fields_of(take, "take", read_take)
    with below("headers"):
        header_values = _fields_of(headers, "headers", read_headers)
        filled_headers = sent_headers(header_values)
    with below("url"):
        # The address may hold placeholders, too.
        placeholders_of(service.url)
    address = service.url
    method = service.method or "POST"
    key = ""
    if service.preset is not None:
        preset = presets()[service.preset]
        fields = merged_fields(preset.send, fields)
        paths = {**preset.take, **_under_preset_names(paths, preset.take)}
        address = _with_path(address, preset.path)
        key = preset.key
        for name in preset.needs:
            if name not in fields:
                with below("send"):
                    raise ConfigError(
                        f"{service.preset} needs --send {name}=..., such as {name}=NAME"
                    )
    with below("send"):
        sent_fields = values_with_variables(fields, "--send")
    taken: list[Taken] = []
    for name, value in paths.items():
        with below("take", name):
            taken.append(_taken_by_name(name, value))
    mapping = ServiceMapping(
        address=address,
        method=method,
        send=sent_fields,
        take=tuple(taken),
        headers=filled_headers,
        key=key or "API_KEY",
        # As written, before variables are filled in: no credential gets into stored settings.
        written={"method": method, "send": fields, "take": paths, "headers": header_values},
    )
    _check_is_usable(mapping)
    return mapping


def _fields_of(
    value: object, name: str, read: Callable[[Sequence[str]], Mapping[str, Any]]
) -> dict[str, Any]:
    """One part of a mapping as an object, whichever way the user wrote it.

    A YAML file may hold it as an object, or as lines of the command.

    Args:
        value: the part, such as ``{"answer": ".answer"}`` or ``["answer=.answer"]``.
        name: of the part, for errors.
        read: makes an object of the lines of a command line's options.
    """
    if value is None:
        return {}
    if is_object(value):
        return dict(value)
    if isinstance(value, str):
        return dict(read([value]))
    if is_list(value) and all(isinstance(line, str) for line in value):
        lines = cast("Sequence[str]", value)
        # Each alone first: so an error names the line that is wrong.
        for position, line in enumerate(lines):
            with below(position):
                read([line])
        return dict(read(lines))
    raise ConfigError(f"{name} must be an object or lines, and not {described_value(value)}")


def read_take(lines: Sequence[str]) -> dict[str, list[str]]:
    """The paths of the lines of ``--take``, by name; a second path for a name is a second try.

    Raises:
        ConfigError: a line has not the form NAME=PATH.
    """
    paths: dict[str, list[str]] = {}
    for line in lines:
        name, equals, path = line.partition("=")
        if not equals or not name.strip() or not path.strip():
            raise ConfigError(f"--take {line}: expected NAME=PATH, such as answer=.answer")
        # The order of the lines is that of the tries.
        paths.setdefault(name.strip(), []).append(path.strip())
    return paths


def _under_preset_names(paths: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """The user's paths under the names that a preset has, so that they replace the preset's.

    A preset marks a name that may be missing with a question mark: users need not repeat it.
    """
    by_plain_name = {name.removesuffix(MAYBE): name for name in preset}
    renamed: dict[str, Any] = {}
    for name, value in paths.items():
        plain = name.removesuffix(MAYBE)
        renamed[by_plain_name.get(plain, name)] = value
    return renamed


def _with_path(address: str, path: str) -> str:
    """An address with a preset's path, unless the address ends with that, or with a part of it.

    Users give the host, or an address that they copied whole.
    """
    base, question_mark, query = address.partition("?")
    base = base.rstrip("/")
    parts = path.strip("/").split("/") if path.strip("/") else []
    # http://host/v1 with /v1/chat/completions: the longest part that is there already.
    for count in range(len(parts), 0, -1):
        if base.endswith("/" + "/".join(parts[:count])):
            parts = parts[count:]
            break
        if base.endswith("/" + "/".join(parts[-count:])):
            parts = []
            break
    return "/".join([base, *parts]) + question_mark + query


def _taken_by_name(name: str, value: object) -> Taken:
    """One name of what is taken from a response, with its paths read.

    Args:
        name: as the user writes it; a question mark at its end means that it may be missing.
        value: a path, or a list of paths to try.
    """
    plain = name.removesuffix(MAYBE)
    # One name each from here on, so that two lines for the same thing meet.
    plain = _OTHER_NAMES.get(plain, plain)
    if plain not in TAKEN:
        raise ConfigError(
            f"--take {name}: there is no such name.{did_you_mean(plain, TAKEN)} There are "
            f"{', '.join(TAKEN)}"
        )
    texts: list[object] = list(value) if is_list(value) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"--take {name} must be a path such as .answer, or a list of paths")
    paths = tuple(parse_path(cast("str", text)) for text in texts)
    return Taken(name=plain, paths=paths, may_be_missing=name.endswith(MAYBE))


def sent_headers(headers: Mapping[str, Any]) -> dict[str, str]:
    """Headers with the environment variables in them, as requests carry them.

    Keys stay out of files and shell histories so, and are masked as secrets.

    Raises:
        SettingsError: a header is not a text, or its variable is not set; it has the header's name.
    """
    sent: dict[str, str] = {}
    for name, value in headers.items():
        with below(name):
            # YAML reads a number where a key is one.
            if not isinstance(value, (str, int, float)):
                raise ConfigError(f"the header {name} must be a text")
            sent[name] = with_variables(str(value), f"the header {name}")
    return sent


def _check_is_usable(mapping: ServiceMapping) -> None:
    """Refuses a mapping by which no question is sent, or nothing taken that can be measured.

    Without that a whole run would be asked in vain.
    """
    # With nothing to take at all, the first response is shown, and what could be taken of it.
    if mapping.take and mapping.names.isdisjoint({"answer", "contexts", "ids"}):
        with below("take"):
            raise ConfigError(
                "nothing is taken that could be measured: add --take answer=PATH or contexts=PATH"
            )
    if mapping.placeholders.isdisjoint({"query", "messages"}):
        with below("send"):
            raise ConfigError(
                "the question is not sent: add --send question={query}, with the field that the "
                "service reads it from. 'ragbench doctor --rag URL' tries the usual ones"
            )


# --- from a response to the fields of a result


def read_response(body: Body, mapping: ServiceMapping) -> dict[str, Any]:
    """The fields of a result, as a system that answers in one call returns them.

    The mapping's names become those of ragbench's own contract.

    Raises:
        MappingError: a path leads to nothing, or to something of another kind.
    """
    error = body.error
    if error is not None:
        raise MappingError(f"the stream ended with an error: {shown_line(str(error), longest=200)}")
    values: dict[str, Any] = {}
    for taken in mapping.take:
        value = _value_taken(body, taken)
        if value is not None:
            values[taken.name] = value
    _check_lengths(values, mapping)
    return _fields_of_result(values)


def _value_taken(body: Body, taken: Taken) -> Any:
    """The value that is taken from a response under one name, in the kind that it must have.

    The first path that leads to such a value counts. None where it may be missing and is.
    """
    problems: list[str] = []
    for path in taken.paths:
        value = body.find(
            path, as_list=taken.name in _PER_CONTEXT, in_pieces=taken.name == "answer"
        )
        if isinstance(value, PathProblem):
            problems.append(f"{taken.name}={path.text} finds nothing: {value.message}")
            continue
        try:
            return _in_kind(taken.name, value)
        except MappingError as error:
            problems.append(f"{taken.name}={path.text}: {error}")
    if taken.may_be_missing:
        return None
    raise MappingError(f"{'; '.join(problems)} (if it may be missing, write {taken.name}?=)")


def _in_kind(name: str, value: object) -> Any:
    """A value from a response as the result has it under this name: a text, a list, a number.

    Raises:
        MappingError: it is of another kind; the message has what it is.
    """
    if name == "answer":
        return _answer_text(value)
    if name == "contexts":
        return _as_contexts(value)
    if name in _PER_CONTEXT:
        values = list(value) if is_list(value) else [value]
        # An object among ids is a whole document: the path ends too early.
        if any(is_object(element) or is_list(element) for element in values):
            raise MappingError(f"it holds {described_value(values[0])}, and not {name}")
        return [_as_number(element) if name == "scores" else str(element) for element in values]
    if name in _NUMBERS:
        return _as_number(value)
    if name == "abstained" and not isinstance(value, bool):
        raise MappingError(f"it is {described_value(value)}, and not true or false")
    if name == "usage" and not is_object(value):
        raise MappingError(f"it is {described_value(value)}, and not an object of counts")
    return value


def _answer_text(value: object) -> str:
    """The answer out of a response's value; of a list, its texts together.

    Models give pieces of a text in such lists.
    """
    if isinstance(value, str):
        return value
    # A number is an answer, such as 42; a flag is none.
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if is_list(value) and value and all(isinstance(piece, str) for piece in value):
        return joined_text(cast("Sequence[str]", value))
    raise MappingError(f"it is {described_value(value)}, and not a text")


def _as_contexts(value: object) -> list[Any]:
    """The contexts out of a response's value: texts, or documents with usual names.

    Raises:
        MappingError: an element is neither; the message has a hint for a list in a list.
    """
    contexts = list(value) if is_list(value) else [value]
    for position, context in enumerate(contexts):
        # Objects are read by their usual names later on.
        if isinstance(context, str) or is_object(context):
            continue
        hint = "; end the path with []" if is_list(context) else ""
        raise MappingError(
            f"its element {position} is {described_value(context)}, and not a text{hint}"
        )
    return contexts


def _as_number(value: object) -> float:
    """A number out of a response's value; services may write numbers as texts.

    Raises:
        MappingError: it is none, or not finite.
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise MappingError("it is a text, and not a number") from None
    # To Python a flag is a number, here it is another kind.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise MappingError(f"it is {described_value(value)}, and not a finite number")
    return value


def _check_lengths(values: Mapping[str, Any], mapping: ServiceMapping) -> None:
    """Refuses lists of contexts, ids and scores in a response that differ in length.

    Ids and scores would be those of other contexts.
    """
    lengths: dict[str, int] = {}
    for taken in mapping.take:
        value = values.get(taken.name)
        # Only those that are there: a column may be missing as a whole.
        if taken.name in _PER_CONTEXT and value is not None:
            lengths[f"{taken.name}={taken.paths[0].text}"] = len(value)
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise MappingError(f"the lists are of different lengths: {counts}")


def _fields_of_result(values: Mapping[str, Any]) -> dict[str, Any]:
    """What was taken from a response, under the names of ragbench's own contract.

    What has no name there becomes metadata, in which metrics find tokens and cost.
    """
    fields: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for name, value in values.items():
        if name == "ids":
            fields["context_ids"] = value
        elif name == "metadata" and is_list(value):
            fields["context_metadata"] = value
        elif name == "metadata":
            metadata.update(value if is_object(value) else {"metadata": value})
        elif name in ("answer", "contexts", "scores", "confidence", "abstained"):
            fields[name] = value
        else:
            metadata[name] = value
    # Some stores give ids alone: retrieval is then scored by them.
    if "context_ids" in fields and "contexts" not in fields:
        fields["contexts"] = [""] * len(fields["context_ids"])
    if metadata:
        fields["metadata"] = metadata
    return fields
