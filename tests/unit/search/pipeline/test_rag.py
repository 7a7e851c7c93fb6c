"""What a pipeline does with questions, stage by stage, and what is computed again in a run."""

from __future__ import annotations

from collections.abc import Sequence
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
    takes_batches, notes, word_weights = True, (), None

    def __init__(self, found: dict[str, str]) -> None:
        self.found = found
        self.identity: dict[str, object] = {"shelf": found}
        self.metadata: dict[str, Any] = {"retriever": "shelf"}
        self.asked: list[tuple[list[str], int]] = []

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        self.asked.append(([f"{query.kind}:{query.text}" for query in queries], top_k))
        return [
            [Chunk(id=id_, text=f"text {id_}", score=1.0) for id_ in self.found[query.text]][:top_k]
            for query in queries
        ]

    def query_embedding(self, query: str) -> None:
        return None

    def close(self) -> None: ...


class Adds:
    """A transform that adds a made-up passage, or raises."""

    name = "adds"

    def transform(self, query: SearchQuery) -> Transformed:
        if query.text == "broken":
            raise LLMReplyError("no JSON")
        if query.text == "gone":
            raise ConnectionError("nobody there")
        added = SearchQuery(text="p", kind="passage", weight=2.0)
        return Transformed(queries=(query, *(() if query.text == "plain" else (added,))))


def rag_over(shelf: Shelf, **stages: Any) -> PipelineRAG:
    pre_retrieval = stages.pop("pre_retrieval", PreRetrieval())
    searching = Searching(retriever=shelf, pre_retrieval=pre_retrieval, candidates=3)
    return pipeline_rag(
        Stages(searching=searching, generator=ExtractiveGenerator(), top_k=2, **stages)
    )


def test_plain_questions_are_searched_for_in_one_batch() -> None:
    shelf = Shelf({"one": "ab", "two": "c"})
    rag = rag_over(shelf)
    first, second = rag.batch_retrieve_with_metadata(["one", "two"])
    assert (first.context_ids, second.context_ids) == (["a", "b"], ["c"])
    assert first.metadata == {"retriever": "shelf"}
    assert shelf.asked == [(["query:one", "query:two"], 2)]
    assert rag.retrieve("one", 1) == ["text a"]
    with pytest.raises(ConfigError, match="top_k must be at least 1, not 0"):
        rag.retrieve("one", 0)


def test_rankings_of_several_queries_are_fused_by_weight() -> None:
    """Reciprocal ranks: a 1/61, b 1/62 + 2/61, c 2/62."""
    shelf = Shelf({"one": "ab", "p": "bc", "plain": "z"})
    rag = rag_over(shelf, pre_retrieval=PreRetrieval(transforms=(Adds(),)))
    found = rag.retrieve_with_metadata("one")
    assert found.context_ids == ["b", "c"]
    assert found.scores == [1 / 62 + 2 / 61, 2 / 62]
    assert shelf.asked == [(["query:one", "passage:p"], 3)]
    queries = [
        {"text": "one", "kind": "query", "weight": 1.0},
        {"text": "p", "kind": "passage", "weight": 2.0},
    ]
    assert found.metadata == {"retriever": "shelf", "pre_retrieve": {"queries": queries}}
    assert rag.retrieve("plain") == ["text z"]


def test_a_failure_belongs_to_its_question() -> None:
    shelf = Shelf({"one": "ab", "p": "bc", "broken": "x"})
    rag = rag_over(shelf, pre_retrieval=PreRetrieval(transforms=(Adds(),)))
    kept = rag.retrieve_with_metadata("broken")
    assert kept.context_ids == ["x"]
    assert kept.metadata is not None
    (failure,) = kept.metadata["pre_retrieve"]["failures"]
    assert (failure["type"], failure["stage"]) == ("LLMReplyError", "adds")
    with pytest.raises(ConnectionError):
        rag.retrieve("gone")
    results = rag.stages.searching.results(["one", "gone"], 2)
    assert [type(one).__name__ for one in results] == ["RetrievalResult", "ConnectionError"]


def test_generation_is_given_what_post_retrieval_leaves() -> None:
    shelf = Shelf({"one": "ab"})
    cut = PostRetrieval(operators=(TopK(k=1),))
    rag = rag_over(shelf, post_retrieval=cut)
    found = rag.retrieve_with_metadata("one")
    assert (found.contexts, found.context_ids) == (["text a"], ["a"])
    assert found.metadata is not None
    assert found.metadata["retriever"] == "shelf"
    assert found.metadata["post_retrieve"]["steps"][0]["left"] == (("a", 1.0),)
    written = rag_over(shelf, post_retrieval=PostRetrieval(operators=(TopK(k=1), Xml())))
    (text,) = written.retrieve("one")
    assert text.startswith("<")
    assert written.without_post_retrieval().retrieve("one") == ["text a", "text b"]


def pipeline(text: str) -> Any:
    return load_pipeline(saved(text))


def run(text: str, **more: Any) -> tuple[Report, list[str]]:
    """Evaluates a pipeline file; which stages computed something."""
    computed: dict[str, int] = {}

    def advance(event: Progress) -> None:
        computed[event.stage] = computed.get(event.stage, 0) + event.done - event.reused

    with pipeline(text).open() as opened:
        rag, stage = opened.staged()
        how: dict[str, Any] = {"post_retrieval": stage, "advance": advance, **more}
        how["version"] = "as the file says"
        report = ragbench.evaluate(ragbench.read_cases("data"), rag, out=Path("run"), **how)
    computed.pop("score", None)
    return report, [stage for stage, count in computed.items() if count]


