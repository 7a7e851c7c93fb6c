"""Fields that nobody reads and that look like the gold: a user is told how to have them read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

_GOLD = re.compile(
    r"gold|positive|relevan|qrel|pids?$|target|support|ground.?truth|(?:correct|true|expected).?(?:doc"
    r"|id|chunk|passage|context)",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(r"neg(?:ative)?|non.?relevan|irrelevan|score|prob|wrong|fake", re.IGNORECASE)
_LONGEST_ID = 120
_LOOKED_AT = 50


def proposals(
    rows: Sequence[Mapping[str, object]], unused: Collection[str], bound: Collection[str]
) -> Iterator[str]:
    """Says how unused fields could be read whose names and values look like the gold."""
    for name in unused:
        if not _GOLD.search(name) or _NEGATIVE.search(name):
            continue
        values = [v for row in rows[:_LOOKED_AT] if (v := row.get(name)) not in (None, "", [])]
        target = _target(values)
        if target is not None and _INSTEAD[target].isdisjoint(bound):
            held = _SAYS[target]
            yield f"'{name}' is not read: if it holds the {held}, add --field {target}={name}"


_SAYS = {
    "reference_context_ids": "ids of what is relevant",
    "reference_contexts": "relevant texts",
}
_INSTEAD = {
    "reference_context_ids": {"reference_context_ids", "grades", "reference_contexts"},
    "reference_contexts": {"reference_contexts"},
}


def _target(values: Sequence[object]) -> str | None:
    """What values may be: ids, texts, or neither."""
    items = [item for value in values for item in _items(value)]
    if not items or not all(type(item) is str or type(item) is int for item in items):
        return None
    if all(_is_id(item) for item in items):
        return "reference_context_ids"
    return "reference_contexts" if all(type(item) is str for item in items) else None


def _items(value: object) -> Sequence[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _is_id(item: object) -> bool:
    text = str(item)
    return 0 < len(text) <= _LONGEST_ID and not any(map(str.isspace, text))
