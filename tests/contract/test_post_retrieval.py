"""What every operator and every reranker promises, on any input; the ranges of all settings."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from collections.abc import Iterator, Sequence
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
VECTORS = st.none() | st.lists(st.floats(-5, 5), min_size=2, max_size=2)
SCORES = st.none() | st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.integers(0, 2 * 10**9) | st.sampled_from(["2024-05-01", "never"])


@st.composite
def chunk_lists(draw: st.DrawFn, least: int = 0, scores: Any = SCORES) -> list[Chunk]:
    known = {"title": TEXTS, "role": TEXTS, "timestamp": TIMES, "embedding": VECTORS}
    metadata = st.fixed_dictionaries({}, optional=known)
    found: list[Chunk] = []
    for at in range(draw(st.integers(least, 8))):
        held = {key: value for key, value in draw(metadata).items() if value is not None}
        given: dict[str, Any] = {"text": draw(TEXTS), "score": draw(scores), "metadata": held}
        document = draw(st.sampled_from([None, "a", "b"]))
        found.append(Chunk(id=str(at), document_id=document, **given))
    return found


class Reader:
    """A language model that keeps the first passage, likes long ones, and can sum up."""

    name = "reader"

    def complete(self, messages: Sequence[Message]) -> str:
        task, asked = messages[0].content, messages[-1].content
        if '{"keep"' in task:
            return '{"keep": [1]}'
        if shown := re.findall(r"\[(\d+)\]\n(.*)\n", asked):
            best = sorted(shown, key=lambda pair: -len(pair[1]))
            return f'{{"order": [{", ".join(number for number, _ in best)}]}}'
        return f'{{"grade": {len(asked) % 11}}}' if "grade" in task else "Leave is 27 days."


CHAT = Reader()
QUESTION = "How many days of Leave? \u4f60\u597d"
MORE = [chunk("new", "Leave is long.", 0.2), chunk("1", "Days.", 0.1)]
SHELF = Shelf(found={QUESTION: MORE}, linked={"0": MORE})

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
AGAIN = augment.SecondaryQuery(query="{question}")
SUPERSETS: list[Operator] = [
    *(augment.LinkExpand(service=SHELF, first=2, fusion=f) for f in get_args(augment.Fusion)),
    augment.QueryMerge(service=SHELF, queries=(AGAIN,), fusion="rrf"),
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
# Texts are replaced by shorter ones of a part of the chunks, or of all together.
SUMMARIES: list[Operator] = [Abstractive(chat=CHAT), Abstractive(chat=CHAT, scope="all")]
ALL = [*SUBSETS, *PERMUTATIONS, *SUPERSETS, *REWRITES, *CUTS, *SUMMARIES]

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


def test_none_is_left_out() -> None:
    named = {one.name.partition(".")[0] if "rerank" in one.name else one.name for one in ALL}
    assert named == set(OPERATORS.builtin)
    assert {*COMPUTED, "cross_encoder", "http"} == set(RERANKERS.builtin)


# --- operators


def run(operator: Operator, chunks: list[Chunk]) -> PostRetrieved:
    return applied(operator, *chunks, question=QUESTION)


def objects(output: PostRetrieved) -> list[int]:
    return [id(entry.chunk) for entry in output.chunks]


# Further queries do not depend on what was found.
ALONE = [one for one in ALL if not isinstance(one, augment.QueryMerge)]


@pytest.mark.parametrize("operator", ALONE, ids=lambda one: one.name)
def test_nothing_in_nothing_out_and_nobody_is_asked(operator: Operator) -> None:
    asked = len(SHELF.asked)
    assert run(operator, []).chunks == ()
    assert len(SHELF.asked) == asked


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_ranks_scores_and_input_are_sound(chunks: list[Chunk]) -> None:
    for operator in ALL:
        before = copy.deepcopy(chunks)
        output = run(operator, chunks)
        assert [entry.rank for entry in output.chunks] == list(range(1, len(output.chunks) + 1))
        assert all(entry.score is None or math.isfinite(entry.score) for entry in output.chunks)
        assert len(set(ids(output))) == len(output.chunks)
        assert chunks == before
        assert output == run(operator, before)
        assert not output.steps[0].failures


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_each_kind_of_operator_keeps_what_it_must(chunks: list[Chunk]) -> None:
    for operator in SUBSETS:
        once = run(operator, chunks)
        left = objects(once)
        assert left == [one for one in map(id, chunks) if one in left]
        assert objects(run(operator, [entry.chunk for entry in once.chunks])) == left
    for operator in (*PERMUTATIONS, *SUPERSETS):
        output = run(operator, chunks)
        assert set(map(id, chunks)) <= set(objects(output))
        added = [entry for entry in output.chunks if entry.initial_rank is None]
        assert len(output.chunks) == len(chunks) + len(added)
        assert operator in SUPERSETS or not added
    for operator in REWRITES:
        output = run(operator, chunks)
        assert ids(output) == [each.id for each in chunks]
        for origin, entry in zip(chunks, output.chunks, strict=True):
            assert origin.text in entry.chunk.text
            assert entry.chunk.metadata.items() >= origin.metadata.items()


@given(chunks=chunk_lists(), budget=st.integers(1, 60))
@settings(max_examples=25)
def test_what_is_cut_is_a_slice_and_what_is_summed_up_was_there(
    chunks: list[Chunk], budget: int
) -> None:
    by_id = {one.id: one for one in chunks}
    each, together = (run(operator, chunks) for operator in SUMMARIES)
    assert ids(each) == [one for one in by_id if one in set(ids(each))]
    for entry in each.chunks:
        origin = by_id[entry.chunk.id]
        assert APPROXIMATE.count(entry.chunk.text) <= APPROXIMATE.count(origin.text)
    assert len(together.chunks) == min(1, len(chunks))
    for filtering in (TokenBudget(budget=budget), TokenBudget(budget=budget, policy="truncate")):
        left = run(filtering, chunks).chunks
        assert sum(APPROXIMATE.count(entry.chunk.text) for entry in left) <= budget
    for operator in CUTS:
        for entry in run(operator, chunks).chunks:
            origin = by_id[entry.chunk.id]
            if entry.chunk is not origin:
                spans = entry.chunk.metadata["derived"][0]["spans"]
                pieces = [origin.text[start:end] for start, end in spans]
                assert " ".join(pieces) == entry.chunk.text
                assert all(piece.strip() for piece in pieces)
                assert spans == sorted(spans)


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_xml_and_json_read_back_whatever_stands_in_them(chunks: list[Chunk]) -> None:
    root = ElementTree.fromstring(run(Xml(fields=("title",)), chunks).history_text)
    assert [element.attrib["id"] for element in root] == [each.id for each in chunks]
    for element, origin in zip(root, chunks, strict=True):
        if all(mark in "\t\n\r" or " " <= mark < "\ud800" for mark in origin.text):
            assert (element.text or "") == origin.text
    text = run(JsonFormat(fields=("id", "text", "score")), chunks).history_text
    wanted = [{"id": each.id, "text": each.text, "score": each.score} for each in chunks]
    assert json.loads(text) == wanted


# --- rerankers


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with serving() as server:
        yield server.url


@pytest.fixture(params=sorted(RERANKERS.builtin))
def reranker(request: pytest.FixtureRequest, served: str, tmp_path: Path) -> Reranker:
    name, more = request.param, COMPUTED.get(request.param, {})
    if name == "cross_encoder":
        pytest.importorskip("onnxruntime", reason="pip install 'ragbench[onnx]'")
        more = {"model": str(write_tiny_cross_encoder(tmp_path / "tiny"))}
    elif name == "http":
        pytest.importorskip("httpx", reason="pip install 'ragbench[http]'")
        more = {"url": served}
    return build_reranker({"name": name, **more}, chat=CHAT)


def full(id_: str, text: str, score: float, *embedding: float, **more: Any) -> Chunk:
    metadata = {"embedding": list(embedding), "timestamp": 1000, "likes": 1, **more}
    return Chunk(id=id_, text=text, score=score, document_id="doc", metadata=metadata)


FULL = [
    full("a", "w1 red house", 0.9, 1, 0, title="Houses", links=["c"]),
    full("b", "w2 blue sea and a long rest", 0.7, 0.6, 0.8, timestamp="2024-05-01"),
    full("c", "w3 red roof", 0.7, 0, 1, likes=0.2),
    full("d", "w1 red house", 0.7, 1, 0),
    full("e", "", 0.1, 0, 0, timestamp=datetime(2023, 1, 1, tzinfo=UTC)),
]
BARE = [Chunk(id=str(at), text=f"bare {at}") for at in range(6)]
ASKED = Query(text="red house w1", embedding=[1, 0.1], now=datetime(2024, 6, 1, tzinfo=UTC))
PLAIN = Query(text="red house")


@pytest.mark.parametrize("chunks", [FULL, BARE, FULL[:1], BARE[:1]], ids=len)
@pytest.mark.parametrize("query", [ASKED, PLAIN], ids=["embedded", "plain"])
def test_one_finite_number_a_chunk_and_the_same_in_another_process(
    reranker: Reranker, query: Query, chunks: list[Chunk]
) -> None:
    scores = list(reranker.score(query, chunks))
    assert len(scores) == len(chunks)
    assert all(type(score) is float and math.isfinite(score) for score in scores)
    assert list(pickle.loads(pickle.dumps(reranker)).score(query, chunks)) == scores


def test_a_permutation_of_what_was_given_unchanged_or_the_first_of_it(reranker: Reranker) -> None:
    before = copy.deepcopy(FULL)
    whole = rerank(ASKED, FULL, reranker, on_error="raise").chunks
    assert before == FULL
    assert {id(one.chunk) for one in whole} == set(map(id, FULL))
    for top_k in (1, 3, 5, 50):
        cut = rerank(ASKED, FULL, reranker, on_error="raise", top_k=top_k).chunks
        assert cut == whole[:top_k]
        assert [one.rank for one in cut] == list(range(1, len(cut) + 1))
    assert rerank(ASKED, [], reranker, on_error="raise").chunks == ()


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(chunks=chunk_lists(1, st.none() | st.floats(-1e6, 1e6)), text=TEXTS, embedding=VECTORS)
def test_any_candidates_give_a_permutation(
    reranker: Reranker, chunks: list[Chunk], text: str, embedding: list[float] | None
) -> None:
    done = rerank(Query(text=text, embedding=embedding), chunks, reranker, on_error="raise")
    assert sorted(one.chunk.id for one in done.chunks) == [chunk.id for chunk in chunks]
    keys = [(-(one.score or 0.0), one.initial_rank) for one in done.chunks]
    assert keys == sorted(keys)
    assert all(one.score is not None and math.isfinite(one.score) for one in done.chunks)


@pytest.mark.parametrize("name", ["semantic", "feedback", "mmr", "ppr"])
def test_embeddings_of_two_models_are_refused(name: str) -> None:
    more = {"seeds": "similarity"} if name == "ppr" else {}
    chunks = [Chunk(id="a", text="a", score=1.0, metadata={"embedding": [1, 0]})]
    with pytest.raises(InterfaceError, match="both must come from one model"):
        build_reranker({"name": name, **more}).score(Query(text="q", embedding=[1, 0, 0]), chunks)


# --- settings

KINDS = (OPERATORS, RERANKERS, RETRIEVALS, QUERY_TRANSFORMS, GENERATIONS, ORCHESTRATIONS)
TARGETS = {name: kind for kind in KINDS for name in kind.builtin}
SIGNS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
    "minItems": "#",
    "minLength": "#",
}


def ranges(schema: dict[str, Any], at: str = "") -> Iterator[str]:
    for name, one in schema.get("properties", {}).items():
        items = one.get("items", {})
        parts = [(name, one), (f"{name}[]", items), *((name, n) for n in one.get("anyOf", ()))]
        parts += [(f"{name}[]", part["items"]) for _, part in parts[2:] if "items" in part]
        for shown, part in parts:
            yield from (f"{at}{shown}{SIGNS[key]}{part[key]}" for key in SIGNS if key in part)
        yield from ranges(items, f"{name}[].")


NEEDED: dict[str, dict[str, Any]] = {
    "cross_encoder": {"model": "a/b"},
    "http": {"url": "http://localhost/rerank"},
    "linear": {"rerankers": ["lexical"]},
    "rrf": {"rerankers": ["lexical"]},
    "rerank": {"reranker": "lexical"},
    "merge.multi_query": {"queries": [{"query": "q"}]},
}


def build(name: str, given: dict[str, Any]) -> object:
    made: dict[Any, Any] = {
        ChatModel: lambda _: CHAT,
        ChunkSearch: lambda _: SHELF,
        ChunkNeighbours: lambda _: SHELF,
        Reranker: lambda _: LexicalReranker(),
    }
    target = TARGETS[name].load(name)
    return from_settings(target, NEEDED.get(name, {}) | given, where=name, made=made)


@pytest.mark.parametrize("name", TARGETS)
def test_a_setting_out_of_its_range_is_refused_by_its_name(name: str) -> None:
    schema = schema_of_settings(TARGETS[name].load(name), WRITTEN)
    for found in dict.fromkeys(ranges(schema)):
        [(setting, sign, limit)] = re.findall(r"(\S+?)(>=|<=|>|<|#)(\d+)$", found)
        wrong: Any = int(limit) + {">=": -1, "<=": 1}.get(sign, 0)
        outer, _, inner = setting.partition("[].")
        if sign == "#":
            wrong = [] if setting in ("fields", "queries") else " "
        if inner:
            wrong = [{**({"query": "q"} if outer == "queries" else {}), inner: wrong}]
        elif setting.endswith("[]"):
            wrong = [wrong]
        named = (inner or outer).removesuffix("[]")
        with pytest.raises(ConfigError, match=rf"^{named} must (not )?be"):
            build(name, {outer.removesuffix("[]"): wrong})


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
    *(("format.xml", {"root": name}, "root holds") for name in ("a b", "xmlish")),
    ("format.xml", {"element": "1st"}, "element holds"),
    ("format.xml", {"fields": ["id"]}, "fields name an attribute twice"),
    ("format.xml", {"fields": ["<"]}, "fields holds"),
    ("cross_encoder", {"overlap": 200}, "overlap must be at most 128, not 200"),
    *((one, {"corpus": "nowhere"}, "corpus 'nowhere' does") for one in ("feedback", "lexical")),
    ("http", {"url": "localhost/rerank"}, "http:// or https://"),
    ("http", {"timeout": 0.0}, "timeout"),
    ("http", {"shape": "voyage"}, "the shape 'voyage' needs one"),
    ("http", {"shape": "bing"}, "shape must be one of cohere, jina"),
    *(
        (name, given, message)
        for name in ("linear", "rrf")
        for given, message in (
            ({"rerankers": []}, "rerankers must not be empty"),
            ({"weights": [1.0, 2.0]}, "2 numbers for 1 rerankers"),
            ({"weights": [0.0]}, "a number above 0"),
        )
    ),
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
    "wrong", [{"top_k": 0}, {"top_k": -1}, {"timeout": 0.0}, {"on_error": "x"}]
)
def test_ranges_hold_in_calls_too(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        rerank(PLAIN, [], build_reranker("lexical"), **wrong)
