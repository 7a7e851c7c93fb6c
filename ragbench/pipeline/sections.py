"""The sections of a pipeline file, read one by one: stores, models, stages, settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ragbench.core.chat import ChatModel, Message, Reply
from ragbench.embedders.embedder import EMBEDDERS, NO_EMBEDDER, Embedder, open_embedder
from ragbench.embedders.loaded import embedder_of_target
from ragbench.errors import ConfigError
from ragbench.io.settings import Makers, Place, built_own, from_settings, listed_names
from ragbench.io.yaml_file import SettingsFile, is_own, shown
from ragbench.llm.budget import Budget
from ragbench.llm.session import Chat, chat_of
from ragbench.llm.settings import resolve
from ragbench.pipeline.documents import (
    CHUNKERS,
    Chunker,
    ChunkSize,
    Indexing,
    IndexingSettings,
    make_chunker,
)
from ragbench.plugins import Registry
from ragbench.stores.mapping import FieldMapping
from ragbench.stores.registry import check_store_address
from ragbench.text.token_counter import TokenCounter, token_counter


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
class PipelineFile(SettingsFile):
    """The file of a pipeline."""

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
            self.wrong(
                at,
                f"unknown type {shown(name)} of {what}.{listed_names(name, known)}, or a class of "
                "your own such as my_module:Class or file.py:Class",
            )
            return None
        target = registry.load(str(name))
        return Chosen(name=str(name), settings=settings, place=place, own=False, target=target)

    def made(self, chosen: Chosen, makers: Makers | None = None, target: Any = None) -> Any:
        """The settings of an implementation; None, and problems, where they are wrong."""
        return self.built(
            chosen.place,
            chosen.settings,
            lambda: from_settings(
                target or chosen.target, chosen.settings, where=chosen.name, made=makers
            ),
        )


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
            # What is wrong with a section is noted already.
            if self.reading.at((*chosen.place, "llm") if own else ("llm",)) is None:
                self.reading.wrong(chosen.place, f"{chosen.name} needs a language model: {_HOW}")
            return _NoModel()

        return {ChatModel: make}

    def opened(self) -> tuple[Chat, ...]:
        return tuple(model for model in self._known.values() if model is not None)

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

        def make() -> Chat:
            try:
                settings = resolve({}, self.environ, section=section)
                return chat_of(settings, budget=self.budget)
            except ConfigError as error:
                raise ConfigError(str(error).removeprefix(": llm.")) from error

        return self.reading.built(place, given, make)


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
    named = given.pop("map", None) is not None
    mapping = reading.section((*_PLACE, "map"), FieldMapping) if named else None
    settings: IndexingSettings | None = reading.built(
        _PLACE, given, lambda: from_settings(IndexingSettings, given, where="indexing")
    )
    if settings is None:
        return Indexing()
    settings = replace(settings, map=mapping)
    if settings.corpus is not None and not (reading.folder / settings.corpus).exists():
        place = (*_PLACE, "corpus")
        reading.wrong(place, f"there is no file or folder '{settings.corpus}'")
    name, own = _named(settings.embedder)
    by_words = "sparse" in (reading.at(("retrieval",)), reading.at(("retrieval", "type")))
    in_memory = settings.store == IndexingSettings().store
    # Nobody else may want vectors: the file says so, or the store ends with the run.
    left_open = settings.embedder is None or (in_memory and "embedder" not in given)
    if settings.map is None and by_words and left_open:
        name = NO_EMBEDDER

    def part(key: str, make: Callable[[], Any]) -> Any:
        return reading.built((*_PLACE, key), reading.at((*_PLACE, key)), make)

    if settings.map is None:
        part("store", lambda: check_store_address(settings.store))
    return Indexing(
        settings=settings,
        chunker=part("chunker", lambda: _chunker(reading, settings.chunker)),
        embedder=part("embedder", lambda: _embedder(reading, name, own)),
        embedder_name=name,
        embedder_settings=own,
    )


def _named(given: str | Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The name of an implementation and its settings; no name when there is none."""
    if given is None or isinstance(given, str):
        return given or "", {}
    settings = {str(key): value for key, value in given.items()}
    return str(settings.pop("name", "")), settings


def _embedder(reading: PipelineFile, name: str, settings: Mapping[str, Any]) -> Embedder | None:
    if not name:
        return None  # whether one is needed is checked with the retrieval
    if is_own(name) and name.partition(":")[0] not in EMBEDDERS.targets():
        return embedder_of_target(name, settings, search_path=reading.folder)
    try:
        return open_embedder(name, **settings)
    except TypeError as error:
        raise ConfigError(f"embedder '{name}': {error}") from error


def _chunker(reading: PipelineFile, given: str | Mapping[str, Any] | None) -> Chunker | None:
    if given is None:
        return None
    name, settings = _named(given)
    if is_own(name):
        made = built_own(name, settings, folder=reading.folder)
        if not hasattr(made, "pieces"):
            raise ConfigError(f"'{name}' is not a chunker: it lacks pieces(document)")
        return cast("Chunker", made)
    CHUNKERS.load(name)
    size = from_settings(ChunkSize, settings, where="chunker", made={TokenCounter: _counter})
    return make_chunker(name, cast("ChunkSize", size))


def _counter(value: object) -> TokenCounter:
    if not isinstance(value, str):
        raise ConfigError(f"chunker: counter must be a text, not {value!r}")
    return token_counter(value)
