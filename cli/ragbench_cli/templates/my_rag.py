"""An example RAG: replace what its two methods do by calls of your own system.

Evaluate it with:  ragbench eval data --rag my_rag.py:MyRAG
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from ragbench import RAGInterface, RetrievalResult

CORPUS = Path(__file__).parent / "data" / "corpus.jsonl"
SMALL_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an are at by can do does for how in is it many of on the to what when where who",
    )
)


class MyRAG(RAGInterface):
    """Finds the documents that share most words with the question, and quotes one sentence."""

    def __init__(self) -> None:
        """Reads the documents. Here yours connects to its index."""
        super().__init__()
        self.documents: dict[str, str] = {}
        for line in CORPUS.read_text(encoding="utf-8").splitlines():
            document = json.loads(line)
            self.documents[document["id"]] = document["text"]

    def retrieve_with_metadata(
        self, query: str, top_k: int | None = None
    ) -> RetrievalResult[dict[str, object]]:
        """The best documents, with the ids and scores that the metrics need."""
        scores: dict[str, int] = {}
        for id_, text in self.documents.items():
            scores[id_] = len(words(query) & words(text))
        best_first = sorted(scores, key=lambda id_: (-scores[id_], id_))
        # A document without a word of the question is no result.
        best = [id_ for id_ in best_first[: top_k or 3] if scores[id_]]
        return RetrievalResult(
            contexts=[self.documents[id_] for id_ in best],
            context_ids=best,
            scores=[float(scores[id_]) for id_ in best],
        )

    def generate(self, query: str, contexts: Sequence[str]) -> str:
        """The sentence that shares most words with the question. Here yours asks its model."""
        best = ""
        most_shared = 0
        for text in contexts:
            for sentence in re.split(r"(?<=[.!?])\s+", text):
                shared = len(words(query) & words(sentence))
                if shared > most_shared:
                    best = sentence
                    most_shared = shared
        return best if most_shared >= 2 else "I don't know."


def words(text: str) -> frozenset[str]:
    """The words that distinguish one text from another."""
    return frozenset(re.findall(r"\w+", text.lower())) - SMALL_WORDS
