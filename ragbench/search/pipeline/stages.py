"""What a pipeline asks of its stages; stages by name.

Other packages add theirs through entry points: the target is a frozen dataclass whose fields are
the settings. See `RetrievalStage`, which a retrieval inherits, and `Generator`
for what it must do, and `ragbench.search.pipeline.pre_retrieval` and `ragbench.post.build` for
the stages in between::

    [project.entry-points."ragbench.generations"]
    mine = "my_package.answers:MyGenerator"
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, cast

from ragbench.core.biography import POST_RETRIEVE, written_text
from ragbench.core.calling import history_keyword
from ragbench.core.case import Said
from ragbench.core.checked import Checked, Positive
from ragbench.core.chunk import Chunk
from ragbench.core.fusion import reciprocal_rank_fusion
from ragbench.core.record import Record, field
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.search_query import PRE_RETRIEVE, SearchQuery, Transformed
from ragbench.errors import ConfigError, LLMStoppedError
from ragbench.ledger.identity import described_class
from ragbench.plugins import Registry
from ragbench.post.stage import PostRetrieval, post_retrieved
from ragbench.rag.fallback import settled
from ragbench.rag.interface import RAGConfig, RAGInterface
from ragbench.search.pipeline.documents import with_origin
from ragbench.search.pipeline.extractive import TermWeight
from ragbench.search.pipeline.pre_retrieval import Normalise, PreRetrieval, transformed_object


class WordWeights(Record):
    """How rare each word is in a corpus; an extractive answer is chosen by it."""

    weight: TermWeight
    """The weight of a word, higher for rare ones."""
    identity: Mapping[str, object]
    """All that the weights depend on, as JSON."""


class Retriever(Protocol):
    """Stages 1 and 3, open: an index that can be searched. Its methods with a body are defaults."""

    __slots__ = ()

    @property
    def identity(self) -> Mapping[str, object]:
        """All that the rankings depend on besides query and number, as JSON; the corpus, too.

        Stored results are used again only while it is the same.
        """
        ...

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata that every result of the retriever gets, such as the kind of search.

        None by default. A reader of stored results sees by it which search ranked them.
        """
        return {}

    @property
    def takes_batches(self) -> bool:
        """Whether the retriever searches several queries at once for less; no by default.

        An evaluation sends questions together then.
        """
        return False

    @property
    def word_weights(self) -> WordWeights | None:
        """The weight of each word in the corpus, by which answers are quoted; None if unknown.

        A rare word of a question says more about a sentence than a common one.
        """
        return None

    @property
    def notes(self) -> Sequence[str]:
        """Remarks on the index for reports, one line each; the list only grows. None by default.

        A remark is, for example, how many chunks an approximate index misses.
        """
        return ()

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        """For each query its chunks, best first, at most `top_k` of them.

        A pipeline fuses the rankings of one question's queries.
        """
        ...

    def query_embedding(self, query: str) -> Sequence[float] | None:
        """The vector of a query, for rerankers that compare it with the chunks'.

        None by default. Where a retriever has no such vectors, these rerankers are refused.
        """
        return None

    def close(self) -> None:
        """Closes the retriever's store; an index in memory has nothing to close.

        A pipeline calls it at its end.
        """
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
        """Whether the stage's results carry vectors, or may.

        A reranker that compares them needs that. A stage without the setting counts as one that
        may: only its results can show it.
        """
        return bool(getattr(self, "embeddings", True))

    def open(self, documents: Any, indexing: Any) -> Retriever:
        """Opens the described retrieval for searches, and indexes where that is needed.

        A file is only read first, so that problems show before an index is built.

        Args:
            documents: a `ragbench.search.pipeline.documents.Documents`, read only if they are
                needed.
            indexing: a `ragbench.search.pipeline.documents.Indexing`.
        """
        raise NotImplementedError


