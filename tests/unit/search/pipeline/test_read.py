"""A pipeline's file: what is right becomes stages, what is wrong is reported at once."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from ragbench import load_pipeline
from ragbench.core.chat import SamplingChat
from ragbench.errors import ConfigError, DataError
from ragbench.search.pipeline.chat import ChatGenerator
from ragbench.search.pipeline.extractive import ExtractiveGenerator
from ragbench.search.pipeline.pre_retrieval import HyDE, Normalise
from ragbench.search.pipeline.stages import RetrievalStage
from tests.unit.search.pipeline.builders import saved

OWN = '''
class Raises:
    def __init__(self, **settings):
        raise ValueError("no index at http://bob:secret@host/")


class Nothing:
    """Has no method of any stage."""


class Finds:
    def retrieve(self, query, top_k):
        return ["a", "b", "c"]


class Waits:
    async def retrieve(self, query, top_k):
        return []


class Answers:
    def generate(self, query, contexts):
        return "yes"


def loose(number):
    return number


instance = Finds()
'''


def problems(text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(DataError) as caught:
        load_pipeline(saved(text))
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_an_empty_mapping_is_the_baseline(place: Path) -> None:
    pipeline = load_pipeline(saved("{}"))

    assert pipeline.name == "rag"
    assert pipeline.corpus is None
    assert pipeline.post_retrieval is None
    assert pipeline.generation == ExtractiveGenerator()
    with pytest.raises(ConfigError, match="no documents: name them under indexing"):
        pipeline.open().__enter__()


def test_stages_are_built_of_settings(place: Path) -> None:
    text = """
        llm: {model: m, base_url: "http://localhost:1/v1"}
        pre_retrieval:
          transforms: [normalise, {type: hyde, count: 2, llm: {temperature: 1}}]
          on_error: raise
        retrieval: {top_k: 7, b: 0}
        generation: {type: chat, max_contexts: 7}
        """

    pipeline = load_pipeline(saved(text))

    normalise, hyde = pipeline.pre_retrieval.transforms
    assert normalise == Normalise()
    assert isinstance(hyde, HyDE)
    assert isinstance(hyde.chat, SamplingChat)
    assert hyde.count == 2
    assert hyde.chat.temperature == 1.0
    assert pipeline.pre_retrieval.on_error == "raise"
    assert pipeline.retrieval.top_k == 7
    assert isinstance(pipeline.generation, ChatGenerator)
    chat: Any = pipeline.generation.chat
    assert chat.temperature == 0.0
    assert len(pipeline.chats) == 2


PROBLEMS = """nam: x
llm: {modl: x}
indexing:
  corpus: nope.jsonl
  store: qdrnt
  embedder: multilingua
  chunker: {name: sentences, tokens: 3}
pre_retrieval:
  - normalize
  - type: hyde
    count: 99
  - 3
  - {type: own.py:Missing}
retrieval:
  type: dense
  top_k: many
post_retrieval:
  - {action: rerank, type: semantic}
  - action: filter
    type: top_k
    k: 0
generation:
  type: chat
  candidates: 0
  foo: 1
