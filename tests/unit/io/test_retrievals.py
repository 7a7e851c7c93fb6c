"""What validate reads: dumps, and whatever else has retrievals recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragbench import Chunk, RetrievalResult
from ragbench.errors import DataError
from ragbench.io.export import export
from ragbench.io.retrievals import open_retrievals
from tests.unit.io.traces import ALL, FULL, SCORES, measured


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_export(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"o.{form}"
    export(form, ALL, path, scores=SCORES)
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
    assert found["none"].chunks == ()
    assert found["bare"].chunks[0].id == "#1"
    # A retrieval that failed or never was is no empty one.
    assert found.keys() == {"full", "bare", "none", "gf"}
    assert dump.malformed == 2
    assert [problem.message for problem in dump.problems] == [
        "case 'rf': retrieve: ValueError: boom <- KeyError: 'x'",
        "case 'og': the RAG only generates",
    ]


def test_what_generation_was_given_counts(tmp_path: Path) -> None:
    trace = replace(FULL, post_retrieval=measured(RetrievalResult(["cut"], context_ids=["c"])))
    export("jsonl", [trace], tmp_path / "o.jsonl", scores=SCORES)
    with open_retrievals(tmp_path / "o.jsonl") as dump:
        (retrieval,) = dump
    assert [chunk.text for chunk in retrieval.chunks] == ["cut"]


def test_verdicts_are_no_retrievals(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    line = {"query_id": "1", "relevant_chunk_ids": [], "retrieval_quality": "Poor"}
    path.write_text(json.dumps({**line, "answer_probability": 0.1}), "utf-8")
    with (
        pytest.raises(DataError, match="holds verdicts, not the retrievals that they judge"),
        open_retrievals(path),
    ):
        pass


ROWS = "query;text;score\nWo liegt Zürich?;Zürich, größte Stadt der Schweiz;0,9\n"


def test_a_dump_in_an_old_encoding_is_read_and_the_guess_is_said(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(ROWS.replace("0,9", "0.9").encode("cp1252"))
    with open_retrievals(path) as dump:
        (found,) = dump
    assert (found.query, found.chunks[0].text) == (
        "Wo liegt Zürich?",
        "Zürich, größte Stadt der Schweiz",
    )
    assert dump.notes == (f"'{path}' is not UTF-8 and is read as cp1252, a guess (--encoding)",)
    # Who says it is believed, right or wrong: in cp1251 the same bytes are other letters.
    with open_retrievals(path, encoding="cp1251") as dump:
        (found,) = dump
    assert (found.query, dump.notes) == ("Wo liegt Zьrich?", ())


def test_the_queries_of_a_dump_may_be_in_an_old_encoding(tmp_path: Path) -> None:
    queries, dump = tmp_path / "topics.tsv", tmp_path / "dump.jsonl"
    queries.write_bytes("q1\tWo liegt Zürich?\n".encode("cp1252"))
    chunk = {"id": "a", "text": "Zürich", "score": 1.0}
    dump.write_text(json.dumps({"query_id": "q1", "chunks": [chunk]}), encoding="utf-8")
    with open_retrievals(dump, queries=queries) as opened:
        (found,) = opened
    assert (found.query, found.chunks[0].text) == ("Wo liegt Zürich?", "Zürich")
    (note,) = opened.notes
    assert note == f"'{queries}' is not UTF-8 and is read as cp1252, a guess (--encoding)"
