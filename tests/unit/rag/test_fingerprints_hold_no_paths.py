"""What a configured thing is does not depend on where ragbench's own classes lie."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ragbench import BaselineRAG, Document, as_rag, build_operator, build_reranker
from ragbench.ledger.identity import described
from ragbench.pipeline.documents import make_chunker
from ragbench.rag.load import describe_rag


def retrieve(query: str, top_k: int = 3) -> list[str]:
    return [query][:top_k]


DOCUMENTS = [Document(id="d", text="The tower was built in 1901.")]
EXTRACTIVE = {"action": "compress", "type": "extractive", "budget": 50}
THINGS: dict[str, Any] = {
    "rerank": lambda: described(build_operator({"action": "rerank", "type": "lexical"})),
    "extractive": lambda: described(build_operator(EXTRACTIVE)),
    "rrf": lambda: described(build_reranker({"name": "rrf", "rerankers": ["lexical", "ppr"]})),
    "chunker": lambda: described(make_chunker("sentences")),
    "baseline": lambda: describe_rag(BaselineRAG(DOCUMENTS), "baseline"),
    "adapted": lambda: describe_rag(as_rag(retrieve), "retrieve"),
    "document": lambda: described(DOCUMENTS[0]),
}


@pytest.mark.parametrize("name", THINGS)
def test_no_module_of_ragbench_is_named(name: str) -> None:
    text = json.dumps(THINGS[name](), default=str)
    assert re.search(r"ragbench[.:][a-z_]+[.:]", text.replace("ragbench:adapted", "")) is None
    assert '"ragbench:' in text


def test_a_type_is_its_name() -> None:
    found = described(build_operator({"action": "filter", "type": "top_k", "k": 3}))
    assert found == {"class": "ragbench:TopK", "name": "filter.top_k", "k": 3}
