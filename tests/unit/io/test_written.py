"""What ragbench wrote is read back: cases, outcomes, statuses."""

from __future__ import annotations

import json
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
from tests.unit.io.traces import ALL, SCORES, measured, skipped, trace_of

STAGES = {
    "retrieve": "retrieval", "post_retrieve": "post_retrieval", "generate": "generation",
}  # fmt: skip


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


def plain(value: Any) -> Any:
    """Lists for tuples: a table knows one of them."""
    return json.loads(json_bytes(value))


def test_an_export_as_jsonl_comes_back_as_it_was(tmp_path: Path) -> None:
    traces = (
        *ALL,
        replace(ALL[0], case=replace(ALL[0].case, id="post"), post_retrieval=ALL[1].retrieval),
    )
    export("jsonl", traces, tmp_path / "o.jsonl", scores=SCORES)
    assert read(tmp_path / "o.jsonl", "export") == [expected(trace) for trace in traces]


@pytest.mark.parametrize("form", ["csv", "parquet", "hf"])
def test_a_table_comes_back_as_it_was(tmp_path: Path, form: str) -> None:
    if form != "csv":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"o.{form}"
    export(form, ALL, path, scores=SCORES)
    for entry, trace in zip(read(path, "export"), ALL, strict=True):
        wanted = expected(trace)
        assert entry.case == wanted.case
        assert entry.recorded.keys() == wanted.recorded.keys()
        for stage, outcome in entry.recorded.items():
            assert plain(outcome) == plain(wanted.recorded[stage])


def test_a_table_holds_what_generation_was_given(tmp_path: Path) -> None:
    trace = replace(ALL[0], post_retrieval=measured(RetrievalResult(["cut"], context_ids=["c"])))
    export("csv", [trace], tmp_path / "o.csv", scores=SCORES)
    (entry,) = read(tmp_path / "o.csv", "export")
    assert entry.recorded.keys() == {"post_retrieve", "generate"}
    assert entry.recorded["post_retrieve"].value == RetrievalResult(
        ["cut"], context_ids=["c"], metadata=None
    )


def test_ragas_samples_come_back_as_far_as_ragas_knows_them(tmp_path: Path) -> None:
    export("ragas", ALL, tmp_path / "o.jsonl", scores=SCORES)
    by_query = {entry.case.query: entry for entry in read(tmp_path / "o.jsonl", "ragas")}
    assert len(by_query) == 4  # failed cases are left out
    full = by_query[ALL[0].case.query]
    assert full.case.reference_context_ids == ALL[0].case.reference_context_ids
    assert full.recorded["generate"].value == GenerationResult(
        "In Switzerland", multi_responses=["In Switzerland", "In Germany"]
    )


def test_a_trec_run_comes_back_with_its_qrels(tmp_path: Path) -> None:
    traces = [
        trace_of(
            ["x", "y"], case="q 1", ids=["a b", "50%25"], scores=[2.5, 1.5], grades={"a b": 2}
        ),
        trace_of([], case="none", ids=[], grades={"z": 1}),
    ]
    export("trec", traces, tmp_path / "o.run", scores=SCORES)
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


def test_what_was_never_asked_is_not_recorded(tmp_path: Path) -> None:
    trace = Trace(
        case=Case(id="1", query="q"),
        retrieval=skipped("not recorded"),
        generation=skipped("not asked yet: the run was interrupted"),
    )
    for form in ("jsonl", "csv"):
        export(form, [trace], tmp_path / f"o.{form}", scores=SCORES)
        assert read(tmp_path / f"o.{form}", "export") == [Entry(case=trace.case, recorded={})]


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
    retrieval = RetrievalResult(
        contexts, scores=[scores] * len(contexts), metadata=metadata or None
    )
    trace = Trace(
        case=Case(id="1", query="q", metadata=metadata),
        retrieval=measured(retrieval),
        generation=measured(GenerationResult(response)),
    )
    for form in ("jsonl", "csv"):
        export(form, [trace], folder / f"o.{form}")
        (entry,) = read(folder / f"o.{form}", "export")
        assert entry == expected(trace)


def test_a_file_of_another_version_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    line = {
        "id": "1",
        "query": "q",
        "retrieval": {"status": "odd"},
        "generation": None,
        "scores": {},
    }
    path = tmp_path / "o.jsonl"
    path.write_text(json.dumps(line), "utf-8")
    with (
        open_source(path) as source,
        pytest.raises(DataError, match="not what this ragbench writes"),
    ):
        list(source)


VERDICT = {
    "query_id": "q1",
    "relevant_chunk_ids": ["a"],
    "relevance": {"a": 0.9},
    "answer_present": True,
    "answer_probability": 0.93,
    "evidence": [{"chunk_id": "a", "start": 0, "end": 3, "text": "Ada"}],
    "retrieval_quality": "Good",
    "message": "The answer is there.",
    "warnings": [],
    "validator": "lexical",
}


def test_verdicts_are_joined_and_not_asked_for_questions(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    failure = {
        **VERDICT,
        "query_id": "q2",
        "retrieval_quality": None,
        "message": "Failed: ValueError: no luck",
    }
    path.write_text(f"{json.dumps(VERDICT)}\n{json.dumps(failure)}\n", "utf-8")
    with pytest.raises(DataError, match="ragbench eval DATASET --answers"):
        open_source(path)
    with open_source(path, is_join=True) as source:
        first, second = source
    verdict = first.recorded["validate"].value
    assert verdict is not None
    assert (verdict.answer_present, verdict.retrieval_quality) == (True, "Good")
    assert verdict.evidence[0].text == "Ada"
    assert str(second.recorded["validate"].failure) == "validate: ValueError: no luck"
