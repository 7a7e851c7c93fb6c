"""Engines inside of a process: one writer to a folder, and a clear word for everybody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragbench import Document, index, open_store
from ragbench.errors import StoreError
from ragbench.search.stores.database import open_database, sole_writer
from ragbench_cli.main import main

DOCUMENTS = [Document(id=f"d{at}", text=f"Document {at}.") for at in range(5)]
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
    return index(documents, address, "kb", embedder="hashing:8", chunker="whole").chunks


@pytest.mark.parametrize("there", [False, True])
def test_a_second_indexing_is_refused_and_writes_nothing(address: str, there: bool) -> None:
    if there:
        indexed(address)
    refused = pytest.raises(StoreError, match=r"another 'ragbench index' is writing .*wait until")
    with sole_writer(folder_of(address), address), refused:
        indexed(address, [Document(id="other", text="Of another corpus.")])
    assert indexed(address) == 5
    with open_store(address, "kb") as store:
        assert set(store.digests()) == {document.id for document in DOCUMENTS}
        assert store.info().complete


def test_what_is_being_written_is_not_dropped(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    indexed(address)
    with sole_writer(folder_of(address), address):
        assert main(["index", "--drop", "kb", "--store", address]) == 2
    assert "another 'ragbench index' is writing" in capsys.readouterr().err
    assert indexed(address) == 5
    assert main(["index", "--drop", "kb", "--store", address]) == 0


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("A file where a folder should be.", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        indexed(f"memory:{tmp_path}/file/index")


@pytest.mark.extra("qdrant")
def test_a_folder_that_another_process_has_open_is_one_line(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = f"qdrant:{tmp_path}/q"
    pipes: Any = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    started = subprocess.Popen([sys.executable, "-c", OPENS, address], text=True, **pipes)
    request.addfinalizer(started.communicate)
    assert started.stdout is not None
    assert started.stdout.readline() == "open\n"
    unknown = r"in use by another process\. Such a folder is open to one process at a time"
    with pytest.raises(StoreError, match=unknown):
        open_store(address, "kb")
    with pytest.raises(StoreError, match=unknown):
        indexed(address)
