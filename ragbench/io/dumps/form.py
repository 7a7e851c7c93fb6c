"""What a dump's form is, how a dump is read by one, and paths into nested values."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

import orjson

from ragbench.core.record import Record
from ragbench.io.fields import field_names
from ragbench.io.source import Row
from ragbench.io.values import describe, is_list, is_object

Hits = Sequence[object]
"""What was retrieved for one query, best first: objects or texts."""
Getter = Callable[[object], object]
"""What stands at a place in a value; None where there is nothing."""

_DEEPEST_TEXT = 4
"""Levels of objects in which texts are looked for."""
_SHOWN_LEVELS = 5
_SHOWN_FIELDS = 12
"""How much is shown of a record that is not understood: levels, and fields of each object."""


class DumpRecord(NamedTuple):
    """A `Row` that may be any value: a line of a dump may be a list of hits."""

    path: str
    line: int | None
    values: object


AnyRow = Row | DumpRecord


class DumpForm(Record):
    """A tool's form of a response.

    The paths of a chunk's fields are candidates, the more telling ones first; which of them a dump
    uses is found out from its first records.
    """

    name: str
    """As ``--format`` takes it."""
    summary: str
    """What it is, in the list of formats."""
    example: str
    """A short response, in the list of formats."""
    at: tuple[str | Getter, ...] = ()
    """Where in a response its hits may be."""
    hit: tuple[str, ...] = ()
    """What a hit is recognised by: the paths of one of these alternatives. ``name.`` is an object,
    ``-name`` is not there, ``name=null`` is null, ``+text`` is any text of its own."""
    is_bare: bool = True
    """Whether a list of hits without anything around it is recognised, too."""
    is_batch: bool = False
    """Whether a list of responses is one, a query each."""
    empty: bool = False
    """Whether nothing where the hits should be says that nothing was found."""
    adapt: Callable[[object], object] | None = None
    """A hit as an object with plain fields; None for what is no hit."""
    special: Callable[[DumpForm, object], Sequence[Hits] | None] | None = None
    """Responses that these fields cannot describe."""
    id: tuple[str, ...] = ("id",)
    text: tuple[str, ...] = ("text",)
    score: tuple[str, ...] = ("score",)
    metadata: tuple[str, ...] = ("metadata",)
    any_text_in: str | None = None
    """Where to look for a text when none of the candidates is there."""
    scores_are_distances: bool | None = None
    """Whether lower is better, when the order of the hits does not say it; None: by the name."""

    def unwrap(self, value: object) -> Sequence[Hits] | None:
        """The hits in a response of this form, as a list for each query; None for another response.

        Recognising the form of a dump and reading it are both done with this.
        """
        # What paths cannot say comes first, a batch last: each of its parts is a response itself.
        if self.special is not None:
            hits_by_query = self.special(self, value)
            if hits_by_query is not None:
                return hits_by_query
        hits = self.hits(value)
        if hits is not None:
            return [hits]
        if self.is_batch and is_list(value) and value:
            return self.batch(value)
        return None

    def batch(self, responses: Sequence[object]) -> Sequence[Hits] | None:
        """The hits of each response of a batch; None when one of them has none that are recognised.

        Some tools answer several searches at once: a batch has a response per query.
        """
        hits_by_query: list[Hits] = []
        for response in responses:
            # An empty list is a search that found nothing.
            hits: Hits | None = [] if response == [] else self.hits(response)
            if hits is None:
                return None
            hits_by_query.append(hits)
        return hits_by_query

    def hits(self, response: object) -> Hits | None:
        """The hits in a response of this form to one query; None when none are recognised.

        The hits are the response itself, or at one of the places that the form lists. An empty list
        is recognised only where the form says that nothing was retrieved then.
        """
        if self.is_bare and is_list(response) and response and self.is_hit(response[0]):
            return self._adapted(response)
        for place in self.at:
            if isinstance(place, str):
                hits = getter(place)(response)
            else:
                hits = place(response)
            if not is_list(hits):
                continue
            if not hits and self.empty:  # a response in which nothing was found
                return hits
            if hits and self.is_hit(hits[0]):
                return self._adapted(hits)
        return None

    def _adapted(self, hits: Hits) -> Hits:
        """The hits of this form with plain fields, where the tool's own are too deep for paths.

        A hit that is none is passed on as it is, and reported as malformed later.
        """
        adapt = self.adapt
        if adapt is None:
            return hits
        # What is no hit is passed on: it is reported as malformed.
        return [adapt(hit) or hit for hit in hits]

    def is_hit(self, value: object) -> bool:
        """Whether a value is a hit of this form, by the signs that the form's `hit` lists.

        Many forms have lists of objects: by its hits a response is known to be of this one.
        """
        if self.adapt is not None:
            return self.adapt(value) is not None
        return is_object(value) and any(_has_signs(value, signs) for signs in self.hit)


def _has_signs(value: Mapping[str, object], signs: str) -> bool:
    """Whether an object shows all signs of one alternative of `DumpForm.hit`, and so is a hit.

    Args:
        signs: the alternative, such as ``"id score"``: signs with blanks between them.
    """
    return all(_has_sign(value, sign) for sign in signs.split())


def _has_sign(value: Mapping[str, object], sign: str) -> bool:
    """Whether an object shows one sign of a hit of a store, in the notation of ``forms.toml``.

    ``name.`` is an object, ``-name`` is absent, ``name=null`` is null, ``+text`` is any field with
    a text, and a plain path is there.
    """
    if sign == "+text":
        return any(isinstance(value.get(name), str) for name in field_names("hit")["text"])
    if sign == "-text":
        return not _has_sign(value, "+text")
    if sign.startswith("-"):
        return sign[1:] not in value
    if sign.endswith("."):
        return is_object(value.get(sign[:-1]))
    if sign.endswith("=null"):
        name = sign.removesuffix("=null")
        return name in value and value[name] is None
    if sign in value:  # a key may hold dots itself
        return True
    name, dot, inner_sign = sign.partition(".")
    inner = value.get(name)
    return bool(dot) and is_object(inner) and _has_sign(inner, inner_sign)


class ScoreKind(StrEnum):
    """Which scores of a dump are the better ones."""

    SIMILARITY = "similarity"
    """The higher ones."""
    DISTANCE = "distance"
    """The lower ones; a chunk's score is then the negative distance."""


