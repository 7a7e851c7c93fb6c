"""Collections whose store ranks by words itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, cast, runtime_checkable

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter
from ragbench.stores.base import Vectors, VectorStore
from ragbench.stores.checks import check_k, prepared
from ragbench.stores.engine import Engine, EngineStore, Hit
from ragbench.stores.words import WordsForm, WordVector

_TIED = 1000
"""Chunks that are looked at for the lowest ids among equal scores. One word scores alike in all
short chunks of one length, and there may be very many."""


@runtime_checkable
class RanksWords(VectorStore, Protocol):
    """A collection that keeps the words of its chunks, see `ragbench.stores.words`."""

    @property
    def words(self) -> WordsForm:
        """How it keeps them."""
        ...

    def search_words(
        self, queries: Sequence[WordVector], *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        """The chunks that share words with each query.

        Returns:
            which is why queries are to be scaled so that it lies in [0, 1].
        """
        ...

    def word_weights(self, numbers: Sequence[int]) -> list[float | None]:
        """What words are worth: their inverse document frequencies, as the store counts them.

        None where no chunk has the word.
        """
        ...


class WordEngine(Engine, Protocol):
    """An `Engine` that ranks by words, too."""

    def matching(
        self, queries: Sequence[WordVector], limit: int, filters: Filter | None
    ) -> list[list[Hit]]:
        """The chunks of the greatest sums above 0; the filter is a folded one."""
        ...

    def weights(self, numbers: Sequence[int]) -> list[float | None]:
        """See `RanksWords.word_weights`."""
        ...


class WordEngineStore(EngineStore):
    """A collection of an engine that ranks by words, too; see `RanksWords`."""

    @property
    def words(self) -> WordsForm:
        assert self._words is not None
        return self._words

    def upsert(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """See `ragbench.stores.base.VectorStore`; the words are made here, so none lacks them."""
        self.words.check(self._name)
        records, rows = prepared(chunks, vectors, self._dimension)
        if records:
            made = [replace(one, words=self.words.vector(one.chunk)) for one in records]
            with self.working() as engine:
                engine.write(made, rows)

    def search_words(
        self, queries: Sequence[WordVector], *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        check_k(k)
        simple = True if filters is None else self._folded(filters)
        if simple is False or not queries:
            return [[] for _ in queries]
        condition = None if simple is True else simple
        engine = cast("WordEngine", self._opened())

        def matching(asked: Sequence[int], limit: int) -> list[list[Hit]]:
            return engine.matching([queries[at] for at in asked], limit, condition)

        return self._ranked(matching, len(queries), k, most=max(_TIED, k + 1))

    def word_weights(self, numbers: Sequence[int]) -> list[float | None]:
        if not numbers:
            return []
        with self.working() as engine:
            return cast("WordEngine", engine).weights(numbers)
