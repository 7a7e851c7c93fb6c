"""The body of a foreign service's response: JSON, a stream of events, or a text.

Streams are server-sent events (``data:`` lines, as chats send them) and JSON in lines (NDJSON). A
path is applied to each event, and the results are joined: pieces of a text into the text, and of
lists the last one that is not empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import orjson

from ragbench.core.record import Record
from ragbench.io.values import is_list, is_object
from ragbench.rag.json_path import JsonPath, PathProblem, as_json, find

_DONE = "[DONE]"
"""With this, an OpenAI-compatible service ends its events."""
_EVENT_FIELD = re.compile(r"(?:data|event|id|retry):|:")
"""How a line of server-sent events begins; a colon alone is a comment, such as a ping."""
_LINE_END = re.compile(r"\r\n|\n|\r")
"""The ends of lines of events. Others that Python splits at may be in a text of JSON."""
_MOST_MESSAGES = 3
"""Reasons that are named why a path leads to nothing in a stream."""
_FEWEST_GROWING = 3
"""Events from which on texts that grow are taken for the whole text so far, and not for pieces."""


class Body(Record):
    """A response's body, read: one document, or the documents of its events."""

    documents: tuple[object, ...]
    is_stream: bool = False

    @property
    def is_json(self) -> bool:
        """Whether the body has a structure that paths lead into, and is no mere text.

        A mere text is read as the answer itself.
        """
        return any(is_object(document) or is_list(document) for document in self.documents)

    def find(
        self, path: JsonPath, *, as_list: bool = False, in_pieces: bool = False
    ) -> object | PathProblem:
        """The value that a path leads to in the body; of a stream, the values of all events as one.

        Args:
            as_list: a list is wanted: single values of several events are its elements.
            in_pieces: a text is wanted, and the elements of a list may be its pieces.

        Returns:
            A `PathProblem` where the path leads to nothing.
        """
        if not self.is_stream:
            return find(self.documents[0], path, in_pieces=in_pieces)
        documents = self.documents
        if in_pieces and not path.steps:
            # Pieces of a text as they are, among events with other things.
            documents = tuple(text for text in documents if isinstance(text, str)) or documents
        values: list[object] = []
        problems: list[PathProblem] = []
        for document in documents:
            value = find(document, path, in_pieces=in_pieces)
            if isinstance(value, PathProblem):
                problems.append(value)
            else:
                values.append(value)
        if not values:
            return _problem_of_stream(problems)
        return _joined_values(values, as_list=as_list, in_pieces=in_pieces)

    @property
    def error(self) -> object:
        """The error with which a stream ended, so that its answer is cut off; None without one.

        A body that is no stream has none: its error would be the whole response.
        """
        if not self.is_stream:
            return None
        for document in self.documents:
            if not is_object(document):
                continue
            # In the forms of OpenAI and of Dify; any other event is data.
            if document.get("error"):
                return document["error"]
            if document.get("event") == "error":
                return document.get("message") or document
        return None


def _problem_of_stream(problems: Sequence[PathProblem]) -> PathProblem:
    """Why a path leads to nothing in any event of a stream: the reasons, each once.

    A path that leads nowhere in one event may lead somewhere in the next, so one reason is not
    enough.
    """
    if not problems:
        return PathProblem(message="the stream has no events")
    messages = list(dict.fromkeys(problem.message for problem in problems))
    shown_messages = "; ".join(messages[:_MOST_MESSAGES])
    return PathProblem(message=f"none of {len(problems)} events has it: {shown_messages}")


def _joined_values(values: Sequence[object], *, as_list: bool, in_pieces: bool) -> object:
    """The values that a path leads to in several events of a stream, as one value.

    Of texts the whole text; of lists the last one with elements, as services send a list anew with
    each event.

    Args:
        as_list: a list is wanted: single values are its elements.
        in_pieces: a text is wanted, and all lists hold pieces of it.
    """
    lists = [value for value in values if is_list(value)]
    if lists and in_pieces:
        pieces: list[object] = []
        for value in lists:
            pieces += value
        return pieces
    if lists:
        # Services send the list anew with each event, or an empty one at first.
        for value in reversed(lists):
            if value:
                return value
        return lists[-1]
    if as_list:
        return list(values)
    if all(isinstance(value, str) for value in values):
        return joined_text(cast("Sequence[str]", values))
    return values[-1]


