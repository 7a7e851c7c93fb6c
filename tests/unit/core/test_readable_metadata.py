"""Metadata for a reader: what only programs read is left out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ragbench import Chunk, PostRetrieval, build_operator
from ragbench.core.readable_metadata import readable_metadata

LONG = [0.1] * 384


@pytest.mark.parametrize(
    "metadata",
    [
        {"embedding": [0.0, 1.0]},
        {"text_vector": {"12": 0.3}},
        {"embedding": str(LONG)},
        {"numbers": LONG},
        {"numbers": np.array(LONG)},
        {"per_token": [LONG, LONG]},
        {"_node_content": "{}"},
        {"derived": [{"by": "compress", "from": ["a"]}]},
        {"ranked_by": {"dense": {"rank": 1, "score": 0.5}}},
    ],
)
def test_what_only_programs_read_is_left_out(metadata: dict[str, Any]) -> None:
    assert readable_metadata({**metadata, "page": 3}) == {"page": 3}


def test_what_is_within_a_value_is_left_out_too() -> None:
    metadata = {
        "node": {"title": "T", "embedding": LONG},
        "parts": [{"page": 1, "_id": 2}, LONG],
    }

    assert readable_metadata(metadata) == {"node": {"title": "T"}, "parts": [{"page": 1}]}


@pytest.mark.parametrize(
    "metadata",
    [
        {"vector": "mosquito"},
        {"embedding": "text-embedding-3-small"},
        {"box": [0.1, 0.2, 0.3, 0.4]},
        {"years": []},
        {"tags": ["a"] * 40},
    ],
)
def test_what_people_read_stays(metadata: dict[str, Any]) -> None:
    assert readable_metadata(metadata) == metadata


def test_a_chunk_with_an_embedding_is_a_context_of_its_own_words() -> None:
    chunk = Chunk(id="a", text="Bees can fly.", score=0.5, metadata={"embedding": LONG, "page": 3})
    to_json = build_operator({"action": "format", "type": "structured"})

    result = PostRetrieval(operators=(to_json,)).run("Who flies?", [chunk])

    assert json.loads(result.history_text) == [
        {
            "rank": 1,
            "id": "a",
            "text": "Bees can fly.",
            "score": 0.5,
            "metadata": {"page": 3},
        }
    ]