MAPPABLE = (
    "query",
    "query_id",
    "chunks",
    "id",
    "text",
    "score",
    "metadata",
    "relevant",
    "answer_present",
)
"""What ``--field`` takes before the equals sign."""


class DumpMapping(Record):
    """Where a dump has each field of a retrieval, as a path; None for what it does not have."""

    format: str
    layout: Literal["queries", "rows"] = "queries"
    """Of rows each is a chunk with its query; those of a query follow one another."""
    query: str | None = None
    query_id: str | None = None
    chunks: str | None = None
    """Empty when the record is the response itself."""
    id: str | None = None
    text: str | None = None
    score: str | None = None
    metadata: str | None = None
    relevant: str | None = None
    answer_present: str | None = None
    scores: ScoreKind | None = None
    """None for a dump without scores."""

    def described(self) -> str:
        """The mapping in one line, such as ``query=query text=payload.text``, for a user to check.

        By it he sees whether the guess is right, and how to name another path.
        """
        parts: list[str] = []
        # An empty path is said in words: as a pair it would look like a mistake.
        if self.chunks == "":
            parts.append("the record is a response")
        for name in MAPPABLE:
            path = getattr(self, name)
            if path:
                parts.append(f"{name}={path}")
        if self.scores is not None:
            parts.append(f"({self.scores.value})")
        return "  ".join(parts)


OWN = DumpMapping(
    format="",
    query="query",
    query_id="query_id",
    chunks="chunks",
    id="id",
    text="text",
    score="score",
    metadata="metadata",
    scores=ScoreKind.SIMILARITY,
)
"""How what ragbench itself made of another form is read."""


def getter(path: str) -> Getter:
    """The function that finds the value at a path of a record; it returns None where there is none.

    A key that holds dots itself is tried first; a number is a place in a list; a text that is JSON
    is looked into (stores that keep only flat values write objects so). The empty path is the value
    itself.
    """
    if not path:
        return lambda value: value
    if "." not in path:
        return lambda value: value.get(path) if is_object(value) else None

    return partial(_value_at, path, path.split("."))


def _value_at(path: str, parts: Sequence[str], value: object) -> object:
    """The value at a path with dots in a record; None where there is nothing.

    Args:
        path: the whole path, which may also be a key itself.
        parts: the path's parts: keys, or places in a list.
    """
    if is_object(value) and path in value:
        return value[path]
    for part in parts:
        if value.__class__ is not dict:  # most values are: the call is saved for each chunk
            value = opened_json(value)
        if is_object(value):
            value = value.get(part)
        elif is_list(value) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def chunks_getter(path: str) -> Getter:
    """The function that finds the chunks at a path, also where they are logged as JSON text.

    Logs in tables or databases keep a response as text.
    """
    return partial(_opened_value, getter(path))


