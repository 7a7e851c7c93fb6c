"""What validate reads: dumps, and whatever else has retrievals recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ragbench import Chunk, RetrievalResult
from ragbench.io.export import export
from ragbench.io.retrievals import open_retrievals
from tests.unit.io.files import lines
from tests.unit.io.traces import ALL, FULL, SCORES, measured


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_export(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"o.{form}"
    cut = RetrievalResult(["cut"], context_ids=["c"])
    after = replace(FULL, case=replace(FULL.case, id="cut"), post_retrieval=measured(cut))
    export(form, (*ALL, after), path, scores=SCORES)
    with open_retrievals(path) as dump:
        found = {retrieval.query_id: retrieval for retrieval in dump}
    assert dump.mapping.format == "export"
    full = found["full"]
    assert full.query == FULL.case.query
    assert full.chunks == (
        Chunk(id="ch-1", text="Zürich is in Switzerland.", score=0.9, metadata={"page": 1}),
        Chunk(id="ch-9", text="Bern, the capital", score=0.25, metadata={"page": 2}),
    )
    assert full.relevant_ids == frozenset({"ch-1", "ch-2"})
    assert full.answers == ("In Switzerland",)
    assert (found["none"].chunks, found["bare"].chunks[0].id) == ((), "#1")
    assert [chunk.text for chunk in found["cut"].chunks] == ["cut"]  # what generation was given
    # A retrieval that failed or never was is no empty one.
    assert found.keys() == {"full", "bare", "none", "gf", "cut"}
    assert dump.malformed == 2
    assert [problem.message for problem in dump.problems] == [
        "case 'rf': retrieve: ValueError: boom <- KeyError: 'x'",
        "case 'og': the RAG only generates",
    ]


def test_a_dump_or_its_queries_may_be_in_an_old_encoding(tmp_path: Path) -> None:
    path, queries = tmp_path / "rows.csv", tmp_path / "topics.tsv"
    path.write_bytes("query;text;score\nWo liegt Zürich?;größte Stadt;0.9\n".encode("cp1252"))
    with open_retrievals(path) as dump:
        (found,) = dump
    assert (found.query, found.chunks[0].text) == ("Wo liegt Zürich?", "größte Stadt")
    guess = "is not UTF-8 and is read as cp1252, a guess (--encoding)"
    assert dump.notes == (f"'{path}' {guess}",)
    # Who says it is believed, right or wrong: in cp1251 the same bytes are other letters.
    with open_retrievals(path, encoding="cp1251") as dump:
        (found,) = dump
    assert (found.query, dump.notes) == ("Wo liegt Zьrich?", ())
    queries.write_bytes("q1\tWo liegt Zürich?\n".encode("cp1252"))
    path = lines(tmp_path / "d.jsonl", [{"query_id": "q1", "chunks": [{"id": "a", "text": "x"}]}])
    with open_retrievals(path, queries=queries) as dump:
        (found,) = dump
    assert (found.query, dump.notes) == ("Wo liegt Zürich?", (f"'{queries}' {guess}",))
