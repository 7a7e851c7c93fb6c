"""A null among ids is counted, and hides nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ragbench import open_source


def answers(folder: Path, *records: Mapping[str, object]) -> Path:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_a_retrieved_text_without_an_id_keeps_its_rank(tmp_path: Path) -> None:
    record = {
        "query": "q",
        "retrieved_contexts": ["a", "b", "c"],
        "retrieved_context_ids": ["d1", None, "d3"],
    }
    path = answers(tmp_path, record)

    with open_source(path) as source:
        assert "1 retrieved chunks: missing id" in source.info.notes
        (entry,) = source

    retrieval = entry.recorded["retrieve"].value
    assert retrieval is not None
    assert retrieval.contexts == ["a", "b", "c"]
    assert retrieval.context_ids == ["d1", "#2", "d3"]


def test_a_null_among_relevant_ids_is_skipped_with_a_note(tmp_path: Path) -> None:
    path = answers(
        tmp_path,
        {"query": "q", "reference_context_ids": ["d1", None]},
        {"query": "r", "reference_context_ids": ["d2"]},
    )

    with open_source(path) as source:
        assert "'reference_context_ids': 1 null among the ids, skipped" in source.info.notes
        cases = [entry.case for entry in source]

    assert [case.reference_context_ids for case in cases] == [("d1",), ("d2",)]
