"""AutoRAG's questions, and experiments of LangSmith."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source, read_documents
from ragbench.core.trace import Entry
from ragbench.errors import DataError


def recorded(entry: Entry, stage: str) -> Any:
    """What the source holds of a stage."""
    value = entry.recorded[stage].value
    assert value is not None
    return value


def entries(path: Path, form: str) -> list[Entry]:
    with open_source(path) as source:
        assert source.info.form == form
        return list(source)


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


# --- AutoRAG


@pytest.mark.parametrize(
    ("retrieval_gt", "ids", "needs"),
    [
        ([["d1"]], ("d1",), None),
        ([["d1"], ["d2"]], ("d1", "d2"), "all"),
        ([["d1", "d2"]], ("d1", "d2"), None),
        (["d1", "d2"], ("d1", "d2"), None),
        ("d1", ("d1",), None),
        ([[]], (), None),
        ([[""]], (), None),
        (None, None, None),
    ],
)
@pytest.mark.parametrize("name", ["qa.json", "qa.csv"])
def test_groups_of_relevant_ids_are_flat(
    tmp_path: Path,
    name: str,
    retrieval_gt: object,
    ids: tuple[str, ...] | None,
    needs: str | None,
) -> None:
    record = {"qid": "q1", "query": "Who?", "retrieval_gt": retrieval_gt}
    content: object = [{**record, "generation_gt": ["Ada", "Lovelace"]}]
    if name == "qa.csv":
        cell = "" if retrieval_gt is None else str(retrieval_gt)
        content = (
            f"qid,query,retrieval_gt,generation_gt\nq1,Who?,\"{cell}\",\"['Ada', 'Lovelace']\"\n"
        )

    (entry,) = entries(written(tmp_path, name, content), "autorag")

    assert entry.case.id == "q1"
    assert entry.case.references == ("Ada", "Lovelace")
    assert entry.case.reference_context_ids == ids
    assert entry.case.metadata.get("needs") == needs


@pytest.mark.parametrize(
    ("cells", "field"), [("['d1,['Ada']", "retrieval_gt"), ("['d1'],['Ada", "generation_gt")]
)
def test_a_broken_list_is_named_by_its_column(tmp_path: Path, cells: str, field: str) -> None:
    table = f"qid,query,retrieval_gt,generation_gt\nq1,Who?,{cells}\n"

    with pytest.raises(DataError) as caught:
        entries(written(tmp_path, "qa.csv", table), "autorag")

    [problem] = caught.value.problems
    assert problem.field == field
    assert problem.line == 2


def test_alternatives_are_noted(tmp_path: Path) -> None:
    record = {"qid": "q1", "query": "Who?", "retrieval_gt": [["d1", "d2"]]}

    with open_source(written(tmp_path, "qa.json", [record])) as source:
        assert any("alternatives within a group" in note for note in source.info.notes)


@pytest.mark.extra("hf")
def test_parquet_is_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    question = {"qid": "q1", "query": "Who?", "retrieval_gt": [["d1"]], "generation_gt": ["Ada"]}
    parquet.write_table(pyarrow.Table.from_pylist([question]), tmp_path / "qa.parquet")
    row = {"doc_id": "d1", "contents": "Ada wrote it.", "metadata": {"path": "a.md"}}
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "corpus.parquet")

    (entry,) = entries(tmp_path / "qa.parquet", "autorag")
    (document,) = read_documents(tmp_path / "corpus.parquet")

    assert entry.case.reference_context_ids == ("d1",)
    assert entry.case.reference == "Ada"
    assert document.id == "d1"
    assert document.text == "Ada wrote it."


# --- LangSmith

DOCUMENTS = [{"page_content": "Ada wrote it.", "metadata": {"source": "a.md"}}]


def test_a_table_of_an_experiment_is_read(tmp_path: Path) -> None:
    table = (
        "inputs.question,outputs.answer,outputs.contexts,error,reference.answer,feedback.correct,"
        "execution_time,example_id,id\n"
        "Who?,Ada,\"['Ada wrote it.']\",,Ada Lovelace,1,1.5,e1,r1\n"
    )

    (entry,) = entries(written(tmp_path, "experiment.csv", table), "langsmith")

    assert entry.case.id == "e1"
    assert entry.case.query == "Who?"
    assert entry.case.reference == "Ada Lovelace"
    assert recorded(entry, "generate").response == "Ada"
    assert entry.recorded["generate"].seconds == 1.5
    assert recorded(entry, "retrieve").contexts == ["Ada wrote it."]
    assert entry.case.metadata == {"feedback": {"correct": "1"}}


def test_rows_of_the_sdk_are_read(tmp_path: Path) -> None:
    record = {
        "run": {"id": "r1", "outputs": {"output": "Ada", "documents": DOCUMENTS}, "error": None},
        "example": {"id": "e1", "inputs": {"topic": "Who?"}, "outputs": {"answer": "Ada Lovelace"}},
        "evaluation_results": {"results": []},
    }

    (entry,) = entries(written(tmp_path, "rows.json", [record]), "langsmith")

    assert entry.case.id == "e1"
    assert entry.case.query == "Who?"
    assert entry.case.reference == "Ada Lovelace"
    assert recorded(entry, "generate").response == "Ada"
    assert recorded(entry, "retrieve").contexts == ["Ada wrote it."]


def test_objects_in_columns_are_read(tmp_path: Path) -> None:
    record = {
        "inputs": {"question": "Who?"},
        "outputs": {"answer": "Ada"},
        "reference_outputs": {"answer": "Ada Lovelace", "relevant_ids": ["d1"]},
    }

    (entry,) = entries(written(tmp_path, "rows.json", [record]), "langsmith")

    assert entry.case.query == "Who?"
    assert entry.case.reference == "Ada Lovelace"
    assert entry.case.reference_context_ids == ("d1",)
    assert recorded(entry, "generate").response == "Ada"


def test_documents_of_the_reference_are_never_the_retrieval(tmp_path: Path) -> None:
    table = (
        "inputs.question,outputs.answer,reference_outputs.answer,reference_outputs.contexts\n"
        "Who?,Ada,Ada Lovelace,\"['Gold.']\"\n"
    )

    (entry,) = entries(written(tmp_path, "experiment.csv", table), "langsmith")

    assert "retrieve" not in entry.recorded
    assert entry.case.reference_contexts == ("Gold.",)


def test_an_error_is_a_failed_case(tmp_path: Path) -> None:
    table = "inputs.question,outputs.answer,error,example_id\nWho?,,TimeoutError(),e1\n"

    (entry,) = entries(written(tmp_path, "experiment.csv", table), "langsmith")

    failure = entry.recorded["generate"].failure
    assert failure is not None
    assert failure.message == "TimeoutError()"
