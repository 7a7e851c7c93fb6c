from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import read_labels
from ragbench.errors import DataError
from tests.unit.io.files import lines


def file(folder: Path, *rows: Any) -> Path:
    return lines(folder / "labels.jsonl", rows)


def test_the_own_form(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"claim": "a", "evidence": "x", "label": "supported"},
        {"response": "b", "contexts": ["x", "y"], "label": False, "id": "i", "cluster": 7,
         "question": "q"},
        {"claim": "c", "evidence": ["x", " "], "label": 0.5},
        {"claim": "d", "evidence": [], "label": 1},
    ]  # fmt: skip
    found = read_labels(file(tmp_path, *rows))
    assert [claim.level for claim in found] == [2, 0, 1]  # without evidence: left out
    assert [claim.id for claim in found] == ["1", "i", "3"]
    assert (found[1].claim, found[1].evidence) == ("b", ("x", "y"))
    assert (found[1].cluster, found[1].question) == ("7", "q")
    assert found[2].evidence == ("x",)


def test_wice_is_one_passage(tmp_path: Path) -> None:
    row = {"label": "partially_supported", "claim": "c", "evidence": ["One.", "Two."],
           "supporting_sentences": [[0]], "meta": {"id": "dev1"}}  # fmt: skip
    (found,) = read_labels(file(tmp_path, row))
    assert (found.id, found.level, found.evidence) == ("dev1", 1, ("One.\nTwo.",))


def test_expertqa_knows_not_applicable(tmp_path: Path) -> None:
    row = {"question": "q", "claim": "c", "evidence": ["x"], "support": "Complete"}
    rows = [row, row | {"support": "Incomplete"}, row | {"support": "N/A"}]
    found = read_labels(file(tmp_path, *rows))
    assert [claim.level for claim in found] == [2, 1]
    assert {claim.cluster for claim in found} == {"q"}


def test_mtrag_takes_the_median_of_three_people(tmp_path: Path) -> None:
    def graded(*values: str) -> dict[str, Any]:
        grades = {str(n): {"value": value} for n, value in enumerate(values)}
        return {"task_id": "t<::>1", "model_id": str(values), "model_response": "r",
                "annotations": {"faithfulness": grades}}  # fmt: skip

    path = tmp_path / "human.json"
    whole = {
        "documents": [{"document_id": "d", "text": "x"}],
        "tasks": [
            {"task_id": "t<::>1", "contexts": [{"document_id": "d"}], "input": [{"text": "q"}]}
        ],
        "evaluations": [graded("4", "4", "1"), graded("2", "4", "3"), graded("1", "1", "4")],
    }
    path.write_text(json.dumps(whole), encoding="utf-8")
    found = read_labels(path)
    assert [claim.level for claim in found] == [2, 1, 0]
    assert {(claim.cluster, claim.question) for claim in found} == {("t", "q")}


def test_problems_name_line_and_field(tmp_path: Path) -> None:
    row = {"claim": "a", "evidence": "x", "label": 1}
    path = file(tmp_path, row | {"label": "maybe"}, row | {"claim": ""}, row | {"evidence": 5}, [])
    with pytest.raises(DataError) as caught:
        read_labels(path)
    found = [(problem.line, problem.field) for problem in caught.value.problems]
    assert found == [(1, "label"), (2, "claim"), (3, "evidence"), (4, None)]
    for bad in (tmp_path / "none.jsonl", file(tmp_path, row | {"evidence": ""})):
        with pytest.raises(DataError):
            read_labels(bad)
