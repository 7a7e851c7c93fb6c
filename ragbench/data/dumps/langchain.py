"""LangChain: documents, documents with scores, and chains that return their sources.

Source: langchain-core ``Document``, its ``dumpd`` form, and ``similarity_search_with_score``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.data.dumps.form import DumpForm, Hits, is_list, is_object, lists_of_hits

__all__ = ["FORM"]


def _document(value: object) -> dict[str, object] | None:
    """A document as a flat object, also when it is serialised or in a pair with its score."""
    if is_list(value) and len(value) == 2 and _is_score(value[1]):
        inner = _document(value[0])
        return None if inner is None else {**inner, "score": value[1]}
    if is_object(value) and value.get("type") == "constructor" and is_object(value.get("kwargs")):
        value = value["kwargs"]
    if not is_object(value):
        return None
    if "page_content" in value:
        return dict(value)
    # LangChain.js writes camel case.
    if "pageContent" in value:
        return {**value, "page_content": value["pageContent"]}
    return None


def _is_score(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _unwrap(value: object) -> Sequence[Hits] | None:
    if not is_list(value) or not value:
        return None
    one = _documents(value)
    if one is not None:
        return [one]
    return lists_of_hits(value, _documents)


def _documents(value: object) -> Hits | None:
    if not is_list(value) or not value or _document(value[0]) is None:
        return None
    # What is no document is passed on, to be told as malformed.
    return [_document(item) or item for item in value]


FORM = DumpForm(
    name="langchain",
    summary="LangChain documents, bare or with scores, and chains that return sources.",
    example='{"query": "...", "source_documents": [{"page_content": "...", "metadata": {}}]}',
    unwrap=_unwrap,
    is_hit=lambda value: _document(value) is not None,
    id=(
        *("id", "metadata._id", "metadata.id", "metadata.chunk_id", "metadata.doc_id"),
        *("metadata.uuid", "metadata.document_id"),
    ),
    text=("page_content",),
    score=("score", "metadata.relevance_score", "metadata.score", "metadata._score"),
)
