"""Every operator by action and type, resolved late.

Other packages add operators through entry points in the group ``ragbench.operators``::

    [project.entry-points."ragbench.operators"]
    "filter.recent" = "my_package.recent:Recent"
"""

from __future__ import annotations

from ragbench.registry import Registry

__all__ = ["OPERATORS", "types_by_action"]

_HERE = "ragbench.postretrieval"

OPERATORS = Registry(
    kind="operators",
    builtin={
        "none": f"{_HERE}.none:Nothing",
        "rerank": f"{_HERE}.rerank:Rerank",
        "filter.threshold": f"{_HERE}.filter.threshold:Threshold",
        "filter.top_k": f"{_HERE}.filter.top_k:TopK",
        "filter.percentile": f"{_HERE}.filter.percentile:Percentile",
        "filter.token_budget": f"{_HERE}.filter.token_budget:TokenBudget",
        "filter.dedup": f"{_HERE}.filter.dedup:Dedup",
        "filter.dedup_near": f"{_HERE}.filter.dedup_near:DedupNear",
        "filter.llm": f"{_HERE}.filter.llm:LlmFilter",
        "merge.link_expand": f"{_HERE}.merge.link_expand:LinkExpand",
        "merge.multi_query": f"{_HERE}.merge.multi_query:MultiQuery",
        "augment.context": f"{_HERE}.augment.context:Context",
        "augment.metadata": f"{_HERE}.augment.metadata:Metadata",
        "augment.temporal": f"{_HERE}.augment.temporal:Temporal",
        "augment.neighbours": f"{_HERE}.augment.neighbours:Neighbours",
        "augment.reflection": f"{_HERE}.augment.reflection:Reflection",
        "compress.extractive": f"{_HERE}.compress.extractive:Extractive",
        "compress.abstractive": f"{_HERE}.compress.abstractive:Abstractive",
        "format.template": f"{_HERE}.format.template:Template",
        "format.structured": f"{_HERE}.format.structured:Structured",
        "format.chat": f"{_HERE}.format.chat:Chat",
        "format.xml": f"{_HERE}.format.xml_elements:Xml",
        "format.long_context": f"{_HERE}.format.long_context:LongContext",
    },
)
"""A name is the action, with ``.type`` for those that come in several types. The types of
``rerank`` are the rerankers."""


def types_by_action() -> dict[str, list[str]]:
    """Each action with its types; no types for one that comes in one form."""
    found: dict[str, list[str]] = {}
    for name in OPERATORS.targets():
        action, dot, kind = name.partition(".")
        found.setdefault(action, []).extend([kind] if dot else [])
    return found
