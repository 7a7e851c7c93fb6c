"""Responses of search services and tracers, in the shapes that their documentation gives."""

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_dump
from ragbench.errors import DataError

Q = "How many days of leave?"
T = "Employees get 27 days of paid leave a year."
U = "The help desk is open from 8 to 17."
R: dict[str, Any] = {
    "pinecone": {
        "query": Q,
        "response": {
            "matches": [
                {"id": "a", "score": 0.9, "metadata": {"text": T}},
                {"id": "b", "score": 0.2, "metadata": {"text": U}},
            ],
            "namespace": "",
        },
    },
    "pinecone2": {
        "query": Q,
        "result": {
            "hits": [
                {"_id": "a", "_score": 0.9, "fields": {"chunk_text": T}},
                {"_id": "b", "_score": 0.2, "fields": {"chunk_text": U}},
            ]
        },
        "usage": {},
    },
    "weaviate": {
        "query": Q,
        "response": {
            "objects": [
                {"uuid": "a", "properties": {"text": T}, "metadata": {"score": 0.9}},
                {"uuid": "b", "properties": {"text": U}, "metadata": {"score": 0.2}},
            ]
        },
    },
    "weaviate_gql": {
        "query": Q,
        "response": {
            "data": {
                "Get": {
                    "Doc": [
                        {"text": T, "_additional": {"id": "a", "distance": 0.1}},
                        {"text": U, "_additional": {"id": "b", "distance": 0.4}},
                    ]
                }
            }
        },
    },
    "vespa": {
        "query": Q,
        "root": {
            "id": "toplevel",
            "relevance": 1.0,
            "fields": {"totalCount": 2},
            "children": [
                {"id": "a", "relevance": 9.1, "fields": {"text": T}},
                {"id": "b", "relevance": 2, "fields": {"text": U}},
            ],
        },
    },
    "azure": {
        "query": Q,
        "value": [
            {"@search.score": 2.1, "id": "a", "content": T},
            {"@search.score": 1.1, "id": "b", "content": U},
        ],
    },
    "bedrock": {
        "query": Q,
        "retrievalResults": [
            {"content": {"text": T}, "score": 0.7, "location": {"type": "S3"}, "metadata": {}},
            {"content": {"text": U}, "score": 0.3, "location": {"type": "S3"}},
        ],
    },
    "openai": {
        "object": "vector_store.search_results.page",
        "search_query": Q,
        "data": [
            {
                "file_id": "a",
                "filename": "x",
                "score": 0.9,
                "attributes": {},
                "content": [{"type": "text", "text": T}],
            },
            {"file_id": "b", "score": 0.2, "content": [{"type": "text", "text": U}]},
        ],
    },
    "solr": {
        "query": Q,
        "response": {
            "numFound": 2,
            "docs": [{"id": "a", "text": T, "score": 3.2}, {"id": "b", "text": U, "score": 1.2}],
        },
    },
    "typesense": {
        "query": Q,
        "found": 2,
        "hits": [
            {"document": {"id": "a", "text": T}, "text_match": 57},
            {"document": {"id": "b", "text": U}, "text_match": 5},
        ],
    },
    "redis": {
        "query": Q,
        "total": 2,
        "docs": [
            {"id": "a", "payload": None, "content": T, "score": 0.1},
            {"id": "b", "payload": None, "content": U, "score": 0.4},
        ],
    },
    "dify": {
        "query": Q,
        "records": [
            {"segment": {"id": "a", "content": T}, "score": 0.8},
            {"segment": {"id": "b", "content": U}, "score": 0.1},
        ],
    },
    "cohere": {
        "query": Q,
        "results": [
            {"index": 0, "relevance_score": 0.9, "document": {"text": T}},
            {"index": 1, "relevance_score": 0.1, "document": {"text": U}},
        ],
    },
    "deepeval": {"input": Q, "actual_output": "27", "retrieval_context": [T, U]},
    "phoenix": {
        "attributes": {
            "input": {"value": Q},
            "retrieval": {
                "documents": [
                    {"document": {"id": "a", "content": T, "score": 0.9}},
                    {"document": {"id": "b", "content": U, "score": 0.2}},
                ]
            },
        }
    },
    "phoenix_df": {
        "attributes.input.value": Q,
        "attributes.retrieval.documents": [
            {"document.id": "a", "document.content": T, "document.score": 0.9},
            {"document.id": "b", "document.content": U, "document.score": 0.2},
        ],
    },
    "phoenix_flat": {
        "name": "retriever",
        "input.value": Q,
        "retrieval.documents.0.document.id": "a",
        "retrieval.documents.0.document.content": T,
        "retrieval.documents.0.document.score": 0.9,
        "retrieval.documents.1.document.content": U,
    },
    "haystack2": {
        "query": Q,
        "bm25": {"documents": [{"id": "z", "content": U, "meta": {}, "score": 1}]},
        "ranker": {
            "documents": [
                {"id": "a", "content": T, "meta": {}, "score": 1},
                {"id": "b", "content": U, "meta": {}, "score": 0.5},
            ]
        },
    },
    "langfuse": {"input": Q, "output": json.dumps([{"pageContent": T, "metadata": {}}])},
}
FORMAT = {
    "pinecone2": "pinecone",
    "weaviate_gql": "weaviate",
    "deepeval": "plain",
    "phoenix": "openinference",
    "phoenix_df": "openinference",
    "phoenix_flat": "openinference",
    "haystack2": "haystack",
    "langfuse": "langchain",
}


@pytest.mark.parametrize("name", R)
def test_a_response_is_recognised(name: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    path.write_text(f"{json.dumps(R[name])}\n{json.dumps(R[name])}\n", encoding="utf-8")
    with open_dump(path) as dump:
        assert dump.mapping.format == FORMAT.get(name, name)
        found = list(dump)
    assert dump.malformed == 0
    assert [one.query for one in found] == [Q, Q]
    assert found[0].chunks[0].text == T
    scores = [chunk.score for chunk in found[0].chunks if chunk.score is not None]
    assert scores == sorted(scores, reverse=True)


def test_what_is_not_recognised_is_shown_with_the_options_that_would_read_it(
    tmp_path: Path,
) -> None:
    record = {"q": Q, "stuff": {"items": [{"nr": 1, "inner": {"said": T}}]}}
    path = tmp_path / "dump.jsonl"
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    with pytest.raises(DataError) as caught, open_dump(path):
        pass
    told = str(caught.value)
    assert "--map chunks=stuff.items --map text=inner.said" in told
    assert "items[1]: object" in told
    overrides = {"chunks": "stuff.items", "text": "inner.said"}
    with open_dump(path, overrides=overrides) as dump:
        assert next(iter(dump)).chunks[0].text == T


def test_a_point_of_qdrant_without_payload_is_not_taken_for_another_store(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    hit = {"id": 1, "version": 3, "score": 0.9, "payload": {"text": T}}
    path.write_text(json.dumps({"query": Q, "response": {"result": [hit], "status": "ok"}}) + "\n")
    with open_dump(path) as dump:
        assert dump.mapping.format == "qdrant"
