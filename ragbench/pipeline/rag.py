"""The stages of a pipeline as one RAG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragbench.errors import ConfigError
from ragbench.interface.base import RAGInterface
from ragbench.interface.config import RAGConfig
from ragbench.interface.identity import describe_class
from ragbench.interface.partial import settled
from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.pipeline.search import Searching
from ragbench.pipeline.stages import Generator
from ragbench.postretrieval.on_result import POST_RETRIEVE, post_retrieved, written_text
from ragbench.postretrieval.operator import PostRetrieval

__all__ = ["PipelineRAG", "Stages", "pipeline_rag"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stages:
    """The stages of a pipeline, open."""

    searching: Searching
    """Stages 1 to 3: from a question to its chunks."""
    generator: Generator
    """Stage 5."""
    post_retrieval: PostRetrieval | None = None
    """Stage 4; None for none."""
    top_k: int = 5
    """How many chunks are retrieved when a call does not say, at least 1."""
    generation_context: dict[str, Any] = field(default_factory=dict[str, Any])
    """What answers depend on besides the generator's own settings, as JSON."""


class PipelineRAG(RAGInterface):
    """A RAG made of six stages; see docs/pipeline.md.

    ``retrieve`` gives what generation is given: with post-retrieval, what that leaves, and the one
    text of a format operator where there is one. An evaluation that looks at the stages one by one
    uses `without_post_retrieval`, and `post_retrieval` in between. A subclass may change how the
    stages work together.
    """

    def __init__(self, stages: Stages) -> None:
        """Takes open stages; `Pipeline.open` makes them of a file.

        Args:
            stages: the stages.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        if stages.top_k < 1:
            raise ConfigError(f"top_k must be at least 1, not {stages.top_k}")
        super().__init__(RAGConfig(top_k=stages.top_k))
        self.stages = stages

    @property
    def post_retrieval(self) -> PostRetrieval | None:
        """What stands between retrieval and generation; None for nothing."""
        return self.stages.post_retrieval

    def without_post_retrieval(self) -> PipelineRAG:
        """The same open stages without the fourth."""
        return pipeline_rag(replace(self.stages, post_retrieval=None))

    def stage_identity(self, stage: str) -> object:
        """What a stage's results depend on; the settings of generation are no part of retrieval."""
        identity: dict[str, Any] = {"rag": "pipeline"}
        if type(self).__module__ != PipelineRAG.__module__:  # a user's class that changes something
            identity["class"] = describe_class(type(self))
        if stage == "generate":
            generator = dict(self.stages.generator.identity)
            return {**identity, **self.stages.generation_context, "generator": generator}
        if self.stages.post_retrieval is not None:
            identity[POST_RETRIEVE] = self.stages.post_retrieval.identity
        return {**identity, "top_k": self.stages.top_k, **self.stages.searching.identity}

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        """See `RAGInterface.retrieve_with_metadata`.

        Args:
            query: the question.
            top_k: how many chunks are retrieved before post-retrieval; None for the setting.

        Returns:
            The contexts. ``metadata`` holds under ``pre_retrieve`` what was searched for when that
            is not the question as it is, and what went wrong on the way; under ``post_retrieve``
            what each operator did.
        """
        found: list[RetrievalResult] = settled(
            self._retrieved([query], top_k), "PipelineRAG.retrieve_with_metadata"
        )
        return found[0]

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        """See `RAGInterface.generate_with_metadata`."""
        return self.stages.generator.generate(query, contexts)

    def _retrieved(
        self, queries: Sequence[str], top_k: int | None
    ) -> list[RetrievalResult | Exception]:
        k = self.stages.top_k if top_k is None else top_k
        if k < 1:
            raise ConfigError(f"top_k must be at least 1, not {k}")
        found = self.stages.searching.results(queries, k)
        post = self.stages.post_retrieval
        if post is None:
            return found
        return [
            result if isinstance(result, Exception) else _processed(post, query, result)
            for query, result in zip(queries, found, strict=True)
        ]


class _BatchRetrieval(PipelineRAG):
    """Several questions are searched for at once."""

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        """See `RAGInterface.batch_retrieve_with_metadata`."""
        return settled(self._retrieved(queries, top_k), "PipelineRAG.batch_retrieve_with_metadata")


def pipeline_rag(stages: Stages) -> PipelineRAG:
    """The RAG of some stages; it takes batches where its retrieval gains by them."""
    kind = _BatchRetrieval if stages.searching.takes_batches else PipelineRAG
    return kind(stages)


def _processed(stage: PostRetrieval, query: str, result: RetrievalResult) -> RetrievalResult:
    done = post_retrieved(stage, query, result)
    metadata = {
        key: value for key, value in (result.metadata or {}).items() if key != "query_embedding"
    }
    metadata |= done.metadata or {}
    written = written_text(done)
    if written is not None:
        return RetrievalResult([written], metadata=metadata)
    return replace(done, metadata=metadata)
