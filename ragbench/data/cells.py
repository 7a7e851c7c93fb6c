"""Text cells of CSV and TSV: lists, objects and truth values are spelled out in them."""

from __future__ import annotations

import ast
import re

import orjson

from ragbench.data.values import ValueProblem

__all__ = ["parse_cell"]

_LIST_FIELDS = frozenset(
    {"answers", "reference", "alternative_references", "reference_contexts", "evidence"}
)
_ID_FIELDS = frozenset({"reference_context_ids", "tags"})
_OBJECT_FIELDS = frozenset({"grades", "metadata"})

_PRINTED_ITEM = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?[0-9]{1,18}(?:\.[0-9]*)?|None|nan""", re.DOTALL
)
_BETWEEN = re.compile(r"\s*,?\s*")


def parse_cell(target: str, cell: str) -> object:
    """The JSON value that a cell spells for a field.

    A list is written as a JSON list, as Python prints one (pandas does), or as NumPy prints one.
    Ids and tags may also be separated by ``;`` or ``|``.

    Args:
        target: the field of the record.
        cell: the cell's text, not empty.

    Returns:
        The value; the cell itself for fields that hold text.

    Raises:
        ValueProblem: the cell begins like a list or object and is none.
    """
    text = cell.strip()
    if target in _OBJECT_FIELDS:
        return _parse_json(text, "a JSON object")
    if target in _ID_FIELDS:
        return _parse_list(text) if _is_bracketed(text) else _split_ids(target, text)
    if target in _LIST_FIELDS and _is_bracketed(text):
        return _parse_bracketed_text(target, cell, text)
    return cell


def _is_bracketed(text: str) -> bool:
    return text.startswith("[") and text.endswith("]")


def _parse_bracketed_text(target: str, cell: str, text: str) -> object:
    # An answer such as "[citation needed]" is text; a column of contexts is a list in every row.
    try:
        return _parse_list(text)
    except ValueProblem:
        if target in {"reference", "answers"}:
            return cell
        raise


def _parse_json(text: str, expected: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueProblem(f"expected {expected}: {error.msg}") from error


def _parse_list(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _parse_printed(text)


def _parse_printed(text: str) -> list[object]:
    # NumPy prints ['a' 'b'] without commas, which Python itself would read as the one text 'ab'.
    items: list[object] = []
    position, end = _skip(text, 1), len(text) - 1
    while position < end:
        match = _PRINTED_ITEM.match(text, position, end)
        if match is None:
            raise ValueProblem("expected a list of texts as JSON or as Python prints it")
        items.append(_printed_item(match.group()))
        position = _skip(text, match.end())
    return items


def _skip(text: str, position: int) -> int:
    match = _BETWEEN.match(text, position)
    return position if match is None else match.end()


def _printed_item(literal: str) -> object:
    if literal in {"None", "nan"}:
        return None
    try:
        # Printed lists escape line breaks; NumPy does not, and a bare one ends a literal.
        item: object = ast.literal_eval(literal.replace("\n", "\\n").replace("\r", "\\r"))
    except (ValueError, SyntaxError) as error:
        raise ValueProblem(f"not a value as Python prints it: {literal[:40]}") from error
    return item


def _split_ids(target: str, text: str) -> list[str]:
    if target == "reference_context_ids" and "," in text:
        raise ValueProblem(
            "holds a comma: separate several ids by ';', or write a JSON list such as "
            '["a", "b"] (also for one id with a comma in it)'
        )
    separators = r"[;|,]" if target == "tags" else r"[;|]"
    return [part for part in map(str.strip, re.split(separators, text)) if part]
