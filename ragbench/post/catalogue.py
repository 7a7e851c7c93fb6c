"""Operators and rerankers by name, listed with settings.

Other packages add operators through entry points in the group ``ragbench.operators``, rerankers in
``ragbench.rerankers``::

    [project.entry-points."ragbench.operators"]
    "filter.recent" = "my_package.recent:Recent"
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragbench.core.chat import ChatModel
from ragbench.io.settings import build_named, schema_of_settings, summary_of
from ragbench.plugins import Registry
from ragbench.post.operator import ChunkNeighbours, ChunkSearch
from ragbench.post.rerank import Reranker
from ragbench.text.token_counter import TokenCounter

OPERATORS = Registry(
    kind="operators",
    builtin={
        "none": "ragbench.post.filter:Nothing",
        "rerank": "ragbench.post.rerank:Rerank",
        "filter.threshold": "ragbench.post.filter:Threshold",
        "filter.top_k": "ragbench.post.filter:TopK",
        "filter.percentile": "ragbench.post.filter:Percentile",
        "filter.token_budget": "ragbench.post.filter:TokenBudget",
        "filter.dedup": "ragbench.post.filter:Dedup",
        "filter.dedup_near": "ragbench.post.filter:DedupNear",
        "filter.llm": "ragbench.post.filter:LlmFilter",
        "merge.link_expand": "ragbench.post.merge:LinkExpand",
        "merge.multi_query": "ragbench.post.merge:QueryMerge",
        "augment.context": "ragbench.post.augment:Context",
        "augment.metadata": "ragbench.post.augment:Metadata",
        "augment.temporal": "ragbench.post.augment:Temporal",
        "augment.neighbours": "ragbench.post.augment:Neighbours",
        "augment.reflection": "ragbench.post.augment:Reflection",
        "compress.extractive": "ragbench.post.compress:Extractive",
        "compress.abstractive": "ragbench.post.compress:Abstractive",
        "format.template": "ragbench.post.format:Template",
        "format.structured": "ragbench.post.format:JsonFormat",
        "format.chat": "ragbench.post.format:Chat",
        "format.xml": "ragbench.post.format:Xml",
        "format.long_context": "ragbench.post.format:LongContext",
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


WRITTEN: Mapping[Any, Any] = {
    TokenCounter: {"type": "string"},
    Reranker: {"type": ["string", "object"], "description": "a reranker"},
}
"""How a file holds what is no plain value, as JSON schemas."""
_GIVEN: Mapping[Any, str] = {
    ChatModel: "a language model",
    ChunkSearch: "a service with search(query, top_k)",
    ChunkNeighbours: "a service with neighbours(chunk_id, top_k)",
}
"""Fields that no file can hold, and what is needed for them."""


def listed(registry: Registry) -> list[dict[str, Any]]:
    """Each operator or reranker: its summary, what it needs, and the schema of its settings."""
    return [_listed(name, registry.load(name)) for name in registry.targets()]


def _listed(name: str, target: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(target) if isinstance(target, type) else {}
    given = [_GIVEN[hint] for hint in hints.values() if hint in _GIVEN]
    return {
        "name": name,
        "summary": summary_of(target),
        "needs": [*getattr(target, "NEEDS", ()), *given],
        "settings": schema_of_settings(target, WRITTEN),
    }


RERANKERS = Registry(
    kind="rerankers",
    builtin={
        "cross_encoder": "ragbench.post.rerankers.cross_encoder:CrossEncoderReranker",
        "feedback": "ragbench.post.rerankers.lexical:FeedbackReranker",
        "http": "ragbench.post.rerankers.http:HttpReranker",
        "lexical": "ragbench.post.rerankers.lexical:LexicalReranker",
        "linear": "ragbench.post.rerankers.fusion:LinearFusionReranker",
        "llm_listwise": "ragbench.post.rerankers.llm:LlmListwiseReranker",
        "llm_pointwise": "ragbench.post.rerankers.llm:LlmPointwiseReranker",
        "mmr": "ragbench.post.rerankers.mmr:MmrReranker",
        "ppr": "ragbench.post.rerankers.ppr:PersonalisedPageRankReranker",
        "rrf": "ragbench.post.rerankers.fusion:ReciprocalRankFusionReranker",
        "semantic": "ragbench.post.rerankers.semantic:SemanticReranker",
        "time_weighted": "ragbench.post.rerankers.fusion:TimeWeightedReranker",
        "weighted": "ragbench.post.rerankers.fusion:WeightedReranker",
    },
)
"""Other packages add theirs through the entry-point group ``ragbench.rerankers``."""


def build_reranker(
    given: object, *, chat: ChatModel | None = None, folder: Path = Path()
) -> Reranker:
    """Builds a reranker from what a configuration file says.

    Args:
        given: a name, or a mapping with ``name`` and the reranker's settings, which are the fields
            of its class; rerankers within rerankers are written the same way. A name such as
            ``file.py:Class`` or ``package.module:Class`` is a reranker of the user's. A `Reranker`
            is returned as it is.
        chat: the language model for rerankers that ask one.
        folder: where the files and modules of users' rerankers are looked for.

    Raises:
        ConfigError: the name or a setting does not exist (the message lists those that do), a
            setting has the wrong type or is out of its range, or a language model is missing.

    Example:
        >>> build_reranker({"name": "time_weighted", "rate": 0.1}).rate
        0.1
    """
    return build_named(
        given,
        Reranker,  # type: ignore[type-abstract]  # it is looked for, never made
        registry=RERANKERS,
        method="score",
        chat=chat,
        folder=folder,
    )
