"""Haystack: documents, and what a pipeline or a retriever returns of them.

Source: haystack-ai 2 ``Document.to_dict``, flat and not.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.data.dumps.form import DumpForm, Hits, is_object, list_of_hits

__all__ = ["FORM"]

_OWN = ("blob", "meta", "sparse_embedding", "dataframe", "content_type")


def _is_document(value: object) -> bool:
    return is_object(value) and "content" in value and any(name in value for name in _OWN)


def _unwrap(value: object) -> Sequence[Hits] | None:
    found = _documents(value)
    if found is None and is_object(value) and len(value) == 1:
        # A pipeline's output: {"retriever": {"documents": [...]}}.
        found = _documents(next(iter(value.values())))
    return None if found is None else [found]


def _documents(value: object) -> Hits | None:
    if is_object(value) and "documents" in value:
        value = value["documents"]
    return list_of_hits(value, _is_document)


FORM = DumpForm(
    name="haystack",
    summary="Haystack documents, and pipeline outputs that hold them.",
    example='{"retriever": {"documents": [{"id": "a", "content": "...", "meta": {}, "score": 1}]}}',
    unwrap=_unwrap,
    is_hit=_is_document,
    text=("content",),
    metadata=("meta",),
)
