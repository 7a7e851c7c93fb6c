"""Operators from a configuration file or mapping, every mistake with its line."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from ragbench.core.chat import ChatModel
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.settings import (
    Makers,
    Place,
    build_named,
    built_own,
    from_settings,
    schema_of_settings,
    summary_of,
)
from ragbench.io.yaml_file import SettingsFile, is_own, read_yaml, shown
from ragbench.plugins import Registry, load_target
from ragbench.post.chunks import parse_time
from ragbench.post.operator import ChunkNeighbours, ChunkSearch, Operator
from ragbench.post.rerank import Reranker
from ragbench.post.stage import PostRetrieval
from ragbench.safe_text import listed_names
from ragbench.text.token_counter import TokenCounter, token_counter

OPERATORS = Registry(kind="operators")
"""A name is the action, with ``.type`` for those that come in several types. The types of
``rerank`` are the rerankers."""


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


def described(registry: Registry, name: str) -> dict[str, Any]:
    """An operator or reranker: its summary, what it needs, and the schema of its settings."""
    target: Any = registry.load(name)
    hints = typing.get_type_hints(target) if isinstance(target, type) else {}
    given = [_GIVEN[hint] for hint in hints.values() if hint in _GIVEN]
    return {
        "name": name,
        "summary": summary_of(target),
        "needs": [*getattr(target, "NEEDS", ()), *given],
        "settings": schema_of_settings(target, WRITTEN),
    }


RERANKERS = Registry(kind="rerankers")
"""Other packages add theirs through the entry-point group ``ragbench.rerankers``."""


def build_reranker(
    given: object, *, chat: ChatModel | None = None, folder: Path = Path()
) -> Reranker:
    """Builds a reranker from the settings of a configuration file.

    Args:
        given: a name, or a mapping with ``name`` and the reranker's settings, which are the fields
            of its class; rerankers within rerankers are written the same way. A name such as
            ``file.py:Class`` or ``package.module:Class`` is a reranker of the user's. A `Reranker`
            is returned as it is.
        chat: the language model for rerankers that ask one.
        folder: what paths, files and modules that it names are relative to.

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


_OF_RERANK = ("top_k", "timeout", "on_error")
"""Settings of the operator itself; the others are the reranker's."""


class Resources(Record):
    """What operators may need that no configuration file can hold."""

    service: ChunkSearch | ChunkNeighbours | None = None
    """Where the chunks came from, as far as it can be asked."""
    chat: ChatModel | None = None
    """A language model."""
    folder: Path = Path()
    """What paths, files and modules that operators name are relative to; of a file, its folder."""


def build_operator(given: object, resources: Resources | None = None) -> Operator:
    """Builds an operator.

    Args:
        given: a mapping with ``action``, for most actions ``type``, and the operator's settings,
            which are the fields of its class. For ``rerank``, ``type`` is the name of a reranker,
            or the ``file.py:Class`` of one, and stands beside its settings; or ``reranker`` holds
            what `ragbench.post.build.build_reranker` takes. An ``action`` such as
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
    action = settings.pop("action", None)
    name = str(action) if is_own(action) else _name(action, settings)
    made = _makers(name, resources)
    if is_own(action):
        built = built_own(name, settings, folder=resources.folder, made=made)
    else:
        target = OPERATORS.load(name)
        built = from_settings(target, settings, where=name, made=made, folder=resources.folder)
    if not isinstance(built, Operator):
        raise ConfigError(f"'{name}' is not an operator: it lacks a name or apply()")
    return built


def _name(action: object, settings: dict[str, Any]) -> str:
    """The operator's name; the settings of a reranker are put into one place."""
    types: dict[str, list[str]] = {}
    for one in OPERATORS.targets():
        first, dot, kind = one.partition(".")
        types.setdefault(first, []).extend([kind] if dot else [])
    name = _known("action", action, [*types], "")
    if name == "rerank" and "reranker" not in settings:
        kind = settings.pop("type", None)
        if not is_own(kind):
            kind = _known("type", kind, [*RERANKERS.targets()], name)
        own = {key: settings.pop(key) for key in [*settings] if key not in _OF_RERANK}
        settings["reranker"] = {"name": str(kind), **own}
    if not types[name]:
        return name
    return f"{name}.{_known('type', settings.pop('type', None), types[name], name)}"


def _known(key: str, given: object, known: Sequence[str], of: str) -> str:
    if given is None:
        missing = f"{of}: the setting" if of else "the setting"
        raise ConfigError(f"{missing} '{key}' is missing. Known: {', '.join(known)}")
    if given not in known:
        of = f" of {of}" if of else ""
        raise ConfigError(f"unknown {key} '{given}'{of}.{listed_names(given, known)}")
    return str(given)


def _makers(name: str, resources: Resources) -> Makers:
    def resource(value: object, setting: str, kind: type) -> Any:
        if value is not None:
            place = "it stands at the top of the file"
            raise ConfigError(f"{name}: '{setting}' is not a setting of an operator: {place}")
        held = getattr(resources, setting)
        if not isinstance(held, kind):
            what, _, method = _GIVEN[kind].partition(" with ")
            asks = f"asks where the chunks came from, and nothing here has the method {method}"
            raise ConfigError(f"{name} {asks if method else f'needs {what}, and none was given'}")
        return held

    made: dict[Any, Any] = {
        kind: partial(resource, setting=setting, kind=kind)
        for setting, kinds in _SHARED.items()
        for kind in kinds
    }
    rerankers = partial(build_reranker, chat=resources.chat, folder=resources.folder)
    return {**made, **counter_makers(name, resources.folder), Reranker: rerankers}


