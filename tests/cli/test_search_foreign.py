"""``ragbench search`` over a collection that another program has filled."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragbench.embedders.local import HashingEmbedder
from tests.cli.runs import Ragbench

pytestmark = pytest.mark.extra("qdrant")
STORE = ("--store", "qdrant:mine")
DOCS = (*STORE, "--collection", "docs")
HASHING = ("--embedder", "hashing:64")
TEXTS = {
    "leave": "Everyone has 27 days of paid leave.",
    "desk": "The help desk is open from 8 to 17.",
    "badge": "A lost badge is reported at the gate.",
}


@pytest.fixture
def filled(ragbench: Ragbench, workplace: Path) -> Ragbench:
    """The command line, beside a folder that a program with Qdrant's client has written."""
    from qdrant_client import QdrantClient, models

    vectors = HashingEmbedder(dimension=64).embed_passages(list(TEXTS.values())).tolist()
    client = QdrantClient(path="mine")
    size = models.VectorParams(size=64, distance=models.Distance.COSINE)
    client.create_collection("docs", vectors_config=size)
    client.create_collection("named", vectors_config={"dense": size, "title": size})
    for at, (name, text) in enumerate(TEXTS.items()):
        held = {"page_content": text, "metadata": {"source": f"{name}.pdf"}, "key": name}
        client.upsert("docs", [models.PointStruct(id=at, vector=vectors[at], payload=held)])
        other = models.PointStruct(id=at, vector={"dense": vectors[at]}, payload={"body": text})
        client.upsert("named", [other])
    client.upsert("docs", [models.PointStruct(id=9, vector=vectors[1], payload={"key": 5})])
    client.close()
    return ragbench


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_what_is_guessed_is_reported(filled: Ragbench) -> None:
    done = filled("search", *DOCS, *HASHING, "paid leave", "-k", "1", "--json")
    assert done.code == 0
    (chunk,) = rows(done.out)[0]["chunks"]
    assert chunk.pop("score") > 0.4
    metadata = {"key": "leave", "source": "leave.pdf"}
    assert chunk == {"id": "0", "text": TEXTS["leave"], "metadata": metadata}
    assert done.err == (
        "read as: text=page_content  (cosine, 64 dimensions)\n"
        "(guessed: text; correct it with --field text=FIELD)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*DOCS, "--map", "text=page_content"], "name the model of its vectors with --embedder"),
        ([*STORE, *HASHING, "--map", "text=body"], "with --collection: qdrant:mine has docs, nam"),
        ([*STORE, "--collection", "named", *HASHING], "several vectors (dense, title): say which"),
        ([*DOCS, *HASHING, "--map", "text"], "expected TARGET=SOURCE"),
        ([*DOCS, "--embedder", "hashing:32"], "of 64 dimensions, the embedder 'hashing:32' makes"),
        ([*DOCS, "--strategy", "sparse"], "name one with --field words=FIELD"),
        ([*DOCS, *HASHING, "--native-filter", "key = 5"], "of Qdrant is a JSON object"),
        ([*DOCS, *HASHING, "--native-filter", '{"mst": []}'], "Extra inputs are not permitted"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    filled: Ragbench, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], message: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    done = filled("search", *arguments, "paid leave").refused(message)
    assert done.out == "" and "Traceback" not in done.err
