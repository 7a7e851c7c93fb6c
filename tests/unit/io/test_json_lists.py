"""The list of records in a JSON object, under whatever key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source, read_cases, read_documents
from ragbench.core.trace import Entry
from ragbench.errors import DataError

WARRANTY = {"question": "How long is the warranty?", "ground_truth": "two years"}
RETURNS = {"question": "Can I return it?", "ground_truth": "within 30 days"}


def recorded(entry: Entry, stage: str) -> Any:
    """What the source holds of a stage."""
    value = entry.recorded[stage].value
    assert value is not None
    return value


def written(folder: Path, value: object) -> Path:
    path = folder / "cases.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "value",
    [
        {"version": 1, "test_cases": [WARRANTY]},
        {"name": "x", "qa_pairs": [WARRANTY], "tags": ["a", "b"]},
        {"anything at all": [WARRANTY]},
        {"data": {"name": "x", "items": [WARRANTY]}},
        {"data": {"meta": {"a": 1}, "rows": [WARRANTY]}, "version": 2},
        {"entries": [WARRANTY], "models": [{"name": "a"}, {"name": "b"}]},
    ],
    ids=[
        "test_cases",
        "beside texts",
        "any key",
        "deeper",
        "deeper beside",
        "beside other objects",
    ],
)
def test_the_only_list_with_questions_is_read(tmp_path: Path, value: object) -> None:
    (case,) = read_cases(written(tmp_path, value))

    assert (case.query, case.reference) == ("How long is the warranty?", "two years")


def test_two_lists_with_questions_are_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, {"train": [WARRANTY], "test": [RETURNS]})

    with pytest.raises(DataError, match=r"'train' and 'test'\. Choose one: --split train"):
        list(read_cases(path))


def test_split_names_the_list(tmp_path: Path) -> None:
    path = written(tmp_path, {"train": [WARRANTY], "test": [RETURNS]})

    assert [case.query for case in read_cases(path, split="test")] == ["Can I return it?"]


def test_split_names_a_deeper_list(tmp_path: Path) -> None:
    path = written(tmp_path, {"data": {"train": [WARRANTY], "test": [RETURNS]}})

    (case,) = read_cases(path, split="data.test")

    assert case.query == "Can I return it?"


def test_a_list_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    path = written(tmp_path, {"train": [WARRANTY], "test": [RETURNS]})

    with pytest.raises(DataError, match="no list 'dev'; there are: train, test"):
        list(read_cases(path, split="dev"))


def test_a_documented_name_comes_first_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path, {"retired": [RETURNS], "cases": [WARRANTY]})

    with open_source(path) as source:
        assert "The list 'cases' is read; --split names another: retired" in source.info.notes
        assert [entry.case.query for entry in source] == ["How long is the warranty?"]


def test_a_record_of_its_own_is_not_a_wrapper(tmp_path: Path) -> None:
    record = {"query": "Who?", "reference": "Ada", "comments": [{"question": "Sure?"}]}

    (case,) = read_cases(written(tmp_path, record))

    assert case.query == "Who?"


def test_a_list_whose_question_has_another_name_can_be_mapped(tmp_path: Path) -> None:
    path = written(tmp_path, {"version": 1, "fragen": [{"Frage": "Wie lange?"}]})

    (case,) = read_cases(path, fields={"query": "Frage"})

    assert case.query == "Wie lange?"


def test_a_corpus_is_the_list_with_texts(tmp_path: Path) -> None:
    value = {"questions": [WARRANTY], "pages": [{"id": "a", "text": "Two years of warranty."}]}

    (document,) = read_documents(written(tmp_path, value))

    assert (document.id, document.text) == ("a", "Two years of warranty.")


# --- test sets of ragas 0.1


RAGAS_01 = {
    "question": "How long is the warranty?",
    "contexts": ["The warranty is two years."],
    "ground_truth": "two years",
    "evolution_type": "simple",
    "metadata": [{"source": "a.md"}],
    "episode_done": True,
}


@pytest.mark.parametrize(
    "left_out", ["nothing", "metadata", "evolution_type", "episode_done"], ids=str
)
def test_contexts_of_a_ragas_test_set_are_gold(tmp_path: Path, left_out: str) -> None:
    record = {name: value for name, value in RAGAS_01.items() if name != left_out}

    with open_source(written(tmp_path, {"testset": [record]})) as source:
        (entry,) = source

    assert entry.case.reference_contexts == ("The warranty is two years.",)
    assert entry.case.reference == "two years"
    assert not entry.recorded


def test_contexts_of_a_ragas_test_set_with_answers_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [{**RAGAS_01, "answer": "three years"}])

    with pytest.raises(DataError, match=r"--format json .*--field retrieved_contexts=contexts"):
        list(read_cases(path))


def test_retrieved_contexts_beside_a_ragas_test_set_are_the_systems(tmp_path: Path) -> None:
    record = {**RAGAS_01, "answer": "three", "retrieved_contexts": ["The moon is round."]}

    with open_source(written(tmp_path, [record])) as source:
        (entry,) = source

    assert recorded(entry, "retrieve").contexts == ["The moon is round."]
    assert recorded(entry, "generate").response == "three"
    assert entry.case.reference_contexts == ("The warranty is two years.",)
