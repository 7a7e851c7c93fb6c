"""Stage 1 out of a pipeline file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragbench.embedders.base import Embedder
from ragbench.embedders.registry import EMBEDDERS, open_embedder
from ragbench.errors import ConfigError, MissingExtraError
from ragbench.indexing.chunkers.registry import CHUNKERS, make_chunker
from ragbench.indexing.chunkers.size import ChunkSize
from ragbench.indexing.pieces import Chunker
from ragbench.pipeline.indexing import Indexing, IndexingSettings
from ragbench.pipeline.own import built, is_own
from ragbench.pipeline.reading import Reading
from ragbench.settings.from_settings import from_settings
from ragbench.settings.spoken_of import spoken_of
from ragbench.stores.foreign.mapping import FieldMapping
from ragbench.stores.registry import STORES
from ragbench.text.token_counter import TokenCounter, token_counter

__all__ = ["read_indexing"]

_PLACE = ("indexing",)


def read_indexing(reading: Reading) -> Indexing:
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
    _check_store(reading, settings.store)
    name, own = _named(settings.embedder)
    return Indexing(
        corpus=settings.corpus,
        chunker=_chunker(reading, settings.chunker),
        embedder=_embedder(reading, name, own),
        embedder_name=name,
        embedder_settings=own,
        store=settings.store,
        collection=settings.collection,
        mapping=mapping,
    )


def _mapping(reading: Reading, given: object) -> FieldMapping | None:
    """What is where in a collection that ragbench did not fill."""
    place = (*_PLACE, "map")
    if given is None:
        return None
    found: FieldMapping | None = reading.from_settings(
        FieldMapping, reading.mapping(place), place, "map"
    )
    return found


def _check_store(reading: Reading, address: str) -> None:
    engine = address.partition(":")[0].partition("+")[0]
    known = sorted(STORES.targets())
    if ":" not in address or engine not in known:
        addresses = ", ".join(f"{each}:" for each in known)
        told = f"'{engine}' is no store: an address begins with one of {addresses}"
        reading.wrong((*_PLACE, "store"), told)


def _named(given: str | Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The name of an implementation and its settings; no name when there is none."""
    if given is None or isinstance(given, str):
        return given or "", {}
    settings = {str(key): value for key, value in given.items()}
    return str(settings.pop("name", "")), settings


def _embedder(reading: Reading, name: str, settings: Mapping[str, Any]) -> Embedder | None:
    place = (*_PLACE, "embedder")
    given = reading.at(place)
    if given is None and "embedder" in reading.mapping(_PLACE):
        return None  # said so: combinations tells whether it is needed
    try:
        kind = name.partition(":")[0]
        if is_own(name) and kind not in EMBEDDERS.targets():
            made = built(name, settings, folder=reading.folder)
            if not all(hasattr(made, part) for part in ("embed_queries", "embed_passages")):
                raise ConfigError(f"'{name}' is no embedder: it lacks embed_queries(texts)")
            return cast("Embedder", made)
        return open_embedder(name, **settings)
    except (ConfigError, MissingExtraError) as error:
        reading.problems.extend(spoken_of(reading.file, place, given, str(error)))
    except TypeError as error:
        reading.wrong(place, f"embedder '{name}': {error}")
    return None


def _chunker(reading: Reading, given: str | Mapping[str, Any] | None) -> Chunker | None:
    if given is None:
        return None
    place = (*_PLACE, "chunker")
    name, settings = _named(given)
    try:
        if is_own(name):
            made = built(name, settings, folder=reading.folder)
            if not hasattr(made, "pieces"):
                raise ConfigError(f"'{name}' is no chunker: it lacks pieces(document)")
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
