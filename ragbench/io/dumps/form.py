"""What a dump's form is, how a dump is read by one, and paths into nested values."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from typing import Any, Literal, NamedTuple

import orjson

from ragbench.core.record import Record
from ragbench.io.fields import named
from ragbench.io.source import Row
from ragbench.io.values import describe, is_list, is_object

Hits = Sequence[object]
"""What was retrieved for one query, best first: objects or texts."""
Getter = Callable[[object], object]
"""What stands at a place in a value; None where there is nothing."""

_DEEPEST = 4
_LEVELS, _WIDEST = 5, 12
"""Levels and fields of a record that is shown because it is not understood."""


class DumpRecord(NamedTuple):
    """A `Row` that may be any value."""

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
    example: str
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
        """The hits in a response, a sequence a query; None when the value is no such response."""
        found = None if self.special is None else self.special(self, value)
        if found is None and (hits := self.hits(value)) is not None:
            found = [hits]
        if found is None and self.is_batch and is_list(value) and value:
            found = self.batch(value)
        return found

    def batch(self, values: Sequence[object]) -> Sequence[Hits] | None:
        """The hits of each response; None when one of them has none that are recognised."""
        lists = [value if value == [] else self.hits(value) for value in values]
        return [hits for hits in lists if is_list(hits)] if None not in lists else None

    def hits(self, value: object) -> Hits | None:
        held = [value] if self.is_bare else []
        held += [(getter(at) if isinstance(at, str) else at)(value) for at in self.at]
        for number, hits in enumerate(held):
            if not is_list(hits):
                continue
            if not hits and self.empty and (number or not self.is_bare):
                return hits
            if hits and self.is_hit(hits[0]):
                # What is no hit is passed on: it is reported as malformed.
                adapt = self.adapt
                return hits if adapt is None else [adapt(one) or one for one in hits]
        return None

    def is_hit(self, value: object) -> bool:
        if self.adapt is not None:
            return self.adapt(value) is not None
        return is_object(value) and any(
            all(_holds(value, sign) for sign in signs.split()) for signs in self.hit
        )


def _holds(value: Mapping[str, object], sign: str) -> bool:
    if sign == "+text":
        return any(isinstance(value.get(name), str) for name in named("hit")["text"])
    if sign == "-text":
        return not _holds(value, "+text")
    if sign.startswith("-"):
        return sign[1:] not in value
    if sign.endswith("."):
        return is_object(value.get(sign[:-1]))
    if sign.endswith("=null"):
        return value.get(sign[:-5], "") is None
    name, dot, deeper = sign.partition(".")
    inner = value.get(name)
    return sign in value or bool(dot and is_object(inner) and _holds(inner, deeper))


class ScoreKind(StrEnum):
    SIMILARITY = "similarity"
    DISTANCE = "distance"
    """The lower ones; a chunk's score is then the negative distance."""


MAPPABLE = (
    *("query", "query_id", "chunks", "id", "text", "score", "metadata"),
    *("relevant", "answer_present"),
)
"""What ``--field`` takes before the equals sign."""


class DumpMapping(Record):
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
        """The mapping in one line, such as ``query=query text=payload.text``."""
        shown = [f"{name}={path}" for name in MAPPABLE if (path := getattr(self, name))]
        if self.chunks == "":
            shown.insert(0, "the record is a response")
        if self.scores is not None:
            shown.append(f"({self.scores.value})")
        return "  ".join(shown)


_AS_NAMED: dict[str, Any] = {name: name for name in MAPPABLE[:7]}
OWN = DumpMapping(format="", scores=ScoreKind.SIMILARITY, **_AS_NAMED)
"""How what ragbench itself made of another form is read."""


def getter(path: str) -> Getter:
    """The function that finds what stands at a path.

    A key that holds dots itself is tried first; a number is a place in a list; a text that is JSON
    is looked into (stores that keep only flat values write objects so). The empty path is the
    value itself.
    """
    if not path:
        return lambda value: value
    if "." not in path:
        return lambda value: value.get(path) if is_object(value) else None

    parts = path.split(".")

    def find(value: object) -> object:
        if is_object(value) and path in value:
            return value[path]
        for part in parts:
            if value.__class__ is not dict:
                value = opened_json(value)
            if is_object(value):
                value = value.get(part)
            elif is_list(value) and part.isdecimal() and int(part) < len(value):
                value = value[int(part)]
            else:
                return None
        return value

    return find


def chunks_getter(path: str) -> Getter:
    """As `getter`, and what stands there as JSON in a text is opened: some tools log it so."""
    find = getter(path)
    return lambda value: opened_json(find(value))


def opened_json(value: object, begins: Container[str] = ("{", "[")) -> object:
    """The list or object that a text spells as JSON; any other value as it is."""
    if isinstance(value, str) and value[:1] in begins:
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(value)
    return value


def constructed(value: Mapping[str, object]) -> Mapping[str, object]:
    """An object of LangChain's as its fields, where it is written as a call."""
    kwargs = value.get("kwargs") if value.get("type") == "constructor" else None
    return kwargs if is_object(kwargs) else value


def numbered(fields: Mapping[str, object], prefix: str) -> list[dict[str, object]]:
    """What stands under ``prefix.0.name``, ``prefix.1.name`` and so on, as objects in order."""
    found: dict[int, dict[str, object]] = {}
    for key, value in fields.items():
        if key.startswith(prefix):
            number, _, name = key[len(prefix) + 1 :].partition(".")
            if name and number.isdecimal():
                found.setdefault(int(number), {})[name] = value
    return [found[number] for number in sorted(found)]


def without_path(value: Mapping[str, object], path: str) -> Mapping[str, object]:
    """The object without what stands at a path in it, and without objects that are then empty."""
    name, dot, deeper = path.partition(".")
    inner = value.get(name)
    rest = {key: item for key, item in value.items() if key != name}
    if dot and is_object(inner) and (kept := without_path(inner, deeper)):
        rest[name] = kept
    return rest


def text_paths(value: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    if not is_object(value) or prefix.count(".") >= _DEEPEST:
        return
    for key, item in value.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(item, str):
            yield path, item
        else:
            yield from text_paths(item, path)


def text_of(value: object) -> str | None:
    """A text as it stands; several, or parts of which some hold one, as lines; else None."""
    if isinstance(value, str):
        return value
    if not is_list(value):
        return None
    parts = [part.get("text") if is_object(part) else part for part in value]
    texts = [part for part in parts if isinstance(part, str)]
    is_whole = len(texts) == len(parts) or (texts and all(map(is_object, value)))
    return "\n".join(texts) if is_whole else None


def fields_shown(value: Mapping[str, object], indent: str = "  ") -> Iterator[str]:
    """The fields of an object, those in them indented; of a list the first element."""
    for name, held in islice(value.items(), _WIDEST):
        held = opened_json(held)
        inner = held[0] if is_list(held) and held else held
        count = f"[{len(held)}]" if is_list(held) else ""
        yield f"{indent}{name}{count}: {describe(inner) if not is_object(inner) else 'object'}"
        if is_object(inner) and len(indent) < 2 * _LEVELS:
            yield from fields_shown(inner, indent + "  ")
    if len(value) > _WIDEST:
        yield f"{indent}... and {len(value) - _WIDEST} more"
