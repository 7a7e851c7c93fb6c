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
_RESOURCES: Mapping[Any, str] = {
    ChatModel: "a language model",
    ChunkSearch: "a service with search(query, top_k)",
    ChunkNeighbours: "a service with neighbours(chunk_id, top_k)",
}
"""Fields that no file can hold, and what is needed for them."""


def described(registry: Registry, name: str) -> dict[str, Any]:
    """An operator or reranker for readers: its summary, what it needs, the schema of its settings.

    For ``ragbench show operators`` and for programs that offer operators to choose from.
    """
    target: Any = registry.load(name)
    hints: Mapping[str, Any] = {}
    # A function has no typed fields: only its attribute `NEEDS` can name what it needs.
    if isinstance(target, type):
        hints = typing.get_type_hints(target)
    needs: list[str] = list(getattr(target, "NEEDS", ()))
    for kind in hints.values():
        if kind in _RESOURCES:
            needs.append(_RESOURCES[kind])
    return {
        "name": name,
        "summary": summary_of(target),
        "needs": needs,
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


_RERANK_SETTINGS = ("top_k", "timeout", "on_error")
"""Settings of the operator itself; the others are the reranker's."""


class Resources(Record):
    """The service, language model and folder of operators, which no configuration file can hold."""

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
    # Keys of YAML may be numbers: as texts they are refused as unknown settings.
    settings: dict[str, Any] = {}
    for key, value in cast("Mapping[Any, Any]", given).items():
        settings[str(key)] = value
    if resources is None:
        resources = Resources()
    action = settings.pop("action", None)
    operator: object
    if is_own(action):
        name = str(action)
        makers = _makers_of_settings(name, resources)
        operator = built_own(name, settings, folder=resources.folder, made=makers)
    else:
        name = _take_name(action, settings)
        makers = _makers_of_settings(name, resources)
        target = OPERATORS.load(name)
        operator = from_settings(target, settings, where=name, made=makers, folder=resources.folder)
    if not isinstance(operator, Operator):
        raise ConfigError(f"'{name}' is not an operator: it lacks a name or apply()")
    return operator


def _take_name(action: object, settings: dict[str, Any]) -> str:
    """The operator's name of an entry in a file: its action, with its type where it has several.

    Takes the type out of the settings. The settings of a reranker, which may be beside those of the
    operator, move below the key ``reranker``.

    Args:
        settings: the entry's other keys; changed in place.
    """
    types_of_action: dict[str, list[str]] = {}
    for operator in OPERATORS.targets():
        prefix, dot, type_name = operator.partition(".")
        types = types_of_action.setdefault(prefix, [])
        if dot:
            types.append(type_name)
    name = _checked_name("action", action, list(types_of_action), "")
    if name == "rerank" and "reranker" not in settings:
        reranker = settings.pop("type", None)
        # A user's class is not in the registry, and is loaded with its settings.
        if not is_own(reranker):
            reranker = _checked_name("type", reranker, list(RERANKERS.targets()), name)
        reranker_settings: dict[str, Any] = {"name": str(reranker)}
        # A copy of the keys: settings are taken out meanwhile.
        for key in list(settings):
            if key not in _RERANK_SETTINGS:
                reranker_settings[key] = settings.pop(key)
        settings["reranker"] = reranker_settings
    types = types_of_action[name]
    # An action without types, such as ``rerank``, whose types are rerankers and not operators.
    if not types:
        return name
    type_name = _checked_name("type", settings.pop("type", None), types, name)
    return f"{name}.{type_name}"


def _checked_name(key: str, name: object, known_names: Sequence[str], action: str) -> str:
    """The action or type that a file names for an operator, if there is such a one.

    Args:
        key: ``"action"`` or ``"type"``, under which the file has the name.
        action: of the operator whose type is named; empty for the action itself.

    Raises:
        ConfigError: it is missing, or is none of those that are known.
    """
    before = ""
    behind = ""
    if action:
        before = f"{action}: "
        behind = f" of {action}"
    if name is None:
        listed = ", ".join(known_names)
        raise ConfigError(f"{before}the setting '{key}' is missing. Known: {listed}")
    if name not in known_names:
        # With the nearest of the names, where one of them may be meant.
        listed = listed_names(name, known_names)
        raise ConfigError(f"unknown {key} '{name}'{behind}.{listed}")
    return str(name)


def _makers_of_settings(name: str, resources: Resources) -> Makers:
    """Functions that make those settings of an operator that a file cannot hold as they are.

    By the type of the setting: a counter of its name, a reranker of its settings; services and
    models come from the resources.

    Args:
        name: of the operator, for messages.
    """
    makers: dict[Any, Any] = {}
    # Two protocols may be asked of one service: some operators want only one of its methods.
    for setting, kinds in _SHARED.items():
        for kind in kinds:
            makers[kind] = partial(_resource_for_setting, name, resources, setting, kind)
    makers.update(counter_makers(name, resources.folder))
    makers[Reranker] = partial(build_reranker, chat=resources.chat, folder=resources.folder)
    return makers


def _resource_for_setting(
    name: str, resources: Resources, setting: str, kind: type, value: object
) -> Any:
    """The service or language model that an operator needs; its own settings hold none.

    Args:
        name: of the operator, for messages.
        setting: ``"service"`` or ``"chat"``, the field of the operator.
        kind: the protocol that it must have.
        value: what the file has in the setting; anything is a mistake.

    Raises:
        ConfigError: the setting is in the file, or there is no such resource.
    """
    if value is not None:
        raise ConfigError(
            f"{name}: '{setting}' is not a setting of an operator: write it at the top of the file"
        )
    resource = getattr(resources, setting)
    if not isinstance(resource, kind):
        label, _, method = _RESOURCES[kind].partition(" with ")
        if method:  # there may be a service that cannot do what this operator asks of it
            raise ConfigError(
                f"{name} asks where the chunks came from, and nothing here has the method {method}"
            )
        raise ConfigError(f"{name} needs {label}, and none was given")
    return resource


def counter_makers(where: str, folder: Path) -> Makers:
    """A function, by its type, that makes the counter of tokens which a file names.

    Settings are read with such functions where a file holds only a name.

    Args:
        where: the name of what counts, for messages.
        folder: what a path in the name is relative to.
    """
    return {TokenCounter: partial(_counter_named, where, folder)}


def _counter_named(where: str, folder: Path, value: object) -> TokenCounter:
    """The counter of tokens that a file names, such as ``tiktoken:cl100k_base``.

    Args:
        where: the name of what counts, for messages.
        folder: what a path in the name is relative to.
        value: the name, which a file may hold in another type than a text.
    """
    if not isinstance(value, str):
        raise ConfigError(f"{where}: counter must be a text, not {value!r}")
    return token_counter(value, folder)


# --- stages from files

_DASH = "operators are a list: put '- ' before each"
"""What is said of a single operator where a list belongs."""
_STAGE_SETTINGS = ("operators", "on_error", "score_field", "now")
"""Keys of a stage in a file."""
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
    """Reads a stage from a YAML file.

    All mistakes of the file are reported together, each with its line.

    Args:
        resources: the service and the language model, where the file names none of its own.
    """
    reading = SettingsFile(file=read_yaml(path))
    if "action" in reading.mapping(()):  # a single operator where the stage belongs
        reading.wrong((), f"{_DASH}, below the key 'operators'")
        reading.finish()
    top = reading.mapping((), (*_STAGE_SETTINGS, *_SHARED))
    resources = _resources_of_file(reading, top, resources)
    stage = _stage_of_entry(reading, (), top, resources)
    reading.finish()
    return stage


def load_variants(path: Path, resources: Resources | None = None) -> tuple[Variant, ...]:
    """Reads several stages from a YAML file: a list ``variants``, each with a ``name``.

    All mistakes of the file are reported together: the reading notes them and goes on.
    ``ragbench ablate`` compares them over one stored run.
    """
    reading = SettingsFile(file=read_yaml(path))
    top = reading.mapping((), ("variants", *_SHARED))
    resources = _resources_of_file(reading, top, resources)
    variants: dict[str, Variant] = {}
    for position in range(len(reading.items(("variants",)))):
        place = ("variants", position)
        entry = reading.mapping(place, ("name", *_STAGE_SETTINGS))
        name = entry.get("name")
        # Noted only: the variant is read all the same, as its operators may be wrong, too.
        if not isinstance(name, str) or not name.strip():
            reading.wrong((*place, "name"), "each variant needs a name, a text")
        elif name in variants:
            reading.wrong((*place, "name"), f"two variants have the name '{name}'")
        stage = _stage_of_entry(reading, place, entry, resources)
        variants[str(name)] = Variant(name=str(name), stage=stage)
    if not variants and not reading.problems:
        reading.wrong(("variants",), "there is no variant")
    reading.finish()
    return tuple(variants.values())


def read_stage(reading: SettingsFile, place: Place, resources: Resources) -> PostRetrieval:
    """Reads a stage of post-retrieval out of a file that holds other things, too.

    The stage is a mapping, or only the list of its operators.
    """
    is_list = isinstance(reading.at(place), list)
    # A single operator, which is refused as such with what to write instead.
    if is_list or "action" in reading.mapping(place):
        operators = _operators_of_list(reading, place, resources)
        return PostRetrieval(operators=operators)
    entry = reading.mapping(place, _STAGE_SETTINGS)
    return _stage_of_entry(reading, place, entry, resources)


def _stage_of_entry(
    reading: SettingsFile, place: Place, entry: Mapping[str, Any], resources: Resources
) -> PostRetrieval:
    """The stage that a mapping in a file describes; with what is right in it when not all is.

    The reading notes each mistake and goes on, so that users see all of them at once.

    Args:
        place: of the mapping in the file.
        entry: the mapping.
    """
    operators = _operators_of_list(reading, (*place, "operators"), resources)
    settings: dict[str, Any] = {}
    for key, value in entry.items():
        if key in _STAGE_SETTINGS and key != "operators":
            settings[key] = value
    make = partial(_stage_of_settings, settings, operators)
    stage = reading.built(place, settings, make)
    # The stage's settings are wrong, which is noted: later checks still look at its operators.
    if stage is None:
        return PostRetrieval(operators=operators)
    return stage


def _stage_of_settings(
    settings: Mapping[str, Any], operators: tuple[Operator, ...]
) -> PostRetrieval:
    """The stage of some operators with the settings that a file has beside them.

    Raises:
        ConfigError: a setting is wrong; the reading of the file notes it and goes on.
    """
    made = {datetime: _checked_time}
    stage = from_settings(PostRetrieval, settings, where="stage", made=made)
    return cast("PostRetrieval", replace(stage, operators=operators))


def _checked_time(value: object) -> datetime:
    """The time of a stage's setting ``now``, in any form that times in metadata may have.

    Ages of chunks are counted from this time.
    """
    time = parse_time(value)
    if time is None:
        raise ConfigError(f"now must be a date, not {shown(value)}")
    return time


def _operators_of_list(
    reading: SettingsFile, place: Place, resources: Resources
) -> tuple[Operator, ...]:
    """The operators of a list in a file, without those that cannot be built.

    `reading` notes why an operator cannot be built, and goes on: users see all mistakes at once.

    Args:
        place: of the list in the file.
    """
    entries = reading.at(place)
    # One operator without its list, a frequent slip, gets a message of its own.
    if isinstance(entries, Mapping) and "action" in entries:
        reading.wrong(place, f"{_DASH}: '- {{action: {entries['action']}, ...}}'")
        return ()
    operators: list[Operator] = []
    for position, entry in enumerate(reading.items(place)):
        make = partial(build_operator, entry, resources)
        operator = reading.built((*place, position), entry, make)
        if operator is not None:
            operators.append(operator)
    return tuple(operators)


def _resources_of_file(
    reading: SettingsFile, top: Mapping[str, Any], resources: Resources | None
) -> Resources:
    """The service and language model for a file's operators: its own, else those of the caller.

    Args:
        top: the keys at the top of the file.
        resources: of the caller.
    """
    folder = Path(reading.file.path).resolve().parent
    own_resources: dict[str, Any] = {}
    for key, kinds in _SHARED.items():
        spec = top.get(key)
        if spec is None:
            continue
        make = partial(_loaded_resource, spec, kinds, folder)
        # None where loading failed: that is noted, and the caller's own stands in.
        resource = reading.built((key,), spec, make)
        if resource is not None:
            own_resources[key] = resource
    shared = resources or Resources()
    return replace(shared, folder=folder, **own_resources)


def _loaded_resource(spec: object, kinds: tuple[type, ...], folder: Path) -> Any:
    """The service or language model that a file names by ``module:attribute``.

    Of a class, or of a function without arguments, it is what calling it gives.

    Args:
        kinds: the protocols of which it must have one.
        folder: what a file in the name is relative to.
    """
    if not isinstance(spec, str):
        raise ConfigError(f"expected package.module:attribute, found {shown(spec)}")
    target = load_target(spec, search_path=folder)
    # A class has the methods of its instances, so `isinstance` takes it for an instance of the
    # protocols: it is called all the same, see the next line.
    is_factory = callable(target) and not isinstance(target, kinds)
    if isinstance(target, type) or is_factory:
        try:
            # A user's code may raise anything: each is a mistake at a line of the file.
            target = target()
        except Exception as error:
            raise ConfigError(f"'{spec}' raised {type(error).__name__}: {error}") from error
    if not isinstance(target, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigError(f"'{spec}' is not a {names}: a method or attribute is missing")
    return target
