"""A collection that is searched with vectors of another model says so before the first figure."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ragbench import load_pipeline
from ragbench.embedders.local import HashingEmbedder
from ragbench_cli.main import main

pytestmark = pytest.mark.extra("qdrant")

TEXTS = [
    f"item {at} costs {at * 7} coins and lies in room {at % 5} of hall {at}" for at in range(40)
]
OWN = HashingEmbedder(dimension=128)


def foreign(texts: list[str]) -> list[str]:
    """Words that have nothing to do with those of the texts."""
    return [" ".join(hashlib.sha256(text.encode()).hexdigest()[:24]) for text in texts]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fill(embedded: list[str], kept: list[str] = TEXTS) -> None:
    """A collection as a program of the user's fills it."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path="mine")
    size = models.VectorParams(size=128, distance=models.Distance.COSINE)
    client.create_collection("docs", vectors_config=size)
    rows = OWN.embed_passages(embedded).tolist()
    client.upsert(
        "docs",
        [
            models.PointStruct(id=at, vector=row, payload={"text": text})
            for at, (row, text) in enumerate(zip(rows, kept, strict=True))
        ],
    )
    client.close()


FILE = """
indexing: {store: "qdrant:mine", collection: docs, embedder: "hashing:128", map: {text: text}}
retrieval: {type: dense, top_k: 3}
"""


MUCH_ELSE = [f"{text} and much else that nobody stored" for text in TEXTS]


@pytest.mark.parametrize(
    ("embedded", "kept", "wanted"),
    [
        (TEXTS, TEXTS, ""),
        (foreign(TEXTS), TEXTS, "are among the first 3: 'hashing:128' hardly made the vectors of"),
        (MUCH_ELSE, TEXTS, "the vectors of 'docs' are not those that 'hashing:128'"),
        # Of a small collection nothing is said.
        (foreign(TEXTS[:7]), TEXTS[:7], ""),
        (foreign(TEXTS[:29]), TEXTS[:29], ""),
    ],
)
def test_a_pipeline_says_whether_its_embedder_made_the_vectors(
    folder: Path, embedded: list[str], kept: list[str], wanted: str
) -> None:
    fill(embedded, kept)
    Path("rag.yaml").write_text(FILE, "utf-8")
    with load_pipeline(Path("rag.yaml")).open() as opened:
        warnings = [line for line in opened.notes if line.startswith("Warning")]
    assert len(warnings) == bool(wanted)
    assert wanted in "".join(warnings)


@pytest.mark.parametrize("wrong", [True, False])
def test_search_says_it_before_the_hits(
    folder: Path, wrong: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(foreign(TEXTS) if wrong else TEXTS)
    asked = ["search", "item 3", "--store", "qdrant:mine", "--collection", "docs"]
    assert main([*asked, "--map", "text=text", "--embedder", "hashing:128"]) == 0
    assert ("hardly made the vectors of 'docs'" in capsys.readouterr().err) is wrong
