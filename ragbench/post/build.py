"""Operators from a configuration file or mapping, every mistake with its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from ragbench.core.chat import ChatModel
from ragbench.errors import ConfigError, DataError, MissingExtraError, Problem, RagbenchError
from ragbench.io.settings import from_settings
from ragbench.io.yaml_file import Place, YamlFile, read_yaml, spoken_of
from ragbench.masking import mask_text
from ragbench.plugins import load_target
from ragbench.post.catalogue import OPERATORS, RERANKERS, build_reranker, types_by_action
from ragbench.post.operator import ChunkNeighbours, ChunkSearch, Operator
from ragbench.post.rerank import Reranker
from ragbench.post.stage import PostRetrieval
from ragbench.post.times import parse_time
from ragbench.text.token_counter import TokenCounter, token_counter

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
    """Where the files and modules of users' operators and rerankers are looked for."""


def build_operator(given: object, resources: Resources | None = None) -> Operator:
    """Builds an operator.

    Args:
        given: a mapping with ``action``, for most actions ``type``, and the operator's settings,
            which are the fields of its class. For ``rerank``, ``type`` is the name of a reranker,
            or the ``file.py:Class`` of one, and stands beside its settings; or ``reranker`` holds
            what `ragbench.post.catalogue.build_reranker` takes. An ``action`` such as
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
        raise ConfigError(f"'{name}' is not an operator: it has no name or no apply()")
    return built


def _own(spec: str, settings: dict[str, Any], resources: Resources) -> Operator:
    target = load_target(spec, search_path=resources.folder)
    if not callable(target):
        raise ConfigError(f"unknown action '{spec}': it is not a class")
    made = _Makers(name=spec, resources=resources).by_type()
    try:
        built = from_settings(target, settings, where=spec, made=made)
    except RagbenchError:
        raise
    except Exception as error:
        raised = mask_text(f"{type(error).__name__}: {error}")
        raise ConfigError(f"unknown action '{spec}': it raised {raised}") from error
    if not isinstance(built, Operator):
        raise ConfigError(
            f"unknown action '{spec}': it is not an operator: it lacks a name or apply()"
        )
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
    if ":" not in str(settings["type"]) and settings["type"] not in RERANKERS.targets():
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
        return build_reranker(value, chat=self.resources.chat, folder=self.resources.folder)

    def _refuse(self, value: object, setting: str, what: str) -> None:
        if value is not None:
            raise ConfigError(f"{self.name}: '{setting}' is not a setting: it is {what}")

    def _lacks_service(self, method: str) -> str:
        return (
            f"{self.name} asks where the chunks came from, and nothing here has the method {method}"
        )


_OF_STAGE = ("operators", "on_error", "score_field", "now")
_SHARED = ("chat", "service")


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One way to do post-retrieval, among several that are compared."""

    name: str
    stage: PostRetrieval


def load_post_retrieval(path: Path, resources: Resources | None = None) -> PostRetrieval:
    """Reads a stage from a YAML file."""
    reading = _Reading(file=read_yaml(path))
    top = reading.mapping((), (*_OF_STAGE, *_SHARED))
    resources = reading.resources(top, resources or Resources())
    stage = reading.stage((), top, resources)
    reading.finish()
    return stage


def read_stage(
    file: YamlFile, place: Place, resources: Resources
) -> tuple[PostRetrieval, list[Problem]]:
    """Reads a stage out of a file that holds other things too."""
    reading = _Reading(file=file)
    if isinstance(file.at(place), list):
        return reading.listed(place, resources), reading.problems
    entry = reading.mapping(place, _OF_STAGE)
    return reading.stage(place, entry, resources), reading.problems


def load_variants(path: Path, resources: Resources | None = None) -> tuple[Variant, ...]:
    """Reads several stages from a YAML file: a list ``variants``, each with a ``name``."""
    reading = _Reading(file=read_yaml(path))
    top = reading.mapping((), ("variants", *_SHARED))
    resources = reading.resources(top, resources or Resources())
    variants: list[Variant] = []
    names: set[str] = set()
    for position, _ in enumerate(reading.items(("variants",), top)):
        place = ("variants", position)
        entry = reading.mapping(place, ("name", *_OF_STAGE))
        name = entry.get("name")
        if not isinstance(name, str) or not name.strip():
            reading.wrong((*place, "name"), "each variant needs a name, a text")
        elif name in names:
            reading.wrong((*place, "name"), f"two variants have the name '{name}'")
        else:
            names.add(name)
        stage = reading.stage(place, entry, resources)
        variants.append(Variant(name=str(name), stage=stage))
    if not variants and not reading.problems:
        reading.wrong(("variants",), "there is no variant")
    reading.finish()
    return tuple(variants)


