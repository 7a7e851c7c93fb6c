"""Rerankers by name, and built from a name and settings."""

from __future__ import annotations

from ragbench.llm.chat import ChatModel
from ragbench.postretrieval.reranker import Reranker
from ragbench.registry import Registry
from ragbench.settings.build_named import build_named

__all__ = ["RERANKERS", "build_reranker"]

_PACKAGE = "ragbench.postretrieval.rerankers"

RERANKERS = Registry(
    kind="rerankers",
    builtin={
        "cross_encoder": f"{_PACKAGE}.cross_encoder:CrossEncoderReranker",
        "feedback": f"{_PACKAGE}.feedback:FeedbackReranker",
        "http": f"{_PACKAGE}.http:HttpReranker",
        "lexical": f"{_PACKAGE}.lexical:LexicalReranker",
        "linear": f"{_PACKAGE}.linear:LinearFusionReranker",
        "llm_listwise": f"{_PACKAGE}.llm_listwise:LlmListwiseReranker",
        "llm_pointwise": f"{_PACKAGE}.llm_pointwise:LlmPointwiseReranker",
        "mmr": f"{_PACKAGE}.mmr:MmrReranker",
        "ppr": f"{_PACKAGE}.ppr:PersonalisedPageRankReranker",
        "rrf": f"{_PACKAGE}.rrf:ReciprocalRankFusionReranker",
        "semantic": f"{_PACKAGE}.semantic:SemanticReranker",
        "time_weighted": f"{_PACKAGE}.time_weighted:TimeWeightedReranker",
        "weighted": f"{_PACKAGE}.weighted:WeightedReranker",
    },
)
"""Other packages add theirs through the entry-point group ``ragbench.rerankers``."""


def build_reranker(given: object, *, chat: ChatModel | None = None) -> Reranker:
    """Builds a reranker from what a configuration file says.

    Args:
        given: a name, or a mapping with ``name`` and the reranker's settings, which are the fields
            of its class; rerankers within rerankers are written the same way. A `Reranker` is
            returned as it is.
        chat: the language model for rerankers that ask one.

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
    )
