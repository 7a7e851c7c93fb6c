"""A stored run as the source of another evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragbench import (
    Case,
    GenerationResult,
    Known,
    RAGInterface,
    RetrievalResult,
    Status,
    evaluate,
    open_source,
    open_traces,
)
from ragbench.errors import DataError, RunMismatchError
from ragbench.stages.stored import entries
from tests.behaviour import rags

CASES = [
    Case(id="1", query="good", reference="yes", metadata={"n": 1}, tags=("a",)),
    Case(id="2", query="silent"),
    Case(id="3", query="lost"),
    Case(id="4", query="broken", grades={"d": 2}),
]


class Moody(RAGInterface):
    """Does something else for each question."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        if query == "lost":
            raise ConnectionError("no index")
        texts = [f"about {query}", "x"]
        return RetrievalResult(texts, context_ids=["a", "b"], scores=[2.0, 1.0], metadata={"k": 1})

    def generate_with_metadata(self, query: str, contexts: Any) -> GenerationResult:
        if query == "broken":
            raise ValueError("no answer")
        if query == "silent":
            return GenerationResult("I do not know.")
        return GenerationResult("yes", confidence=0.5, metadata={"usage": {"prompt_tokens": 3}})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    evaluate(CASES, Moody(), out=tmp_path / "run", metrics=[])
    return tmp_path / "run"


def test_every_outcome_of_a_run_is_recorded(run: Path) -> None:
    traces = {traced.trace.case.id: traced.trace for traced in open_traces(run)}
    found = {entry.id: entry for entry in entries(run)}
    assert [entry.case for entry in found.values()] == CASES
    for id, entry in found.items():
        trace = traces[id]
        for stage, outcome in (("retrieve", trace.retrieval), ("generate", trace.generation)):
            recorded = entry.recorded[stage]
            assert recorded.known is Known.RECORDED
            assert (recorded.status, recorded.value) == (outcome.status, outcome.value)
            assert str(recorded.failure) == str(outcome.failure)
            assert recorded.seconds == outcome.seconds
    assert found["2"].recorded["generate"].status is Status.ABSTAINED
    assert str(found["3"].recorded["generate"].failure) == "retrieve: ConnectionError: no index"


def test_what_was_not_asked_yet_is_not_recorded(tmp_path: Path) -> None:
    asked = 0

    def stopped() -> bool:
        return asked > 0

    class Once(Moody):
        def generate_with_metadata(self, query: str, contexts: Any) -> GenerationResult:
            nonlocal asked
            asked += 1
            return super().generate_with_metadata(query, contexts)

    with pytest.raises(Exception, match="stopped"):
        rags.run(CASES[:2], Once(), tmp_path / "run", metrics="", stopped=stopped)
    found = list(entries(tmp_path / "run"))
    assert [sorted(entry.recorded) for entry in found] == [["generate", "retrieve"], ["retrieve"]]


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match="not a run folder"):
        list(entries(tmp_path))
    (tmp_path / "journal.sqlite").write_bytes(b"no journal")
    (tmp_path / "manifest.json").write_text("{}", "utf-8")
    with open_source(tmp_path) as source, pytest.raises(DataError, match="not a manifest"):
        list(source)
