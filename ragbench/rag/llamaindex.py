"""LlamaIndex, by shape: retrievers and query engines."""

from __future__ import annotations

from typing import Any

from ragbench.core.result import RetrievalResult
from ragbench.rag.one_call import parts_of_one_call
from ragbench.rag.parts import Parts, Shape, cut, refuse_beyond
from ragbench.rag.shapes import read_retrieval


def llamaindex_shape(obj: object) -> Shape | None:
    """An engine has ``query`` and ``aquery``; a retriever ``retrieve`` and ``aretrieve``."""
    if _has(obj, "query", "aquery"):
        return Shape(name="a LlamaIndex query engine", parts=_parts_of_query_engine, own_names=True)
    if _has(obj, "retrieve", "aretrieve"):
        return Shape(name="a LlamaIndex retriever", parts=_parts_of_retriever, own_names=True)
    return None


def _has(obj: object, *methods: str) -> bool:
    return all(callable(getattr(obj, name, None)) for name in methods)


def _parts_of_retriever(obj: Any) -> Parts:
    """``retrieve``: nodes with scores. ``top_k`` cuts what ``similarity_top_k`` allows."""
    where = f"{type(obj).__name__}.retrieve"

    def retrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        refuse_beyond(top_k, getattr(obj, "similarity_top_k", None), where)
        return cut(read_retrieval(obj.retrieve(query), where), top_k)

    return Parts(source=obj, methods={"retrieve_with_metadata": retrieve})


def _parts_of_query_engine(obj: Any) -> Parts:
    """``query``: a response with its source nodes, split into retrieval and generation."""
    return parts_of_one_call(obj, obj.query, f"{type(obj).__name__}.query")
