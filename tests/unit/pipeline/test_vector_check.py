"""A collection that is searched with vectors of another model says so before the first figure."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from ragbench import attach, load_pipeline
from ragbench.embedders.local import HashingEmbedder
from ragbench.pipeline.attached import SelfSearch, self_search
from ragbench_cli.main import main

pytestmark = pytest.mark.extra("qdrant")

TEXTS = [
    f"item {at} costs {at * 7} coins and lies in room {at % 5} of hall {at}" for at in range(40)
]
OWN = HashingEmbedder(dimension=128)


def foreign(texts: list[str]) -> list[str]:
    """Words that have nothing to do with those of the texts."""
    return [" ".join(hashlib.sha256(text.encode()).hexdigest()[:24]) for text in texts]


class OtherModel:
    """Vectors of the same length that mean something else."""

    dimension = 128

    def embed_passages(self, texts: list[str]) -> np.ndarray:
        return OWN.embed_passages(foreign(texts))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fill(
    embedded: list[str], kept: list[str] = TEXTS, *, distance: str = "Cosine", name: str = "docs"
) -> None:
    """A collection as a program of the user's fills it."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path="mine")
    size = models.VectorParams(size=128, distance=models.Distance(distance))
    client.create_collection(name, vectors_config=size)
    rows = OWN.embed_passages(embedded).tolist()
    client.upsert(
        name,
        [
            models.PointStruct(id=at, vector=row, payload={"text": text})
            for at, (row, text) in enumerate(zip(rows, kept, strict=True))
        ],
    )
    client.close()


def seen(embedder: object = OWN) -> SelfSearch | None:
    with attach("qdrant:mine", "docs") as collection:
        return self_search(collection, embedder)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_with_the_model_that_filled_it_every_chunk_finds_itself(folder: Path) -> None:
    fill(TEXTS)
    found = seen()
    assert found is not None
    assert (found.asked, found.found) == (16, 16)
    assert found.cosine == pytest.approx(1.0)


def test_with_another_model_of_the_same_length_hardly_one_does(folder: Path) -> None:
    """Three of forty rows are looked at: one text of thirteen is found by chance."""
    fill(TEXTS)
    found = seen(OtherModel())
    assert found is not None
    assert found.found < found.asked / 2


@pytest.mark.parametrize("rows", [7, 29])
def test_of_a_small_collection_nothing_is_said(folder: Path, rows: int) -> None:
    fill(TEXTS[:rows], TEXTS[:rows])
    assert seen(OtherModel()) is None


FILE = """
indexing: {store: "qdrant:mine", collection: docs, embedder: "hashing:128", map: {text: text}}
retrieval: {type: TYPE, top_k: 3}
"""


def notes(kind: str = "dense") -> list[str]:
    Path("rag.yaml").write_text(FILE.replace("TYPE", kind), "utf-8")
    with load_pipeline(Path("rag.yaml")).open() as opened:
        return [line for line in opened.notes if line.startswith("Warning")]


def test_a_pipeline_says_that_its_embedder_did_not_make_the_vectors(folder: Path) -> None:
    fill(foreign(TEXTS))
    (warning,) = notes()
    assert "are among the first 3: 'hashing:128' hardly made the vectors of 'docs'" in warning


def test_a_pipeline_says_that_other_text_was_embedded(folder: Path) -> None:
    fill([f"{text} and much else that nobody stored" for text in TEXTS])
    (warning,) = notes()
    assert warning.startswith("Warning: the vectors of 'docs' are not those that 'hashing:128'")


def test_a_pipeline_whose_embedder_fits_has_nothing_to_say(folder: Path) -> None:
    fill(TEXTS)
    assert notes() == []


@pytest.mark.parametrize("wrong", [True, False])
def test_search_says_it_before_the_hits(
    folder: Path, wrong: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(foreign(TEXTS) if wrong else TEXTS)
    asked = ["search", "item 3", "--store", "qdrant:mine", "--collection", "docs"]
    assert main([*asked, "--map", "text=text", "--embedder", "hashing:128"]) == 0
    assert ("hardly made the vectors of 'docs'" in capsys.readouterr().err) is wrong
