"""What ``ragbench search`` asks: a collection of ragbench's, or one that its user fills."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ragbench_cli import console

if TYPE_CHECKING:
    from ragbench.embedders.base import Embedder
    from ragbench.records.corpus import Chunk
    from ragbench.retrieval.settings import RetrievalSettings
    from ragbench.retrieval.strategies.base import Search
    from ragbench.stores.base import Database
    from ragbench.stores.foreign.collection import ForeignCollection

    Ask: TypeAlias = Callable[[Sequence[str]], list[list[Chunk]]]

__all__ = ["SearchChoice", "opened_search"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchChoice:
    """What the options say of a search."""

    store: str
    collection: str | None
    fields: Sequence[str] | None
    """What is where in a collection that ragbench did not fill; None where nothing is said."""
    embedder: Embedder | None
    embedder_name: str | None
    settings: RetrievalSettings
    strategy: str | None
    """Where the user says so."""
    score_threshold: float | None
    """Where the user says so."""
    filters: Mapping[str, Any] | None
    sparse_cache: str
    allow_incomplete: bool


@contextmanager
def opened_search(choice: SearchChoice) -> Generator[Ask]:
    """What answers questions, open for the length of a block.

    A collection that ragbench did not fill is read where its fields or its embedder are named; how
    it is read, and what was wrong with its rows, is told.

    Raises:
        ConfigError: something that is named does not fit.
        StoreError: the store cannot be used as asked.
    """
    with ExitStack() as stack:
        yield _entered(choice, stack)


def _entered(choice: SearchChoice, stack: ExitStack) -> Ask:
    from ragbench.errors import ForeignCollectionError

    if choice.fields is None:
        try:
            return stack.enter_context(_own(choice))
        except ForeignCollectionError:
            if choice.embedder is None:
                raise
    return stack.enter_context(_foreign(choice))


@contextmanager
def _own(choice: SearchChoice) -> Generator[Ask]:
    from ragbench.retrieval.engine import RetrievalEngine
    from ragbench.stores.registry import open_database

    database = open_database(choice.store)
    off = choice.sparse_cache == "off"
    engine = RetrievalEngine(
        database,
        embedder=choice.embedder,
        settings=choice.settings,
        sparse_folder=None if off else Path(choice.sparse_cache),
        allow_incomplete=choice.allow_incomplete,
    )
    try:
        name = choice.collection or _only_collection(database)
        engine.collection(name)

        def ask(texts: Sequence[str]) -> list[list[Chunk]]:
            with console.stdout_for_data():
                return engine.batch_search(name, texts, filters=choice.filters)

        yield ask
    finally:
        engine.close()
        database.close()


@contextmanager
def _foreign(choice: SearchChoice) -> Generator[Ask]:
    from ragbench.retrieval.foreign import foreign_strategy
    from ragbench.stores.foreign.mapping import field_mapping
    from ragbench.stores.foreign.registry import open_foreign
    from ragbench_cli.values import mapping

    embedder = _checked_embedder(choice)
    fields = field_mapping(mapping(choice.fields, "--map") or {})
    search = _search(choice)
    with open_foreign(choice.store, choice.collection, fields) as collection:
        strategy = foreign_strategy(collection, embedder, embedder_name=choice.embedder_name or "")
        _tell(collection)

        def ask(texts: Sequence[str]) -> list[list[Chunk]]:
            with console.stdout_for_data():
                return strategy.retrieve(texts, search)

        yield ask
        for line in collection.warnings():
            console.say(f"Warning: {line}")


def _checked_embedder(choice: SearchChoice) -> Embedder:
    from ragbench.errors import ConfigError
    from ragbench.retrieval.foreign import DENSE_ONLY

    if choice.strategy not in (None, "dense"):
        raise ConfigError(f"--strategy {choice.strategy}: {DENSE_ONLY}. Leave --strategy out")
    if choice.embedder is None:
        raise ConfigError(
            "--map reads a collection that ragbench did not fill: name what made its vectors with "
            "--embedder, such as openai:MODEL or onnx:FOLDER"
        )
    return choice.embedder


def _search(choice: SearchChoice) -> Search:
    import math

    from ragbench.records.filter_form import parse_filters
    from ragbench.retrieval.strategies.base import Search

    # What the scores of another program mean is not known: no threshold but the user's.
    threshold = -math.inf if choice.score_threshold is None else choice.score_threshold
    filters = parse_filters(choice.filters) if choice.filters else None
    return Search(k=choice.settings.top_k, threshold=threshold, filters=filters)


def _tell(collection: ForeignCollection) -> None:
    console.say(f"read as: {collection.described()}")
    for line in collection.guesses():
        console.say(line)


def _only_collection(database: Database) -> str:
    from ragbench.errors import ConfigError

    names = database.collections()
    if len(names) == 1:
        return names[0]
    found = (
        f"has {', '.join(names)}"
        if names
        else "has no collection of ragbench's: run ragbench index first, or name one of yours, its "
        "fields with --map and its embedder with --embedder"
    )
    raise ConfigError(f"name the collection with --collection: {database.address} {found}")
