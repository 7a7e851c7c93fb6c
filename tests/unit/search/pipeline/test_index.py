"""A collection holds exactly the chunks of its corpus, and says when it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ragbench import Chunk, Document, index
from ragbench.errors import ConfigError, DataError, StoreError
from ragbench.search.embedders.local import HashingEmbedder
from ragbench.search.pipeline.documents import ChunkSize, make_chunker
from ragbench.search.pipeline.index import IndexResult, index_documents
from ragbench.search.stores.database import Database
from ragbench.search.stores.memory import MemoryDatabase


@dataclass(frozen=True, kw_only=True)
class CountingEmbedder(HashingEmbedder):
    """Keeps what it embeds."""

    dimension: int = 32
    texts: list[str] = field(default_factory=list[str])

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts.extend(texts)
        return HashingEmbedder(dimension=self.dimension).embed_passages(texts)


def documents(count: int = 300) -> list[Document]:
    """With the ids d0, d1, ..."""
    numbers = range(count)
    return [Document(id=f"d{number}", text=text_of(number)) for number in numbers]


def text_of(number: int) -> str:
    return f"Document {number} is about topic{number}."


def indexed(
    corpus: Iterable[Document],
    database: Database,
    embedder: CountingEmbedder | None = None,
    **settings: Any,
) -> IndexResult:
    """What indexing the corpus as the collection "kb" reports."""
    options: Any = {"embedder_name": "hashing:32", "chunker": make_chunker("whole"), **settings}
    return index_documents(
        corpus, database, "kb", embedder=embedder or CountingEmbedder(), **options
    )


@pytest.fixture
def database() -> MemoryDatabase:
    return MemoryDatabase()


def ids(database: Database) -> set[str]:
    with database.open("kb") as store:
        return set(store.digests())


# --- what another program does meanwhile


def with_a_stranger(database: MemoryDatabase) -> Iterator[Document]:
    """300 documents; before the last twenty of them another program writes a chunk."""
    yield from documents(300)[:280]
    with database.open("kb") as store:
        stranger = Chunk(id="stranger", text="Who wrote this?")
        store.upsert([stranger], np.ones((1, 32), dtype=np.float32))
    yield from documents(300)[280:]


def test_what_another_program_wrote_meanwhile_is_no_whole_collection(
    database: MemoryDatabase,
) -> None:
    with pytest.raises(StoreError, match="0 chunks are missing, 1 are other ones"):
        indexed(with_a_stranger(database), database)

    with database.open("kb") as store:
        assert not store.info().complete


def test_what_another_program_wrote_is_removed_by_the_next_indexing(
    database: MemoryDatabase,
) -> None:
    with pytest.raises(StoreError):
        indexed(with_a_stranger(database), database)

    assert indexed(documents(), database).removed == 1


# --- what has changed; what is written and removed is held by the contract, of every store


def test_what_has_not_changed_is_not_embedded(database: MemoryDatabase) -> None:
    indexed(documents(5), database)
    embedder = CountingEmbedder()

    result = indexed(documents(5), database, embedder)

    assert result.unchanged == 5
    assert embedder.texts == []


def test_only_what_has_changed_is_embedded(database: MemoryDatabase) -> None:
    indexed(documents(5), database)
    embedder = CountingEmbedder()
    changed = Document(id="d1", text="Now about something else.")
    without_the_first = [changed, *documents(5)[2:]]

    indexed(without_the_first, database, embedder)

    assert embedder.texts == ["Now about something else."]
    assert ids(database) == {"d1", "d2", "d3", "d4"}
    assert database.open("kb").get(["d1"])["d1"].text == "Now about something else."


@pytest.mark.parametrize(
    ("corpus", "is_same"),
    [
        pytest.param(documents(3), True, id="the same documents"),
        pytest.param(documents(3)[::-1], True, id="in another order"),
        pytest.param(documents(4), False, id="a document more"),
    ],
)
def test_the_digest_changes_exactly_when_the_chunks_do(
    database: MemoryDatabase, corpus: list[Document], is_same: bool
) -> None:
    indexed(documents(3), database)
    digest = database.open("kb").info().made_by.digest

    indexed(corpus, database)

    assert (database.open("kb").info().made_by.digest == digest) is is_same


def test_the_digest_of_chunks_that_come_back_is_the_old_one(database: MemoryDatabase) -> None:
    indexed(documents(3), database)
    digest = database.open("kb").info().made_by.digest
    indexed(documents(4), database)

    indexed(documents(3), database)

    assert database.open("kb").info().made_by.digest == digest


def test_another_chunker_replaces_all_chunks(database: MemoryDatabase) -> None:
    text = " ".join(f"Sentence number {number} ends here." for number in range(20))
    indexed([Document(id="a", text=text)], database)
    assert ids(database) == {"a"}
    cut = make_chunker("sentences", ChunkSize(tokens=16))

    result = indexed([Document(id="a", text=text)], database, chunker=cut)

    assert result.removed == 1
    for id in ids(database):
        assert id.startswith("a#")


def test_another_embedder_or_dimension_is_refused_before_anything_is_written(
    database: MemoryDatabase,
) -> None:
    indexed(documents(3), database)

    with pytest.raises(ConfigError, match="another embedder"):
        indexed(documents(4), database, CountingEmbedder(dimension=64))

    assert ids(database) == {"d0", "d1", "d2"}
    assert database.open("kb").info().complete


# --- a corpus


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ([], "nothing to index"),
        ([Document(id="a", text=" \n\t")], "nothing to index"),
        ([*documents(1), *documents(1)], "two documents have the id 'd0'"),
    ],
    ids=["no documents", "a blank document", "an id of two documents"],
)
def test_a_corpus_that_cannot_be_is_an_error_and_empties_nothing(
    database: MemoryDatabase, corpus: list[Document], message: str
) -> None:
    indexed(documents(3), database)

    with pytest.raises(ConfigError, match=message):
        indexed(corpus, database)

    assert ids(database) == {"d0", "d1", "d2"}


def test_the_title_is_embedded_with_each_chunk(database: MemoryDatabase) -> None:
    embedder = CountingEmbedder()

    indexed([Document(id="a", text="Text.", title="Head"), *documents(1)], database, embedder)

    assert embedder.texts[-2:] == ["Head\nText.", "Document 0 is about topic0."]


def test_problems_of_a_corpus_are_reported_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "a", "text": "One."}\n{"id": "b"}\n', "utf-8")

    with pytest.raises(DataError, match=r"corpus\.jsonl:2"):
        index(path, f"memory:{tmp_path}/store", "kb", embedder="hashing:32", chunker="whole")

    assert not (tmp_path / "store").exists()
