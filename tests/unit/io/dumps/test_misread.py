"""Responses that were taken for others, and hints that named the question or the answer."""

import json
from pathlib import Path

import pytest

from ragbench import open_dump, open_source
from ragbench.errors import DataError


def dump_of(path: Path, record: object) -> tuple[str, list[tuple[str, str, float | None]]]:
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    with open_dump(path) as dump:
        (one,) = dump
        return dump.mapping.format, [(c.id, c.text, c.score) for c in one.chunks]


def test_vertex_results_have_the_texts_of_their_extracts(tmp_path: Path) -> None:
    def document(id: str, data: dict[str, object]) -> dict[str, object]:
        return {"id": id, "document": {"id": id, "derivedStructData": data}}

    results = [
        document("a", {"extractive_answers": [{"content": "At nine."}, {"content": "Daily."}]}),
        document("b", {"extractive_segments": [{"content": "Closed."}], "snippets": []}),
        {"chunk": {"id": "c", "content": "Tea.", "relevanceScore": 0.5}},
    ]
    found = dump_of(tmp_path / "v.jsonl", {"query": "when?", "results": results})
    texts = [("a", "At nine.\nDaily.", None), ("b", "Closed.", None), ("c", "Tea.", 0.5)]
    assert found == ("vertex", texts)


def test_a_rerankers_order_counts_where_the_documents_stand_beside_it(tmp_path: Path) -> None:
    results = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]
    record = {"query": "when?", "documents": ["Closed.", "At nine."], "results": results}
    found = dump_of(tmp_path / "c.jsonl", record)
    assert found == ("cohere", [("1", "At nine.", 0.9), ("0", "Closed.", 0.2)])


@pytest.mark.parametrize(
    "record",
    [
        {"test_cases": [{"input": "When does it open in the morning?", "actual": "At nine."}]},
        {"calls": [{"args": {"query": "When does it open in the morning?"}, "rets": []}]},
        {
            "citations": [
                {"generatedResponsePart": {"textResponsePart": {"text": "It opens at 9."}}}
            ]
        },
    ],
)
def test_no_hint_names_the_question_or_the_answer(tmp_path: Path, record: object) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    with (
        pytest.raises(DataError, match="Say where they are: --field chunks=FIELD"),
        open_dump(path),
    ):
        pass
    shown = r"no field for the query[^\n]*\n  \w+\[1\]: object"
    with pytest.raises(DataError, match=shown), open_source(path) as source:
        list(source)
