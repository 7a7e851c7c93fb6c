"""What ragbench writes is read and filtered by the engines' own clients, without ragbench."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragbench import Chunk
from ragbench.search.stores.database import open_database
from ragbench.search.stores.record import encode
from tests.contract.store_engines import POSTGRES, postgres

METADATA: dict[str, Any] = {
    "source": "a.pdf",
    "year": 2023,
    "tags": ["x", "y"],
    "dept": {"id": 7},
}
NEW = Chunk(
    id="c1",
    text="Rent is due.",
    document_id="d1",
    start=0,
    end=12,
    metadata=METADATA,
)
OLD = Chunk(
    id="c2",
    text="Dogs.",
    document_id="d2",
    metadata={"source": "b.pdf", "year": 2020},
)
READERS = {
    "memory:{folder}/store": """
import json, pathlib, sys
lines = next(pathlib.Path(sys.argv[1]).glob("Library/chunks-*.jsonl")).read_text("utf-8")
rows = [json.loads(line) for line in lines.splitlines()]
print(json.dumps([row for row in rows if row["metadata"]["year"] >= 2021]))
""",
    "qdrant:{folder}/store": """
import json, sys
import qdrant_edge as q
shard = q.EdgeShard.load(sys.argv[1] + "/Library/shard")
year = q.FieldCondition(key="metadata.year", range=q.RangeFloat(gte=2021))
tags = q.FieldCondition(key="metadata.tags", match=q.MatchValue("x"))
dept = q.FieldCondition(key="metadata.dept.id", match=q.MatchValue(7))
request = q.ScrollRequest(filter=q.Filter(must=[year, tags, dept]), with_payload=True)
points, _ = shard.scroll(request)
print(json.dumps([point.payload for point in points]))
""",
    "postgresql": """
import json, sys
import psycopg
from psycopg.rows import dict_row
query = '''SELECT chunk_id, document_id, text, "start", "end", metadata, digest
FROM "ragbench_Library" WHERE (metadata->>'year')::int >= 2021
AND metadata @> '{"tags": ["x"], "dept": {"id": 7}}' '''
with psycopg.connect(sys.argv[1], row_factory=dict_row) as connection:
    print(json.dumps(connection.execute(query).fetchall()))
""",
}
"""Programs that know nothing of ragbench: they print the chunks from 2021 on."""
PACKAGES = {"memory": (), "qdrant": ("qdrant_edge",), "postgresql": POSTGRES}


@contextmanager
def started(pattern: str, folder: Path) -> Generator[str]:
    """The address of an empty store."""
    for package in PACKAGES[pattern.partition(":")[0]]:
        pytest.importorskip(package)
    if pattern == "postgresql":
        with postgres() as address:
            yield address
        return
    yield pattern.format(folder=folder)


def write(address: str) -> None:
    """Both chunks, in a collection of their own."""
    with open_database(address).create("Library", dimension=2) as store:
        store.upsert([NEW, OLD], np.eye(2))
        store.mark(complete=True)


def printed_by(code: str, argument: str) -> list[str]:
    """The lines that a program prints in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, argument]
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.mark.parametrize("pattern", READERS)
def test_another_program_reads_and_filters_the_plain_fields(pattern: str, tmp_path: Path) -> None:
    writer = f"from {__name__} import write; import sys; write(sys.argv[1])"

    with started(pattern, tmp_path) as address:
        # Each in a process of its own: some engines let go of a folder only when theirs ends.
        printed_by(writer, address)
        place = address if pattern == "postgresql" else address.partition(":")[2]
        *_, rows = printed_by(READERS[pattern], place)

    (row,) = json.loads(rows)
    expected = {
        "chunk_id": "c1",
        "document_id": "d1",
        "text": NEW.text,
        "start": 0,
        "end": 12,
    }
    assert expected.items() <= row.items()
    assert row["digest"] == encode(NEW).digest
    assert row["metadata"] == METADATA
