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
SMALL_WORDS = frozenset({
    "a", "an", "are", "at", "by", "can", "do", "does", "for", "how", "in", "is", "it", "many", "of",
    "on", "the", "to", "what", "when", "where", "who",
})  # fmt: skip


class MyRAG(RAGInterface):
    """Finds the documents that share most words with the question, and quotes one sentence."""

    def __init__(self) -> None:
        """Reads the documents. Here yours connects to its index."""
        super().__init__()
        lines = CORPUS.read_text(encoding="utf-8").splitlines()
        self.documents: dict[str, str] = {
            document["id"]: document["text"] for document in map(json.loads, lines)
        }

    def retrieve_with_metadata(
        self, query: str, top_k: int | None = None
    ) -> RetrievalResult[dict[str, object]]:
        """The best documents, with the ids and scores that the metrics need."""
        scores = {id_: len(words(query) & words(text)) for id_, text in self.documents.items()}
        best = sorted(scores, key=lambda id_: (-scores[id_], id_))[: top_k or 3]
        found = [id_ for id_ in best if scores[id_]]
        return RetrievalResult(
            contexts=[self.documents[id_] for id_ in found],
            context_ids=found,
            scores=[float(scores[id_]) for id_ in found],
        )

    def generate(self, query: str, contexts: Sequence[str]) -> str:
        """The sentence that shares most words with the question. Here yours asks its model."""
        sentences = [part for text in contexts for part in re.split(r"(?<=[.!?])\s+", text)]
        best = max(sentences, key=lambda part: len(words(query) & words(part)), default="")
        shared = len(words(query) & words(best))
        return best if shared >= 2 else "I don't know."


def words(text: str) -> frozenset[str]:
    """The words that distinguish one text from another."""
    return frozenset(re.findall(r"\w+", text.lower())) - SMALL_WORDS
