from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, GenerationResult
from ragbench.core.trace import Trace
from ragbench.errors import InputError
from ragbench.io.export import export
from tests.unit.io.traces import ALL, SCORES, measured, skipped


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def test_a_case_a_row_with_lists_as_json_and_what_is_unknown_empty(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    done = export("csv", ALL, path, scores=SCORES)
    assert (done.written, done.left_out) == (6, {})
    by_id = {row["id"]: row for row in rows(path)}
    assert list(by_id) == [trace.case.id for trace in ALL]
    full = by_id["full"]
    contexts = ["Zürich is in Switzerland.", "Bern, the capital"]
    assert json.loads(full["retrieved_contexts"]) == contexts
    assert json.loads(full["context_metadata"]) == [{"page": 1}, {"page": 2}]
    assert json.loads(full["rubrics_json"]) == {"score1": "wrong"}
    assert (full["answerable"], full["confidence"], full["retrieval_seconds"]) == (
        "true", "0.75", "0.25",
    )  # fmt: skip
    assert by_id["none"]["retrieved_contexts"] == "[]"
    failed = by_id["rf"]
    assert (failed["retrieved_contexts"], failed["retrieval_status"]) == ("", "failed")
    assert failed["retrieval_reason"] == "retrieve: ValueError: boom <- KeyError: 'x'"
    names = ("score:EM", "status:EM", "score:nDCG@10", "status:nDCG@10")
    assert {id: [row[name] for name in names] for id, row in by_id.items()} == {
        "full": ["1.0", "measured", "0.5", "measured"],
        "none": ["", "abstained", "", "skipped"],
        "rf": ["", "failed", "", ""],
        **dict.fromkeys(("bare", "gf", "og"), [""] * 4),
    }


def test_an_empty_text_and_an_unknown_one_differ(tmp_path: Path) -> None:
    def generation(value: Any) -> Trace:
        return Trace(case=Case(id="c", query="q"), retrieval=skipped("r"), generation=value)

    column = 6  # id, user_input, four lists, response; none of them holds a comma here
    for trace, cell in [
        (generation(measured(GenerationResult(""))), '""'),
        (generation(skipped("r")), ""),
    ]:
        export("csv", [trace], tmp_path / "o.csv")
        header, line = (tmp_path / "o.csv").read_text(encoding="utf-8").splitlines()
        assert header.split(",")[column] == '"response"'
        assert line.split(",")[column] == cell


@pytest.mark.parametrize(
    "name",
    ["csv", *(pytest.param(name, marks=pytest.mark.extra("hf")) for name in ("parquet", "hf"))],
)
def test_a_lone_surrogate_is_refused_with_its_case(tmp_path: Path, name: str) -> None:
    trace = Trace(
        case=Case(id="c9", query="\ud800"), retrieval=skipped("r"), generation=skipped("g")
    )
    with pytest.raises(InputError, match=r"case 'c9'.* lone surrogate.*jsonl"):
        export(name, [trace], tmp_path / "o")
    assert list(tmp_path.iterdir()) == []
