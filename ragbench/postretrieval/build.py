"""Operators, built from what a configuration says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from ragbench.errors import ConfigError, RagbenchError
from ragbench.interface.load import load_target
from ragbench.interface.masking import mask_text
from ragbench.llm.chat import ChatModel
from ragbench.postretrieval.catalogue import OPERATORS, types_by_action
from ragbench.postretrieval.contract import Operator
from ragbench.postretrieval.registry import RERANKERS, build_reranker
from ragbench.postretrieval.reranker import Reranker
from ragbench.postretrieval.service import ChunkNeighbours, ChunkSearch
from ragbench.settings.from_settings import from_settings
from ragbench.text.token_counter import TokenCounter, token_counter

__all__ = ["Resources", "build_operator"]

_OF_RERANK = ("top_k", "timeout", "on_error")
"""Settings of the operator itself; the others are the reranker's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """What operators may need that no configuration file can hold."""

    service: ChunkSearch | ChunkNeighbours | None = None
    """Where the chunks came from, as far as it can be asked."""
    chat: ChatModel | None = None
    """A language model."""
    folder: Path = Path()
    """Where the files and modules of users' operators are looked for."""


def build_operator(given: object, resources: Resources | None = None) -> Operator:
    """Builds an operator.

    Args:
        given: a mapping with ``action``, for most actions ``type``, and the operator's settings,
            which are the fields of its class. For ``rerank``, ``type`` is the name of a reranker
            and stands beside its settings; or ``reranker`` holds what
            `ragbench.postretrieval.registry.build_reranker` takes. An ``action`` such as
            ``my_package.my_module:Class`` or ``file.py:Class`` is an operator of the user's. An
            operator is returned as it is.
        resources: the service and the language model for operators that need them.

    Raises:
        ConfigError: an action, a type or a setting does not exist (the message lists those that
            do), or a setting is missing, of the wrong type or out of its range, or a resource is
            missing.

    Example:
        >>> build_operator({"action": "filter", "type": "top_k", "k": 3})
        TopK(k=3)
    """
    if isinstance(given, Operator):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"an operator is a mapping with an 'action', not {given!r}")
    settings = {str(key): value for key, value in cast("Mapping[Any, Any]", given).items()}
    resources = resources or Resources()
    if ":" in str(settings.get("action")):
        return _own(str(settings.pop("action")), settings, resources)
    name = _name(settings)
    if name == "rerank":
        settings = _with_reranker(settings)
    made = _Makers(name=name, resources=resources).by_type()
    built = from_settings(OPERATORS.load(name), settings, where=name, made=made)
    if not isinstance(built, Operator):
        raise ConfigError(f"'{name}' of the operators is none: it has no name or no apply()")
    return built


def _own(spec: str, settings: dict[str, Any], resources: Resources) -> Operator:
    """An operator of the user's."""
    target = load_target(spec, search_path=resources.folder)
    if not callable(target):
        raise ConfigError(f"unknown action '{spec}': it is no class")
    made = _Makers(name=spec, resources=resources).by_type()
    try:
        built = from_settings(target, settings, where=spec, made=made)
    except RagbenchError:
        raise
    except Exception as error:
        told = mask_text(f"{type(error).__name__}: {error}")
        raise ConfigError(f"unknown action '{spec}': it raised {told}") from error
    if not isinstance(built, Operator):
        raise ConfigError(f"unknown action '{spec}': it is no operator: it lacks a name or apply()")
    return built


def _name(settings: dict[str, Any]) -> str:
    """The operator's name; takes what it is made of out of the settings."""
    actions = types_by_action()
    action = settings.pop("action", None)
    if action is None:
        raise ConfigError(f"the setting 'action' is missing. Known: {', '.join(actions)}")
    if action not in actions:
        raise ConfigError(f"unknown action '{action}'.{_listed(action, list(actions))}")
    types = actions[action]
    if not types:
        return str(action)
    kind = settings.pop("type", None)
    if kind is None:
        raise ConfigError(f"{action}: the setting 'type' is missing. Known: {', '.join(types)}")
    if kind not in types:
        raise ConfigError(f"unknown type '{kind}' of {action}.{_listed(kind, types)}")
    return f"{action}.{kind}"


def _listed(given: object, known: list[str]) -> str:
    close = get_close_matches(str(given), known, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"{hint} Known: {', '.join(known)}"


def _with_reranker(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a rerank operator, with those of its reranker in one place."""
    if "reranker" in settings:
        return settings
    known = ", ".join(RERANKERS.targets())
    if "type" not in settings:
        raise ConfigError(f"rerank: the setting 'type' is missing. Known: {known}")
    own = {key: value for key, value in settings.items() if key in _OF_RERANK}
    rest = {key: value for key, value in settings.items() if key not in (*_OF_RERANK, "type")}
    if settings["type"] not in RERANKERS.targets():
        raise ConfigError(
            f"unknown type '{settings['type']}' of rerank."
            f"{_listed(settings['type'], list(RERANKERS.targets()))}"
        )
    return {**own, "reranker": {"name": settings["type"], **rest}}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Makers:
    """What makes the values that a file cannot hold as they are."""

    name: str
    """The operator, for messages."""
    resources: Resources

    def by_type(self) -> dict[Any, Any]:
        """A function of the setting for each type of field."""
        return {
            ChunkSearch: self.search,
            ChunkNeighbours: self.neighbours,
            ChatModel: self.chat,
            TokenCounter: self.counter,
            Reranker: self.reranker,
        }

    def search(self, value: object) -> ChunkSearch:
        self._refuse(value, "service", "where the chunks came from")
        if not isinstance(self.resources.service, ChunkSearch):
            raise ConfigError(self._lacks_service("search(query, top_k)"))
        return self.resources.service

    def neighbours(self, value: object) -> ChunkNeighbours:
        self._refuse(value, "service", "where the chunks came from")
        if not isinstance(self.resources.service, ChunkNeighbours):
            raise ConfigError(self._lacks_service("neighbours(chunk_id, top_k)"))
        return self.resources.service

    def chat(self, value: object) -> ChatModel:
        self._refuse(value, "chat", "the run's language model")
        if self.resources.chat is None:
            raise ConfigError(f"{self.name} needs a language model, and none was given")
        return self.resources.chat

    def counter(self, value: object) -> TokenCounter:
        if not isinstance(value, str):
            raise ConfigError(f"{self.name}: counter must be a text, not {value!r}")
        return token_counter(value)

    def reranker(self, value: object) -> Reranker:
        return build_reranker(value, chat=self.resources.chat)

    def _refuse(self, value: object, setting: str, what: str) -> None:
        if value is not None:
            raise ConfigError(f"{self.name}: '{setting}' is no setting: it is {what}")

    def _lacks_service(self, method: str) -> str:
        return (
            f"{self.name} asks where the chunks came from, and nothing here has the method {method}"
        )
