"""LlamaIndex: nodes with scores, bare nodes, and responses with their source nodes.

Source: llama-index-core ``NodeWithScore``, ``TextNode`` and ``Response``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.data.dumps.form import DumpForm, Hits, is_object, list_of_hits

__all__ = ["FORM"]


def _is_node(value: object) -> bool:
    if not is_object(value):
        return False
    inner = value.get("node")
    node = inner if is_object(inner) else value
    return "id_" in node or ("relationships" in node and ("text" in node or "metadata" in node))


def _unwrap(value: object) -> Sequence[Hits] | None:
    if is_object(value) and "source_nodes" in value:
        value = value["source_nodes"]
    found = list_of_hits(value, _is_node)
    return None if found is None else [found]


FORM = DumpForm(
    name="llamaindex",
    summary="LlamaIndex nodes, bare or with scores, and responses with source nodes.",
    example='{"query": "...", "source_nodes": [{"node": {"id_": "a", "text": "..."}, "score": 1}]}',
    unwrap=_unwrap,
    is_hit=_is_node,
    id=("node.id_", "id_", "node.node_id", "node.id", "node_id", "id"),
    text=("node.text", "text", "node.text_resource.text", "text_resource.text"),
    metadata=("node.metadata", "metadata"),
)
