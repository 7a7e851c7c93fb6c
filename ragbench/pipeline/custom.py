"""A user's class in the place of a stage."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ragbench.core.chunk import Chunk
from ragbench.core.result import GenerationResult
from ragbench.errors import ConfigError, InterfaceError, RagbenchError
from ragbench.masking import mask_text
from ragbench.pipeline.documents import Documents, Indexing
from ragbench.pipeline.pre_retrieval import SearchQuery
from ragbench.pipeline.stages import RetrievalStage, WordWeights
from ragbench.plugins import load_target
from ragbench.rag.fallback import to_batch, to_generation_result, to_retrieval_result
from ragbench.rag.interface import RAGInterface
from ragbench.rag.load import describe_rag, load_rag


def own_rag(
    spec: str, settings: Mapping[str, object], *, folder: Path, family: str
) -> RAGInterface[Any]:
    """A user's retriever or generator, in any of the forms that ``--rag`` takes."""
    try:
        rag = load_rag(spec, dict(settings), search_path=folder)
    except InterfaceError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(rag, RAGInterface):
        raise ConfigError(f"'{spec}': its methods are coroutines; a stage has plain ones")
    if family not in rag.families:
        needed = "retrieve(query, top_k)" if family == "retrieval" else "generate(query, contexts)"
        raise ConfigError(f"'{spec}' cannot be this stage: it has no method {needed}")
    return rag


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnRetrieval(RetrievalStage):
    """A user's retrieval: described and open at once.

    See `ragbench.pipeline.stages.Retriever`.
    """

    knows_word_weights: ClassVar[bool] = False

    rag: RAGInterface[Any]
    spec: str
    settings: Mapping[str, Any]
    top_k: int = 5
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    takes_batches: bool = False
    notes: Sequence[str] = ()
    word_weights: WordWeights | None = None

    @property
    def identity(self) -> Mapping[str, object]:
        """The class, its source and its arguments, or what it says of itself."""
        own = self.rag.stage_identity("retrieve")
        described = describe_rag(self.rag, self.spec, self.settings)
        return described if own is None else {"spec": described["spec"], "own": own}

    def open(self, documents: Documents, indexing: Indexing) -> OwnRetrieval:
        """Itself: a user's retrieval brings its own index."""
        return self

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        """See `ragbench.pipeline.stages.Retriever.search`; a longer answer is cut."""
        where = f"{type(self.rag).__name__}.batch_retrieve_with_metadata"
        texts = [query.text for query in queries]
        found = to_batch(self.rag.batch_retrieve_with_metadata(texts, top_k), len(texts), where)
        return [to_retrieval_result(value, where).to_chunks()[:top_k] for value in found]

    def query_embedding(self, query: str) -> None:
        """None: chunks bring their own, where they have one."""
        return None

    def close(self) -> None:
        """Calls the user's ``close`` where there is one."""
        close: Any = getattr(self.rag, "close", None)
        if callable(close):
            close()


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnGenerator:
    """A user's generation; see `ragbench.pipeline.stages.Generator`."""

    rag: RAGInterface[Any]
    spec: str
    settings: Mapping[str, Any]

    @property
    def identity(self) -> Mapping[str, object]:
        """The class, its source and its arguments, or what it says of itself."""
        own = self.rag.stage_identity("generate")
        described = describe_rag(self.rag, self.spec, self.settings)
        return described if own is None else {"spec": described["spec"], "own": own}

    def generate(self, query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        """See `ragbench.pipeline.stages.Generator.generate`."""
        where = f"{type(self.rag).__name__}.generate_with_metadata"
        return to_generation_result(self.rag.generate_with_metadata(query, list(contexts)), where)


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnOrchestration:
    """A user's class that makes a RAG of the open stages."""

    target: Any
    """Called with ``stages`` and the settings."""
    spec: str
    settings: Mapping[str, Any]
    folder: Path

    def made(self, stages: object) -> object:
        try:
            return self.target(stages=stages, **self.settings)
        except RagbenchError:
            raise
        except Exception as error:
            raised = mask_text(f"{type(error).__name__}: {error}")
            raise ConfigError(f"'{self.spec}' raised {raised}") from error


def own_orchestration(
    spec: str, settings: Mapping[str, object], *, folder: Path
) -> OwnOrchestration:
    """A user's orchestration, looked at and not yet called."""
    target = load_target(spec, search_path=folder)
    if not callable(target):
        raise ConfigError(f"'{spec}' cannot be called with the stages")
    try:
        inspect.signature(target).bind(stages=None, **settings)
    except TypeError as error:
        raise ConfigError(f"'{spec}' is called with stages and its settings: {error}") from None
    return OwnOrchestration(target=target, spec=spec, settings=dict(settings), folder=folder)
