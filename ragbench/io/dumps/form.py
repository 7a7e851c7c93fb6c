"""The primitive behind every dump form; paths into nested values; plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

import orjson

Hits = Sequence[object]
"""What was retrieved for one query, best first: objects or texts."""


class DumpRecord(NamedTuple):
    """One record, before it is understood."""

    path: str
    line: int | None
    value: object


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpForm:
    """A tool's form of a response.

    The paths are candidates, the more telling ones first; which of them a dump really uses is
    found out from its first records.
    """

    name: str
    """As ``--format`` takes it."""
    summary: str
    """One sentence."""
    example: str
    """What it looks like, shortened."""
    unwrap: Callable[[object], Sequence[Hits] | None]
    """The hits in a response, a sequence a query; None when the value is no such response."""
    is_hit: Callable[[object], bool]
    """Whether a value is a single hit in this form."""
    id: tuple[str, ...] = ("id",)
    """Where a hit's id may be."""
    text: tuple[str, ...] = ("text",)
    """Where its text may be."""
    score: tuple[str, ...] = ("score",)
    """Where its score may be."""
    metadata: tuple[str, ...] = ("metadata",)
    """Where its metadata may be."""
    any_text_in: str | None = None
    """Where to look for a text when none of the candidates is there."""
    scores_are_distances: bool | None = None
    """Whether lower is better, when the order of the hits does not tell; None: by the name."""


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    return type(value) is dict


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    return type(value) is list


def list_of_hits(value: object, is_hit: Callable[[object], bool]) -> Hits | None:
    """The value when it is an array that begins with a hit; None otherwise, also when empty."""
    if is_list(value) and value and is_hit(value[0]):
        return value
    return None


def lists_of_hits(
    values: Sequence[object], find: Callable[[object], Hits | None]
) -> Sequence[Hits] | None:
    """The hits of each query of a batch; None when one of them has no such hits."""
    found: list[Hits] = []
    for value in values:
        hits = value if is_list(value) and not value else find(value)
        if hits is None:
            return None
        found.append(hits)
    return found


Getter = Callable[[object], object]
"""What stands at a place in a value; None where there is nothing."""

_DEEPEST = 4


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

    def find(value: object) -> object:
        if is_object(value) and path in value:
            return value[path]
        for part in path.split("."):
            value = _step(value, part)
            if value is None:
                return None
        return value

    return find


def chunks_getter(path: str) -> Getter:
    """As `getter`, and what stands there as JSON in a text is opened: some tools log it so."""
    find = getter(path)
    return lambda value: opened_json(find(value))


def opened_json(value: object) -> object:
    """The list or object that a text spells as JSON; any other value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _step(value: object, part: str) -> object:
    value = opened_json(value)
    if is_object(value):
        return value.get(part)
    if is_list(value) and part.isdecimal() and int(part) < len(value):
        return value[int(part)]
    return None


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


TEXT_NAMES = (
    *("text", "content", "page_content", "chunk", "passage", "document", "contents", "body"),
    *("context", "snippet", "chunk_text", "passage_text", "pageContent"),
)
"""What a chunk's text is called."""
ID_NAMES = (
    *("id", "chunk_id", "_id", "doc_id", "document_id", "docid", "passage_id", "pid", "node_id"),
    *("uuid", "pk", "key"),
)
"""What its id is called."""
SCORE_NAMES = (
    *("score", "similarity", "relevance_score", "distance", "_score", "_distance", "dist", "rank"),
    "relevance",
)
"""What its score is called."""


def _is_hit(value: object) -> bool:
    return is_object(value) and any(isinstance(value.get(name), str) for name in TEXT_NAMES)


def _unwrap(value: object) -> Sequence[Hits] | None:
    if is_list(value) and (not value or _is_hit(value[0]) or _are_texts(value)):
        return [value]
    return None


def _are_texts(values: Sequence[object]) -> bool:
    """Whether a list may be one of texts; with numbers among them it is a row of a table."""
    return isinstance(values[0], str) and not any(type(one) in (int, float) for one in values)


FORM = DumpForm(
    name="plain",
    summary="Plain JSON or JSONL: a query with a list of texts or objects, names guessed.",
    example='{"question": "...", "passages": [{"pid": 1, "passage": "..."}]}',
    unwrap=_unwrap,
    is_hit=_is_hit,
    id=(*ID_NAMES, "metadata.id", "metadata.chunk_id", "meta.id"),
    text=TEXT_NAMES,
    score=tuple(name for name in SCORE_NAMES if name != "rank"),
    metadata=("metadata", "meta", "payload"),
    any_text_in="",
)
