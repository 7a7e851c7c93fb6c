"""Which embedder there is where none is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragbench import Document, index, load_pipeline, open_embedder

pytestmark = pytest.mark.extra("embeddings")
ENGLISH = [
    Document(id="rent", text="The rent is due on the first of the month, and it is paid by all."),
    Document(id="leave", text="How many days of vacation are there for people who work at night?"),
]
GERMAN = [
    Document(id="miete", text="Die Miete ist am ersten des Monats fällig und wird bezahlt."),
    Document(id="urlaub", text="Wie viele Tage Urlaub gibt es für die Leute, die nachts arbeiten?"),
]


def test_static_vectors_know_meaning_and_no_case() -> None:
    embedder = open_embedder("english")
    texts = [document.text for document in ENGLISH]

    passages = embedder.embed_passages([*texts, "", "苹果"])
    assert passages.shape == (4, 256)
    assert np.linalg.norm(passages, axis=1) == pytest.approx([1, 1, 0, 1], abs=1e-5)

    queries = embedder.embed_queries(["When do I pay my landlord?", "holidays of employees"])
    cosines = queries @ passages[:2].T
    assert cosines.argmax(axis=1).tolist() == [0, 1]

    in_capitals = embedder.embed_passages([text.upper() for text in texts])
    assert np.array_equal(in_capitals, passages[:2])


@pytest.mark.parametrize(
    ("documents", "embedder"),
    [
        (ENGLISH, "english"),
        (GERMAN, "multilingual"),
        ([*ENGLISH, *GERMAN], "multilingual"),
        ([*ENGLISH, GERMAN[0]], "english"),  # two of three
        ([Document(id="a", text="4711 0815")], "multilingual"),  # of no language
    ],
)
def test_the_language_of_the_documents_decides(
    documents: list[Document], embedder: str, tmp_path: Path
) -> None:
    store = f"memory:{tmp_path}/index"
    assert index(iter(documents), store, "kb").embedder == embedder

    # Whatever is added later, the collection keeps its own.
    added = Document(id="more", text="Das Büro ist für alle da, und es ist am Abend geöffnet.")
    assert index([added], store, "kb").embedder == embedder

    file = tmp_path / "rag.yaml"
    file.write_text("retrieval: hybrid\n", "utf-8")
    with load_pipeline(file).open(lambda: documents) as opened:
        identity = opened.rag.stage_identity("retrieve")
    assert f"'embedder': '{embedder}'" in str(identity)


def test_a_collection_keeps_the_embedder_that_it_was_made_with(tmp_path: Path) -> None:
    store = f"memory:{tmp_path}/index"
    index(ENGLISH, store, "corpus", embedder="hashing:64")
    assert index(ENGLISH, store, "corpus").embedder == "hashing:64"

    file = tmp_path / "rag.yaml"
    file.write_text("indexing: {store: 'memory:index'}\nretrieval: dense\n", "utf-8")
    with load_pipeline(file).open() as opened:
        identity = opened.rag.stage_identity("retrieve")
    assert "'hashing'" in str(identity)
