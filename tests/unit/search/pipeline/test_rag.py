"""What a pipeline does with questions, stage by stage, and what is computed again in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ragbench
from ragbench import Chunk, PipelineRAG, PostRetrieval, Transformed, load_pipeline
from ragbench.core.report import Report
from ragbench.core.search_query import SearchQuery
from ragbench.errors import ConfigError, LLMReplyError
from ragbench.post.filter import TopK
from ragbench.post.format import Xml
from ragbench.search.pipeline.extractive import ExtractiveGenerator
from ragbench.search.pipeline.pre_retrieval import PreRetrieval
from ragbench.search.pipeline.stages import Searching, Stages, pipeline_rag
from ragbench.stages.stage import Progress
from tests.unit.search.pipeline.builders import saved


class Shelf:
    """A retriever that finds for each query what it is made with, and keeps what it is asked."""

    takes_batches = True
    notes = ()
    word_weights = None

    def __init__(self, ids_of_query: dict[str, str]) -> None:
        """Every letter is the id of a chunk, the best first."""
        self.ids_of_query = ids_of_query
        self.identity: dict[str, object] = {"shelf": ids_of_query}
        self.metadata: dict[str, Any] = {"retriever": "shelf"}
        self.searches: list[tuple[list[str], int]] = []
        """Of each: the queries with their kinds, and how many chunks were asked for."""

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        kinds_and_texts = [f"{query.kind}:{query.text}" for query in queries]
        self.searches.append((kinds_and_texts, top_k))
        rankings: list[list[Chunk]] = []
        for query in queries:
            ids = self.ids_of_query[query.text][:top_k]
            rankings.append([Chunk(id=id, text=f"text {id}", score=1.0) for id in ids])
        return rankings

    def query_embedding(self, query: str) -> None:
        return None

    def close(self) -> None: ...


class AddsPassage:
    """A transform that adds the made-up passage "p" to a query, unless it is "plain"."""

    name = "adds"

    def transform(self, query: SearchQuery) -> Transformed:
        if query.text == "broken":
            raise LLMReplyError("no JSON")
        if query.text == "gone":
            raise ConnectionError("nobody there")
        if query.text == "plain":
            return Transformed(queries=(query,))
        passage = SearchQuery(text="p", kind="passage", weight=2.0)
        return Transformed(queries=(query, passage))


WITH_PASSAGE = PreRetrieval(transforms=(AddsPassage(),))


def rag_over(
    shelf: Shelf,
    *,
    pre_retrieval: PreRetrieval | None = None,
    post_retrieval: PostRetrieval | None = None,
) -> PipelineRAG:
    """Gives two chunks of up to three of each ranking."""
    searching = Searching(
        retriever=shelf, pre_retrieval=pre_retrieval or PreRetrieval(), candidates=3
    )
    stages = Stages(searching=searching, generator=ExtractiveGenerator(), top_k=2)
    if post_retrieval is not None:
        stages = replace(stages, post_retrieval=post_retrieval)
    return pipeline_rag(stages)


# --- retrieval


def test_plain_questions_are_searched_for_in_one_batch() -> None:
    shelf = Shelf({"one": "ab", "two": "c"})

    result_of_one, result_of_two = rag_over(shelf).batch_retrieve_with_metadata(["one", "two"])

    assert result_of_one.context_ids == ["a", "b"]
    assert result_of_two.context_ids == ["c"]
    assert result_of_one.metadata == {"retriever": "shelf"}
    assert shelf.searches == [(["query:one", "query:two"], 2)]


def test_a_call_may_ask_for_fewer_chunks() -> None:
    assert rag_over(Shelf({"one": "ab"})).retrieve("one", 1) == ["text a"]


def test_a_call_for_no_chunks_is_refused() -> None:
    with pytest.raises(ConfigError, match="top_k must be at least 1, not 0"):
        rag_over(Shelf({"one": "ab"})).retrieve("one", 0)


def test_rankings_of_several_queries_are_fused_by_weight() -> None:
    shelf = Shelf({"one": "ab", "p": "bc"})

    result = rag_over(shelf, pre_retrieval=WITH_PASSAGE).retrieve_with_metadata("one")

    # Reciprocal ranks, those of the passage with its weight of 2: a has 1/61.
    assert result.context_ids == ["b", "c"]
    assert result.scores == [1 / 62 + 2 / 61, 2 / 62]


def test_each_kind_of_query_is_searched_for_and_noted() -> None:
    shelf = Shelf({"one": "ab", "p": "bc"})

    result = rag_over(shelf, pre_retrieval=WITH_PASSAGE).retrieve_with_metadata("one")

    assert shelf.searches == [(["query:one", "passage:p"], 3)]
    queries = [
        {"text": "one", "kind": "query", "weight": 1.0},
        {"text": "p", "kind": "passage", "weight": 2.0},
    ]
    assert result.metadata == {"retriever": "shelf", "pre_retrieve": {"queries": queries}}


def test_a_query_that_no_transform_changes_is_searched_for_as_it_is() -> None:
    shelf = Shelf({"plain": "z"})

    assert rag_over(shelf, pre_retrieval=WITH_PASSAGE).retrieve("plain") == ["text z"]


def test_where_a_model_s_reply_is_useless_the_plain_query_makes_up_for_it() -> None:
    shelf = Shelf({"broken": "x"})

    result = rag_over(shelf, pre_retrieval=WITH_PASSAGE).retrieve_with_metadata("broken")

    assert result.context_ids == ["x"]
    assert result.metadata is not None
    (failure,) = result.metadata["pre_retrieve"]["failures"]
    assert failure["type"] == "LLMReplyError"
    assert failure["stage"] == "adds"


def test_an_error_of_a_transform_is_raised() -> None:
    rag = rag_over(Shelf({}), pre_retrieval=WITH_PASSAGE)

    with pytest.raises(ConnectionError):
        rag.retrieve("gone")


def test_an_error_belongs_to_its_question() -> None:
    shelf = Shelf({"one": "ab", "p": "bc"})
    rag = rag_over(shelf, pre_retrieval=WITH_PASSAGE)

    results = rag.stages.searching.results(["one", "gone"], 2)

    assert [type(result).__name__ for result in results] == ["RetrievalResult", "ConnectionError"]


# --- post-retrieval


def test_generation_is_given_what_post_retrieval_leaves() -> None:
    best_alone = PostRetrieval(operators=(TopK(k=1),))
    rag = rag_over(Shelf({"one": "ab"}), post_retrieval=best_alone)

    result = rag.retrieve_with_metadata("one")

    assert result.context_ids == ["a"]
    assert result.contexts == ["text a"]
    assert result.metadata is not None
    assert result.metadata["retriever"] == "shelf"
    (step,) = result.metadata["post_retrieve"]["steps"]
    assert step["left"] == (("a", 1.0),)


def test_generation_is_given_the_text_of_a_format() -> None:
    best_alone_as_xml = PostRetrieval(operators=(TopK(k=1), Xml()))
    rag = rag_over(Shelf({"one": "ab"}), post_retrieval=best_alone_as_xml)

    (text,) = rag.retrieve("one")

    assert text.startswith("<")


def test_a_rag_can_be_had_without_its_post_retrieval() -> None:
    best_alone_as_xml = PostRetrieval(operators=(TopK(k=1), Xml()))
    rag = rag_over(Shelf({"one": "ab"}), post_retrieval=best_alone_as_xml)

    assert rag.without_post_retrieval().retrieve("one") == ["text a", "text b"]


# --- what is computed again


def pipeline(text: str) -> Any:
    return load_pipeline(saved(text))


def run(text: str, **options: Any) -> tuple[Report, list[str]]:
    """Evaluates a pipeline file; which stages computed something."""
    computed: dict[str, int] = {}

    def count(event: Progress) -> None:
        computed.setdefault(event.stage, 0)
        computed[event.stage] += event.done - event.reused

    with pipeline(text).open() as opened:
        rag, post_retrieval = opened.staged()
        report = ragbench.evaluate(
            ragbench.read_cases("data"),
            rag,
            out=Path("run"),
            post_retrieval=post_retrieval,
            advance=count,
            version="as the file says",
            **options,
        )
    # Scores are computed in every run.
    computed.pop("score", None)
    return report, [stage for stage, times in computed.items() if times]


def stages_run(text: str) -> list[str]:
    return run(text)[1]


CORPUS = "indexing: {corpus: data/corpus.jsonl}\n"
TWO_CHUNKS = f"{CORPUS}post_retrieval: [{{action: filter, type: top_k, k: 2}}]\n"


@pytest.fixture
def after_a_run(place: Path) -> None:
    """The current folder has a run of TWO_CHUNKS."""
    assert stages_run(TWO_CHUNKS) == ["retrieve", "post_retrieve", "generate"]


@pytest.mark.usefixtures("after_a_run")
@pytest.mark.parametrize(
    ("text", "stages"),
    [
        pytest.param(TWO_CHUNKS, [], id="nothing is changed"),
        pytest.param(
            f"{TWO_CHUNKS}generation: {{threshold: 0.5}}", ["generate"], id="generation is changed"
        ),
        pytest.param(
            TWO_CHUNKS.replace("k: 2}", "k: 2}, {action: none}"),
            ["post_retrieve"],
            id="an operator leaves the same texts",
        ),
        pytest.param(
            f"{TWO_CHUNKS}retrieval: {{top_k: 6}}",
            ["retrieve"],
            id="retrieval finds the same two chunks first",
        ),
        pytest.param(
            f"{TWO_CHUNKS}retrieval: {{top_k: 1}}",
            ["retrieve", "post_retrieve", "generate"],
            id="retrieval finds fewer",
        ),
    ],
)
def test_a_change_starts_from_where_it_is(text: str, stages: list[str]) -> None:
    assert stages_run(text) == stages


FLAKY = """
import json, os

