"""The sections of a pipeline file, read one by one: stores, models, stages, settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, cast

from ragbench.core.chat import ChatModel, Message, Reply
from ragbench.embedders.embedder import EMBEDDERS, NO_EMBEDDER, Embedder, open_embedder
from ragbench.embedders.own import embedder_of_target
from ragbench.errors import ConfigError, DataError, MissingExtraError, Problem
from ragbench.io.settings import Makers, from_settings
from ragbench.io.yaml_file import Place, YamlFile, spoken_of
from ragbench.llm.budget import Budget
from ragbench.llm.session import Chat, chat_of
from ragbench.llm.settings import resolve
from ragbench.pipeline.chunking import CHUNKERS, Chunker, ChunkSize, make_chunker
from ragbench.pipeline.custom import built, is_own
from ragbench.pipeline.documents import Indexing, IndexingSettings
from ragbench.plugins import Registry
from ragbench.stores.mapping import FieldMapping
from ragbench.stores.registry import check_store_address
from ragbench.text.token_counter import TokenCounter, token_counter

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """Which implementation of a stage a file chooses, with what settings."""

    name: str
    """The registered name, or that of a user's class."""
    settings: Mapping[str, Any]
    """Without the name."""
    place: Place
    own: bool
    """Whether it is a user's class."""
    target: Any = None
    """What is registered; None for a user's class."""


@dataclass(kw_only=True, slots=True)
class PipelineFile:
    """Reads a file; what is wrong is noted, never raised, until `finish`."""

    file: YamlFile
    folder: Path
    """Where relative paths, files and modules are looked for."""
    problems: list[Problem] = field(default_factory=list[Problem])

    def wrong(self, place: Place, message: str) -> None:
        """Notes a problem, or one for each line of a message."""
        self.problems.extend(self.file.problem(place, line) for line in message.splitlines())

    def finish(self) -> None:
        """Refuses the file when anything was wrong."""
        if self.problems:
            found = dict.fromkeys(self.problems)  # a model that is wrong is told once
            raise DataError(sorted(found, key=lambda problem: problem.line or 0))

    def at(self, place: Place) -> Any:
        """The value at a place; None when there is nothing."""
        value = self.file.value
        for part in place:
            if isinstance(value, Mapping):
                value = cast("Mapping[Any, Any]", value).get(part)
            elif isinstance(value, list) and isinstance(part, int):
                value = cast("list[Any]", value)[part]
            else:
                return None
        return value

    def mapping(self, place: Place) -> dict[str, Any]:
        """The mapping at a place; empty when there is nothing, or something else."""
        value = self.at(place)
        if isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value).items()
            return {str(key): item for key, item in entries}
        if value is not None:
            self.wrong(place, f"expected 'name: value' entries, found {shown(value)}")
        return {}

    def items(self, place: Place, value: object) -> list[Any]:
        """The list at a place; empty when there is nothing, or something else."""
        if value is not None and not isinstance(value, list):
            self.wrong(place, f"expected a list, found {shown(value)}")
            return []
        return cast("list[Any]", value or [])

    def chosen(
        self, place: Place, registry: Registry, what: str, default: str | None = None
    ) -> Chosen | None:
        """The implementation that a name, or a mapping with a ``type``, chooses."""
        value = self.at(place)
        settings = {} if isinstance(value, str) else self.mapping(place)
        name = value if isinstance(value, str) else settings.pop("type", default)
        at = (*place, "type") if isinstance(value, Mapping) and "type" in value else place
        known = list(registry.targets())
        if value is not None and not isinstance(value, (str, Mapping)):
            return None
        if name is None:
            self.wrong(place, f"{what} needs a 'type'. Known: {', '.join(known)}")
            return None
        if is_own(name):
            return Chosen(name=str(name), settings=settings, place=place, own=True)
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            meant = f" Did you mean '{close[0]}'?" if close else ""
            self.wrong(
                at,
                f"unknown type {shown(name)} of {what}.{meant} Known: {', '.join(known)}, or a "
                "class of your own such as my_module:Class or file.py:Class",
            )
            return None
        target = registry.load(str(name))
        return Chosen(name=str(name), settings=settings, place=place, own=False, target=target)

    def from_settings(
        self,
        target: Any,
        settings: Mapping[str, Any],
        place: Place,
        where: str,
        made: Makers | None = None,
    ) -> Any:
        """`ragbench.io.settings`; None, and problems, where it raises."""
        try:
            return from_settings(target, settings, where=where, made=made)
        except (ConfigError, MissingExtraError) as error:
            self.problems.extend(spoken_of(self.file, place, settings, str(error)))
            return None

    def trying(self, chosen: Chosen, make: Callable[[], ValueT]) -> ValueT | None:
        """What a user's class gives; None, and a problem, where that raises."""
        try:
            return make()
        except (ConfigError, MissingExtraError) as error:
            self.wrong(chosen.place, str(error))
            return None


