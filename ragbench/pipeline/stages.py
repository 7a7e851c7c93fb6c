"""What a pipeline asks of its stages; stages by name.

Other packages add theirs through entry points: the target is a frozen dataclass whose fields are
the settings. See `RetrievalStage`, which a retrieval inherits, and `Generator`
for what it must do, and `ragbench.pipeline.pre_retrieval` and `ragbench.post.build` for
the stages in between::

    [project.entry-points."ragbench.generations"]
    mine = "my_package.answers:MyGenerator"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from ragbench.core.chunk import Chunk
from ragbench.core.result import GenerationResult
from ragbench.errors import ConfigError
from ragbench.pipeline.extractive import TermWeight
from ragbench.pipeline.pre_retrieval import SearchQuery
from ragbench.plugins import Registry


@dataclass(frozen=True, kw_only=True, slots=True)
class WordWeights:
    """What each word is worth in a corpus."""

    weight: TermWeight
    identity: Mapping[str, object]
    """All that the weights depend on, as JSON."""


class Retriever(Protocol):
    """Stages 1 and 3, open: something that can be searched."""

    @property
    def identity(self) -> Mapping[str, object]:
        """All that its rankings depend on besides query and number, as JSON; the corpus too."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What every result says of it."""
        ...

    @property
    def takes_batches(self) -> bool:
        """Whether several queries at once cost less than one after the other."""
        ...

    @property
    def word_weights(self) -> WordWeights | None:
        """What words are worth in the corpus; None when it is not known."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What whoever uses it should know of it so far, a line each; it only grows."""
        ...

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        """For each query its chunks, best first, at most ``top_k`` of them."""
        ...

    def query_embedding(self, query: str) -> Sequence[float] | None:
        """The vector of a query where results carry those of their chunks; else None."""
        ...

    def close(self) -> None:
        """Lets go of what it opened."""
        ...


class RetrievalStage:
    """Stage 3 as a file describes it: its settings, and what opens it. Retrievals inherit it."""

    __slots__ = ()

    uses_store: ClassVar[bool] = False
    """Whether it searches a store by an embedder, and may read collections that others filled."""
    knows_word_weights: ClassVar[bool] = True
    """Whether it knows, or may know, what words are worth in the corpus."""
    top_k: int
    """How many chunks are retrieved."""

    @property
    def gives_embeddings(self) -> bool:
        """Whether results carry vectors, or may: that is not known before they are there."""
        return True

    def open(self, documents: Any, indexing: Any) -> Retriever:
        """Makes what is described ready to be searched; indexes where that is needed.

        What it is given stands in `ragbench.pipeline.documents`.
        """
        raise NotImplementedError


class Generator(Protocol):
    """Stage 5: an answer from contexts."""

    @property
    def identity(self) -> Mapping[str, object]:
        """All that its answers depend on besides query and contexts, as JSON."""
        ...

    def generate(self, query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        """Answers a question from contexts, best first; there may be none."""
        ...


@dataclass(slots=True)
class LateSearch:
    """A `ragbench.post.operator.ChunkSearch` over the retriever that is put into it."""

    name: str = "pipeline"
    retriever: Retriever | None = field(default=None, metadata={"setting": False})

    def search(self, query: str, top_k: int) -> Sequence[Chunk]:
        """See `ragbench.post.operator.ChunkSearch.search`."""
        if self.retriever is None:
            raise ConfigError("the pipeline is not open: nothing can be searched")
        return self.retriever.search([SearchQuery(text=query)], top_k)[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Orchestration:
    """One stage after the other."""

    rrf_k: int = 60
    """When a question is searched for in several ways: how little the first ranks count more than
    the next ones in the fusion of the rankings."""
    candidates: int = 50
    """When a question is searched for in several ways: how many chunks of each ranking are fused;
    never fewer than retrieval's ``top_k``."""
    concurrency: int = 1
    """How many questions are worked on at once in an evaluation that does not say; more than 1 is
    for stages that wait for a model elsewhere."""

    def __post_init__(self) -> None:
        for name in ("rrf_k", "candidates", "concurrency"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")


RETRIEVALS = Registry(
    kind="retrievals",
    builtin={
        "bm25": "ragbench.pipeline.baseline:Bm25Retrieval",
        "dense": "ragbench.pipeline.retrieval:DenseRetrieval",
        "sparse": "ragbench.pipeline.retrieval:SparseRetrieval",
        "hybrid": "ragbench.pipeline.retrieval:HybridRetrieval",
    },
)

GENERATIONS = Registry(
    kind="generations",
    builtin={
        "extractive": "ragbench.pipeline.extractive:ExtractiveGenerator",
        "chat": "ragbench.pipeline.chat:ChatGenerator",
    },
)

ORCHESTRATIONS = Registry(
    kind="orchestrations",
    builtin={"sequential": "ragbench.pipeline.stages:Orchestration"},
)