@dataclass(kw_only=True, slots=True)
class _Reading:
    """One file, and what was found wrong with it so far."""

    file: YamlFile
    problems: list[Problem] = field(default_factory=list[Problem])

    def wrong(self, place: Place, message: str) -> None:
        self.problems.extend(self.file.problem(place, line) for line in message.splitlines())

    def finish(self) -> None:
        """Refuses the file when anything was wrong."""
        if self.problems:
            raise DataError(sorted(self.problems, key=lambda problem: problem.line or 0))

    def mapping(self, place: Place, known: tuple[str, ...]) -> dict[str, Any]:
        """The mapping at a place, without keys that are not known."""
        value = self.file.at(place)
        if not isinstance(value, Mapping):
            self.wrong(place, f"expected a mapping with {', '.join(known)}, not {_shown(value)}")
            return {}
        found: dict[str, Any] = {}
        for key, item in cast("Mapping[Any, Any]", value).items():
            if key in known:
                found[key] = item
            else:
                self.wrong((*place, str(key)), f"unknown key. Known: {', '.join(known)}")
        return found

    def items(self, place: Place, around: Mapping[str, Any]) -> list[Any]:
        """The list at a place, given the mapping that it stands in."""
        key = str(place[-1])
        value = around.get(key)
        if isinstance(value, list):
            return cast("list[Any]", value)
        if key not in around:
            self.wrong(place[:-1], f"the key '{key}' is missing")
        else:
            self.wrong(place, f"expected a list, not {_shown(value)}")
        return []

    def stage(self, place: Place, entry: Mapping[str, Any], resources: Resources) -> PostRetrieval:
        """The stage that a mapping describes; with what is right in it when not all is."""
        listed = (*place, "operators")
        operators = self.operators(listed, self.items(listed, entry), resources)
        score_field = entry.get("score_field")
        if score_field is not None and not isinstance(score_field, str):
            self.wrong((*place, "score_field"), f"expected a text, not {_shown(score_field)}")
            score_field = None
        now = None if entry.get("now") is None else parse_time(entry["now"])
        if entry.get("now") is not None and now is None:
            self.wrong((*place, "now"), f"expected a date, not {_shown(entry['now'])}")
        stage = PostRetrieval(operators=operators, score_field=score_field, now=now)
        try:
            return replace(stage, on_error=entry.get("on_error", "keep"))
        except ConfigError as error:
            self.wrong((*place, "on_error"), str(error))
            return stage

    def listed(self, place: Place, resources: Resources) -> PostRetrieval:
        """The stage that a list of operators makes."""
        return PostRetrieval(operators=self.operators(place, self.file.at(place), resources))

    def operators(
        self, place: Place, items: Sequence[object], resources: Resources
    ) -> tuple[Operator, ...]:
        """The operators of a list, but for those that are wrong."""
        operators: list[Operator] = []
        for position, given in enumerate(items):
            try:
                operators.append(build_operator(given, resources))
            except (ConfigError, MissingExtraError) as error:
                at = (*place, position)
                self.problems.extend(spoken_of(self.file, at, given, str(error)))
        return tuple(operators)

    def resources(self, top: Mapping[str, Any], given: Resources) -> Resources:
        """The resources that the file names, over those that were given."""
        for key, kinds in (("service", (ChunkSearch, ChunkNeighbours)), ("chat", (ChatModel,))):
            if top.get(key) is None:
                continue
            try:
                given = replace(given, **{key: _loaded(top[key], kinds)})
            except ConfigError as error:
                self.wrong((key,), str(error))
        return given


def _loaded(spec: object, kinds: tuple[type, ...]) -> Any:
    """What a name points at: an instance, or what a class or function without arguments gives."""
    if not isinstance(spec, str):
        raise ConfigError(f"expected package.module:attribute, not {_shown(spec)}")
    target = load_target(spec)
    if isinstance(target, type) or (callable(target) and not isinstance(target, kinds)):
        try:
            target = target()
        except Exception as error:
            raise ConfigError(f"'{spec}' raised {type(error).__name__}: {error}") from error
    if not isinstance(target, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigError(f"'{spec}' is not a {names}: it lacks what one has")
    return target


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text[:60]} ..." if len(text) > 60 else text
