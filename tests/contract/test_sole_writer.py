"""Engines inside of a process: one writer to a folder, and a clear word for everybody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ragbench import Document, index, open_store
from ragbench.errors import StoreError
from ragbench.search.stores.database import open_database, sole_writer
from ragbench_cli.main import main

DOCUMENTS = [Document(id=f"d{number}", text=f"Document {number}.") for number in range(5)]
# Fills a collection, opens it, says so, and keeps it open until its standard input ends.
OPENS = """
import sys
from ragbench.core.chunk import Document
from ragbench.search.pipeline.index import index
from ragbench.search.stores.database import open_store
index([Document(id="d", text="One.")], sys.argv[1], "kb", embedder="hashing:8")
with open_store(sys.argv[1], "kb"):
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["memory", pytest.param("qdrant", marks=pytest.mark.extra("qdrant"))])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:{tmp_path}/index"


def folder_of(address: str) -> Path:
    folder = open_database(address).folder
    assert folder is not None
    return folder


def indexed(address: str, documents: list[Document] = DOCUMENTS) -> int:
    """How many chunks the collection has once these documents are indexed, each whole."""
    result = index(documents, address, "kb", embedder="hashing:8", chunker="whole")
    return result.chunks


@pytest.mark.parametrize("has_index", [False, True])
def test_a_second_indexing_is_refused_and_writes_nothing(address: str, has_index: bool) -> None:
    other_corpus = [Document(id="other", text="Of another corpus.")]
    if has_index:
        indexed(address)

    message = r"another 'ragbench index' is writing .*wait until"
    with sole_writer(folder_of(address), address), pytest.raises(StoreError, match=message):
        indexed(address, other_corpus)

    assert indexed(address) == 5
    with open_store(address, "kb") as store:
        assert set(store.digests()) == {document.id for document in DOCUMENTS}
        assert store.info().complete


def test_what_is_being_written_is_not_dropped(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    drop = ["index", "--drop", "kb", "--store", address]
    indexed(address)

    with sole_writer(folder_of(address), address):
        assert main(drop) == 2

    assert "another 'ragbench index' is writing" in capsys.readouterr().err
    assert indexed(address) == 5
    assert main(drop) == 0


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("A file where a folder should be.", encoding="utf-8")

    with pytest.raises(StoreError, match="cannot be written"):
        indexed(f"memory:{tmp_path}/file/index")


@pytest.mark.extra("qdrant")
def test_a_folder_that_another_process_has_open_is_one_line(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = f"qdrant:{tmp_path}/q"
    process = subprocess.Popen(
        [sys.executable, "-c", OPENS, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    request.addfinalizer(process.communicate)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"

    message = r"in use by another process\. Such a folder is open to one process at a time"
    with pytest.raises(StoreError, match=message):
        open_store(address, "kb")
    with pytest.raises(StoreError, match=message):
        indexed(address)
