"""What every operator and every reranker promises, on any input; the ranges of all settings."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench import Chunk, Query, build_reranker, rerank
from ragbench.core.chat import ChatModel, Message
from ragbench.errors import ConfigError, InterfaceError
from ragbench.io.settings import from_settings, schema_of_settings
from ragbench.post import augment
from ragbench.post import filter as filters
from ragbench.post.build import OPERATORS, RERANKERS, WRITTEN
from ragbench.post.filter import Abstractive, Extractive, TokenBudget
from ragbench.post.format import Chat, JsonFormat, LongContext, Template, Xml
from ragbench.post.operator import ChunkNeighbours, ChunkSearch, Operator
from ragbench.post.rerank import Rerank, Reranker
from ragbench.post.rerankers.lexical import LexicalReranker
from ragbench.post.stage import PostRetrieved
from ragbench.search.pipeline.pre_retrieval import QUERY_TRANSFORMS
from ragbench.search.pipeline.stages import GENERATIONS, ORCHESTRATIONS, RETRIEVALS
from ragbench.text.token_counter import APPROXIMATE
from tests.unit.post.builders import Shelf, applied, chunk, ids
from tests.unit.post.rerank_server import serving
from tests.unit.post.tiny_onnx import write_tiny_cross_encoder

WORDS = (
    "Leave",
    "is",
    "27",
    "days.",
    "Ask",
    "HR!",
    "Why",
    "not?",
    "A.B.",
    "3.14",
    "über",
    "你好。",
    "\n\n",
    "<&\"'>",
    "{x}",
    "\x00",
    "\r\t",
    "]]>",
    "user:",
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
VECTORS = st.lists(st.floats(-5, 5), min_size=2, max_size=2)
SCORES = st.none() | st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.integers(0, 2 * 10**9) | st.sampled_from(["2024-05-01", "never"])


@st.composite
def chunk_lists(draw: st.DrawFn, least: int = 0, scores: Any = SCORES) -> list[Chunk]:
    """Up to eight chunks of any texts, with or without a document, a score and metadata."""
    metadata_fields = {"title": TEXTS, "role": TEXTS, "timestamp": TIMES, "embedding": VECTORS}
    any_metadata = st.fixed_dictionaries({}, optional=metadata_fields)
    chunks: list[Chunk] = []
    for number in range(draw(st.integers(least, 8))):
        chunk = Chunk(
            id=str(number),
            text=draw(TEXTS),
            score=draw(scores),
            document_id=draw(st.sampled_from([None, "a", "b"])),
            metadata=draw(any_metadata),
        )
        chunks.append(chunk)
    return chunks


class Reader:
    """A language model that keeps the first passage, likes long ones, and can sum up."""

    name = "reader"

    def complete(self, messages: Sequence[Message]) -> str:
        task = messages[0].content
        request = messages[-1].content
        if '{"keep"' in task:
            return '{"keep": [1]}'
        passages = re.findall(r"\[(\d+)\]\n(.*)\n", request)
        if passages:
            longest_first = sorted(passages, key=lambda passage: -len(passage[1]))
            numbers = ", ".join(number for number, _ in longest_first)
            return f'{{"order": [{numbers}]}}'
        if "grade" in task:
            return f'{{"grade": {len(request) % 11}}}'
        return "Leave is 27 days."


CHAT = Reader()
QUESTION = "How many days of Leave? \u4f60\u597d"
FURTHER_CHUNKS = [chunk("new", "Leave is long.", 0.2), chunk("1", "Days.", 0.1)]
SHELF = Shelf(found={QUESTION: FURTHER_CHUNKS}, linked={"0": FURTHER_CHUNKS})

# Chunks that stay are the same objects in the same order.
SUBSETS: list[Operator] = [
    filters.TopK(k=3),
    filters.Threshold(min_score=0.0),
    TokenBudget(budget=20),
    filters.Dedup(),
    filters.DedupNear(similarity=0.5, shingle=1),
    filters.LlmFilter(chat=CHAT),
]
# Every chunk stays, the same object.
PERMUTATIONS: list[Operator] = [
    filters.Nothing(),
    LongContext(),
    Rerank(reranker=LexicalReranker()),
    JsonFormat(),
    Chat(),
    Xml(),
    Template(template="{rank} {text} {metadata.title} {question}"),
]
# Every chunk stays, the same object, and others come.
QUERY_MERGE = augment.QueryMerge(
    service=SHELF, queries=(augment.SecondaryQuery(query="{question}"),), fusion="rrf"
)
SUPERSETS: list[Operator] = [
    *(
        augment.LinkExpand(service=SHELF, first=2, fusion=fusion)
        for fusion in get_args(augment.Fusion)
    ),
    QUERY_MERGE,
    augment.Reflection(chat=CHAT),
]
# Every chunk stays in its place; its text may be longer.
REWRITES: list[Operator] = [
    augment.Context(),
    augment.Metadata(fields=("title", "role")),
    augment.Temporal(),
    augment.Neighbours(service=SHELF),
]
# Texts that stay are made of slices.
CUTS: list[Operator] = [TokenBudget(budget=12, policy="truncate"), Extractive(budget=12)]
# Texts are replaced by shorter ones: a summary of each chunk, or one of all together.
SUMMARY_OF_EACH = Abstractive(chat=CHAT)
SUMMARY_OF_ALL = Abstractive(chat=CHAT, scope="all")
ALL = [
    *SUBSETS,
    *PERMUTATIONS,
    *SUPERSETS,
    *REWRITES,
    *CUTS,
    SUMMARY_OF_EACH,
    SUMMARY_OF_ALL,
]

COMPUTED: dict[str, dict[str, object]] = {
    "feedback": {},
    "lexical": {},
    "llm_pointwise": {},
    "mmr": {},
    "ppr": {},
    "semantic": {},
    "time_weighted": {},
    "linear": {"rerankers": ["semantic", "lexical"], "given_weight": 1},
    "llm_listwise": {"window": 4, "step": 2},
    "rrf": {"rerankers": ["semantic", "time_weighted", "mmr"], "given_weight": 1},
    "weighted": {"factors": [{}, {"field": "recency"}, {"field": "likes"}]},
}


def test_every_built_in_operator_is_tested_here() -> None:
    names: set[str] = set()
    for operator in ALL:
        # An operator that reranks carries the name of its reranker, as in "rerank.lexical".
        names.add("rerank" if operator.name.startswith("rerank") else operator.name)

    assert names == set(OPERATORS.builtin)


def test_every_built_in_reranker_is_tested_here() -> None:
    assert {*COMPUTED, "cross_encoder", "http"} == set(RERANKERS.builtin)


# --- operators


def run(operator: Operator, chunks: list[Chunk]) -> PostRetrieved:
    return applied(operator, *chunks, question=QUESTION)


def objects(output: PostRetrieved) -> list[int]:
    """Which objects the chunks are: a copy is another one."""
    return [id(entry.chunk) for entry in output.chunks]


# Further queries do not depend on what was found.
WITHOUT_QUERY_MERGE = [operator for operator in ALL if operator is not QUERY_MERGE]


@pytest.mark.parametrize("operator", WITHOUT_QUERY_MERGE, ids=lambda operator: operator.name)
def test_nothing_in_nothing_out_and_nobody_is_asked(operator: Operator) -> None:
    requests_before = len(SHELF.asked)

    output = run(operator, [])

    assert output.chunks == ()
    assert len(SHELF.asked) == requests_before


# Chunks are drawn once for all operators of a kind: to draw them costs more than to run them all.
@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_ranks_scores_and_input_are_sound(chunks: list[Chunk]) -> None:
    for operator in ALL:
        before = copy.deepcopy(chunks)

        output = run(operator, chunks)

        count = len(output.chunks)
        ranks = [entry.rank for entry in output.chunks]
        assert ranks == list(range(1, count + 1))
        assert len(set(ids(output))) == count
        for entry in output.chunks:
            assert entry.score is None or math.isfinite(entry.score)
        assert not output.steps[0].failures
        # The input is left as it was, and the same input gives the same output.
        assert chunks == before
        assert run(operator, before) == output


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_a_filter_keeps_chunks_in_their_order_and_leaves_nothing_to_filter(
    chunks: list[Chunk],
) -> None:
    for operator in SUBSETS:
        filtered_once = run(operator, chunks)
        remaining_chunks = [entry.chunk for entry in filtered_once.chunks]
        filtered_twice = run(operator, remaining_chunks)

        remaining = objects(filtered_once)
        assert remaining == [id(chunk) for chunk in chunks if id(chunk) in remaining]
        assert objects(filtered_twice) == remaining


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_an_order_or_a_format_keeps_every_chunk_and_adds_none(chunks: list[Chunk]) -> None:
    for operator in PERMUTATIONS:
        output = run(operator, chunks)

        assert sorted(objects(output)) == sorted(id(chunk) for chunk in chunks)
        for entry in output.chunks:
            assert entry.initial_rank is not None


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_what_augments_keeps_every_chunk_and_marks_what_it_adds(chunks: list[Chunk]) -> None:
    for operator in SUPERSETS:
        output = run(operator, chunks)

        added = [entry for entry in output.chunks if entry.initial_rank is None]
        assert set(objects(output)) >= {id(chunk) for chunk in chunks}
        assert len(output.chunks) == len(chunks) + len(added)


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_a_rewrite_keeps_every_chunk_in_its_place_and_its_text_whole(chunks: list[Chunk]) -> None:
    for operator in REWRITES:
        output = run(operator, chunks)

        assert ids(output) == [chunk.id for chunk in chunks]
        for original, entry in zip(chunks, output.chunks, strict=True):
            assert original.text in entry.chunk.text
            assert entry.chunk.metadata.items() >= original.metadata.items()


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_what_is_cut_is_made_of_slices_in_their_order(chunks: list[Chunk]) -> None:
    original_of_id = {chunk.id: chunk for chunk in chunks}
    for operator in CUTS:
        output = run(operator, chunks)

        for entry in output.chunks:
            original = original_of_id[entry.chunk.id]
            if entry.chunk is original:
                continue
            spans = entry.chunk.metadata["derived"][0]["spans"]
            assert spans == sorted(spans)
            slices = [original.text[start:end] for start, end in spans]
            assert " ".join(slices) == entry.chunk.text
            for piece in slices:
                assert piece.strip() != ""


@given(chunks=chunk_lists(), budget=st.integers(1, 60))
@settings(max_examples=20)
def test_a_budget_of_tokens_is_not_exceeded(chunks: list[Chunk], budget: int) -> None:
    by_whole_chunks = TokenBudget(budget=budget)
    by_cut_chunks = TokenBudget(budget=budget, policy="truncate")
    for operator in (by_whole_chunks, by_cut_chunks):
        output = run(operator, chunks)

        tokens_of_chunks = [APPROXIMATE.count(entry.chunk.text) for entry in output.chunks]
        assert sum(tokens_of_chunks) <= budget


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_summaries_are_one_a_chunk_and_no_longer_or_one_of_all(chunks: list[Chunk]) -> None:
    original_of_id = {chunk.id: chunk for chunk in chunks}

    of_each = run(SUMMARY_OF_EACH, chunks)
    of_all = run(SUMMARY_OF_ALL, chunks)

    remaining = ids(of_each)
    assert remaining == [chunk.id for chunk in chunks if chunk.id in remaining]
    for entry in of_each.chunks:
        original = original_of_id[entry.chunk.id]
        assert APPROXIMATE.count(entry.chunk.text) <= APPROXIMATE.count(original.text)
    assert len(of_all.chunks) == min(1, len(chunks))


def fits_in_xml(text: str) -> bool:
    """XML has no way to write most control characters, nor halves of surrogate pairs."""
    return all(character in "\t\n\r" or " " <= character < "\ud800" for character in text)


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_xml_and_json_read_back_whatever_stands_in_them(chunks: list[Chunk]) -> None:
    xml = run(Xml(fields=("title",)), chunks).history_text
    written_json = run(JsonFormat(fields=("id", "text", "score")), chunks).history_text

    root = ElementTree.fromstring(xml)
    rows = json.loads(written_json)
    assert [element.attrib["id"] for element in root] == [original.id for original in chunks]
    assert [row["id"] for row in rows] == [original.id for original in chunks]
    for element, row, original in zip(root, rows, chunks, strict=True):
        if fits_in_xml(original.text):
            assert (element.text or "") == original.text
        assert row == {"id": original.id, "text": original.text, "score": original.score}


# --- rerankers


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with serving() as server:
        yield server.url


@pytest.fixture(params=sorted(RERANKERS.builtin))
def reranker(request: pytest.FixtureRequest, served: str, tmp_path: Path) -> Reranker:
    name: str = request.param
    if name == "cross_encoder":
        pytest.importorskip("onnxruntime", reason="pip install 'ragbench[onnx]'")
        model = write_tiny_cross_encoder(tmp_path / "tiny")
        options: dict[str, object] = {"model": str(model)}
    elif name == "http":
        pytest.importorskip("httpx", reason="pip install 'ragbench[http]'")
        options = {"url": served}
    else:
        options = COMPUTED[name]
    return build_reranker({"name": name, **options}, chat=CHAT)


def full_chunk(id_: str, text: str, score: float, *embedding: float, **more: Any) -> Chunk:
    """With all that any reranker looks at."""
    metadata = {"embedding": list(embedding), "timestamp": 1000, "likes": 1, **more}
    return Chunk(id=id_, text=text, score=score, document_id="doc", metadata=metadata)


FULL_CHUNKS = [
    full_chunk("a", "w1 red house", 0.9, 1, 0, title="Houses", links=["c"]),
    full_chunk("b", "w2 blue sea and a long rest", 0.7, 0.6, 0.8, timestamp="2024-05-01"),
    full_chunk("c", "w3 red roof", 0.7, 0, 1, likes=0.2),
    full_chunk("d", "w1 red house", 0.7, 1, 0),
    full_chunk("e", "", 0.1, 0, 0, timestamp=datetime(2023, 1, 1, tzinfo=UTC)),
]
BARE_CHUNKS = [Chunk(id=str(number), text=f"bare {number}") for number in range(6)]
EMBEDDED_QUERY = Query(
    text="red house w1", embedding=[1, 0.1], now=datetime(2024, 6, 1, tzinfo=UTC)
)
PLAIN_QUERY = Query(text="red house")

with_any_chunks = pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(FULL_CHUNKS, id="five full chunks"),
        pytest.param(FULL_CHUNKS[:1], id="a full chunk"),
        pytest.param(BARE_CHUNKS, id="six bare chunks"),
        pytest.param(BARE_CHUNKS[:1], id="a bare chunk"),
    ],
)
with_any_query = pytest.mark.parametrize(
    "query", [EMBEDDED_QUERY, PLAIN_QUERY], ids=["embedded", "plain"]
)


@with_any_chunks
@with_any_query
def test_a_reranker_gives_one_finite_number_a_chunk(
    reranker: Reranker, query: Query, chunks: list[Chunk]
) -> None:
    scores = list(reranker.score(query, chunks))

    assert len(scores) == len(chunks)
    for score in scores:
        assert type(score) is float
        assert math.isfinite(score)


@with_any_chunks
@with_any_query
def test_a_reranker_gives_the_same_in_another_process(
    reranker: Reranker, query: Query, chunks: list[Chunk]
) -> None:
    sent_to_a_process = pickle.loads(pickle.dumps(reranker))

    scores = list(sent_to_a_process.score(query, chunks))

    assert scores == list(reranker.score(query, chunks))


def test_a_permutation_of_what_was_given_unchanged_or_the_first_of_it(reranker: Reranker) -> None:
    before = copy.deepcopy(FULL_CHUNKS)

    whole = rerank(EMBEDDED_QUERY, FULL_CHUNKS, reranker, on_error="raise").chunks
    best_three = rerank(EMBEDDED_QUERY, FULL_CHUNKS, reranker, on_error="raise", top_k=3).chunks

    reranked_objects = {id(entry.chunk) for entry in whole}
    assert reranked_objects == {id(chunk) for chunk in FULL_CHUNKS}
    assert best_three == whole[:3]
    assert before == FULL_CHUNKS


@pytest.mark.parametrize("top_k", [1, 3, 5, 50])
def test_top_k_of_a_reranking_are_the_first_of_it(reranker: Reranker, top_k: int) -> None:
    whole = rerank(EMBEDDED_QUERY, FULL_CHUNKS, reranker, on_error="raise").chunks

    best = rerank(EMBEDDED_QUERY, FULL_CHUNKS, reranker, on_error="raise", top_k=top_k).chunks

    assert best == whole[:top_k]
    ranks = [entry.rank for entry in best]
    assert ranks == [1, 2, 3, 4, 5][:top_k]


def test_reranking_no_chunks_gives_none(reranker: Reranker) -> None:
    assert rerank(EMBEDDED_QUERY, [], reranker, on_error="raise").chunks == ()


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    chunks=chunk_lists(1, st.none() | st.floats(-1e6, 1e6)),
    text=TEXTS,
    embedding=st.none() | VECTORS,
)
def test_any_candidates_give_a_permutation(
    reranker: Reranker, chunks: list[Chunk], text: str, embedding: list[float] | None
) -> None:
    query = Query(text=text, embedding=embedding)

    reranked = rerank(query, chunks, reranker, on_error="raise").chunks

    reranked_ids = [entry.chunk.id for entry in reranked]
    assert sorted(reranked_ids) == [chunk.id for chunk in chunks]
    order: list[tuple[float, int | None]] = []
    for entry in reranked:
        assert entry.score is not None
        assert math.isfinite(entry.score)
        order.append((-entry.score, entry.initial_rank))
    assert order == sorted(order)


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "semantic"},
        {"name": "feedback"},
        {"name": "mmr"},
        {"name": "ppr", "seeds": "similarity"},
    ],
    ids=lambda settings: settings["name"],
)
def test_embeddings_of_two_models_are_refused(settings: dict[str, str]) -> None:
    two_dimensions = Chunk(id="a", text="a", score=1.0, metadata={"embedding": [1, 0]})
    three_dimensions = Query(text="q", embedding=[1, 0, 0])

    with pytest.raises(InterfaceError, match="both must come from one model"):
        build_reranker(settings).score(three_dimensions, [two_dimensions])


# --- settings

KINDS = (OPERATORS, RERANKERS, RETRIEVALS, QUERY_TRANSFORMS, GENERATIONS, ORCHESTRATIONS)
TARGETS = {name: kind for kind in KINDS for name in kind.builtin}

NEEDED: dict[str, dict[str, Any]] = {
    "cross_encoder": {"model": "a/b"},
    "http": {"url": "http://localhost/rerank"},
    "linear": {"rerankers": ["lexical"]},
    "rrf": {"rerankers": ["lexical"]},
    "rerank": {"reranker": "lexical"},
    "merge.multi_query": {"queries": [{"query": "q"}]},
}
"""The settings without which a target cannot be built."""


def build(name: str, settings: dict[str, Any]) -> object:
    services: dict[Any, Any] = {
        ChatModel: lambda _: CHAT,
        ChunkSearch: lambda _: SHELF,
        ChunkNeighbours: lambda _: SHELF,
        Reranker: lambda _: LexicalReranker(),
    }
    target = TARGETS[name].load(name)
    return from_settings(target, NEEDED.get(name, {}) | settings, where=name, made=services)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What a schema says of the values of a setting."""

    path: str
    """As in "top_k", "fields[]" (each item), or "queries[].weight" (a setting of each item)."""
    keyword: str
    bound: int

    @property
    def forbidden(self) -> object:
        """A value just beyond the limit."""
        if self.keyword == "minimum":
            return self.bound - 1
        if self.keyword == "maximum":
            return self.bound + 1
        if self.keyword == "minItems":
            return []
        if self.keyword == "minLength":
            return " "
        return self.bound  # an exclusive one

    @property
    def setting(self) -> str:
        """As an error names it."""
        return self.path.rpartition("[].")[2].removesuffix("[]")

    @property
    def wrong_settings(self) -> dict[str, Any]:
        """With the value in its place, beside what an item must have."""
        outer, _, inner = self.path.partition("[].")
        if inner:
            item = {"query": "q"} if outer == "queries" else dict[str, object]()
            return {outer: [item | {inner: self.forbidden}]}
        if self.path.endswith("[]"):
            return {self.setting: [self.forbidden]}
        return {self.setting: self.forbidden}


