"""``ragbench index``: a corpus into a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, option
from ragbench_cli.store_options import (
    CollectionOption,
    EmbedderOption,
    EmbedderSettingOption,
    StoreOption,
    settings_of,
)

if TYPE_CHECKING:
    from ragbench.indexing.index import IndexResult

__all__ = ["command"]


def _chunkers(typed: str) -> list[str]:
    from ragbench.indexing.chunkers.registry import CHUNKERS

    return [name for name in sorted(CHUNKERS.targets()) if name.startswith(typed)]


def command(
    corpus: Annotated[
        str,
        argument(
            metavar="CORPUS",
            help="File or folder with documents: text, Markdown, JSONL, CSV, BEIR and others.",
        ),
    ],
    store: StoreOption,
    collection: CollectionOption = None,
    embedder: EmbedderOption = None,
    embedder_setting: EmbedderSettingOption = None,
    chunker: Annotated[
        str,
        option(
            "--chunker",
            help="How documents are cut: auto (Markdown by its structure, the rest by tokens), "
            "tokens, sentences, markdown or whole.",
            metavar="NAME",
            show_default=True,
            complete=_chunkers,
        ),
    ] = "auto",
    chunk_size: Annotated[
        int,
        option(
            "--chunk-size", help="The most tokens of a chunk.", metavar="TOKENS", show_default=True
        ),
    ] = 256,
    chunk_overlap: Annotated[
        int,
        option(
            "--chunk-overlap",
            help="About how many tokens a chunk repeats of the one before it.",
            metavar="TOKENS",
            show_default=True,
        ),
    ] = 0,
    counter: Annotated[
        str,
        option(
            "--counter",
            help="What counts tokens: approximate, tiktoken:ENCODING or tokenizers:PATH.",
            metavar="COUNTER",
            show_default=True,
        ),
    ] = "approximate",
    format: Annotated[
        str | None,
        option("--format", help="The corpus's format, if not to be recognised.", metavar="FORMAT"),
    ] = None,
    field: Annotated[
        list[str] | None,
        option(
            "--field",
            help="Where a field of the documents is found, such as text=body; repeatable.",
            metavar="TARGET=SOURCE",
        ),
    ] = None,
    quiet: Annotated[bool, option("--quiet", "-q", help="No progress.")] = False,
    json: JsonOption = False,
) -> None:
    """Cut documents into chunks and store them with their vectors.

    Run again, it changes only what has changed in the corpus: chunks that are there already are not
    embedded again, and those of removed documents are removed. An interrupted indexing is continued
    by the same command; until then the collection cannot be searched.

    \b
    Examples:
      ragbench index docs/ --store memory:reports/index
      ragbench index corpus.jsonl --store memory:reports/index --collection faq --chunker whole
      ragbench index docs/ --store memory:reports/index --embedder openai:text-embedding-3-small
    """
    from ragbench.embedders.registry import DEFAULT_EMBEDDER, open_embedder
    from ragbench.errors import ConfigError
    from ragbench.indexing.chunkers.registry import make_chunker
    from ragbench.indexing.chunkers.size import ChunkSize
    from ragbench.indexing.corpus import index_corpus
    from ragbench.stores.registry import open_database
    from ragbench.text.token_counter import token_counter
    from ragbench_cli.naming import collection_name
    from ragbench_cli.progress import progress
    from ragbench_cli.values import mapping

    if corpus == "-":
        raise ConfigError("a corpus is read twice, so it cannot come from standard input")
    size = ChunkSize(tokens=chunk_size, overlap=chunk_overlap, counter=token_counter(counter))
    cutting = make_chunker(chunker, size)
    name = embedder or DEFAULT_EMBEDDER
    settings = settings_of(embedder_setting, "--embedder-setting")
    total = 0

    def counted(documents: int) -> None:
        nonlocal total
        total = documents

    opened = open_embedder(name, **settings)
    database = open_database(store)
    try:
        with console.stdout_for_data(), progress(shown=not quiet) as advance:

            def told(*, documents: int, chunks: int, unchanged: int) -> None:
                if advance is not None:
                    advance("index", total, documents, 0, 0)

            result = index_corpus(
                corpus,
                database,
                collection or collection_name(corpus),
                embedder=opened,
                embedder_name=name,
                embedder_settings=settings,
                chunker=cutting,
                format=format,
                fields=mapping(field, "--field"),
                progress=told,
                counted=counted,
            )
    except KeyboardInterrupt:
        from ragbench.errors import InterruptedRunError

        raise InterruptedRunError(
            "what was embedded is kept; the same command continues. Until it is through, the "
            "collection is not complete and cannot be searched"
        ) from None
    finally:
        database.close()
        opened.close()
    if json:
        from dataclasses import asdict

        console.print_json({**asdict(result), "store": database.address})
    else:
        typer.echo(_summary(result))


def _summary(result: IndexResult) -> str:
    documents = f"{result.documents:,} document{'' if result.documents == 1 else 's'}"
    empty = f" ({result.empty:,} without text)" if result.empty else ""
    continued = ", an interrupted indexing continued" if result.continued else ""
    return (
        f"{result.collection}: {documents}{empty}, {result.chunks:,} chunks: "
        f"{result.written:,} written, {result.unchanged:,} unchanged, {result.removed:,} removed"
        f"{continued}"
    )