def counter_makers(where: str, folder: Path) -> Makers:
    def counter(value: object) -> TokenCounter:
        if not isinstance(value, str):
            raise ConfigError(f"{where}: counter must be a text, not {value!r}")
        return token_counter(value, folder)

    return {TokenCounter: counter}


_DASH = "operators are a list: put '- ' before each"
_OF_STAGE = ("operators", "on_error", "score_field", "now")
_SHARED: Mapping[str, tuple[type, ...]] = {
    "service": (ChunkSearch, ChunkNeighbours),
    "chat": (ChatModel,),
}
"""What a file may name for all of its operators, and what that must be."""


class Variant(Record):
    """One way to do post-retrieval, among several that are compared."""

    name: str
    stage: PostRetrieval


def load_post_retrieval(path: Path, resources: Resources | None = None) -> PostRetrieval:
    reading = SettingsFile(file=read_yaml(path))
    if "action" in reading.mapping(()):
        reading.wrong((), f"{_DASH}, below the key 'operators'")
        reading.finish()
    top = reading.mapping((), (*_OF_STAGE, *_SHARED))
    stage = _stage(reading, (), top, _resources(reading, top, resources))
    reading.finish()
    return stage


def load_variants(path: Path, resources: Resources | None = None) -> tuple[Variant, ...]:
    """Reads several stages from a YAML file: a list ``variants``, each with a ``name``."""
    reading = SettingsFile(file=read_yaml(path))
    top = reading.mapping((), ("variants", *_SHARED))
    resources = _resources(reading, top, resources)
    variants: dict[str, Variant] = {}
    for position, _ in enumerate(reading.items(("variants",))):
        place = ("variants", position)
        entry = reading.mapping(place, ("name", *_OF_STAGE))
        name = entry.get("name")
        if not isinstance(name, str) or not name.strip():
            reading.wrong((*place, "name"), "each variant needs a name, a text")
        elif name in variants:
            reading.wrong((*place, "name"), f"two variants have the name '{name}'")
        stage = _stage(reading, place, entry, resources)
        variants[str(name)] = Variant(name=str(name), stage=stage)
    if not variants and not reading.problems:
        reading.wrong(("variants",), "there is no variant")
    reading.finish()
    return tuple(variants.values())


def read_stage(reading: SettingsFile, place: Place, resources: Resources) -> PostRetrieval:
    """Reads a stage out of a file that holds other things too: a mapping, or the operators."""
    if isinstance(reading.at(place), list) or "action" in reading.mapping(place):
        return PostRetrieval(operators=_operators(reading, place, resources))
    return _stage(reading, place, reading.mapping(place, _OF_STAGE), resources)


def _stage(
    reading: SettingsFile, place: Place, entry: Mapping[str, Any], resources: Resources
) -> PostRetrieval:
    """The stage that a mapping describes; with what is right in it when not all is."""
    operators = _operators(reading, (*place, "operators"), resources)
    given = {key: one for key, one in entry.items() if key in _OF_STAGE and key != "operators"}

    def time(value: object) -> datetime:
        if (found := parse_time(value)) is None:
            raise ConfigError(f"now must be a date, not {shown(value)}")
        return found

    def make() -> PostRetrieval:
        made = from_settings(PostRetrieval, given, where="stage", made={datetime: time})
        return cast("PostRetrieval", replace(made, operators=operators))

    return reading.built(place, given, make) or PostRetrieval(operators=operators)


def _operators(reading: SettingsFile, place: Place, resources: Resources) -> tuple[Operator, ...]:
    given = reading.at(place)
    if isinstance(given, Mapping) and "action" in given:
        reading.wrong(place, f"{_DASH}: '- {{action: {given['action']}, ...}}'")
        return ()
    made = [
        reading.built((*place, position), given, partial(build_operator, given, resources))
        for position, given in enumerate(reading.items(place))
    ]
    return tuple(one for one in made if one is not None)


def _resources(reading: SettingsFile, top: Mapping[str, Any], given: Resources | None) -> Resources:
    folder = Path(reading.file.path).resolve().parent
    found = {
        key: reading.built((key,), top[key], partial(_loaded, top[key], kinds, folder))
        for key, kinds in _SHARED.items()
        if top.get(key) is not None
    }
    named: dict[str, Any] = {key: value for key, value in found.items() if value is not None}
    return replace(given or Resources(), folder=folder, **named)


def _loaded(spec: object, kinds: tuple[type, ...], folder: Path) -> Any:
    """What a name points at: an instance, or what a class or function without arguments gives."""
    if not isinstance(spec, str):
        raise ConfigError(f"expected package.module:attribute, found {shown(spec)}")
    target = load_target(spec, search_path=folder)
    if isinstance(target, type) or (callable(target) and not isinstance(target, kinds)):
        try:
            target = target()
        except Exception as error:
            raise ConfigError(f"'{spec}' raised {type(error).__name__}: {error}") from error
    if not isinstance(target, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigError(f"'{spec}' is not a {names}: a method or attribute is missing")
    return target