orchestration: {rrf_k: 0}
"""
# The line of each, and a part of its message.
REPORTED = [
    (1, "Did you mean 'name'?"),
    (2, "there is no setting 'modl'"),
    (4, "there is no file or folder 'nope.jsonl'"),
    (5, "'qdrnt' is not a store"),
    (6, "Did you mean 'multilingual'?"),
    (7, "at least 8 tokens, not 3"),
    (9, "Did you mean 'normalise'?"),
    (11, "count must be at most 8, not 99"),
    (12, "found 3"),
    (13, "there is no file 'own.py'"),
    (16, "top_k must be a whole number, not 'many'"),
    (21, "k must be at least 1, not 0"),
    (24, "candidates must be at least 1, not 0"),
    (25, "unknown setting 'foo'. Known: candidates, instructions, max_contexts"),
    (26, "rrf_k must be at least 1, not 0"),
]


def test_all_problems_come_at_once_with_their_lines(place: Path) -> None:
    problems_of_the_file = problems(PROBLEMS)

    assert [line for line, _ in problems_of_the_file] == [line for line, _ in REPORTED]
    for (_, message), (_, part) in zip(problems_of_the_file, REPORTED, strict=True):
        assert part in message


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("pre_retrieval: [hyde]", 1, "hyde needs a language model: name one in a section 'llm'"),
        ("\ngeneration: chat", 2, "chat needs a language model"),
        ("generation:\n  type: chat\n  llm: {temperature: 1}", 3, "no model is named"),
        ("post_retrieval: [{action: filter, type: llm}]", 1, "needs a language model"),
        ("llm: {model: m}\ngeneration: {type: chat, candidates: 3}", 2, "must be 1, not 3"),
        ("llm: {model: m}\ngeneration: {type: chat, max_contexts: 6}", 2, "at most 5 (top_k)"),
        ("indexing: {store: 'memory:x'}", 1, "'store' is not used by bm25"),
        ("indexing:\n  embedder: hashing", 2, "'embedder' is not used by bm25"),
        ("retrieval: dense\nindexing: {embedder: null}", 2, "needs vectors: name an embedder"),
        ("post_retrieval: [{action: rerank, type: semantic}]", 1, "and retrieval gives none"),
        (
            "indexing: {embedder: hashing}\nretrieval: hybrid\npost_retrieval:\n  operators:\n"
            "    - {action: rerank, type: mmr, similarity: embedding}",
            5,
            "the reranker mmr compares embeddings",
        ),
        ("post_retrieval: [{action: merge, type: link_expand}]", 1, "neighbours(chunk_id, top_k)"),
        ("retrieval: {type: dense, filters: {year: {foo: 1}}}", 1, "filters"),
        ("indexing: {embedder: 'hashing:x'}\nretrieval: dense", 1, "dimension must be a whole"),
        ("pre_retrieval: {transform: []}", 1, "Did you mean 'transforms'?"),
        ("retrieval: sparse\nindexing: {words: there}", 2, "words"),
        (
            "post_retrieval: {action: rerank, type: lexical}",
            1,
            "put '- ' before each: '- {action: r",
        ),
        (
            "indexing: {embedder: hashing}\nretrieval: {type: hybrid, candidates: 3}",
            2,
            "candidates is 3: fewer chunks of each ranking than top_k (5) cannot be fused",
        ),
        ("pre_retrieval: 3", 1, "expected a list, found 3"),
        ("retrieval: [bm25]", 1, "expected 'name: value' entries, found a list"),
        ("name: [x]", 1, "expected a text"),
        ("indexing: {corpus: 3}", 1, "corpus must be a text, not 3"),
    ],
)
def test_what_cannot_be_is_reported(place: Path, text: str, line: int, message: str) -> None:
    ((line_of_problem, reported),) = problems(text)

    assert line_of_problem == line
    assert message in reported


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("retrieval: own.py:Raises", "raised ValueError: no index at http://***@host/"),
        ("generation: {type: own.py:Raises, x: 1}", "raised ValueError"),
        ("pre_retrieval: [own.py:Raises]", "raised ValueError"),
        ("post_retrieval: [{action: own.py:Raises}]", "raised ValueError"),
        ("indexing: {chunker: own.py:Raises}", "raised ValueError"),
        ("retrieval: own.py:Nothing", "is not a RAG"),
        ("retrieval: own.py:Answers", "it has no method retrieve(query, top_k)"),
        ("generation: own.py:Finds", "it has no method generate(query, contexts)"),
        ("retrieval: own.py:Waits", "its methods are coroutines"),
        ("pre_retrieval: [own.py:Nothing]", "lacks a name or transform(query)"),
        ("post_retrieval: [{action: own.py:Nothing}]", "it lacks a name or apply()"),
        ("indexing: {chunker: own.py:Nothing}", "it lacks pieces(document)"),
        ("indexing: {embedder: own.py:Nothing}\nretrieval: dense", "it has neither embed_queries"),
        ("orchestration: own.py:loose", "is called with stages"),
        ("orchestration: own.py:instance", "cannot be called"),
        ("retrieval: {type: own.py:Finds, depth: 3}", "takes no depth"),
        ("pre_retrieval: [{type: own.py:Nothing, a: 1}]", "takes no arguments"),
        ("generation: own.py:Answer", "Did you mean Answers"),
        ("generation: missing_module:Answers", "there is no module 'missing_module'"),
        ("retrieval: {type: own.py:Finds, top_k: 0}", "top_k must be at least 1"),
        ("retrieval: own.py:Finds\nindexing: {corpus: data/corpus.jsonl}", "brings its own index"),
        ("retrieval: own.py:Finds\ngeneration: {word_weights: corpus}", "not known to your own"),
    ],
)
def test_a_class_that_does_not_fit_is_reported_with_its_line(
    place: Path, text: str, message: str
) -> None:
    (place / "own.py").write_text(OWN, "utf-8")

    ((line, reported),) = problems(text)

    # Of two lines the one about the embedder is reported by its first, others by the second.
    assert line == (1 if "\n" not in text or "embedder" in text else 2)
    assert message in reported
    assert "secret" not in reported


def test_a_longer_answer_of_a_users_retrieval_is_cut(place: Path) -> None:
    (place / "own.py").write_text(OWN, "utf-8")
    text = "retrieval: {type: own.py:Finds, top_k: 2}\ngeneration: own.py:Answers"
    with load_pipeline(saved(text)).open() as opened:
        assert opened.rag.retrieve("?") == ["a", "b"]
        assert opened.rag.generate("?", []) == "yes"


def bomb() -> str:
    """Nine lists of ten, each of the one before: a thousand million items."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for number in range(1, 9):
        items = ", ".join([f"*a{number - 1}"] * 10)
        lines.append(f"a{number}: &a{number} [{items}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("- bm25", "expected 'name: value' entries, found a list"),
        ("just words", "expected 'name: value' entries"),
        (bomb(), "to too much"),
        ("retrieval: !!python/object/apply:os.system ['true']", "is not YAML"),
        ("name: " + "[" * 1200, "is n"),
        ("name: \x00", "is not YAML"),
        ("name: 2024-13-45", "is not YAML"),
    ],
)
def test_hostile_files_are_refused_at_once(place: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=r"rag\.yaml") as caught:
        load_pipeline(saved(text))
    assert message in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_a_huge_file_is_refused_or_read_and_a_missing_one_is_reported(place: Path) -> None:
    many_keys = "\n".join(f"key{number}: {number}" for number in range(2_000))
    with pytest.raises(DataError, match="and 1980 more problems"):
        load_pipeline(saved(many_keys))

    with pytest.raises(DataError, match=r"no\.yaml: cannot be read: No such file"):
        load_pipeline("no.yaml")

    Path("rag.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not UTF-8"):
        load_pipeline("rag.yaml")