class Model:
    name = "flaky"

    def complete(self, messages):
        if os.path.exists("mended"):
            return '{"query": "leave"}'
        return "I would rather not."


from ragbench.search.pipeline.pre_retrieval import Rewrite


def rewriting():
    return Rewrite(chat=Model())
"""


REWRITTEN = f"{CORPUS}pre_retrieval: [own.py:rewriting]"


@pytest.fixture
def flaky_model(place: Path) -> None:
    """In own.py: its replies are useless until there is a file "mended"."""
    (place / "own.py").write_text(FLAKY, "utf-8")


@pytest.mark.usefixtures("flaky_model")
def test_a_failure_that_is_made_up_for_is_counted_and_the_case_is_measured() -> None:
    report, _ = run(REWRITTEN)

    (group,) = report.failures
    assert group.stage == "rewrite"
    assert group.type == "LLMReplyError"
    assert group.count == 5
    assert report.stages[0].measured == 5


@pytest.mark.usefixtures("flaky_model")
def test_a_failure_that_is_made_up_for_is_not_tried_again_by_itself() -> None:
    run(REWRITTEN)
    Path("mended").touch()

    assert stages_run(REWRITTEN) == []


@pytest.mark.usefixtures("flaky_model")
def test_a_failure_that_is_made_up_for_is_tried_again_on_request() -> None:
    run(REWRITTEN)
    Path("mended").touch()

    report, _ = run(REWRITTEN, settings=ragbench.EvalSettings(rag_name="x", retry_failed=True))

    assert report.failures == ()


# --- a store


STORE = """
indexing: {corpus: data/corpus.jsonl, embedder: 'hashing:32', store: 'memory:index'}
retrieval: {type: hybrid, top_k: 3}
"""


LEAVE = "How many days of leave?"


def test_a_store_is_the_same_when_it_is_opened_again(place: Path) -> None:
    loaded = pipeline(STORE)
    with loaded.open() as opened:
        first_result = opened.rag.retrieve_with_metadata(LEAVE)
        first_identity = opened.rag.stage_identity("retrieve")

    with loaded.open() as opened:
        second_result = opened.rag.retrieve_with_metadata(LEAVE)
        second_identity = opened.rag.stage_identity("retrieve")

    assert first_result.metadata == {"retriever": "hybrid"}
    assert second_result == first_result
    assert second_identity == first_identity


def test_an_empty_question_finds_nothing_beside_one_that_finds(place: Path) -> None:
    with pipeline(STORE).open() as opened:
        leave, nothing = opened.rag.batch_retrieve_with_metadata([LEAVE, ""])

    assert len(leave.contexts) > 0
    assert list(nothing.contexts) == []


def test_a_store_is_brought_to_the_state_of_the_corpus(place: Path) -> None:
    with pipeline(STORE).open() as opened:
        old_identity = opened.rag.stage_identity("retrieve")
    corpus = Path("data/corpus.jsonl")
    corpus.write_text('{"id": "new", "text": "Leave takes 99 days."}\n', "utf-8")

    with load_pipeline("rag.yaml").open() as opened:
        result = opened.rag.retrieve_with_metadata(LEAVE)
        new_identity = opened.rag.stage_identity("retrieve")

    assert result.context_ids == ["new"]
    assert new_identity != old_identity


def identities(text: str) -> tuple[dict[str, Any], Any]:
    """Of the retriever, and of generation."""
    with pipeline(text).open() as opened:
        retrieve: Any = opened.rag.stage_identity("retrieve")
        return dict(retrieve["retriever"]), opened.rag.stage_identity("generate")


RANKED_BY_RAGBENCH = STORE.replace("memory:index", "qdrant:index")
RANKED_BY_STORE = STORE.replace("'memory:index'", "'qdrant:other', words: store")


@pytest.mark.extra("qdrant")
def test_a_store_that_ranks_by_words_is_part_of_what_the_rag_is(place: Path) -> None:
    by_ragbench, _ = identities(RANKED_BY_RAGBENCH)
    by_store, generation = identities(RANKED_BY_STORE)

    words = by_store.pop("words")
    assert by_store == by_ragbench
    assert words["k1"] == 1.2
    assert words["b"] == 0.75
    assert words["title_weight"] == 2
    assert words["average"] > 0
    assert words["hashing"] == "blake2b-32"
    assert generation["word_weights"] == {"chunks": by_ragbench["chunks"], "words": words}


@pytest.mark.extra("qdrant")
def test_words_that_no_search_uses_are_no_part_of_what_the_rag_is(place: Path) -> None:
    retriever, _ = identities(RANKED_BY_STORE.replace("hybrid", "dense"))

    assert "words" not in retriever


# --- a file of the user's own


ORCHESTRATIONS = """
from ragbench import AsyncRAGInterface, RAGInterface

