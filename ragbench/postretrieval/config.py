"""Post-retrieval from a configuration file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ragbench.data.yaml_file import Place, YamlFile, read_yaml
from ragbench.errors import ConfigError, DataError, MissingExtraError, Problem
from ragbench.interface.load import load_target
from ragbench.llm.chat import ChatModel
from ragbench.postretrieval.build import Resources, build_operator
from ragbench.postretrieval.contract import Operator
from ragbench.postretrieval.operator import PostRetrieval
from ragbench.postretrieval.service import ChunkNeighbours, ChunkSearch
from ragbench.settings.spoken_of import spoken_of

__all__ = ["Variant", "load_post_retrieval", "load_variants", "read_stage"]

_OF_STAGE = ("operators", "on_error", "score_field")
_SHARED = ("chat", "service")


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One way to do post-retrieval, among several that are compared."""

    name: str
    stage: PostRetrieval


def load_post_retrieval(path: Path, resources: Resources | None = None) -> PostRetrieval:
    """Reads a stage from a YAML file.

    Args:
        path: the file; see docs/post_retrieval.md for what stands in it.
        resources: for operators that need a service or a language model; what the file names
            under ``service`` and ``chat`` (as ``package.module:attribute``) takes their place.

    Raises:
        DataError: the file has problems; holds all of them, with their lines.
    """
    reading = _Reading(file=read_yaml(path))
    top = reading.mapping((), (*_OF_STAGE, *_SHARED))
    resources = reading.resources(top, resources or Resources())
    stage = reading.stage((), top, resources)
    reading.finish()
    return stage


def read_stage(
    file: YamlFile, place: Place, resources: Resources
) -> tuple[PostRetrieval, list[Problem]]:
    """Reads a stage out of a file that holds other things too.

    Args:
        file: the file.
        place: where in it the stage stands: a mapping with ``operators``, or their list alone.
        resources: see `load_post_retrieval`.

    Returns:
        The stage, with what is right in it, and everything that is wrong with it.
    """
    reading = _Reading(file=file)
    if isinstance(file.at(place), list):
        return reading.listed(place, resources), reading.problems
    entry = reading.mapping(place, _OF_STAGE)
    return reading.stage(place, entry, resources), reading.problems


def load_variants(path: Path, resources: Resources | None = None) -> tuple[Variant, ...]:
    """Reads several stages from a YAML file: a list ``variants``, each with a ``name``.

    Args:
        path: the file.
        resources: see `load_post_retrieval`.

    Raises:
        DataError: the file has problems; holds all of them, with their lines.
    """
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
        stage = PostRetrieval(operators=operators, score_field=score_field)
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
        raise ConfigError(f"'{spec}' is no {names}: it lacks what one has")
    return target


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text[:60]} ..." if len(text) > 60 else text