@dataclass(frozen=True, kw_only=True)
class Elsewhere(RetrievalStage):
    """A retrieval of another package that says nothing of itself but how much it gives."""

    top_k: int = 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("generation: {word_weights: corpus}", ""),
        ("post_retrieval: [{action: rerank, type: semantic}]", ""),
        ("indexing: {embedder: hashing}", "'embedder' is not used by elsewhere"),
    ],
)
def test_a_retrieval_of_another_package_says_what_it_goes_with(
    place: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    def entry_points(group: str) -> list[EntryPoint]:
        if group != "ragbench.retrievals":
            return []
        return [EntryPoint("elsewhere", f"{__name__}:Elsewhere", group)]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    file = f"retrieval: elsewhere\n{text}"
    if problem:
        ((_, message),) = problems(file)
        assert problem in message
    else:
        load_pipeline(saved(file))


@pytest.mark.parametrize(
    ("text", "embedder"),
    [
        ("retrieval: sparse", "none"),
        ("retrieval: {type: sparse, top_k: 3}\nindexing: {chunker: whole}", "none"),
        ("retrieval: sparse\nindexing: {embedder: null, store: 'memory:kept'}", "none"),
        ("retrieval: sparse\nindexing: {store: 'memory:kept'}", "multilingual"),
        ("retrieval: sparse\nindexing: {embedder: 'hashing:8'}", "hashing:8"),
        ("retrieval: dense", "multilingual"),
    ],
)
def test_a_search_by_words_embeds_nothing_that_nobody_else_could_want(
    place: Path, text: str, embedder: str
) -> None:
    assert load_pipeline(saved(text)).indexing.embedder_name == embedder
