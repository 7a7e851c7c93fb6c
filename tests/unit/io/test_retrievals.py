"""What validate reads: dumps, and whatever else has retrievals recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragbench.core.chunk import Chunk
from ragbench.core.result import RetrievalResult
from ragbench.errors import DataError
from ragbench.io.dumps.read import open_dump
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


def test_a_deepeval_run(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    case = {"input": "Who?", "actualOutput": "Ada", "retrievalContext": ["Ada wrote it."]}
    path.write_text(json.dumps({"testCases": [case]}), "utf-8")
    with open_retrievals(path) as dump:
        (retrieval,) = dump
    assert (retrieval.query, retrieval.chunks[0].text) == ("Who?", "Ada wrote it.")


def test_a_dump_is_read_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"query": "Who?", "chunks": [{"id": "a", "text": "Ada"}]}\n', "utf-8")
    with open_retrievals(path) as dump, open_dump(path) as other:
        assert dump.mapping == other.mapping
        assert list(dump) == list(other)


def test_verdicts_are_no_retrievals(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    line = {"query_id": "1", "relevant_chunk_ids": [], "retrieval_quality": "Poor"}
    path.write_text(json.dumps({**line, "answer_probability": 0.1}), "utf-8")
    with (
        pytest.raises(DataError, match="holds verdicts, not the retrievals that they judge"),
        open_retrievals(path),
    ):
        pass