CORPUS = "indexing: {corpus: data/corpus.jsonl}\n"


def test_a_change_starts_from_where_it_is(place: Path) -> None:
    plain = f"{CORPUS}post_retrieval: [{{action: filter, type: top_k, k: 2}}]\n"
    assert run(plain)[1] == ["retrieve", "post_retrieve", "generate"]
    assert run(plain)[1] == []
    # Settings of generation never retrieve again.
    assert run(f"{plain}generation: {{threshold: 0.5}}")[1] == ["generate"]
    # An operator that leaves the same texts generates nothing again.
    assert run(plain.replace("k: 2}", "k: 2}, {action: none}"))[1] == ["post_retrieve"]
    # Retrieval is asked again, and finds the same.
    assert run(f"{plain}retrieval: {{top_k: 6}}")[1] == ["retrieve"]
    assert run(f"{plain}retrieval: {{top_k: 1}}")[1] == ["retrieve", "post_retrieve", "generate"]


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


def test_a_made_up_for_failure_is_counted_and_tried_again(place: Path) -> None:
    (place / "own.py").write_text(FLAKY, "utf-8")
    text = f"{CORPUS}pre_retrieval: [own.py:rewriting]"
    report, _ = run(text)
    (group,) = report.failures
    assert (group.stage, group.type, group.count) == ("rewrite", "LLMReplyError", 5)
    assert report.stages[0].measured == 5
    Path("mended").touch()
    assert run(text)[1] == []
    again, _ = run(text, settings=ragbench.EvalSettings(rag_name="x", retry_failed=True))
    assert again.failures == ()


STORE = """
indexing: {corpus: data/corpus.jsonl, embedder: 'hashing:32', store: 'memory:index'}
retrieval: {type: hybrid, top_k: 3}
"""


def test_a_store_is_brought_to_the_state_of_the_corpus(place: Path) -> None:
    kept = pipeline(STORE)
    with kept.open() as opened:
        first = opened.rag.retrieve_with_metadata("How many days of leave?")
        before = opened.rag.stage_identity("retrieve")
    assert first.metadata == {"retriever": "hybrid"}
    with kept.open() as opened:
        assert opened.rag.stage_identity("retrieve") == before
        again = opened.rag.batch_retrieve_with_metadata(["How many days of leave?", ""])
        assert again[0] == first
        assert list(again[1].contexts) == []
    corpus = Path("data/corpus.jsonl")
    corpus.write_text('{"id": "new", "text": "Leave takes 99 days."}\n', "utf-8")
    with load_pipeline("rag.yaml").open() as opened:
        found = opened.rag.retrieve_with_metadata("How many days of leave?")
        assert found.context_ids == ["new"]
        assert opened.rag.stage_identity("retrieve") != before


@pytest.mark.extra("qdrant")
def test_a_store_that_ranks_by_words_is_part_of_what_the_rag_is(place: Path) -> None:
    def identities(text: str) -> tuple[dict[str, Any], Any]:
        with pipeline(text).open() as opened:
            retrieve: Any = opened.rag.stage_identity("retrieve")
            return dict(retrieve["retriever"]), opened.rag.stage_identity("generate")

    plain, _ = identities(STORE.replace("memory:index", "qdrant:index"))
    there = STORE.replace("'memory:index'", "'qdrant:other', words: store")
    found, weighed = identities(there)
    words = found.pop("words")
    assert found == plain
    assert (words["k1"], words["b"], words["title_weight"]) == (1.2, 0.75, 2)
    assert words["average"] > 0 and words["hashing"] == "blake2b-32"
    assert weighed["word_weights"] == {"chunks": plain["chunks"], "words": words}
    assert "words" not in identities(there.replace("hybrid", "dense"))[0]


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
    ("name", "shown"),
    [
        ("own.py:Upper", ""),
        ("{type: own.py:made, shout: false, rrf_k: 10}", ""),
        ("own.py:later", "its methods are coroutines"),
        ("own.py:nothing", "is not a RAG"),
        ("own.py:broken", "raised OSError: full"),
    ],
)
def test_an_orchestration_may_be_a_function_and_must_give_a_plain_rag(
    place: Path, name: str, shown: str
) -> None:
    (place / "own.py").write_text(ORCHESTRATIONS, "utf-8")
    made = pipeline(f"{CORPUS}orchestration: {name}")
    if shown:
        with pytest.raises(ConfigError, match=shown), made.open():
            pass
        return
    with made.open() as opened:
        [text] = opened.rag.retrieve("badge", 1)
        assert text.startswith("A LOST BADGE IS REPORTED AT THE GATE.")
        assert opened.staged() == (opened.rag, None)


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


def test_made_up_passages_are_embedded_as_passages(place: Path) -> None:
    (place / "own.py").write_text(SIDES, "utf-8")
    rows = '{"id": "q", "text": "asked"}\n{"id": "p", "text": "a passage here"}\n'
    Path("c.jsonl").write_text(rows, "utf-8")
    text = "indexing: {corpus: c.jsonl, embedder: own.py:Sides}\nretrieval: {type: dense, top_k: 1}"
    for more, expected in (("", ["q"]), ("pre_retrieval: [own.py:Guess]", ["p"])):
        with pipeline(f"{text}\n{more}").open() as opened:
            assert opened.rag.retrieve_with_metadata("?").context_ids == expected
