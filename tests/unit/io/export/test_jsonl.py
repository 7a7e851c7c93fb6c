from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

from ragbench import Case, RetrievalResult
from ragbench.core.outcome import Status
from ragbench.core.trace import Trace
from ragbench.errors import InputError
from ragbench.io.export import export
from tests.unit.io.traces import ALL, SCORES, measured, skipped


class Model:
    """Dumps itself, as a pydantic model does."""

    def model_dump(self) -> dict[str, int]:
        return {"size": 3}


@dataclass
class Page:
    number: int
    source: str


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def write(path: Path, metadata: Any) -> Any:
    trace = Trace(
        case=Case(id="c", query="q"),
        retrieval=measured(RetrievalResult(["a"], metadata=metadata)),
        generation=skipped("g"),
    )
    export("jsonl", [trace], path / "o.jsonl")
    return records(path / "o.jsonl")[0]["retrieval"]["value"]["metadata"]


def test_a_line_holds_all_that_is_known(tmp_path: Path) -> None:
    export("jsonl", ALL, tmp_path / "o.jsonl", scores=SCORES)
    by_id = {record["id"]: record for record in records(tmp_path / "o.jsonl")}
    full = by_id["full"]
    assert full["query"] == "Where is “Zürich”?"
    assert full["evidence"] == [
        {"text": "in Switzerland", "document_id": "ch-1", "start": 10, "end": 24}
    ]
    assert full["retrieval"] == {
        "status": "measured",
        "value": {
            "contexts": ["Zürich is in Switzerland.", "Bern, the capital"],
            "context_ids": ["ch-1", "ch-9"],
            "scores": [0.9, 0.25],
            "context_metadata": [{"page": 1}, {"page": 2}],
            "metadata": {"index": "v2"},
        },
        "reason": None,
        "failure": None,
        "known": "asked",
        "seconds": 0.25,
        "sharing": 1,
    }
    assert full["scores"]["nDCG@10"]["value"] == 0.5
    assert by_id["none"]["scores"]["EM"]["status"] == "abstained"
    assert by_id["rf"]["scores"].keys() == {"EM"}


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (float("nan"), "NaN"),
        ([float("inf"), -float("inf")], ["Infinity", "-Infinity"]),
        ({"b", "a"}, ["a", "b"]),
        (Page(3, "x"), {"number": 3, "source": "x"}),
        (Model(), {"size": 3}),
        (datetime(2024, 5, 1, 12, tzinfo=UTC), "2024-05-01T12:00:00+00:00"),
        (np.array([1.5, float("nan")]), [1.5, "NaN"]),
        ([np.int64(4), np.float32(0.5)], [4, 0.5]),
        ([deque([1]), (1, True, None)], [[1], [1, True, None]]),
        ([Status.FAILED, PurePosixPath("a/b"), Decimal("1.10")], ["failed", "a/b", "1.10"]),
        ([2**70, "\ud800"], [2**70, "\ud800"]),
        ({7: 1}, {"7": 1}),
    ],
)
def test_metadata_of_many_types_has_one_json_form(
    tmp_path: Path, value: object, form: object
) -> None:
    assert write(tmp_path, {"x": value}) == {"x": form}


@pytest.mark.parametrize(
    ("value", "kind"), [(object(), "a object"), (b"raw", "bytes"), (Page, "a type")]
)
def test_what_has_no_json_form_is_named_with_its_place(
    tmp_path: Path, value: object, kind: str
) -> None:
    with pytest.raises(InputError) as caught:
        write(tmp_path, {"deep": [1, {"x": value}]})
    text = str(caught.value)
    assert text.startswith("case 'c': 'retrieval.value.metadata.deep[1].x' holds " + kind)
    assert list(tmp_path.iterdir()) == []