LIMIT_KEYWORDS = (
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "minItems",
    "minLength",
)


def limits_in(schema: dict[str, Any], parent: str = "") -> Iterator[Limit]:
    for name, setting in schema.get("properties", {}).items():
        path = f"{parent}{name}"
        for option in [setting, *setting.get("anyOf", ())]:
            yield from limits_of(path, option)
            yield from limits_of(f"{path}[]", option.get("items", {}))
        yield from limits_in(setting.get("items", {}), f"{path}[].")


def limits_of(path: str, schema: dict[str, Any]) -> Iterator[Limit]:
    for keyword in LIMIT_KEYWORDS:
        if keyword in schema:
            yield Limit(path=path, keyword=keyword, bound=schema[keyword])


@pytest.mark.parametrize("name", TARGETS)
def test_a_setting_out_of_its_range_is_refused_by_its_name(name: str) -> None:
    schema = schema_of_settings(TARGETS[name].load(name), WRITTEN)

    for limit in limits_in(schema):
        with pytest.raises(ConfigError, match=rf"^{limit.setting} must (not )?be"):
            build(name, limit.wrong_settings)


def test_limits_of_every_depth_are_tried() -> None:
    schema = schema_of_settings(TARGETS["merge.multi_query"].load("merge.multi_query"), WRITTEN)

    paths = {limit.path for limit in limits_in(schema)}

    assert {"queries", "queries[].query", "queries[].top_k", "queries[].weight"} <= paths


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("filter.threshold", {"min_score": float("nan")}, "min_score must be a"),
    ("filter.threshold", {"min_score": float("inf")}, "min_score must be a"),
    ("filter.token_budget", {"budget": 5, "policy": "cut"}, "policy must be one of drop, trunc"),
    (
        "merge.multi_query",
        {"queries": [{"query": " ", "top_k": 0, "weight": -1.0}]},
        r"query must not be empty\ntop_k must be .*\nweight must",
    ),
    ("merge.link_expand", {"fusion": "mix"}, "fusion must be one of concat, interleave"),
    ("format.template", {"template": "{txt}"}, r"template holds '\{txt\}'. Known: \{text\}, .*KEY"),
    ("format.template", {"template": "{"}, r"template holds '\{'"),
    ("format.template", {"template": "{metadata.}"}, "template holds"),
    ("format.template", {"header": "{text}"}, "header holds"),
    ("format.template", {"footer": "}"}, "footer holds"),
    ("format.structured", {"fields": ["txt"]}, r"fields\[0\] must"),
    ("format.xml", {"root": "a b"}, "root holds"),
    ("format.xml", {"root": "xmlish"}, "root holds"),
    ("format.xml", {"element": "1st"}, "element holds"),
    ("format.xml", {"fields": ["id"]}, "fields name an attribute twice"),
    ("format.xml", {"fields": ["<"]}, "fields holds"),
    ("cross_encoder", {"overlap": 200}, "overlap must be at most 128, not 200"),
    ("feedback", {"corpus": "nowhere"}, "corpus 'nowhere' does"),
    ("lexical", {"corpus": "nowhere"}, "corpus 'nowhere' does"),
    ("http", {"url": "localhost/rerank"}, "http:// or https://"),
    ("http", {"timeout": 0.0}, "timeout"),
    ("http", {"shape": "voyage"}, "the shape 'voyage' needs one"),
    ("http", {"shape": "bing"}, "shape must be one of cohere, jina"),
    ("linear", {"rerankers": []}, "rerankers must not be empty"),
    ("linear", {"weights": [1.0, 2.0]}, "2 numbers for 1 rerankers"),
    ("linear", {"weights": [0.0]}, "a number above 0"),
    ("rrf", {"rerankers": []}, "rerankers must not be empty"),
    ("rrf", {"weights": [1.0, 2.0]}, "2 numbers for 1 rerankers"),
    ("rrf", {"weights": [0.0]}, "a number above 0"),
    ("llm_listwise", {"window": 4, "step": 5}, "step must be at most 4, not 5"),
    ("weighted", {"factors": []}, "factors must hold a weight above 0"),
    ("extractive", {"answer": "word"}, "answer must be one of span, sentence, not 'word'"),
    ("normalise", {"form": "NFD"}, "form must be one of NFC, NFKC"),
]


@pytest.mark.parametrize(("name", "wrong", "message"), REFUSED)
def test_what_a_setting_cannot_be_is_said(name: str, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(name, wrong)


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        ("top_k", 0),
        ("top_k", -1),
        ("timeout", 0.0),
        ("on_error", "x"),
    ],
)
def test_ranges_hold_in_calls_too(setting: str, wrong: Any) -> None:
    reranker = build_reranker("lexical")

    with pytest.raises(ConfigError, match=setting):
        rerank(PLAIN_QUERY, [], reranker, **{setting: wrong})
