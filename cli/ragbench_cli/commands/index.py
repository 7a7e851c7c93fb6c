"""``ragbench index``: a corpus into a store."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ragbench.core.record import Record
from ragbench.errors import ConfigError, InterruptedRunError, StoreError
from ragbench.io.converted import CONVERTED, EXTRA
from ragbench.io.encoding import encoding_of
from ragbench.safe_text import counted, listed
from ragbench.search.pipeline.documents import ChunkSize, make_chunker
from ragbench.search.pipeline.index import IndexProgress, IndexResult, index
from ragbench.search.pipeline.search_engine import check_index
from ragbench.search.stores.database import Database, open_database, sole_writer
from ragbench.stages.stage import Progress
from ragbench.text.token_counter import token_counter
from ragbench_cli import console
from ragbench_cli.console import StageAdvance
from ragbench_cli.options import (
    EncodingOption,
    JsonOption,
    OnEngine,
    Panel,
    argument,
    completed,
    mapping,
    option,
    takes_records,
)
from ragbench_cli.output import show
from ragbench_cli.stores import StoredIn, StoreOption, only_collection, settings_of


class IndexOptions(Record):
    """Which corpus is indexed, where, and how it is split."""

    store: StoreOption
    corpus: Annotated[str | None, argument("[CORPUS]")] = None
    """File or folder with documents: text, Markdown, PDF, HTML, Word, JSONL, CSV, BEIR and
    others."""
    stored: StoredIn
    chunker: Annotated[str, option(complete=completed("chunkers"))] = "auto"
    """How documents are split: auto (Markdown by structure, the rest by tokens), tokens, sentences,
    markdown or whole."""
    chunk_size: Annotated[int, option("TOKENS")] = 256
    """Largest number of tokens per chunk."""
    chunk_overlap: Annotated[int, option("TOKENS")] = 0
    """About how many tokens a chunk shares with the one before it."""
    counter: Annotated[str, option("COUNTER", rare=True)] = "approximate"
    """Token counter: approximate, tiktoken:ENCODING or tokenizers:PATH."""
    words: Annotated[Literal["here", "store"] | None, option("PLACE", rare=True)] = None
    """Where a new collection is ranked by words: here (by ragbench, from an index that a search
    builds of all chunks; the default) or store (by Qdrant, for very large collections)."""
    format: Annotated[str | None, option("FORMAT", panel=Panel.CASES, rare=True)] = None
    """Format of the corpus; detected if omitted."""
    field: Annotated[list[str] | None, option("TARGET=SOURCE", panel=Panel.CASES, rare=True)] = None
    """Where a field of the documents is found, such as text=body; repeatable."""
    encoding: EncodingOption = None
    on: OnEngine
    list_: Annotated[bool, option("--list", envvar="RAGBENCH_INDEX_LIST_")] = False
    """List the collections of the store; index nothing."""
    check: bool = False
    """Measure how much of an exact search the store's index finds; index nothing."""
    drop: str | None = None
    """Remove a collection that ragbench made, with all that is in it."""
    quiet: Annotated[bool, option("-q", panel=Panel.OUTPUT)] = False
    """No progress."""


@takes_records
def command(options: IndexOptions, json: JsonOption = False) -> None:
    """Split documents into chunks and store them with vectors.

    Run it again to update only the changes in the corpus: chunks that are already stored are not
    embedded again, and those of removed documents are deleted. The same command continues an
    interrupted indexing; until then the collection cannot be searched.

    \b
    Examples:
      ragbench index docs/ --store memory:reports/index
      ragbench index corpus.jsonl --store memory:reports/index --collection faq --chunker whole
      ragbench index docs/ --store memory:reports/index --embedder openai:text-embedding-3-small
      ragbench index corpus.jsonl --store qdrant+http://localhost:6333 --words store
      ragbench index --list --store memory:reports/index
      ragbench index --check --store qdrant+http://localhost:6333 --collection faq
    """
    tasks = (options.corpus is not None, options.list_, options.check, options.drop is not None)
    if tasks.count(True) > 1:
        raise ConfigError("give one of CORPUS, --list, --check and --drop")
    # A task on what is stored: nothing is indexed.
    if options.corpus is None:
        _without_corpus(options, json=json)
        return
    if options.corpus == "-":
        raise ConfigError("a corpus is read twice, so it cannot come from standard input")
    encoding = options.encoding
    if encoding is None:
        encoding, guess = encoding_of(options.corpus)
        if guess:
            console.say(guess)
    size = ChunkSize(
        tokens=options.chunk_size,
        overlap=options.chunk_overlap,
        counter=token_counter(options.counter),
    )
    # The readers, chunkers and embedders may be the user's own code: its errors are shown so.
    with console.users_code(), _index_progress(shown=not options.quiet) as (progress, count):
        result = index(
            options.corpus,
            options.store,
            options.stored.collection or _collection_name(options.corpus),
            embedder=options.stored.embedder,
            embedder_settings=settings_of(options.stored.embedder_setting, "--embedder-setting"),
            chunker=make_chunker(options.chunker, size),
            format=options.format,
            encoding=encoding,
            fields=mapping(options.field or (), "--field"),
            engine=options.on.engine,
            workers=options.on.workers,
            words=options.words,
            progress=progress,
            counted=count,
        )
    for line in _index_notes(result, is_named=options.stored.embedder is not None):
        console.say(line)
    show(result, lambda: typer.echo(_result_text(result)), json=json)


