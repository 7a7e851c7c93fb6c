"""Chroma: what ``query``, ``get`` and ``search`` of a collection return: columns of lists.

Source: Chroma's ``QueryResult``, ``GetResult`` and ``SearchResult``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragbench.data.dumps.form import DumpForm, Hits, is_list, is_object

__all__ = ["FORM"]

_COLUMNS = {
    "ids": "id",
    "documents": "document",
    "metadatas": "metadata",
    "distances": "distance",
    "scores": "score",
}


def _unwrap(value: object) -> Sequence[Hits] | None:
    ids = value.get("ids") if is_object(value) else None
    if not is_object(value) or not is_list(ids):
        return None
    if not any(is_list(value.get(name)) for name in ("documents", "metadatas", "distances")):
        return None
    columns = {name: held for name in _COLUMNS if is_list(held := value.get(name))}
    if not any(map(is_list, ids)):
        return [_hits(columns)]
    return [_hits(_query(columns, number)) for number in range(len(ids))]


def _query(columns: Mapping[str, Sequence[object]], number: int) -> Mapping[str, object]:
    return {name: column[number] for name, column in columns.items() if number < len(column)}


def _hits(columns: Mapping[str, object]) -> Hits:
    """Columns to objects; what a column lacks is null."""
    known = {name: column for name, column in columns.items() if is_list(column)}
    size = max((len(column) for column in known.values()), default=0)
    return [
        {
            _COLUMNS[name]: column[place] if place < len(column) else None
            for name, column in known.items()
        }
        for place in range(size)
    ]


FORM = DumpForm(
    name="chroma",
    summary="Chroma results of query, get and search.",
    example='{"ids": [["a"]], "documents": [["..."]], "distances": [[0.2]]}',
    unwrap=_unwrap,
    is_hit=lambda _: False,
    text=("document",),
    score=("distance", "score"),
    any_text_in="metadata",
    scores_are_distances=True,
)
