"""LlamaIndex, by shape: retrievers and query engines."""

from __future__ import annotations

from typing import Any

from ragbench.interface.adapters.documents import read_retrieval
from ragbench.interface.adapters.limits import cut, refuse_beyond
from ragbench.interface.adapters.one_call import parts_of_one_call
from ragbench.interface.adapters.parts import Parts
from ragbench.interface.results import RetrievalResult

__all__ = ["is_query_engine", "is_retriever", "parts_of_query_engine", "parts_of_retriever"]


def is_query_engine(obj: object) -> bool:
    """Whether it has ``query`` and ``aquery``."""
    return callable(getattr(obj, "query", None)) and callable(getattr(obj, "aquery", None))


def is_retriever(obj: object) -> bool:
    """Whether it has ``retrieve`` and ``aretrieve``, and no ``query``."""
    methods = (getattr(obj, name, None) for name in ("retrieve", "aretrieve"))
    return all(map(callable, methods)) and not is_query_engine(obj)


def parts_of_retriever(obj: Any) -> Parts:
    """``retrieve``: nodes with scores. ``top_k`` cuts what ``similarity_top_k`` allows."""
    where = f"{type(obj).__name__}.retrieve"

    def retrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        refuse_beyond(top_k, getattr(obj, "similarity_top_k", None), where)
        return cut(read_retrieval(obj.retrieve(query), where), top_k)

    return Parts(source=obj, methods={"retrieve_with_metadata": retrieve})


def parts_of_query_engine(obj: Any) -> Parts:
    """``query``: a response with its source nodes, split into retrieval and generation."""
    return parts_of_one_call(obj, obj.query, f"{type(obj).__name__}.query")
