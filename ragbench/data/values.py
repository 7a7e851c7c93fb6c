"""One JSON value to one field of a record, or a sentence that says what was expected."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, TypeVar, cast

from ragbench.records.cases import Evidence

__all__ = [
    "MAX_DEPTH",
    "ValueProblem",
    "as_answers",
    "as_evidence",
    "as_flag",
    "as_grades",
    "as_id",
    "as_ids",
    "as_labels",
    "as_metadata",
    "as_text",
    "as_texts",
    "check_depth",
    "describe",
    "is_missing",
    "is_object",
]

MAX_DEPTH = 200
"""How deep lists and objects may be nested; the JSON writer's own limit is 254."""

_TRUE = frozenset({"true", "yes", "y", "1", "answerable"})
_FALSE = frozenset({"false", "no", "n", "0", "unanswerable"})
_WHOLE_NUMBER = re.compile(r"\s*-?[0-9]{1,18}\s*")
_EXACT_INTEGERS = 2.0**53
_CONTAINERS = frozenset({list, dict})
_EVIDENCE_KEYS = frozenset({"text", "document_id", "start", "end"})
_T = TypeVar("_T")


class ValueProblem(ValueError):
    """A value that its field cannot hold; the message says what was expected."""


def is_missing(value: object) -> bool:
    """Whether a value says that nothing is known: null, NaN, or text without a visible character.

    NaN is how pandas writes an empty cell.
    """
    if type(value) is str:
        return not value or value.isspace()
    return value is None or (type(value) is float and math.isnan(value))


def as_text(value: object) -> str:
    """Text, as it came."""
    if type(value) is not str:
        raise ValueProblem(f"expected text, found {describe(value)}")
    if "\x00" in value:
        raise ValueProblem("the text holds a NUL character")
    return value


def as_id(value: object) -> str:
    """An id: text as it came; 1 and 1.0 both become ``"1"``."""
    if type(value) is str:
        return as_text(value)
    if type(value) is int:
        return str(value)
    if type(value) is float and math.isfinite(value):
        if abs(value) >= _EXACT_INTEGERS:
            raise ValueProblem(f"the number {value!r} is too large to be exact: write it as text")
        return str(int(value)) if value.is_integer() else repr(value)
    raise ValueProblem(f"expected an id (text or a number), found {describe(value)}")


def as_texts(value: object) -> tuple[str, ...]:
    """A list of texts; one text is a list of one. Numbers become text, nulls are left out."""
    if _is_plain(value):
        return tuple(value)
    return _listed(value, _as_answer)


def as_ids(value: object) -> tuple[str, ...]:
    """A list of ids; one id is a list of one."""
    if _is_plain(value):
        return tuple(value)
    return _listed(value, as_id)


def as_labels(value: object) -> tuple[str, ...]:
    """A list of tags; one tag is a list of one."""
    return as_ids(value)


def as_answers(value: object) -> tuple[str, ...]:
    """Right answers, each once: one text or number, a list of them, or SQuAD's answer objects."""
    if type(value) is str:
        return (as_text(value),)
    if is_object(value):
        # The columns of SQuAD in Hugging Face's form: {"text": [...], "answer_start": [...]}.
        texts = value.get("text")
        if texts is None:
            raise ValueProblem("expected a list of answers, or an object with them under 'text'")
        value = texts
    if isinstance(value, (list, tuple)):
        value = [_answer_text(item) for item in cast("list[object]", value)]
    return tuple(dict.fromkeys(as_texts(value)))


def as_flag(value: object) -> bool:
    """True or false, also as 1 and 0 or as a word."""
    if type(value) is bool:
        return value
    if type(value) in (int, float) and value in (0, 1):
        return bool(value)
    if type(value) is str:
        word = value.strip().lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
    raise ValueProblem(f"expected true or false, found {describe(value)}")


def as_grades(value: object) -> dict[str, int]:
    """Relevance by id: whole numbers, 0 for judged and not relevant."""
    if not is_object(value):
        raise ValueProblem(f"expected an object of id and grade, found {describe(value)}")
    return {
        as_id(key): _as_whole(grade, "grade")
        for key, grade in value.items()
        # Arrow gives every row the keys of all rows, null where a row has none.
        if grade is not None
    }


def as_evidence(value: object) -> tuple[Evidence, ...]:
    """Spans: texts, or objects of text, document_id, start and end."""
    items = cast("list[object]", value) if isinstance(value, (list, tuple)) else [value]
    return tuple(_as_span(item) for item in items)


def as_metadata(value: object) -> dict[str, Any]:
    """An object that may be nested ``MAX_DEPTH`` deep."""
    if not is_object(value):
        raise ValueProblem(f"expected an object, found {describe(value)}")
    metadata: dict[str, Any] = dict(value)
    check_depth(metadata)
    return metadata


def check_depth(value: object) -> None:
    """Refuses what is nested too deep to be written again."""
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for item in level:
            inner = cast("dict[str, object]", item).values() if type(item) is dict else item
            below += [v for v in cast("list[object]", inner) if type(v) in _CONTAINERS]
        if not below:
            return
        level = below
    raise ValueProblem(f"nested more than {MAX_DEPTH} levels deep")


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a value is a JSON object."""
    # The plain type first: an abstract check takes ten times as long.
    return type(value) is dict or isinstance(value, Mapping)


def _is_plain(value: object) -> TypeGuard[list[str]]:
    # Nearly every list is one of sound texts: seeing that first saves a call for each of them.
    if type(value) is not list:
        return False
    for item in cast("list[object]", value):
        if type(item) is not str or "\x00" in item:
            return False
    return True


def _listed(value: object, convert: Callable[[object], _T]) -> tuple[_T, ...]:
    if isinstance(value, (list, tuple)):
        items = cast("list[object]", value)
        return tuple([convert(item) for item in items if item is not None])
    return (convert(value),)


def _as_answer(value: object) -> str:
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return json.dumps(value)
    return as_text(value)


def _answer_text(item: object) -> object:
    if is_object(item):
        return item.get("text", item)
    return item


def _as_whole(value: object, what: str) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is str and _WHOLE_NUMBER.fullmatch(value):
        return int(value)
    raise ValueProblem(f"expected a whole number as {what}, found {describe(value)}")


def _as_span(item: object) -> Evidence:
    if not is_object(item):
        return Evidence(text=as_text(item))
    if not item.keys() <= _EVIDENCE_KEYS or item.get("text") is None:
        unknown = sorted(map(str, item.keys() - _EVIDENCE_KEYS))
        found = f"unknown key '{unknown[0]}'" if unknown else "no text"
        raise ValueProblem(f"expected text, document_id, start and end, found {found}")
    document, start, end = item.get("document_id"), item.get("start"), item.get("end")
    first = None if start is None else _as_whole(start, "start")
    behind = None if end is None else _as_whole(end, "end")
    if (first or 0) < 0 or (behind is not None and behind < (first or 0)):
        raise ValueProblem(f"expected 0 <= start <= end, found start {first} and end {behind}")
    return Evidence(
        text=as_text(item["text"]),
        document_id=None if document is None else as_id(document),
        start=first,
        end=behind,
    )


def describe(value: object) -> str:
    """A value as the end of a sentence that begins with "expected text, found"."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value!r}"
    if isinstance(value, str):
        return f"'{value if len(value) <= 40 else value[:37] + '...'}'"
    if isinstance(value, (list, tuple)):
        return "a list"
    if is_object(value):
        return "an object"
    return f"a {type(value).__name__}"
