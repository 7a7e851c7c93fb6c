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
    return [Document(id=f"d{at}", text=f"Document {at} is about topic{at}.") for at in range(count)]


def run(
    given: Iterable[Document],
    database: Database,
    embedder: CountingEmbedder | None = None,
    **settings: Any,
) -> IndexResult:
    how: Any = {"embedder_name": "hashing:32", "chunker": make_chunker("whole"), **settings}
    return index_documents(given, database, "kb", embedder=embedder or CountingEmbedder(), **how)


def test_what_another_program_wrote_meanwhile_is_no_whole_collection(
    database: MemoryDatabase,
) -> None:
    def entered() -> Iterator[Document]:
        yield from documents(280)
        with database.open("kb") as store:
            stranger = Chunk(id="stranger", text="Who wrote this?")
            store.upsert([stranger], np.ones((1, 32), dtype=np.float32))
        yield from documents(300)[280:]

    with pytest.raises(StoreError, match="0 chunks are missing, 1 are other ones"):
        run(entered(), database)
    with database.open("kb") as store:
        assert not store.info().complete
    assert run(documents(), database).removed == 1


@pytest.fixture
def database() -> MemoryDatabase:
    return MemoryDatabase()


def ids(database: Database) -> set[str]:
    with database.open("kb") as store:
        return set(store.digests())


def test_only_what_has_changed_is_embedded(database: MemoryDatabase) -> None:
    """What is written and removed is held by the contract, of every store."""
    given, again = documents(5), CountingEmbedder()
    run(given, database)
    assert (run(given, database, again).unchanged, again.texts) == (5, [])
    run([Document(id="d1", text="Now about something else."), *given[2:]], database, again)
    assert again.texts == ["Now about something else."]
    assert ids(database) == {"d1", "d2", "d3", "d4"}
    assert database.open("kb").get(["d1"])["d1"].text == "Now about something else."


def test_the_digest_changes_exactly_when_the_chunks_do(database: MemoryDatabase) -> None:
    digests: list[str] = []
    for given in (documents(3), documents(3)[::-1], documents(4), documents(3)):
        run(given, database)
        digests.append(database.open("kb").info().made_by.digest)
    first, turned, more, again = digests
    assert first == turned == again != more


def test_another_chunker_replaces_all_chunks(database: MemoryDatabase) -> None:
    text = " ".join(f"Sentence number {number} ends here." for number in range(20))
    run([Document(id="a", text=text)], database)
    cut = make_chunker("sentences", ChunkSize(tokens=16))
    result = run([Document(id="a", text=text)], database, chunker=cut)
    assert result.removed == 1
    assert all(id_.startswith("a#") for id_ in ids(database))


def test_another_embedder_or_dimension_is_refused_before_anything_is_written(
    database: MemoryDatabase,
) -> None:
    run(documents(3), database)
    with pytest.raises(ConfigError, match="another embedder"):
        run(documents(4), database, CountingEmbedder(dimension=64))
    assert ids(database) == {"d0", "d1", "d2"}
    assert database.open("kb").info().complete


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "nothing to index"),
        ([Document(id="a", text=" \n\t")], "nothing to index"),
        (documents(1) * 2, "two documents have the id 'd0'"),
    ],
)
def test_a_corpus_that_cannot_be_is_an_error_and_empties_nothing(
    database: MemoryDatabase, given: list[Document], message: str
) -> None:
    run(documents(3), database)
    with pytest.raises(ConfigError, match=message):
        run(given, database)
    assert len(ids(database)) == 3


def test_the_title_is_embedded_with_each_chunk(database: MemoryDatabase) -> None:
    embedder = CountingEmbedder()
    run([Document(id="a", text="Text.", title="Head"), *documents(1)], database, embedder)
    assert embedder.texts[-2:] == ["Head\nText.", "Document 0 is about topic0."]


def test_problems_of_a_corpus_are_reported_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "a", "text": "One."}\n{"id": "b"}\n', "utf-8")
    with pytest.raises(DataError, match=r"corpus\.jsonl:2"):
        index(path, f"memory:{tmp_path}/store", "kb", embedder="hashing:32", chunker="whole")
    assert not (tmp_path / "store").exists()