class Upper(RAGInterface):
    def __init__(self, stages):
        self.stages = stages
        super().__init__()
    def retrieve(self, query, top_k=None):
        [found] = self.stages.searching.results([query], top_k or self.stages.top_k)
        return [text.upper() for text in found.contexts]
    def generate(self, query, contexts):
        return contexts[0]

class Later(AsyncRAGInterface, families=("generation",)):
    async def generate(self, query, contexts):
        return ""

def made(stages, shout=True):
    return Upper(stages)

def later(stages):
    return Later()

def nothing(stages):
    return 3

def broken(stages):
    raise OSError("full")
"""


@pytest.mark.parametrize(
    "orchestration",
    ["own.py:Upper", "{type: own.py:made, shout: false, rrf_k: 10}"],
    ids=["class", "function with settings"],
)
def test_an_orchestration_may_be_a_class_or_a_function(place: Path, orchestration: str) -> None:
    (place / "own.py").write_text(ORCHESTRATIONS, "utf-8")

    with pipeline(f"{CORPUS}orchestration: {orchestration}").open() as opened:
        [text] = opened.rag.retrieve("badge", 1)

        assert text.startswith("A LOST BADGE IS REPORTED AT THE GATE.")
        assert opened.staged() == (opened.rag, None)


@pytest.mark.parametrize(
    ("orchestration", "message"),
    [
        ("own.py:later", "its methods are coroutines"),
        ("own.py:nothing", "is not a RAG"),
        ("own.py:broken", "raised OSError: full"),
    ],
)
def test_an_orchestration_must_give_a_plain_rag(
    place: Path, orchestration: str, message: str
) -> None:
    (place / "own.py").write_text(ORCHESTRATIONS, "utf-8")
    loaded = pipeline(f"{CORPUS}orchestration: {orchestration}")

    with pytest.raises(ConfigError, match=message), loaded.open():
        pass


SIDES = """
from ragbench.core.search_query import SearchQuery, Transformed

class Sides:
    def embed_query(self, text):
        return [1.0, 0.0]
    def embed_documents(self, texts):
        return [[0.0, 1.0] if "passage" in text else [1.0, 0.0] for text in texts]

class Guess:
    name = "guess"
    def transform(self, query):
        return Transformed(queries=(SearchQuery(text="a passage", kind="passage"),))
"""


@pytest.mark.parametrize(
    ("pre_retrieval", "id"),
    [
        pytest.param("", "q", id="the question"),
        pytest.param("pre_retrieval: [own.py:Guess]", "p", id="a made-up passage"),
    ],
)
def test_made_up_passages_are_embedded_as_passages(
    place: Path, pre_retrieval: str, id: str
) -> None:
    (place / "own.py").write_text(SIDES, "utf-8")
    rows = '{"id": "q", "text": "asked"}\n{"id": "p", "text": "a passage here"}\n'
    Path("c.jsonl").write_text(rows, "utf-8")
    text = "indexing: {corpus: c.jsonl, embedder: own.py:Sides}\nretrieval: {type: dense, top_k: 1}"

    with pipeline(f"{text}\n{pre_retrieval}").open() as opened:
        assert opened.rag.retrieve_with_metadata("?").context_ids == [id]