def joined_text(pieces: Sequence[str]) -> str:
    """The text of a stream of pieces, in which some services repeat the whole text.

    Some send with each event the whole text so far, and some send it once more at the end.

    Example:
        >>> joined_text(["Bees", " fly", "."])
        'Bees fly.'
        >>> joined_text(["Bees", " fly", "Bees fly"])
        'Bees fly'
    """
    pieces = [piece for piece in pieces if piece]
    if not pieces:
        return ""
    before = "".join(pieces[:-1])
    # Of two pieces that are equal the second is no repetition: "ha" and "ha" are "haha".
    if len(pieces) > 2 and pieces[-1] == before:
        return before
    if len(pieces) >= _FEWEST_GROWING and _grows(pieces):
        return pieces[-1]
    return "".join(pieces)


def _grows(pieces: Sequence[str]) -> bool:
    """Whether each text of a stream begins with the one before it, and is longer.

    Where each does, the service sends the whole text so far with each event, and not pieces.
    """
    for shorter, longer in pairwise(pieces):
        if len(longer) <= len(shorter) or not longer.startswith(shorter):
            return False
    return True


_NO_JSON = object()
"""What is parsed of a text that is no JSON; any other value may be in JSON."""


def parsed(text: str) -> object:
    """The value that a text of JSON holds, or `_NO_JSON` for any other text.

    Python's own reader takes what services write that is not allowed: NaN, and halves of
    characters.
    """
    try:
        return cast("object", orjson.loads(text))
    except orjson.JSONDecodeError:
        pass
    try:
        return cast("object", json.loads(text))
    # Nested too deep for Python, it is a text like any other.
    except (ValueError, RecursionError):
        return _NO_JSON


def read_body(text: str, content_type: str = "") -> Body:
    """Reads a response's body by its form: a stream of events, JSON, JSON in lines, or a text.

    Args:
        content_type: of the response; only a hint, since services often leave it wrong.
    """
    kind = content_type.partition(";")[0].strip().lower()
    text = text.removeprefix("\ufeff")
    if kind == "text/event-stream" or _EVENT_FIELD.match(text.lstrip()):
        events = _server_sent_events(text)
        # A plain text may begin like an event and hold none.
        if events or kind == "text/event-stream":
            return Body(documents=tuple(events), is_stream=True)
    document = parsed(text)
    if document is not _NO_JSON:
        return Body(documents=(document,))
    lines = _documents_of_lines(text)
    if lines is not None:
        return Body(documents=tuple(lines), is_stream=True)
    return Body(documents=(text,))


def _server_sent_events(text: str) -> list[object]:
    """The data of server-sent events, each as JSON or, where it is none, as a text.

    The name of an event is added to its data under ``event``, unless the data has that key.
    """
    events: list[object] = []
    data: list[str] = []
    name = ""
    # An empty line ends an event; services often leave out the last one.
    for line in (*_LINE_END.split(text), ""):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif not line and data:
            events += _documents_of_event(data, name)
        if not line:
            data = []
            name = ""
    return events


def _documents_of_event(data: Sequence[str], name: str) -> list[object]:
    """The documents of one server-sent event: one, or one for each of its lines.

    Each line is a document of its own where only the lines are JSON: services leave out the empty
    line between events.

    Args:
        data: the event's lines behind ``data:``.
        name: the event's name; empty without one.
    """
    joined = "\n".join(data)
    if joined.strip() == _DONE:
        return []
    document = parsed(joined)
    if document is not _NO_JSON:
        return [_with_event_name(document, name)]
    if len(data) == 1:
        return [joined]
    documents: list[object] = []
    for line in data:
        if line.strip() == _DONE:
            continue
        document = parsed(line)
        # Not all lines are JSON, so they are one text of several lines.
        if document is _NO_JSON:
            return [joined]
        documents.append(_with_event_name(document, name))
    return documents


def _with_event_name(document: object, name: str) -> object:
    """An event's document with the name of the event under ``event``, which paths can lead to.

    Some services tell the kinds of events apart by that name alone.
    """
    if name and is_object(document) and "event" not in document:
        fields: dict[str, Any] = {"event": name, **document}
        return fields
    return document


def _documents_of_lines(text: str) -> list[object] | None:
    """The documents of JSON in lines; None where a line is none.

    Each must be an object or a list: lines of numbers or words are a text.
    """
    documents: list[object] = []
    for line in _LINE_END.split(text):
        if not line.strip():
            continue
        document = as_json(line)
        # One line of words is enough: then the whole is a text with line breaks.
        if isinstance(document, str):
            return None
        documents.append(document)
    return documents or None
