"""Operators and rerankers by name, listed with settings.

Other packages add operators through entry points in the group ``ragbench.operators``, rerankers in
``ragbench.rerankers``::

    [project.entry-points."ragbench.operators"]
    "filter.recent" = "my_package.recent:Recent"
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin

from ragbench.core.chat import ChatModel
from ragbench.io.settings import build_named, field_docs, setting_fields
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


_GIVEN: dict[Any, str] = {
    ChatModel: "a language model",
    ChunkSearch: "a service with search(query, top_k)",
    ChunkNeighbours: "a service with neighbours(chunk_id, top_k)",
}
"""Fields that no file can hold, and what is needed for them."""
_KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Reranker: "reranker",
    TokenCounter: "token counter",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedSetting:
    """One setting."""

    name: str
    type: str
    """In words."""
    needed: bool
    """Whether it must be given."""
    default: Any
    """As a file would hold it; None when it must be given, too."""
    choices: tuple[Any, ...]
    """The values that there are, where they are a few."""
    summary: str
    """What it means; empty when nothing is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One operator or reranker."""

    name: str
    summary: str
    needs: tuple[str, ...]
    """What must be there besides the settings, such as "extra onnx"."""
    settings: tuple[ListedSetting, ...]


def listed(registry: Registry) -> list[Listed]:
    return [_listed(name, registry.load(name)) for name in registry.targets()]


def _listed(name: str, target: Any) -> Listed:
    needs: tuple[str, ...] = getattr(target, "NEEDS", ())
    text = _plain_text(inspect.cleandoc(target.__doc__ or "").partition("\n\n")[0])
    if not (isinstance(target, type) and dataclasses.is_dataclass(target)):
        return Listed(name=name, summary=text, needs=needs, settings=_of_call(target))
    hints = typing.get_type_hints(target)
    docs = field_docs(target)
    settings: list[ListedSetting] = []
    for field in setting_fields(target).values():
        hint = hints[field.name]
        if hint in _GIVEN:
            needs = (*needs, _GIVEN[hint])
        else:
            settings.append(_setting(field, hint, docs.get(field.name, "")))
    return Listed(name=name, summary=text, needs=needs, settings=tuple(settings))


def _setting(field: dataclasses.Field[Any], hint: Any, summary: str) -> ListedSetting:
    default: Any = dataclasses.MISSING
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    elif field.default is not dataclasses.MISSING:
        default = field.default
    needed = default is dataclasses.MISSING
    return ListedSetting(
        name=field.name,
        type=_type(hint),
        needed=needed,
        default=None if needed else _plain(default),
        choices=_choices(hint),
        summary=_plain_text(summary),
    )


def _of_call(target: Any) -> tuple[ListedSetting, ...]:
    """The arguments of something that is not a dataclass."""
    empty = inspect.Parameter.empty
    return tuple(
        ListedSetting(
            name=argument.name,
            type="" if argument.annotation is empty else str(argument.annotation),
            needed=argument.default is empty,
            default=None if argument.default is empty else _plain(argument.default),
            choices=(),
            summary="",
        )
        for argument in inspect.signature(target).parameters.values()
    )


def _type(hint: Any) -> str:
    if hint in _KINDS:
        return _KINDS[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(one) for one in inner if one is not type(None))
    if origin is Literal:
        return "one of " + ", ".join(map(str, inner))
    if origin is collections.abc.Sequence:
        return f"list of {_type(inner[0])}"
    if origin is collections.abc.Mapping:
        return "mapping"
    if dataclasses.is_dataclass(hint):
        return f"mapping of {', '.join(setting_fields(hint))}"
    return str(getattr(hint, "__name__", hint))


def _choices(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(
        choice
        for one in get_args(hint)
        if get_origin(hint) in (Union, types.UnionType)
        for choice in _choices(one)
    )


def _plain(value: object) -> Any:
    """A default as a file would hold it."""
    if isinstance(value, TokenCounter):
        return value.name
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast("list[object]", value)]
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): _plain(one) for key, one in items}
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in setting_fields(value)}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _plain_text(text: str) -> str:
    """A docstring without its marks, on one line."""
    return " ".join(re.sub(r"``([^`]*)``|`([^`]*)`", r"\1\2", text).split())


RERANKERS = Registry(
    kind="rerankers",
    builtin={
        "cross_encoder": "ragbench.post.rerankers.cross_encoder:CrossEncoderReranker",
        "feedback": "ragbench.post.rerankers.feedback:FeedbackReranker",
        "http": "ragbench.post.rerankers.http:HttpReranker",
        "lexical": "ragbench.post.rerankers.lexical:LexicalReranker",
        "linear": "ragbench.post.rerankers.fusion:LinearFusionReranker",
        "llm_listwise": "ragbench.post.rerankers.llm:LlmListwiseReranker",
        "llm_pointwise": "ragbench.post.rerankers.llm:LlmPointwiseReranker",
        "mmr": "ragbench.post.rerankers.mmr:MmrReranker",
        "ppr": "ragbench.post.rerankers.ppr:PersonalisedPageRankReranker",
        "rrf": "ragbench.post.rerankers.fusion:ReciprocalRankFusionReranker",
        "semantic": "ragbench.post.rerankers.semantic:SemanticReranker",
        "time_weighted": "ragbench.post.rerankers.weighted:TimeWeightedReranker",
        "weighted": "ragbench.post.rerankers.weighted:WeightedReranker",
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
