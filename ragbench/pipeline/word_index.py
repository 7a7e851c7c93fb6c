"""Where the words of a new collection are ranked, and by what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from ragbench.core.chunk import Chunk, Document
from ragbench.errors import ConfigError, warn
from ragbench.pipeline.chunking import Chunker, document_chunks
from ragbench.stores.database import Database
from ragbench.stores.words import WordsForm, check_words

WordsPlace: TypeAlias = Literal["here", "store"]
"""Who ranks by words: ragbench, from an index that it builds of all chunks; or the store."""

_DRIFT = 0.1
"""From such a share on it is said that chunks have become longer or shorter."""


class AverageLength:
    """Tokens of a chunk, on average over those that were seen."""

    def __init__(self, form: WordsForm) -> None:
        self._form = form
        self._tokens = 0
        self._chunks = 0

    def see(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self._tokens += len(self._form.tokens(chunk))
            self._chunks += 1

    @property
    def value(self) -> float:
        return self._tokens / self._chunks if self._chunks else 0.0

    def warn_of_drift(self) -> None:
        """Says that chunks are no longer as long as those that the words were weighed by."""
        was = self._form.average
        if not was or abs(self.value - was) <= _DRIFT * was:
            return
        warn(
            f"the chunks have {self.value:,.1f} words on average now; BM25 in the store holds long "
            f"ones down by {was:,.1f}, the average when the collection was made. To renew it, "
            "remove the collection with 'ragbench index --drop NAME' and index the corpus again"
        )


def words_of(
    place: WordsPlace | None,
    database: Database,
    collection: str,
    documents: Iterable[Document],
    chunker: Chunker,
) -> WordsForm | None:
    """How a collection keeps words; of a new one the average length is measured.

    None where the store is not to rank by words.
    """
    if place is None:
        return None
    if place not in get_args(WordsPlace):
        raise ConfigError(f"words must be one of {', '.join(get_args(WordsPlace))}, not '{place}'")
    measured = WordsForm(average=0.0)
    check_words(database, measured if place == "store" else None)
    if collection in database.collections():
        with database.open(collection) as store:
            kept = store.info().words
        if (place == "store") != (kept is not None):
            made = "by ragbench" if kept is None else "by the store"
            raise ConfigError(
                f"the collection '{collection}' was made to be ranked {made} by words: leave "
                "--words out, or index the corpus under another name"
            )
        return kept
    if place == "here":
        return None
    length = AverageLength(measured)
    for document in documents:
        length.see(document_chunks(document, chunker))
    return replace(measured, average=length.value)
