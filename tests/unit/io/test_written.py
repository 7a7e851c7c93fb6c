"""What ragbench wrote is read back: cases, outcomes, statuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Case, GenerationResult, RetrievalResult, open_source
from ragbench.core.outcome import Known
from ragbench.core.trace import Entry, Trace
from ragbench.errors import DataError
from ragbench.io.export import export
from ragbench.io.json_text import json_bytes
from tests.unit.io.files import lines
from tests.unit.io.traces import ALL, SCORES, measured, skipped, trace_of

STAGES = {
    "retrieve": "retrieval", "post_retrieve": "post_retrieval", "generate": "generation",
}  # fmt: skip


UNASKED = Trace(
    case=Case(id="new", query="q"),
    retrieval=skipped("not recorded"),
    generation=skipped("not asked yet: the run was interrupted"),
)


def expected(trace: Trace) -> Entry:
    """A trace as a source that has it recorded."""
    outcomes = {stage: getattr(trace, name) for stage, name in STAGES.items()}
    recorded = {
        stage: replace(outcome, known=Known.RECORDED)
        for stage, outcome in outcomes.items()
        if outcome is not None
    }
    return Entry(case=trace.case, recorded=recorded)


def read(path: Path, form: str) -> list[Entry]:
    with open_source(path) as source:
        assert source.info.form == form
        return list(source)


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "hf"])
def test_an_export_comes_back_as_it_was(tmp_path: Path, form: str) -> None:
    if form in ("parquet", "hf"):
        pytest.importorskip("pyarrow")
    path = tmp_path / f"o.{form}"
    export(form, (*ALL, UNASKED), path, scores=SCORES)
    wanted = [*map(expected, ALL), Entry(case=UNASKED.case, recorded={})]
    # As JSON: a table knows lists alone, and no tuples.
    assert [*map(json_bytes, read(path, "export"))] == [*map(json_bytes, wanted)]


def test_a_trec_run_comes_back_with_its_qrels(tmp_path: Path) -> None:
    ids = ["a b", "50%25"]
    some = trace_of(["x", "y"], case="q 1", ids=ids, scores=[2.5, 1.5], grades={"a b": 2})
    none = trace_of([], case="none", ids=[], grades={"z": 1})
    export("trec", [some, none], tmp_path / "o.run", scores=SCORES)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "a b", "text": "x"}\n{"id": "50%25", "text": "y"}\n', "utf-8")
    queries = tmp_path / "queries.tsv"
    queries.write_text("q 1\tFirst?\nnone\tSecond?\n", "utf-8")
    with open_source(tmp_path / "o.run", corpus=corpus, queries=queries) as source:
        first, second = source
    assert first.case.grades == {"a b": 2}
    assert first.recorded["retrieve"].value == RetrievalResult(
        ["x", "y"], context_ids=["a b", "50%25"], scores=[2.5, 1.5]
    )
    # In our run a query that is judged alone is one for which nothing was found.
    assert second.recorded["retrieve"].value == RetrievalResult([], context_ids=[], scores=[])


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@settings(max_examples=30)
@given(
    response=TEXTS,
    contexts=st.lists(TEXTS, max_size=3),
    scores=st.floats(allow_nan=False),
    metadata=st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS, max_size=2),
)
def test_texts_scores_and_metadata_survive(
    tmp_path_factory: pytest.TempPathFactory,
    response: str,
    contexts: list[str],
    scores: float,
    metadata: dict[str, Any],
) -> None:
    folder = tmp_path_factory.getbasetemp()
    noted = metadata or None
    retrieval = RetrievalResult(contexts, scores=[scores] * len(contexts), metadata=noted)
    trace = Trace(
        case=Case(id="1", query="q", metadata=metadata),
        retrieval=measured(retrieval),
        generation=measured(GenerationResult(response)),
    )
    for form in ("jsonl", "csv"):
        export(form, [trace], folder / f"o.{form}")
        assert read(folder / f"o.{form}", "export") == [expected(trace)]


def test_a_file_of_another_version_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    line = {"id": "1", "query": "q", "retrieval": {"status": "odd"}, "generation": None}
    path = lines(tmp_path / "o.jsonl", [{**line, "scores": {}}])
    with open_source(path) as source, pytest.raises(DataError, match="not what this ragbench wri"):
        list(source)


def test_a_verdict_that_failed_comes_back_as_a_failure(tmp_path: Path) -> None:
    verdict = {
        "query_id": "q2", "relevant_chunk_ids": ["a"], "relevance": {"a": 0.9},
        "answer_present": True, "answer_probability": 0.93, "evidence": [], "warnings": [],
        "retrieval_quality": None, "message": "Failed: ValueError: no luck", "validator": "lexical",
    }  # fmt: skip
    with open_source(lines(tmp_path / "v.jsonl", [verdict]), is_join=True) as source:
        (entry,) = source
    assert str(entry.recorded["validate"].failure) == "validate: ValueError: no luck"
