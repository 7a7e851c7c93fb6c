"""Paths into JSON, such as ``.sources[].text``.

A path has keys, positions, and ``[]`` for each element of a list; there are no conditions and no
functions. A text that a path leads into is read as JSON: services put JSON into strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias, cast

import orjson

from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.values import is_list, is_object
from ragbench.safe_text import shown_line


class Each(Enum):
    """The step ``[]``: every element of a list."""

    EACH = "[]"


EACH = Each.EACH

Step: TypeAlias = str | int | Each
"""A key of an object, a position in a list, or each element."""

_STEP = re.compile(
    r"""
    \.?\[\s*(?P<each>\*?)\s*\]
    | \.?\[\s*(?P<position>-?\d+)\s*\]
    | \.?\[\s*(?P<quoted>"(?:[^"\\]|\\.)*"|'[^']*')\s*\]
    | \.(?P<quoted_key>"(?:[^"\\]|\\.)*")
    | \.(?P<key>[^\s.\[\]"'(){}|?@]+)
    """,
    re.VERBOSE,
)
"""One step of a path. Keys with other characters than these need quotes."""
_PLAIN_KEY = re.compile(r"[^\s.\[\]\"'(){}|?@$=]+")
"""A key that a path holds without quotes."""
_MOST_KEYS = 12
"""Keys of an object that an error lists."""
_LONGEST_KEY = 60
"""Characters of a key that an error shows; keys come from foreign servers."""


class JsonPath(Record):
    """A path that was read."""

    text: str
    """As it is written in messages, such as ``.sources[].text``."""
    steps: tuple[Step, ...]

    @property
    def leads_to_many(self) -> bool:
        """Whether the path goes through each element of a list, and so leads to a list.

        Contexts, ids and scores have such a path; the answer must not.
        """
        return EACH in self.steps


class PathProblem(Record):
    """Why a path leads to nothing."""

    message: str
    """Where the path ends, and what is there instead."""


def parse_path(text: str) -> JsonPath:
    """Reads a path; the dot at its beginning may be left out.

    Users write paths into ``--take`` and ``--send``.

    Example:
        >>> parse_path("sources[].id").text
        '.sources[].id'

    Raises:
        ConfigError: it is not a path.
    """
    # JSONPath writes the root so.
    path_text = text.strip().removeprefix("$")
    if path_text in ("", "."):
        return JsonPath(text=".", steps=())
    if path_text[0] not in ".[":
        path_text = f".{path_text}"
    steps: list[Step] = []
    position = 0
    # Step by step, so that an error shows where the path fails.
    while position < len(path_text):
        match = _STEP.match(path_text, position)
        if match is None:
            failing = path_text[position:]
            raise ConfigError(
                f"'{text}' is not a path: it fails at '{failing}'. A path has keys (.a.b), "
                'positions ([0]), each element ([]) and quoted keys (["odd key"]), such as '
                ".sources[].text; it has no conditions"
            )
        steps.append(_step_of(match))
        position = match.end()
    return JsonPath(text=text_of(steps), steps=tuple(steps))


def _step_of(match: re.Match[str]) -> Step:
    """The step that a part of a path stands for.

    The names of the groups are those of the pattern `_STEP`.
    """
    if match["each"] is not None:
        return EACH
    if match["position"] is not None:
        return int(match["position"])
    quoted = match["quoted"] or match["quoted_key"]
    if quoted is None:
        return match["key"]
    if quoted.startswith("'"):  # a shell's single quotes may be around the double ones
        return quoted[1:-1]
    return cast("str", json.loads(quoted))


def text_of(steps: Sequence[Step]) -> str:
    """The text of a path's steps, as users write paths.

    The reverse of `parse_path`: users copy the text of a proposed path into ``--take``.

    Example:
        >>> text_of(["odd key", EACH, 0])
        '.["odd key"][][0]'
    """
    text = ""
    for step in steps:
        if isinstance(step, Each):
            text += "[]"
        elif isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}"
        else:
            text += f"[{json.dumps(step)}]"
    if not text.startswith("."):
        return f".{text}"
    return text


def find(document: object, path: JsonPath, *, in_pieces: bool = False) -> object | PathProblem:
    """The value that a path leads to; a list of values where it goes through each element.

    Every element has to have what the path asks for, or lists of ids would be those of other
    contexts. Only elements of an outer list may lack the inner list: they are skipped, as steps of
    an agent are that retrieved nothing. A null is missing.

    Args:
        in_pieces: the elements are pieces of one text, and those without a text are skipped.
    """
    places: list[_Place] = [_Place(value=document)]
    skipped: PathProblem | None = None
    for number, step in enumerate(path.steps):
        # Before a further ``[]`` an element without the inner list may be skipped.
        is_optional = in_pieces or EACH in path.steps[number:]
        next_places: list[_Place] = []
        for place in places:
            problem = place.problem_of(step)
            if problem is None:
                next_places += place.after(step)
            elif is_optional and EACH in path.steps[:number]:
                skipped = skipped or problem
            else:
                return problem
        places = next_places
    values: list[object] = []
    for place in places:
        if place.value is not None:
            values.append(place.value)
        elif in_pieces and path.leads_to_many:
            skipped = skipped or PathProblem(message=f"{place.name} is null")
        else:
            return PathProblem(message=f"{place.name} is null")
    if skipped is not None and not values:
        return skipped
    if path.leads_to_many:
        return values
    return values[0]


class _Place(Record):
    """A value on the way, with the steps that lead to it."""

    value: object
    steps: tuple[Step, ...] = ()

    @property
    def name(self) -> str:
        """The path to this place in the response, for messages.

        Users compare it with the path that they wrote.
        """
        if not self.steps:
            return "the response"
        return text_of(self.steps)

    def problem_of(self, step: Step) -> PathProblem | None:
        """Why a step of a path leads nowhere from this place; None where it leads somewhere.

        The message names the place and what is there, so that users can mend the path.
        """
        container = as_json(self.value)
        kind = described_value(container)
        # A key leads into an object, `[]` into a list, a number to a place that the list has.
        if isinstance(step, str):
            if is_object(container) and step in container:
                return None
            if is_object(container):
                message = f"{self.name} has no key {_shown_key(step)}: it is {kind}"
            else:
                message = f"{self.name} is {kind}, and has no key {_shown_key(step)}"
        elif not is_list(container):
            message = f"{self.name} is {kind}, and not a list"
        elif isinstance(step, int) and not -len(container) <= step < len(container):
            message = f"{self.name} has {len(container)} elements, and none at [{step}]"
        else:
            return None
        return PathProblem(message=message)

    def after(self, step: Step) -> list[_Place]:
        """The places to which a step of a path leads from this one.

        The step ``[]`` leads to one place for each element. `problem_of` must have found no
        problem.
        """
        # Read once more: a text of JSON is kept as a text until a path leads into it.
        container = cast("Any", as_json(self.value))
        if step is not EACH:
            return [_Place(value=container[step], steps=(*self.steps, step))]
        places: list[_Place] = []
        for position, element in enumerate(container):
            places.append(_Place(value=element, steps=(*self.steps, position)))
        return places


def as_json(value: object) -> object:
    """The object or list that a text of JSON holds; any other value as it is.

    Services put JSON into strings, and paths lead into it all the same.
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return cast("object", orjson.loads(value))
        except orjson.JSONDecodeError:
            return value
    return value


def described_value(value: object) -> str:
    """The kind of a value from a response, for messages; an object is named by its keys.

    Example:
        >>> described_value({"answer": "Yes.", "sources": []})
        'an object with the keys answer, sources'
    """
    if value is None:
        return "null"
    if isinstance(value, str):
        return "a text" if value else "an empty text"
    # Before numbers: to Python a flag is one.
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if is_list(value):
        return f"a list of {len(value)}"
    if is_object(value):
        return f"an object {_keys_in_words(value)}"
    return f"a {type(value).__name__}"


def _keys_in_words(value: Any) -> str:
    """The keys of an object from a response, for the end of a message; at most twelve of them.

    Users see there how their service names the value that they look for.
    """
    if not value:
        return "without keys"
    # Keys come from a foreign server, so each is cut and made safe to print.
    keys = [_shown_key(str(key)) for key in value]
    text = f"with the keys {', '.join(keys[:_MOST_KEYS])}"
    further = len(keys) - _MOST_KEYS
    if further > 0:
        text += f" and {further} more"
    return text


def _shown_key(key: str) -> str:
    """A key from a foreign response, cut and without control characters, safe to print."""
    return shown_line(key, longest=_LONGEST_KEY)