def shown(value: object) -> str:
    """A value as a message names it, not too long."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return f"{text[:60]} ..." if len(text) > 60 else text


_HOW = (
    "name one in a section 'llm' of this file, in that of ragbench.yaml, or in RAGBENCH_LLM_MODEL"
)


@dataclass(kw_only=True, slots=True)
class PipelineModels:
    """Makes the models that stages need, each once; none is connected."""

    reading: PipelineFile
    environ: Mapping[str, str]
    defaults: Mapping[str, object]
    """Settings that hold where the file says nothing."""
    budget: Budget | None = None
    """Caps what all of them cost together."""
    _known: dict[Place, Chat | None] = field(default_factory=dict[Place, Chat | None])

    def check(self) -> None:
        """Notes what is wrong with the section ``llm``, also when no stage needs it."""
        if self.reading.at(("llm",)) is not None:
            self.shared()

    def shared(self) -> Chat | None:
        return self._model(("llm",))

    def for_stage(self, chosen: Chosen) -> Makers:
        """What makes a stage's model: the file's, with the stage's own ``llm`` over it.

        Takes ``llm`` out of the stage's settings.
        """
        own = "llm" in chosen.settings
        settings: Any = chosen.settings
        settings.pop("llm", None)

        def make(value: object) -> ChatModel:
            model = self._model((*chosen.place, "llm")) if own else self.shared()
            if model is not None:
                return model.booked_under(str(chosen.place[0]))
            if not self._is_reported(chosen, own=own):
                self.reading.wrong(chosen.place, f"{chosen.name} needs a language model: {_HOW}")
            return _NoModel()

        return {ChatModel: make}

    def opened(self) -> tuple[Chat, ...]:
        return tuple(model for model in self._known.values() if model is not None)

    def _is_reported(self, chosen: Chosen, *, own: bool) -> bool:
        """Whether what is wrong with a stage's model is noted already."""
        place = (*chosen.place, "llm") if own else ("llm",)
        return self.reading.at(place) is not None

    def _model(self, place: Place) -> Chat | None:
        if place not in self._known:
            self._known[place] = self._made(place)
        return self._known[place]

    def _made(self, place: Place) -> Chat | None:
        shared = self.reading.mapping(("llm",))
        given = self.reading.mapping(place)
        section = {**self.defaults, **shared, **given}
        named = "model" in section or bool(self.environ.get("RAGBENCH_LLM_MODEL"))
        if not named and not given:
            return None  # whoever needs one says so
        try:
            settings = resolve({}, self.environ, section=section)
            return chat_of(settings, budget=self.budget)
        except ConfigError as error:
            message = str(error).removeprefix(": llm.")
            self.reading.problems.extend(spoken_of(self.reading.file, place, given, message))
            return None


class _NoModel:
    """Stands in for a model that is not there, so that the other settings are looked at too."""

    name = "none"
    temperature: float | None = None

    def complete(self, messages: Sequence[Message]) -> str:
        """Is never called: a file with problems is never opened."""
        raise ConfigError(_HOW)

    def ask(self, messages: Sequence[Message], *, repeat: int = 0) -> Reply[str]:
        raise ConfigError(_HOW)


