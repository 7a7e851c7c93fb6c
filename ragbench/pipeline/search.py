"""Stages 2 and 3 together: a question, what is searched for in its place, and one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragbench.errors import LLMStoppedError
from ragbench.interface.results import RetrievalResult
from ragbench.pipeline.stages import Retriever
from ragbench.preretrieval.normalise import Normalise
from ragbench.preretrieval.on_result import PRE_RETRIEVE, told
from ragbench.preretrieval.stage import PreRetrieval, PreRetrieved
from ragbench.records.corpus import Chunk
from ragbench.retrieval.fusion import reciprocal_rank_fusion

__all__ = ["Searching"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Searching:
    """Searches for what pre-retrieval makes of a question, and fuses what is found."""

    retriever: Retriever
    pre_retrieval: PreRetrieval = field(default_factory=PreRetrieval)
    rrf_k: int = 60
    """How little the first ranks count more than the next ones when rankings are fused."""
    candidates: int = 50
    """How many chunks of each ranking are fused; never fewer than are asked for."""

    @property
    def identity(self) -> dict[str, Any]:
        """All that a retrieval depends on besides question and number, as JSON."""
        identity: dict[str, Any] = {"retriever": dict(self.retriever.identity)}
        if self.pre_retrieval.transforms:
            identity[PRE_RETRIEVE] = self.pre_retrieval.identity
            identity["fusion"] = {"rrf_k": self.rrf_k, "candidates": self.candidates}
        return identity

    @property
    def takes_batches(self) -> bool:
        """Whether several questions at once cost less; not when a model is asked about each."""
        transforms = self.pre_retrieval.transforms
        return self.retriever.takes_batches and all(isinstance(t, Normalise) for t in transforms)

    def results(self, questions: Sequence[str], top_k: int) -> list[RetrievalResult | Exception]:
        """For each question its chunks, or what its pre-retrieval raised.

        Args:
            questions: the questions.
            top_k: how many chunks to return for each, at least 1.

        Raises:
            LLMStoppedError: no model answers any more.
        """
        asked = [self._asked(question) for question in questions]
        known = [one for one in asked if isinstance(one, PreRetrieved)]
        rankings = iter(self._rankings(known, top_k))
        found: list[RetrievalResult | Exception] = []
        for question, one in zip(questions, asked, strict=True):
            if isinstance(one, Exception):
                found.append(one)
            else:
                found.append(self._result(question, one, next(rankings)))
        return found

    def _asked(self, question: str) -> PreRetrieved | Exception:
        try:
            return self.pre_retrieval.run(question)
        except LLMStoppedError:
            raise  # no other question would fare better
        except Exception as error:  # noqa: BLE001  # a question's failure is that question's outcome
            return error

    def _rankings(self, asked: Sequence[PreRetrieved], top_k: int) -> list[list[Chunk]]:
        """One ranking each; single queries are searched for together, and so are several."""
        plain = [one.queries[0] for one in asked if len(one.queries) == 1]
        several = [query for one in asked if len(one.queries) > 1 for query in one.queries]
        depth = max(top_k, self.candidates)
        direct = iter(self.retriever.search(plain, top_k) if plain else [])
        legs = iter(self.retriever.search(several, depth) if several else [])
        return [
            next(direct)
            if len(one.queries) == 1
            else reciprocal_rank_fusion(
                [next(legs) for _ in one.queries],
                weights=[query.weight for query in one.queries],
                rrf_k=self.rrf_k,
                top_k=top_k,
            )
            for one in asked
        ]

    def _result(
        self, question: str, asked: PreRetrieved, chunks: Sequence[Chunk]
    ) -> RetrievalResult:
        metadata: dict[str, Any] = dict(self.retriever.metadata)
        if self.pre_retrieval.transforms:
            metadata[PRE_RETRIEVE] = told(asked)
        embedding = self.retriever.query_embedding(question)
        if embedding is not None:
            metadata["query_embedding"] = embedding
        return RetrievalResult.from_chunks([*map(_with_document, chunks)], metadata=metadata)


def _with_document(chunk: Chunk) -> Chunk:
    """A passage names its document, by which an evaluation can compare it with the gold."""
    if chunk.document_id is None or chunk.document_id == chunk.id:
        return chunk
    return replace(chunk, metadata={"document_id": chunk.document_id, **chunk.metadata})