class Generator(Protocol):
    """Stage 5: writes an answer from the contexts that the stages before it leave."""

    @property
    def identity(self) -> Mapping[str, object]:
        """All that the generator's answers depend on besides query and contexts, as JSON.

        Stored answers are used again only while it is the same.
        """
        ...

    def generate(self, query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        """The answer to a question from its contexts, best first; there may be none.

        Without any contexts it should decline: an answer from memory would not be the RAG's.
        """
        ...


@dataclass(slots=True)
class LateSearch:
    """A `ragbench.post.operator.ChunkSearch` over the retriever that is put into it.

    Operators that search again are made while the file is read, and the retriever only once the
    pipeline is opened: this holds its place until then.
    """

    name: str = "pipeline"
    retriever: Retriever | None = dataclasses.field(default=None, metadata={"setting": False})

    def search(self, query: str, top_k: int) -> Sequence[Chunk]:
        """The chunks of a query as it is, without pre-retrieval, for operators that search again.

        These operators are made while the file is read, before there is an index.

        Raises:
            ConfigError: the pipeline is not open yet: no retriever is there.
        """
        if self.retriever is None:
            raise ConfigError("the pipeline is not open: nothing can be searched")
        [chunks] = self.retriever.search([SearchQuery(text=query)], top_k)
        return chunks


@dataclass(frozen=True, kw_only=True, slots=True)
class Orchestration(Checked):
    """One stage after the other."""

    rrf_k: Positive = 60
    """When a question is searched for in several ways: how little the first ranks count more than
    the next ones in the fusion of the rankings."""
    candidates: Positive = 50
    """When a question is searched for in several ways: how many chunks of each ranking are fused;
    never fewer than retrieval's ``top_k``."""
    concurrency: Positive = 1
    """How many questions are worked on at once in an evaluation that does not say; more than 1 is
    for stages that wait for a model elsewhere."""


RETRIEVALS = Registry(kind="retrievals")
GENERATIONS = Registry(kind="generations")
ORCHESTRATIONS = Registry(kind="orchestrations")
"""The stages by the names that a pipeline's file has for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Searching:
    """Searches for all queries that pre-retrieval makes of a question, and fuses their rankings."""

    retriever: Retriever
    pre_retrieval: PreRetrieval = dataclasses.field(default_factory=PreRetrieval)
    rrf_k: int = 60
    """How little the first ranks count more than the next ones when rankings are fused."""
    candidates: int = 50
    """How many chunks of each ranking are fused; never fewer than are asked for."""

    @property
    def identity(self) -> dict[str, Any]:
        """All that a retrieval depends on besides question and number, as JSON.

        Stored results are used again only while the identity is the same.
        """
        identity: dict[str, Any] = {"retriever": dict(self.retriever.identity)}
        # Without transforms each question is one query, and nothing is fused.
        if self.pre_retrieval.transforms:
            identity[PRE_RETRIEVE] = self.pre_retrieval.identity
            identity["fusion"] = {"rrf_k": self.rrf_k, "candidates": self.candidates}
        return identity

    @property
    def takes_batches(self) -> bool:
        """Whether several questions at once cost less: the retriever gains, and no model is called.

        Calls of a model are better made for several questions at the same time than in a batch.
        """
        if not self.retriever.takes_batches:
            return False
        return all(isinstance(step, Normalise) for step in self.pre_retrieval.transforms)

    def results(
        self, questions: Sequence[str], top_k: int, said: Said = ()
    ) -> list[RetrievalResult | Exception]:
        """For each question its chunks as a result, or the exception that its pre-retrieval raised.

        One question that fails does not cost the others of its batch their results.

        Args:
            top_k: chunks of each question.
            said: the conversation before the questions.
        """
        transformed: list[Transformed | Exception] = []
        for question in questions:
            try:
                transformed.append(self.pre_retrieval.run(question, said))
            except LLMStoppedError:
                raise  # no other question would fare better
            except Exception as error:  # noqa: BLE001  # it is that question's outcome
                transformed.append(error)
        searched = [queries for queries in transformed if isinstance(queries, Transformed)]
        # One ranking for each question that did not fail, so an iterator keeps step with them.
        rankings = iter(self.rankings(self.retriever, searched, top_k))
        results: list[RetrievalResult | Exception] = []
        for question, queries in zip(questions, transformed, strict=True):
            if isinstance(queries, Exception):
                results.append(queries)
            else:
                results.append(self._retrieval_result(question, queries, next(rankings)))
        return results

    def rankings(
        self, retriever: Retriever, questions: Sequence[Transformed], top_k: int
    ) -> list[list[Chunk]]:
        """One ranking of chunks for each question, fused where it has several queries.

        Questions with a single query are searched for together, and so are all queries of the
        others.

        Args:
            retriever: searches; another one than the stage's to try a variant.
            questions: each with its queries.
            top_k: chunks of each question.
        """
        single: list[SearchQuery] = []
        several: list[SearchQuery] = []
        for question in questions:
            if len(question.queries) == 1:
                single.append(question.queries[0])
            else:
                several += question.queries
        # Deeper than asked for: fusion may lift a chunk that each ranking holds further down.
        depth = max(top_k, self.candidates)
        # A retriever is never asked for nothing: some would still call their model or store.
        single_rankings: Iterator[list[Chunk]] = iter(())
        if single:
            single_rankings = iter(retriever.search(single, top_k))
        several_rankings: Iterator[list[Chunk]] = iter(())
        if several:
            several_rankings = iter(retriever.search(several, depth))
        rankings: list[list[Chunk]] = []
        for question in questions:
            if len(question.queries) == 1:
                rankings.append(next(single_rankings))
                continue
            # Rankings come in the order of queries: the next ones are this question's.
            fused = reciprocal_rank_fusion(
                [next(several_rankings) for _ in question.queries],
                weights=[query.weight for query in question.queries],
                rrf_k=self.rrf_k,
                top_k=top_k,
            )
            rankings.append(fused)
        return rankings

    def _retrieval_result(
        self, question: str, queries: Transformed, chunks: Sequence[Chunk]
    ) -> RetrievalResult:
        """The result of a question.

        The question's chunks, with the queries and failures of its search as metadata. Evaluations
        read the metadata: their keys are part of stored results.
        """
        metadata: dict[str, Any] = dict(self.retriever.metadata)
        if self.pre_retrieval.transforms:
            metadata[PRE_RETRIEVE] = transformed_object(queries)
        # Of the question as it was asked, also where other texts were searched for.
        embedding = self.retriever.query_embedding(question)
        if embedding is not None:
            metadata["query_embedding"] = embedding
        placed_chunks = [with_origin(chunk) for chunk in chunks]
        return RetrievalResult.from_chunks(placed_chunks, metadata=metadata)


class Stages(Record):
    """The open stages of a pipeline, as a RAG calls them."""

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
        """A RAG of open stages, which it does not close.

        Its methods take a conversation (``history``) only where a stage behind them does.

        Raises:
            ConfigError: `top_k` is below 1.
        """
        if stages.top_k < 1:
            raise ConfigError(f"top_k must be at least 1, not {stages.top_k}")
        super().__init__(RAGConfig(top_k=stages.top_k))
        self.stages = stages
        # A method takes what was said before only where a stage behind it does.
        transforms = stages.searching.pre_retrieval.transforms
        # A copy: the class's own is shared by all pipelines.
        histories = dict(type(self).histories)
        if not any(history_keyword(step.transform) for step in transforms):
            histories.pop("retrieve_with_metadata", None)
        if not history_keyword(stages.generator.generate):
            histories.pop("generate_with_metadata", None)
        self.histories = histories

    @property
    def post_retrieval(self) -> PostRetrieval | None:
        """The stage between retrieval and generation, such as reranking.

        None where there is none. An evaluation runs it between the other two, to measure it.
        """
        return self.stages.post_retrieval

    def without_post_retrieval(self) -> PipelineRAG:
        """The same RAG up to stage 3, retrieval.

        An evaluation runs stage 4 itself, to measure it.
        """
        return pipeline_rag(replace(self.stages, post_retrieval=None))

    def stage_identity(self, stage: str) -> object:
        """All that the results of a stage, ``retrieve`` or ``generate``, depend on, as JSON.

        Stored results are used again only while it is the same. Retrieval does not depend on the
        settings of generation, so that new answers need no new search.
        """
        identity: dict[str, Any] = {"rag": "pipeline"}
        # A user's subclass may answer otherwise with the same stages.
        if not type(self).__module__.startswith("ragbench."):
            identity["class"] = described_class(type(self))
        if stage == "generate":
            generator = dict(self.stages.generator.identity)
            return {**identity, **self.stages.generation_context, "generator": generator}
        if self.stages.post_retrieval is not None:
            identity[POST_RETRIEVE] = self.stages.post_retrieval.identity
        return {**identity, "top_k": self.stages.top_k, **self.stages.searching.identity}

    def retrieve_with_metadata(
        self, query: str, top_k: int | None = None, history: Said = ()
    ) -> RetrievalResult:
        """The contexts of one query, as generation gets them: after post-retrieval.

        An answer is so judged by the very contexts that it was made from.

        Args:
            query: the question.
            top_k: how many chunks are retrieved before post-retrieval; None for the setting.
            history: what was said before: pre-retrieval reads the question with it.

        Returns:
            The contexts. ``metadata`` holds under ``pre_retrieve`` what was searched for when that
            is not the question as it is, and what went wrong on the way; under ``post_retrieve``
            what each operator did.
        """
        outcomes = self._retrieval_outcomes([query], top_k, history)
        results: list[RetrievalResult] = settled(outcomes, "PipelineRAG.retrieve_with_metadata")
        return results[0]

    def generate_with_metadata(
        self, query: str, contexts: list[str], history: Said = ()
    ) -> GenerationResult:
        """The generator's answer; one that takes a conversation (``history``) gets it.

        A user's generator may take none, or by another name.
        """
        generate: Any = self.stages.generator.generate
        options: dict[str, Said] = {}
        # Without messages the user's generator is called as if it took none.
        if history:
            keyword = history_keyword(generate)
            if keyword is not None:
                options[keyword] = history
        return cast("GenerationResult", generate(query, contexts, **options))

    def _retrieval_outcomes(
        self, queries: Sequence[str], top_k: int | None, said: Said = ()
    ) -> list[RetrievalResult | Exception]:
        """For each query its contexts after post-retrieval, or the exception that the query raised.

        One query that fails does not cost the others of its batch their results.

        Args:
            top_k: chunks of each query before post-retrieval; None for the setting.
            said: the conversation before the queries.
        """
        if top_k is None:
            top_k = self.stages.top_k
        if top_k < 1:
            raise ConfigError(f"top_k must be at least 1, not {top_k}")
        results = self.stages.searching.results(queries, top_k, said)
        post = self.stages.post_retrieval
        if post is None:
            return results
        processed: list[RetrievalResult | Exception] = []
        for query, result in zip(queries, results, strict=True):
            # A failed search keeps its place in the list: outcomes pair with queries by position.
            if isinstance(result, Exception):
                processed.append(result)
            else:
                processed.append(_post_retrieved(post, query, result))
        return processed


def _post_retrieved(post: PostRetrieval, query: str, result: RetrievalResult) -> RetrievalResult:
    """The result that generation gets.

    The chunks that post-retrieval leaves, or the one text it made. The query's vector, which
    rerankers read, is left out: it would swell every stored result.
    """
    metadata = dict(result.metadata or {})
    # Rerankers read the vector from `result`; nothing later does.
    metadata.pop("query_embedding", None)
    processed = post_retrieved(post, query, result)
    metadata |= processed.metadata or {}
    processed = replace(processed, metadata=metadata)
    text = written_text(processed)
    if text is not None:
        return RetrievalResult([text], metadata=metadata)
    return processed


class BatchRetrieval(PipelineRAG):
    """A pipeline whose retriever is cheaper by the batch.

    A class of its own, because an evaluation sends batches to every RAG that writes a batch method:
    the others are called for several questions at the same time instead.
    """

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        """The contexts of all queries, in one search.

        Where the search of one query fails, the others keep their results. An embedder or a store
        takes less time for many queries at once.
        """
        outcomes = self._retrieval_outcomes(queries, top_k)
        return settled(outcomes, "PipelineRAG.batch_retrieve_with_metadata")


def pipeline_rag(stages: Stages) -> PipelineRAG:
    """The RAG of some open stages; one that takes batches where its retrieval gains by them.

    An evaluation sends batches to every RAG with a method for them.
    """
    kind = BatchRetrieval if stages.searching.takes_batches else PipelineRAG
    return kind(stages)