class _DocumentBar:
    """The progress of an indexing, in documents."""

    def __init__(self, bars: StageAdvance | None) -> None:
        """Begins without a document; ``bars`` is None where no progress is shown.

        The number of all documents comes later, by `set_total`.
        """
        self._bars = bars
        # 0 as long as the number of documents is not known.
        self._total = 0

    def advance(self, *, documents: int, **_: int) -> None:
        """Moves the progress of an indexing on by some documents; other counts are not shown.

        Indexing calls this after each batch.
        """
        if self._bars is not None:
            self._bars(Progress("index", self._total, documents))

    def set_total(self, documents: int) -> None:
        """Sets the number of all documents to index, which is known once all were read.

        Until then the bar has no end.
        """
        self._total = documents


@contextmanager
def _index_progress(*, shown: bool) -> Generator[tuple[IndexProgress, Callable[[int], None]]]:
    """Shows the progress of an indexing for a block; gives what takes each step, and the total.

    After Ctrl-C the error tells what becomes of the collection.
    """
    try:
        with console.progress(shown=shown) as bars:
            bar = _DocumentBar(bars)
            yield bar.advance, bar.set_total
    # The bars are closed by then, so that the message is below them.
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "embedded chunks are kept; the same command continues. Until it is through, the "
            "collection is not complete and cannot be searched"
        ) from None


def _collection_name(source: str) -> str:
    """A name for a collection that every store takes, from the path of its corpus.

    The same path always gives the same name: another rule would index a corpus again, elsewhere.
    """
    path = Path(source)
    name = path.name.split(".")[0]
    if not name:  # the paths "." and ".." have no name
        name = path.resolve().name
    if name in ("corpus", "documents"):  # as many datasets call theirs: the folder tells more
        name = path.resolve().parent.name
    plain_name = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    if plain_name[:1].isalpha():
        return plain_name
    return f"corpus_{plain_name}".rstrip("_")


def _index_notes(result: IndexResult, *, is_named: bool) -> Iterator[str]:
    """The notes after an indexing: the embedder that was taken, and files that were not read.

    A search needs the same embedder, and a user may believe that all files are indexed.

    Args:
        is_named: whether the user named the embedder, so that there is nothing to report of it.
    """
    if not is_named:
        weight = ""
        if result.dense_weight is not None:
            weight = f" count {result.dense_weight:g} beside words in hybrid searches"
        yield f"vectors by the embedder '{result.embedder}'{weight}; --embedder names another"
    files = result.skipped
    if not files:
        return
    suffixes = [Path(name).suffix.lower() for name in files]
    # Of files that an extra would read, the note names the extra.
    convertible = len([suffix for suffix in suffixes if suffix in CONVERTED])
    install = ""
    if convertible:
        install = f"; pip install 'ragbench[{EXTRA}]' reads {convertible:,} of them"
    verb = "are"
    if len(files) == 1:
        verb = "is"
    yield (
        f"Warning: {counted(len(files), 'file')} {verb} skipped, only text, Markdown, PDF, HTML "
        f"and Word are read: {listed(files)}{install}"
    )


def _without_corpus(options: IndexOptions, *, json: bool) -> None:
    """Does what ``ragbench index`` does without a corpus: drops, checks or lists collections.

    Nothing is written to the store, except that ``--drop`` removes a collection.
    """
    if options.drop is None and not options.check and not options.list_:
        raise ConfigError("there is nothing to index: name a file or folder, or give --list")
    with closing(open_database(options.store)) as database:
        if options.drop is not None:
            _drop_collection(database, options.drop)
        elif options.check:
            collection_name = options.stored.collection or only_collection(database)
            with database.open(collection_name) as collection:
                result = check_index(collection)
            show(result, partial(typer.echo, result), json=json)
        else:
            for name in database.collections():
                _print_collection(database, name, json=json)


def _print_collection(database: Database, name: str, *, json: bool) -> None:
    """Prints one collection of a store for ``--list``, as a line or as JSON.

    Its embedder and state are what a user must know to search it.
    """
    with database.open(name) as collection:
        info = collection.info()
        chunks = collection.count()
    if json:
        # "here": a store that does not count words itself has them counted by ragbench.
        place_of_words = "store"
        if info.words is None:
            place_of_words = "here"
        row = {
            "collection": name,
            "chunks": chunks,
            "embedder": info.made_by.embedder_name,
            "dimension": info.dimension,
            "complete": info.complete,
            "words": place_of_words,
        }
        # One object for each collection, so that lines can be read one by one.
        console.print_json(row, in_lines=False)
        return
    line = (
        f"{name}  {counted(chunks, 'chunk')}  {info.made_by.embedder_name} "
        f"({info.dimension} dimensions)"
    )
    if info.words is not None:
        line += "  words by the store"
    if not info.complete:
        line += "  not complete"
    typer.echo(line)


def _drop_collection(database: Database, name: str) -> None:
    """Removes a collection that ragbench made from its store; one that is not there is an error.

    Other writers are kept out meanwhile.
    """
    # Asked first: stores differ in whether they refuse to drop what is not there.
    names = database.collections()
    if name not in names:
        existing = "it holds none"
        if names:
            existing = f"there are: {', '.join(names)}"
        raise StoreError(f"{database.address}: there is no collection '{name}'; {existing}")
    with sole_writer(database.folder, database.address):
        database.drop(name)
    console.say(f"{database.address}: '{name}' is removed")


def _result_text(result: IndexResult) -> str:
    """The result of an indexing in a line: documents, chunks, and what was written and removed.

    Unchanged chunks are counted apart: they cost no embedding.
    """
    documents = counted(result.documents, "document")
    empty = ""
    if result.empty:
        empty = f" ({result.empty:,} without text)"
    continued = ""
    if result.continued:
        continued = ", an interrupted indexing continued"
    return (
        f"{result.collection}: {documents}{empty}, {counted(result.chunks, 'chunk')}: "
        f"{result.written:,} written, {result.unchanged:,} unchanged, {result.removed:,} removed"
        f"{continued}"
    )