_PLACE = ("indexing",)


def read_indexing(reading: PipelineFile) -> Indexing:
    """The stage, with what is right in it; what is wrong is noted."""
    given = reading.mapping(_PLACE)
    mapping = _mapping(reading, given.pop("map", None))
    settings: IndexingSettings | None = reading.from_settings(
        IndexingSettings, given, _PLACE, "indexing"
    )
    if settings is None:
        return Indexing()
    if settings.corpus is not None and not (reading.folder / settings.corpus).exists():
        place = (*_PLACE, "corpus")
        reading.wrong(place, f"there is no file or folder '{settings.corpus}'")
    if mapping is None:
        _check_store(reading, settings.store)
    name, own = _named(settings.embedder)
    if mapping is None and _is_by_words(reading) and _is_left_open(settings, given):
        name = NO_EMBEDDER
    return Indexing(
        corpus=settings.corpus,
        chunker=_chunker(reading, settings.chunker),
        embedder=_embedder(reading, name, own),
        embedder_name=name,
        embedder_settings=own,
        store=settings.store,
        collection=settings.collection,
        words=settings.words,
        mapping=mapping,
    )


def _is_by_words(reading: PipelineFile) -> bool:
    return "sparse" in (reading.at(("retrieval",)), reading.at(("retrieval", "type")))


def _is_left_open(settings: IndexingSettings, given: Mapping[str, Any]) -> bool:
    """Whether nobody else may want vectors: the file says so, or the store ends with the run."""
    in_memory = settings.store == IndexingSettings().store
    return settings.embedder is None or (in_memory and "embedder" not in given)


def _mapping(reading: PipelineFile, given: object) -> FieldMapping | None:
    """What is where in a collection that ragbench did not fill."""
    place = (*_PLACE, "map")
    if given is None:
        return None
    found: FieldMapping | None = reading.from_settings(
        FieldMapping, reading.mapping(place), place, "map"
    )
    return found


def _check_store(reading: PipelineFile, address: str) -> None:
    try:
        check_store_address(address)
    except ConfigError as error:
        reading.wrong((*_PLACE, "store"), str(error))


def _named(given: str | Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The name of an implementation and its settings; no name when there is none."""
    if given is None or isinstance(given, str):
        return given or "", {}
    settings = {str(key): value for key, value in given.items()}
    return str(settings.pop("name", "")), settings


def _embedder(reading: PipelineFile, name: str, settings: Mapping[str, Any]) -> Embedder | None:
    place = (*_PLACE, "embedder")
    given = reading.at(place)
    if not name:
        return None  # said so: combinations tells whether it is needed
    try:
        kind = name.partition(":")[0]
        if is_own(name) and kind not in EMBEDDERS.targets():
            return embedder_of_target(name, settings, search_path=reading.folder)
        return open_embedder(name, **settings)
    except (ConfigError, MissingExtraError) as error:
        reading.problems.extend(spoken_of(reading.file, place, given, str(error)))
    except TypeError as error:
        reading.wrong(place, f"embedder '{name}': {error}")
    return None


def _chunker(reading: PipelineFile, given: str | Mapping[str, Any] | None) -> Chunker | None:
    if given is None:
        return None
    place = (*_PLACE, "chunker")
    name, settings = _named(given)
    try:
        if is_own(name):
            made = built(name, settings, folder=reading.folder)
            if not hasattr(made, "pieces"):
                raise ConfigError(f"'{name}' is not a chunker: it lacks pieces(document)")
            return cast("Chunker", made)
        CHUNKERS.load(name)
        size = from_settings(ChunkSize, settings, where="chunker", made={TokenCounter: _counter})
        return make_chunker(name, cast("ChunkSize", size))
    except (ConfigError, MissingExtraError) as error:
        reading.problems.extend(spoken_of(reading.file, place, given, str(error)))
        return None


def _counter(value: object) -> TokenCounter:
    if not isinstance(value, str):
        raise ConfigError(f"chunker: counter must be a text, not {value!r}")
    return token_counter(value)
