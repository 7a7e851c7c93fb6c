"""Rerankers by name, and built from a name and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ragbench.errors import ConfigError
from ragbench.llm.chat import ChatModel
from ragbench.postretrieval.reranker import Reranker
from ragbench.registry import Registry
from ragbench.settings.from_settings import from_settings

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
    if isinstance(given, Reranker):
        return given
    name, settings = _parts(given)

    def nested(value: object) -> Reranker:
        return build_reranker(value, chat=chat)

    def language_model(value: object) -> ChatModel:
        if value is not None:
            raise ConfigError(f"{name}: 'chat' is not a setting: it is the run's language model")
        if chat is None:
            raise ConfigError(f"the reranker '{name}' needs a language model, and none was given")
        return chat

    made = {Reranker: nested, ChatModel: language_model}
    built = from_settings(RERANKERS.load(name), settings, where=name, made=made)
    if not isinstance(built, Reranker):
        raise ConfigError(f"'{name}' of the rerankers is none: it has no name or no score()")
    return built


def _parts(given: object) -> tuple[str, dict[str, object]]:
    """A reranker's name and its settings."""
    if isinstance(given, str):
        return given, {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"a reranker is a name or a mapping with a name, not {given!r}")
    settings = {str(key): value for key, value in cast("Mapping[object, object]", given).items()}
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError("a reranker needs a 'name'. Known: " + ", ".join(RERANKERS.targets()))
    return name, settings
