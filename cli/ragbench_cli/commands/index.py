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


class Asked(Record):
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
def command(asked: Asked, json: JsonOption = False) -> None:
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
    if sum((asked.corpus is not None, asked.list_, asked.check, asked.drop is not None)) > 1:
        raise ConfigError("give one of CORPUS, --list, --check and --drop")
    if asked.corpus is None:
        _look(asked, json=json)
        return
    if asked.corpus == "-":
        raise ConfigError("a corpus is read twice, so it cannot come from standard input")
    encoding = asked.encoding
    if encoding is None:
        encoding, guess = encoding_of(asked.corpus)
        if guess:
            console.say(guess)
    size = ChunkSize(
        tokens=asked.chunk_size, overlap=asked.chunk_overlap, counter=token_counter(asked.counter)
    )
    with console.users_code(), _progress(shown=not asked.quiet) as (progress, count):
        result = index(
            asked.corpus,
            asked.store,
            asked.stored.collection or _collection_name(asked.corpus),
            embedder=asked.stored.embedder,
            embedder_settings=settings_of(asked.stored.embedder_setting, "--embedder-setting"),
            chunker=make_chunker(asked.chunker, size),
            format=asked.format,
            encoding=encoding,
            fields=mapping(asked.field or (), "--field"),
            engine=asked.on.engine,
            workers=asked.on.workers,
            words=asked.words,
            progress=progress,
            counted=count,
        )
    for line in _notes(result, is_named=asked.stored.embedder is not None):
        console.say(line)
    show(result, lambda: typer.echo(_summary(result)), json=json)


@contextmanager
def _progress(*, shown: bool) -> Generator[tuple[IndexProgress, Callable[[int], None]]]:
    """The progress bar of an indexing; Ctrl-C says what becomes of it."""
    total = [0]
    try:
        with console.progress(shown=shown) as bars:

            def advance(*, documents: int, **_: int) -> None:
                if bars is not None:
                    bars(Progress("index", total[-1], documents))

            yield advance, total.append
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "embedded chunks are kept; the same command continues. Until it is through, the "
            "collection is not complete and cannot be searched"
        ) from None


def _collection_name(source: str) -> str:
    """A name for a collection that every store takes, from how the user names the corpus."""
    path = Path(source)
    name = path.name.split(".")[0] or path.resolve().name
    if name in ("corpus", "documents"):
        name = path.resolve().parent.name
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return cleaned if cleaned[:1].isalpha() else f"corpus_{cleaned}".rstrip("_")


def _notes(result: IndexResult, *, is_named: bool) -> Iterator[str]:
    """Which embedder was taken; which files of a folder were not read, and what would read them."""
    if not is_named:
        weight = result.dense_weight
        counts = "" if weight is None else f" count {weight:g} beside words in hybrid searches"
        yield f"vectors by the embedder '{result.embedder}'{counts}; --embedder names another"
    files = result.skipped
    readable = sum(Path(name).suffix.lower() in CONVERTED for name in files)
    count = len(files)
    install = f"; pip install 'ragbench[{EXTRA}]' reads {readable:,} of them" if readable else ""
    if files:
        are = " is" if count == 1 else "s are"
        yield (
            f"Warning: {count:,} file{are} skipped, only text, Markdown, PDF, HTML and Word are "
            f"read: {listed(files)}{install}"
        )


def _look(asked: Asked, *, json: bool) -> None:
    """What needs no corpus: one collection dropped or checked, or all of them listed."""
    if asked.drop is None and not (asked.check or asked.list_):
        raise ConfigError("there is nothing to index: name a file or folder, or give --list")
    with closing(open_database(asked.store)) as database:
        if asked.drop is not None:
            _drop(database, asked.drop)
        elif asked.check:
            with database.open(asked.stored.collection or only_collection(database)) as opened:
                found = check_index(opened)
            show(found, partial(typer.echo, found), json=json)
        else:
            for name in database.collections():
                _list(database, name, json=json)


def _list(database: Database, name: str, *, json: bool) -> None:
    with database.open(name) as opened:
        info, chunks = opened.info(), opened.count()
        row = {
            "collection": name,
            "chunks": chunks,
            "embedder": info.made_by.embedder_name,
            "dimension": info.dimension,
            "complete": info.complete,
            "words": "here" if info.words is None else "store",
        }
    if json:
        console.print_json(row, in_lines=False)
        return
    whole = "  words by the store" * (info.words is not None) + "  not complete" * (
        not info.complete
    )
    typer.echo(
        f"{name}  {counted(chunks, 'chunk')}  {info.made_by.embedder_name} "
        f"({info.dimension} dimensions){whole}"
    )


def _drop(database: Database, name: str) -> None:
    names = database.collections()
    if name not in names:
        known = f"there are: {', '.join(names)}" if names else "it holds none"
        raise StoreError(f"{database.address}: there is no collection '{name}'; {known}")
    with sole_writer(database.folder, database.address):
        database.drop(name)
    console.say(f"{database.address}: '{name}' is removed")


def _summary(result: IndexResult) -> str:
    documents = counted(result.documents, "document")
    empty = f" ({result.empty:,} without text)" if result.empty else ""
    continued = ", an interrupted indexing continued" if result.continued else ""
    return (
        f"{result.collection}: {documents}{empty}, {counted(result.chunks, 'chunk')}: "
        f"{result.written:,} written, {result.unchanged:,} unchanged, {result.removed:,} removed"
        f"{continued}"
    )
