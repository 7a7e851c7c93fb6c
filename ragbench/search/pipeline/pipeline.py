"""A pipeline that was read and found to be in order, and what it is when it is open."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from ragbench.core.chunk import Chunk, Document
from ragbench.core.result import GenerationResult
from ragbench.core.search_query import SearchQuery
from ragbench.errors import ConfigError, InterfaceError
from ragbench.io.settings import built_own
from ragbench.llm.session import Chat
from ragbench.plugins import import_packages_of, load_target
from ragbench.post.stage import PostRetrieval
from ragbench.rag.adapt import as_rag
from ragbench.rag.fallback import to_batch, to_generation_result, to_retrieval_result
from ragbench.rag.interface import RAGInterface
from ragbench.rag.load import describe_rag, load_rag
from ragbench.search.pipeline.documents import Documents, Indexing
from ragbench.search.pipeline.extractive import ExtractiveGenerator
from ragbench.search.pipeline.gold import GoldLocator, Searched
from ragbench.search.pipeline.pre_retrieval import PreRetrieval
from ragbench.search.pipeline.stages import Generator as Generation
from ragbench.search.pipeline.stages import (
    LateSearch,
    Orchestration,
    PipelineRAG,
    RetrievalStage,
    Retriever,
    Searching,
    Stages,
    pipeline_rag,
)

Rag = RAGInterface[Any]


def own_rag(spec: str, settings: Mapping[str, object], *, folder: Path, family: str) -> Rag:
    """A user's retriever or generator for a pipeline's stage, in any form that ``--rag`` takes.

    A stage of a pipeline can so be any RAG that an evaluation could run.

    Args:
        spec: where it is, such as ``my_module:Class``.
        settings: its arguments.
        folder: of the pipeline's file; modules are looked for there.
        family: ``retrieval`` or ``generation``: which methods it has to have.

    Raises:
        ConfigError: its methods are coroutines, or it cannot be this stage.
    """
    rag = load_rag(spec, dict(settings), search_path=folder)
    # A stage is called, and never awaited.
    if not isinstance(rag, RAGInterface):
        raise ConfigError(f"'{spec}': its methods are coroutines; a stage has plain ones")
    if family not in rag.families:
        needed = {"retrieval": "retrieve(query, top_k)", "generation": "generate(query, contexts)"}
        raise ConfigError(f"'{spec}' cannot be this stage: it has no method {needed[family]}")
    return rag


@dataclass(frozen=True, kw_only=True, slots=True)
class _Own:
    """A user's class in the place of a stage."""

    stage: ClassVar[str]
    """``retrieve`` or ``generate``."""
    rag: Rag
    """What the class was adapted to, whatever form it has."""
    spec: str
    """Where it is, such as ``my_module:Class``."""
    settings: Mapping[str, Any]
    """Its arguments."""

    @property
    def identity(self) -> Mapping[str, object]:
        """All that the results of the user's class depend on.

        Stored results are used while the identity is the same. It is the class with its source code
        and its arguments. A class that names its version itself (``stage_identity``) replaces all
        of that but the place where the class is: two classes may call their versions alike.
        """
        own = self.rag.stage_identity(self.stage)
        described = describe_rag(self.rag, self.spec, self.settings)
        if own is None:
            return described
        return {"spec": described["spec"], "own": own}


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnRetrieval(_Own, RetrievalStage, Retriever):
    """A user's retrieval: stage and retriever in one, as it brings its own index."""

    knows_word_weights: ClassVar[bool] = False
    """The index is the user's: how rare a word is in it, ragbench does not know."""
    stage: ClassVar[str] = "retrieve"

    top_k: int = 5

    def open(self, documents: Documents, indexing: Indexing) -> OwnRetrieval:
        """The user's retrieval as it is.

        The retrieval was built when the file was read, with an index of its own. Every retrieval
        stage is opened with documents; a user's class has no parameter for them.
        """
        return self

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        """For each query the chunks of the user's retrieval, best first, at most `top_k`.

        A user's longer rankings are cut, as later stages rely on the number.

        Raises:
            InterfaceError: it returns something else than its interface says.
        """
        where = f"{type(self.rag).__name__}.batch_retrieve_with_metadata"
        texts = [query.text for query in queries]
        returned = self.rag.batch_retrieve_with_metadata(texts, top_k)
        rankings: list[list[Chunk]] = []
        for value in to_batch(returned, len(texts), where):
            # Cut here: later stages rely on the number, and the user's class may give more.
            rankings.append(to_retrieval_result(value, where).to_chunks()[:top_k])
        return rankings

    def close(self) -> None:
        """Closes the user's retrieval, if it has a method for that.

        A pipeline closes every retriever at its end.
        """
        close = getattr(self.rag, "close", None)
        if close is not None:
            close()


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnGenerator(_Own):
    """A user's generation; see `ragbench.search.pipeline.stages.Generator`."""

    stage: ClassVar[str] = "generate"

    def generate(self, query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        """The answer of the user's generator, checked; an error names its class and method.

        Without the check a wrong value would surface far from its cause, in a metric.
        """
        where = f"{type(self.rag).__name__}.generate_with_metadata"
        returned = self.rag.generate_with_metadata(query, list(contexts))
        return to_generation_result(returned, where)


def own_make(spec: str, settings: Mapping[str, object], *, folder: Path) -> Callable[[Stages], Rag]:
    """A function that makes a RAG of the open stages by a user's class or function.

    The user's target is checked while the file is read, so that a wrong setting shows at once; the
    function is called later, when the stages are open.

    Args:
        spec: where the target is, such as ``my_module:Class``.
        settings: its arguments besides ``stages``.
        folder: of the pipeline's file; modules are looked for there.

    Raises:
        ConfigError: the target cannot be called with these arguments.
    """
    target: Any = load_target(spec, search_path=folder)
    if not callable(target):
        raise ConfigError(f"'{spec}' cannot be called with the stages")
    try:
        inspect.signature(target).bind(stages=None, **settings)  # fails as a call would
    except TypeError as error:
        raise ConfigError(f"'{spec}' is called with stages and its settings: {error}") from None
    return partial(_own_orchestration, spec, settings, folder)


def _own_orchestration(
    spec: str, settings: Mapping[str, object], folder: Path, stages: Stages
) -> Rag:
    """The RAG that a user's class or function makes of the pipeline's open stages.

    Results of the stages keep their identities, whatever such a RAG does with them.

    Args:
        spec: where the target is, such as ``my_module:Class``.
        settings: its arguments besides ``stages``.
        folder: of the pipeline's file.
        stages: open, for as long as the pipeline is.

    Raises:
        ConfigError: it makes no RAG, or one of coroutines.
    """
    try:
        rag = as_rag(built_own(spec, {"stages": stages, **settings}, folder=folder))
    except InterfaceError as error:
        raise ConfigError(f"'{spec}' is not a RAG: {error}") from error
    if not isinstance(rag, RAGInterface):
        raise ConfigError(f"'{spec}': its methods are coroutines; a pipeline's are plain")
    return rag


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenPipeline:
    """A pipeline whose stages are open, for the length of `Pipeline.open`."""

    rag: Rag
    """A `PipelineRAG`, or what a user's orchestration made of the stages."""
    identity: Mapping[str, object]
    """What the results of ``retrieve`` and of ``generate`` depend on, as JSON: stored results are
    used again while it is the same."""
    stages: Stages
    documents: Sequence[Document] | None = None
    """What was indexed; None where nothing had to be read."""

    @property
    def retriever(self) -> Retriever:
        """The pipeline's open index.

        Commands print its notes, and `locator` looks for gold in it. A pipeline has one for all of
        its questions.
        """
        return self.stages.searching.retriever

    @property
    def locator(self) -> GoldLocator | None:
        """A locator that finds out where a case's gold contexts (the right passages) were lost.

        None where the retrieval searches no collection: a user's, or BM25 in memory. `ragbench why`
        and reports print the cause for each gold that was not retrieved.
        """
        # `Searched` is a protocol: a user's retrieval passes if it has the methods.
        if not isinstance(self.retriever, Searched):
            return None
        return GoldLocator(
            rankings=self.stages.searching.rankings,
            retriever=self.retriever,
            top_k=self.stages.top_k,
        )

    def staged(self) -> tuple[Rag, PostRetrieval | None]:
        """The RAG without its post-retrieval, and the post-retrieval.

        An evaluation takes the two as stages: each is stored and measured by itself. A RAG that a
        user's orchestration made stays whole, with None beside it.
        """
        rag = self.rag
        # A user's subclass may use its post-retrieval in a way of its own: it is not taken apart.
        if isinstance(rag, PipelineRAG) and type(rag).__module__ == PipelineRAG.__module__:
            return rag.without_post_retrieval(), rag.post_retrieval
        return rag, None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """The six stages of a file, in order; nothing is read, indexed or connected yet."""

    path: Path
    """The file."""
    name: str
    """How reports call it."""
    indexing: Indexing
    retrieval: RetrievalStage
    generation: Generation
    pre_retrieval: PreRetrieval = field(default_factory=PreRetrieval)
    post_retrieval: PostRetrieval | None = None
    orchestration: Orchestration = field(default_factory=Orchestration)
    own_orchestration: Callable[[Stages], Rag] | None = None
    """Makes a RAG of the user's, in the place of `ragbench.search.pipeline.stages.PipelineRAG`."""
    service: LateSearch = field(default_factory=LateSearch)
    """What operators ask when they search again."""
    chats: tuple[Chat, ...] = ()
    """The language models; closed with the pipeline."""

    @property
    def corpus(self) -> Path | None:
        """The file or folder with the pipeline's documents.

        None where the dataset's are searched. The path is relative to the pipeline's file.
        """
        corpus = self.indexing.settings.corpus
        return None if corpus is None else Path(corpus)

    @contextmanager
    def open(
        self, documents: Callable[[], Iterable[Document]] | None = None
    ) -> Generator[OpenPipeline]:
        """Opens the stages for the length of a block; indexes where the collection is stale.

        All that is opened is closed at the end of the block, also after an error.

        Args:
            documents: gives the documents when the file names no corpus.

        Yields:
            The pipeline as a RAG.

        Raises:
            DataError: the corpus has problems.
            ConfigError: there is no corpus, or a user's class cannot be built.
            StoreError: the store cannot be used.
            MissingExtraError: a package that a stage needs cannot be imported.
        """
        with ExitStack() as stack:
            import_packages_of(self)  # before indexing, which may cost money
            for chat in self.chats:
                stack.callback(chat.close)
            source = Documents(source=self.corpus, load=documents)
            retriever = self.retrieval.open(source, self.indexing)
            stack.callback(retriever.close)
            # Operators that search again were made before there was an index.
            self.service.retriever = retriever
            stack.callback(setattr, self.service, "retriever", None)
            stages = self._stages(retriever)
            import_packages_of(stages)  # also of an embedder that only the collection names
            plain = pipeline_rag(stages)
            rag: Rag = plain
            if self.own_orchestration is not None:
                rag = self.own_orchestration(stages)
            yield OpenPipeline(
                rag=rag,
                # Of the stages themselves, whatever a user's orchestration does with them.
                identity={name: plain.stage_identity(name) for name in ("retrieve", "generate")},
                stages=stages,
                documents=source.loaded,
            )

    def _stages(self, retriever: Retriever) -> Stages:
        """The open stages, as a RAG calls them.

        A generator that quotes answers gets the weights of words in the corpus, where the index
        knows them.
        """
        generator = self.generation
        context: dict[str, Any] = {}
        if isinstance(generator, ExtractiveGenerator) and generator.word_weights == "corpus":
            weights = retriever.word_weights
            if weights is not None:
                # Answers then depend on the corpus, besides the contexts.
                context["word_weights"] = dict(weights.identity)
                generator = replace(generator, weight=weights.weight)
        return Stages(
            searching=Searching(
                retriever=retriever,
                pre_retrieval=self.pre_retrieval,
                rrf_k=self.orchestration.rrf_k,
                candidates=self.orchestration.candidates,
            ),
            generator=generator,
            post_retrieval=self.post_retrieval,
            top_k=self.retrieval.top_k,
            generation_context=context,
        )