def _opened_value(find: Getter, value: object) -> object:
    """The value that `find` finds in a record; a text that spells JSON is opened.

    Logs in tables or databases keep a response as text.
    """
    return opened_json(find(value))


def opened_json(value: object, begins: Container[str] = ("{", "[")) -> object:
    """The list or object that a text spells as JSON; any other value as it is.

    Tools that keep only flat values write lists and objects so: logs, attributes of spans, tables.

    Args:
        begins: the characters with which a text begins that is taken for JSON.
    """
    if isinstance(value, str) and value[:1] in begins:
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(value)
    return value


def constructed(value: Mapping[str, object]) -> Mapping[str, object]:
    """An object of LangChain's as its fields, where it is written as a call.

    LangChain serialises objects as the arguments of their constructor, under ``kwargs``.
    """
    if value.get("type") != "constructor":
        return value
    kwargs = value.get("kwargs")
    return kwargs if is_object(kwargs) else value


def numbered(fields: Mapping[str, object], prefix: str) -> list[dict[str, object]]:
    """Objects that are spelled out as ``prefix.0.name``, ``prefix.1.name`` and so on, in order.

    Attributes of OpenTelemetry hold no lists of objects, and so spell them out in their names.
    """
    objects: dict[int, dict[str, object]] = {}
    for key, value in fields.items():
        if not key.startswith(prefix):
            continue
        key_in_list = key[len(prefix) + 1 :]  # behind the dot, such as ``0.name``
        number, _, name = key_in_list.partition(".")
        if name and number.isdecimal():
            objects.setdefault(int(number), {})[name] = value
    return [objects[number] for number in sorted(objects)]


def without_path(value: Mapping[str, object], path: str) -> Mapping[str, object]:
    """The object without the value at a path in it, and without objects that are then empty.

    A value that a mapping takes becomes a field of its own, and must not also be metadata.
    """
    name, dot, inner_path = path.partition(".")
    remaining = {key: item for key, item in value.items() if key != name}
    inner = value.get(name)
    if dot and is_object(inner):
        remaining_inner = without_path(inner, inner_path)
        if remaining_inner:
            remaining[name] = remaining_inner
    return remaining


def text_paths(value: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The path and the text of each text in a hit, in the order in which they are in it.

    Where no field has a known name, the text of a chunk is looked for among these.

    Args:
        prefix: the path of the value; empty for the hit itself.
    """
    if not is_object(value) or prefix.count(".") >= _DEEPEST_TEXT:
        return
    for key, item in value.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(item, str):
            yield path, item
        else:
            yield from text_paths(item, path)


def text_of(value: object) -> str | None:
    """The text of a chunk's field: a text, or a list of texts or parts joined as lines; else None.

    Of parts some may hold no text, such as an image.
    """
    if isinstance(value, str):
        return value
    if not is_list(value):
        return None
    texts: list[str] = []
    for part in value:
        text = part.get("text") if is_object(part) else part
        if isinstance(text, str):
            texts.append(text)
    # Among objects some may hold no text, such as an image; beside plain texts nothing else may be.
    are_all_texts = len(texts) == len(value)
    are_parts = bool(texts) and all(map(is_object, value))
    if not are_all_texts and not are_parts:
        return None
    return "\n".join(texts)


def fields_shown(value: Mapping[str, object], indent: str = "  ") -> Iterator[str]:
    """The fields of a record as lines of a message, those in objects indented; of a list the first.

    An error shows them where nothing is recognised: the user looks up the name for ``--field``.

    Args:
        indent: the blanks before each line; for the fields of an object in a field, this function
            calls itself with two blanks more.
    """
    for name, field_value in islice(value.items(), _SHOWN_FIELDS):
        # The object or list that a text holds as JSON; any other value as it is.
        opened = opened_json(field_value)
        example = opened
        count = ""
        if is_list(opened):
            count = f"[{len(opened)}]"
            if opened:
                example = opened[0]
        description = "object" if is_object(example) else describe(example)
        yield f"{indent}{name}{count}: {description}"
        if is_object(example) and len(indent) < 2 * _SHOWN_LEVELS:  # two blanks a level
            yield from fields_shown(example, indent + "  ")
    if len(value) > _SHOWN_FIELDS:
        yield f"{indent}... and {len(value) - _SHOWN_FIELDS} more"
