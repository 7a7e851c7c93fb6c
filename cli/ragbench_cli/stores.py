"""Which collection is searched, and how: options of search, tune and index."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, NamedTuple, cast

from ragbench.core.chunk import Chunk
from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import Filter
from ragbench.core.record import Record
from ragbench.errors import ConfigError, ForeignCollectionError
from ragbench.search.embedders.embedder import Embedder, open_embedder
from ragbench.search.pipeline.retrieval import foreign_strategy
from ragbench.search.pipeline.search_engine import RetrievalEngine
from ragbench.search.pipeline.sparse_index import sparse_cache_folder
from ragbench.search.pipeline.strategies import (
    DenseStrategy,
    HybridStrategy,
    RetrievalSettings,
    Search,
    Strategy,
    StrategyName,
    filter_problem,
    variable_of,
)
from ragbench.search.stores.attached import ForeignCollection, attach
from ragbench.search.stores.base import NORMAL, Effort
from ragbench.search.stores.database import Database, is_read_only, open_database
from ragbench.search.stores.mapping import FieldMapping
from ragbench.verbs.tune import SearchSetting, TunedCollection
from ragbench_cli import console
from ragbench_cli.options import completed, json_object, mapping, option


class Searcher(NamedTuple):
    """A search that is made once, for all batches of questions."""

    strategy: Strategy
    search: Search

    def ask(self, texts: Sequence[str]) -> list[list[Chunk]]:
        """The chunks that the chosen search finds for each question, best first.

        What the user's own code prints is kept off standard output.
        """
        with console.users_code():  # an embedder may be the user's own
            return self.strategy.retrieve(texts, self.search)


class Opened(NamedTuple):
    """A collection that is open, and the ways in which it can be searched."""

    strategy: Callable[[StrategyName], Strategy]
    name: StrategyName
    """Of the strategy that the options ask for."""
    search: Search
    has_words: bool
    has_vectors: bool

    def searcher(self) -> Searcher:
        """The opened collection with the one way of searching that the options ask for.

        It is made once for all batches of questions.
        """
        return Searcher(self.strategy(self.name), self.search)

    def tuned(self, effort: Effort, threshold: float | None) -> TunedCollection:
        """The opened collection for tuning, with all its rankings, by words and by vectors.

        What the options ask for now is marked, so that advice can be compared with it.

        Args:
            effort: how hard the store's index looks now.
            threshold: the least score of a chunk; None for none.
        """
        # None where a side is missing: tuning then leaves out searches that need it.
        weight: float | None = None
        dense: DenseStrategy | None = None
        sparse: Strategy | None = None
        # Both are taken from one hybrid search, so that they share the embedder.
        if self.has_vectors and self.has_words:
            hybrid = cast("HybridStrategy", self.strategy("hybrid"))
            dense = cast("DenseStrategy", hybrid.dense)
            sparse = hybrid.sparse
            if self.name == "hybrid":
                weight, _ = hybrid.weights
        elif self.has_vectors:
            dense = cast("DenseStrategy", self.strategy("dense"))
        else:
            sparse = self.strategy("sparse")
        if self.name == "sparse":  # effort is a setting of searches by vectors
            effort = NORMAL
        return TunedCollection(
            dense=dense,
            sparse=sparse,
            present=SearchSetting(strategy=self.name, effort=effort, dense_weight=weight),
            filters=self.search.filters,
            threshold=threshold,
        )


class SearchChoice(Record):
    """A search as the options describe it: which collection, and how."""

    store: str
    where: CollectionChoice
    settings: RetrievalSettings
    """The user's options override the environment's."""
    names_strategy: bool
    """Whether the user names the strategy. A default gives way to what the collection can do."""
    sparse_cache: str | None = None
    """A folder or off; None for the usual place."""
    allow_incomplete: bool = False

    @contextmanager
    def opened(self) -> Generator[Opened]:
        """The collection that the options name, open for the length of a block.

        One that ragbench did not fill is read where its fields or its embedder are named; how it is
        read, and what was wrong with its rows, is shown.
        """
        where = self.where
        filters = filter_of(where.filter)
        is_foreign = where.map is not None or where.native_filter is not None
        with embedder_of(where.embedder, where.embedder_setting) as embedder, ExitStack() as stack:
            # With neither an embedder nor a search by words alone, another program's collection
            # cannot be searched: the error is then that of our own.
            may_be_foreign = embedder is not None or self._named_strategy == "sparse"
            opened: Opened | None = None
            if not is_foreign and not (may_be_foreign and is_read_only(self.store)):
                try:
                    opened = stack.enter_context(self._opened_own(embedder, filters))
                except ForeignCollectionError:
                    if not may_be_foreign:
                        raise
            if opened is None:
                opened = stack.enter_context(self._opened_foreign(embedder, filters))
            yield opened

    @property
    def _named_strategy(self) -> StrategyName | None:
        """The strategy where the user named it, else None.

        A default that is impossible with the store gives way; a named one is an error there.
        """
        if not self.names_strategy:
            return None
        return self.settings.strategy

    @contextmanager
    def opened_to_tune(self) -> Generator[TunedCollection]:
        """The collection that the options name, open for tuning, which searches it in every way.

        ``tune-search`` and ``why`` compare words, vectors and both.
        """
        with self.opened() as opened:
            yield opened.tuned(self.settings.effort, opened.search.threshold)

    @contextmanager
    def _opened_own(self, embedder: Embedder | None, filters: Filter | None) -> Generator[Opened]:
        """Opens a collection that ragbench filled: its fields, words and embedder are known.

        Where it has no vectors, and the user named no strategy, it is searched by words, which is
        reported.
        """
        database = open_database(self.store)
        settings = self.settings
        environment = dict(os.environ)
        # The index of words is made once and kept there.
        if self.sparse_cache is not None:
            environment["RAGBENCH_BM25_CACHE"] = self.sparse_cache
        with RetrievalEngine(
            database,
            embedder=embedder,
            settings=settings,
            sparse_folder=sparse_cache_folder(environment),
            allow_incomplete=self.allow_incomplete,
        ) as engine:
            collection = engine.collection(self.where.collection or only_collection(database))
            # A field that no chunk has finds nothing: the user is warned first.
            _warn_of(filter_problem(collection.store, filters))
            strategy = settings.strategy
            has_vectors = collection.has_vectors
            # The default is a search by both. One by vectors that the user names is an error here.
            if not self.names_strategy and strategy != "sparse" and not has_vectors:
                strategy = "sparse"
                console.say(
                    "searched by words (sparse): the collection was indexed with no embedder"
                )
            search = Search(k=settings.top_k, threshold=settings.score_threshold, filters=filters)
            yield Opened(collection.strategy, strategy, search, True, has_vectors)

    @contextmanager
    def _opened_foreign(
        self, embedder: Embedder | None, filters: Filter | None
    ) -> Generator[Opened]:
        """Opens a collection that another program filled, by the fields that options name.

        Nothing is ever written there. Searching it by vectors needs the embedder that made them:
        another one would find nothing of sense.
        """
        where = self.where
        # By vectors unless the user names another way: words may not be indexed there.
        strategy_name = self._named_strategy or "dense"
        native = native_of(where.native_filter)
        if embedder is None and strategy_name != "sparse":
            raise ConfigError(
                "--field reads a collection that ragbench did not fill: name the model of its "
                "vectors with --embedder, such as openai:MODEL or onnx:FOLDER"
            )
        fields = FieldMapping.of(mapping(where.map or (), "--field"))
        with attach(self.store, where.collection, fields, native_filter=native) as collection:
            for line in collection.notes(by_words=self._named_strategy != "dense"):
                console.say(line)
            _warn_of(filter_problem(collection, filters))
            settings = self.settings
            search = Search(k=settings.top_k, threshold=settings.score_threshold, filters=filters)
            has_words = collection.words is not None
            strategy = partial(self._strategy_over_foreign, collection, embedder)
            yield Opened(strategy, strategy_name, search, has_words, embedder is not None)
            # Known only once rows were read.
            for warning in collection.warnings():
                _warn_of(warning)

    def _strategy_over_foreign(
        self, collection: ForeignCollection, embedder: Embedder | None, name: StrategyName
    ) -> Strategy:
        """A way of searching a collection that another program filled, by its name.

        An embedder that does not fit the stored vectors is reported.
        """
        settings = replace(self.settings, strategy=name)
        with console.users_code():
            # The embedder's name is for the message where it does not fit.
            strategy, problem = foreign_strategy(
                collection, embedder, self.where.embedder or "", settings
            )
        _warn_of(problem)
        return strategy


def _warn_of(problem: str | None) -> None:
    """Reports a problem with which a search can go on, on standard error; None is no problem.

    An embedder that may not be the one of the stored vectors is such a problem.
    """
    if problem is not None:
        console.say(f"Warning: {problem}")


@contextmanager
def embedder_of(name: str | None, settings: Sequence[str] | None) -> Generator[Embedder | None]:
    """The embedder that options name, open for the length of a block; None where they name none.

    An embedder turns texts into vectors; its settings without one are refused.
    """
    if name is not None:
        opened = open_embedder(name, **settings_of(settings, "--embedder-setting"))
        with closing(opened) as embedder:
            yield embedder
        return
    if settings:
        raise ConfigError("--embedder-setting needs --embedder")
    yield None


def only_collection(database: Database) -> str:
    """The name of a store's collection, where it has exactly one, so that users need not name it.

    To choose among several would be a guess.

    Raises:
        ConfigError: it has none or several.
    """
    names = database.collections()
    if len(names) == 1:
        return names[0]
    if names:
        raise ConfigError(
            f"choose a collection with --collection: {database.address} has {', '.join(names)}"
        )
    raise ConfigError(
        f"{database.address} has no collection. Create one: ragbench index CORPUS --store "
        f"{database.address}. To search one that another program filled, add --collection, --field "
        "and --embedder"
    )


StoreOption = Annotated[
    str,
    option(
        "ADDRESS", help="Address of the store, such as memory:reports/index. See docs/retrieval.md."
    ),
]


class StoredIn(Record):
    """Which collection, and what its vectors are made by."""

    collection: str | None = None
    """Name of the collection."""
    embedder: Annotated[str | None, option(complete=completed("embedders"))] = None
    """Embedder of the vectors: english, multilingual, onnx:FOLDER, onnx:OWNER/NAME, openai:MODEL,
    fastembed:MODEL, sentence-transformers:MODEL, or file.py:thing, such as an embedding object of
    LangChain or LlamaIndex."""
    embedder_setting: Annotated[list[str] | None, option("NAME=VALUE", rare=True)] = None
    """A setting of the embedder, such as 'query_prefix=query: '; repeatable."""


class CollectionChoice(StoredIn):
    """Which collection is searched, and how it is read."""

    filter: Annotated[list[str] | None, option("FIELD=VALUE")] = None
    """Filter on a chunk's metadata, such as year=2023, or as JSON '{"year": {"gte": 2020}}';
    repeatable."""
    native_filter: Annotated[str | None, option("FILTER", rare=True)] = None
    """Extra filter for a collection of yours, in the store's own syntax: a JSON object for Qdrant,
    Chroma, Elasticsearch and OpenSearch, an SQL condition for PostgreSQL, an expression for
    Milvus."""
    map: Annotated[list[str] | None, option("FIELD=PATH", "--field")] = None
    """Where a field is found in a collection that ragbench did not fill, such as
    text=metadata.body; repeatable. Fields: text, id, document_id, title, metadata, vector, metric,
    words, language. Needs --embedder, but for --strategy sparse."""


def search_settings(options: object = None) -> RetrievalSettings:
    """The settings of a search: those of the command's options over those of the environment.

    Pipelines read the same variables of the environment, such as RETRIEVAL_STRATEGY.

    Args:
        options: of a command that may lack some of them, such as a strategy.
    """
    changes: dict[str, Any] = {}
    # None is "not given": 0 is a threshold.
    for name in ("strategy", "top_k", "score_threshold"):
        value = getattr(options, name, None)
        if value is not None:
            changes[name] = value
    return replace(RetrievalSettings.from_environment(os.environ), **changes)


def names_strategy(options: object = None) -> bool:
    """Whether the user names a search strategy, by an option or in the environment.

    A strategy that he names must be possible; a default gives way to what the collection can do.
    """
    if getattr(options, "strategy", None) is not None:
        return True
    return variable_of("strategy", os.environ) is not None


def settings_of(entries: Sequence[str] | None, option_name: str) -> dict[str, Any]:
    """The settings of an option with ``NAME=VALUE``, by name; a value that is JSON is read as such.

    So ``batch_size=8`` is a number, and ``query_prefix=query: `` a text.

    Args:
        option_name: for errors.
    """
    form = "NAME=VALUE, such as 'query_prefix=query: '"
    settings: dict[str, Any] = {**mapping(entries or (), option_name, form)}
    for name, value in settings.items():
        # A value that is no JSON stays a text; no error, since most prefixes are none.
        with suppress(ValueError):
            settings[name] = json.loads(value)
    return settings


def filter_of(texts: Sequence[str] | None) -> Filter | None:
    """The filter on chunks' metadata from ``FIELD=VALUE`` and JSON objects; all of them must hold.

    It is None without any.
    """
    parts: list[Mapping[str, Any]] = []
    for text in texts or ():
        # An object can have operators (range, any of); FIELD=VALUE is the short form of equality.
        if text.lstrip().startswith("{"):
            parts.append(json_object(text, "--filter"))
        else:
            field, equals, value = text.partition("=")
            if not equals or not field:
                raise ConfigError(
                    f"--filter: expected FIELD=VALUE or a JSON object, found '{text}'"
                )
            parts.append({"field": {field: _field_value(field, value)}})
    if not parts:
        return None
    # A single condition needs no "all" around it.
    return parse_filters(dict(parts[0]) if len(parts) == 1 else {"all": parts})


def native_of(text: str | None) -> object:
    """A filter in a store's own syntax, from its option: a JSON object, or a text such as SQL.

    What a store cannot be asked by ragbench's filters, its users write so.
    """
    if text is not None and text.lstrip().startswith("{"):
        return json_object(text, "--native-filter")
    return text


def _field_value(field: str, text: str) -> Any:
    """The value of a filter's field: JSON where it is such, else a text.

    Text that begins like JSON must be JSON: with a slip in it, it would find nothing.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        # What is no JSON is a text, such as a name or a date.
        if text.lstrip()[:1] in ("{", "[", '"'):
            raise ConfigError(
                f"--filter: the value of '{field}' looks like JSON but is not valid: {error}. "
                f"To look for the text itself, write it as JSON: {json.dumps(text)}"
            ) from error
        return text
