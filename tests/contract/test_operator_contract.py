"""What every operator promises, on any input, and the settings that each refuses."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Chunk, build_operator
from ragbench.core.chat import Message
from ragbench.errors import ConfigError
from ragbench.post.augment import Context, Metadata, Neighbours, Reflection, Temporal
from ragbench.post.build import OPERATORS, Resources
from ragbench.post.compress import Abstractive, Extractive
from ragbench.post.filter import (
    Dedup,
    DedupNear,
    LlmFilter,
    Nothing,
    Percentile,
    Threshold,
    TokenBudget,
    TopK,
)
from ragbench.post.format import Chat, JsonFormat, LongContext, Template, Xml
from ragbench.post.merge import LinkExpand, QueryMerge, SecondaryQuery
from ragbench.post.operator import Operator
from ragbench.post.rerank import Rerank
from ragbench.post.rerankers.lexical import LexicalReranker
from ragbench.post.stage import PostRetrieved
from ragbench.text.token_counter import APPROXIMATE
from tests.unit.post.builders import Shelf, applied, chunk, ids

_WORDS = [
    *("Leave", "is", "27", "days.", "Ask", "HR!", "Why", "not?", "A.B.", "3.14", "über", "你好。"),
    *("\n\n", "<&\"'>", "{x}", "\x00", "\r\t", "]]>", "user:"),
]
TEXTS = st.lists(st.sampled_from(_WORDS), max_size=30).map(" ".join)
SCORES = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def chunk_lists(draw: st.DrawFn, max_size: int = 8) -> list[Chunk]:
    size = draw(st.integers(0, max_size))
    return [
        Chunk(
            id=str(at),
            text=draw(TEXTS),
            score=draw(SCORES),
            document_id=draw(st.sampled_from([None, "a", "b"])),
            metadata=draw(
                st.dictionaries(
                    st.sampled_from(["title", "role", "timestamp"]),
                    TEXTS | st.integers(),
                    max_size=3,
                )
            ),
        )
        for at in range(size)
    ]


class EchoChat:
    """A language model that keeps the first passage and finds everything worth a word."""

    name = "echo"

    def complete(self, messages: Sequence[Message]) -> str:
        return '{"keep": [1]}' if '{"keep"' in messages[0].content else "Leave is 27 days."


QUESTION = "How many days of Leave? \u4f60\u597d"
MORE = [chunk("new", "Leave is long.", 0.2), chunk("1", "Days.", 0.1)]
SHELF = Shelf(found={QUESTION: MORE}, linked={"0": MORE})

SUBSETS: list[Operator] = [
    TopK(k=3),
    Threshold(min_score=0.0),
    Percentile(percentile=60),
    TokenBudget(budget=20),
    Dedup(),
    DedupNear(similarity=0.5, shingle=1),
    LlmFilter(chat=EchoChat()),
]
"""Chunks that stay are the same objects in the same order."""
PERMUTATIONS: list[Operator] = [
    Nothing(),
    LongContext(),
    Rerank(reranker=LexicalReranker()),
    Template(template="{rank} {text} {metadata.title} {question}"),
    JsonFormat(),
    Chat(),
    Xml(),
]
"""Every chunk stays, the same object."""
SUPERSETS: list[Operator] = [
    *(LinkExpand(service=SHELF, first=2, fusion=f) for f in ("concat", "interleave")),
    *(LinkExpand(service=SHELF, first=2, fusion=f) for f in ("weighted", "rrf")),
    QueryMerge(service=SHELF, queries=(SecondaryQuery(query="{question}"),), fusion="rrf"),
    Reflection(chat=EchoChat()),
]
"""Every chunk stays, the same object, and others come."""
REWRITES: list[Operator] = [
    Context(),
    Metadata(fields=("title", "role")),
    Temporal(),
    Neighbours(service=SHELF),
]
"""Every chunk stays in its place; its text may be longer."""
CUTS: list[Operator] = [
    TokenBudget(budget=12, policy="truncate"),
    Extractive(budget=12),
]
"""Texts that stay are made of slices."""
SUMMARIES: list[Operator] = [
    Abstractive(chat=EchoChat()),
    Abstractive(chat=EchoChat(), scope="all"),
]
"""Texts are replaced by shorter ones of a part of the chunks, or of all together."""
ALL = [*SUBSETS, *PERMUTATIONS, *SUPERSETS, *REWRITES, *CUTS, *SUMMARIES]


def run(operator: Operator, chunks: list[Chunk]) -> PostRetrieved:
    return applied(operator, *chunks, question=QUESTION)


def test_no_operator_is_left_out() -> None:
    named = {one.name.partition(".")[0] if "rerank" in one.name else one.name for one in ALL}
    assert named == set(OPERATORS.builtin)


ASK_ANEW = (QueryMerge,)
"""Of nothing, too: further queries do not depend on what was found."""


@pytest.mark.parametrize(
    "operator", [one for one in ALL if not isinstance(one, ASK_ANEW)], ids=lambda one: one.name
)
def test_nothing_in_nothing_out_and_nobody_is_asked(operator: Operator) -> None:
    asked = len(SHELF.asked)
    assert run(operator, []).chunks == ()
    assert len(SHELF.asked) == asked


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *(("filter.top_k", {"k": k}, "k must be") for k in (0, -1, True)),
    ("filter.threshold", {"min_score": float("nan")}, "min_score must be a"),
    ("filter.threshold", {"min_score": float("inf")}, "min_score must be a"),
    ("filter.percentile", {"percentile": -0.1}, "percentile must lie between 0 and 100"),
    ("filter.percentile", {"percentile": 100.1}, "percentile must lie between 0 and 100"),
    ("filter.token_budget", {"budget": 0}, "budget must be at least 1"),
    ("filter.token_budget", {"budget": 5, "policy": "cut"}, "policy must be one of drop, trunc"),
    ("filter.dedup_near", {"similarity": 1.5}, "similarity must"),
    ("filter.dedup_near", {"similarity": -1.0}, "similarity must"),
    ("filter.dedup_near", {"shingle": 0}, "shingle must"),
    ("augment.context", {"fields": []}, "fields must not be empty"),
    ("augment.metadata", {"fields": []}, "fields must not be empty"),
    ("augment.temporal", {"field": ""}, "field must not be empty"),
    ("augment.reflection", {"first": 0}, "first must be at least 1"),
    ("augment.neighbours", {"first": 0}, "first must be at least 1"),
    ("augment.neighbours", {"top_k": 0}, "top_k must be at least 1"),
    ("compress.extractive", {"budget": 0}, "budget must be at least 1"),
    ("compress.abstractive", {"budget": 0}, "budget must be at least 1"),
    *(
        ("merge.link_expand", {name: value}, f"{name} must")
        for name, value in (
            ("first", 0),
            ("depth", 0),
            ("top_k", -1),
            ("fusion", "mix"),
            ("weight", 0.0),
        )
    ),
    ("merge.multi_query", {"queries": []}, "queries must not be empty"),
    (
        "merge.multi_query",
        {"queries": [{"query": " ", "top_k": 0, "weight": -1.0}]},
        r"query must not be empty\ntop_k must be .*\nweight must",
    ),
    ("format.template", {"template": "{txt}"}, r"template holds '\{txt\}'. Known: \{text\}, .*KEY"),
    ("format.template", {"template": "{"}, r"template holds '\{'"),
    ("format.template", {"template": "{metadata.}"}, "template holds"),
    ("format.template", {"header": "{text}"}, "header holds"),
    ("format.template", {"footer": "}"}, "footer holds"),
    ("format.structured", {"fields": []}, "fields must"),
    ("format.structured", {"fields": ["txt"]}, r"fields\[0\] must"),
    ("format.structured", {"indent": -1}, "indent must"),
    (
        "format.chat",
        {"role_field": "", "default_role": ""},
        "role_field must .*\ndefault_role",
    ),
    *(("format.xml", {"root": name}, "root holds") for name in ("a b", "xmlish")),
    ("format.xml", {"element": "1st"}, "element holds"),
    ("format.xml", {"fields": ["id"]}, "fields name an attribute twice"),
    ("format.xml", {"fields": ["<"]}, "fields holds"),
]


@pytest.mark.parametrize(("name", "wrong", "message"), REFUSED)
def test_settings_out_of_range_are_refused_by_name(
    name: str, wrong: dict[str, Any], message: str
) -> None:
    action, _, kind = name.partition(".")
    with pytest.raises(ConfigError, match=message):
        build_operator(
            {"action": action, "type": kind, **wrong}, Resources(service=SHELF, chat=EchoChat())
        )


def objects(output: PostRetrieved) -> list[int]:
    return [id(entry.chunk) for entry in output.chunks]


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
def test_a_filter_gives_a_part_in_the_same_order_and_again_changes_nothing(
    chunks: list[Chunk],
) -> None:
    for operator in SUBSETS:
        once = run(operator, chunks)
        left = objects(once)
        assert left == [one for one in map(id, chunks) if one in left]
        if not isinstance(operator, Percentile):  # its limit moves with what is left
            assert objects(run(operator, [entry.chunk for entry in once.chunks])) == left


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_an_order_or_a_merge_keeps_every_chunk(chunks: list[Chunk]) -> None:
    for operator in (*PERMUTATIONS, *SUPERSETS):
        output = run(operator, chunks)
        assert set(map(id, chunks)) <= set(objects(output))
        added = [entry for entry in output.chunks if entry.initial_rank is None]
        assert len(output.chunks) == len(chunks) + len(added)
        assert operator in SUPERSETS or not added


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_an_augment_keeps_places_and_texts(chunks: list[Chunk]) -> None:
    for operator in REWRITES:
        output = run(operator, chunks)
        assert ids(output) == [each.id for each in chunks]
        for origin, entry in zip(chunks, output.chunks, strict=True):
            assert origin.text in entry.chunk.text
            assert entry.chunk.metadata.items() >= origin.metadata.items()


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_a_summary_stands_for_chunks_that_were_there(chunks: list[Chunk]) -> None:
    each, together = (run(operator, chunks) for operator in SUMMARIES)
    by_id = {one.id: one for one in chunks}
    assert ids(each) == [one for one in by_id if one in set(ids(each))]
    for entry in each.chunks:
        origin = by_id[entry.chunk.id]
        assert APPROXIMATE.count(entry.chunk.text) <= APPROXIMATE.count(origin.text)
    assert len(together.chunks) == min(1, len(chunks))


@given(chunks=chunk_lists(), budget=st.integers(1, 60))
@settings(max_examples=25)
def test_a_budget_is_never_exceeded(chunks: list[Chunk], budget: int) -> None:
    for operator in (TokenBudget(budget=budget), TokenBudget(budget=budget, policy="truncate")):
        left = run(operator, chunks).chunks
        assert sum(APPROXIMATE.count(entry.chunk.text) for entry in left) <= budget


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_cut_texts_are_slices(chunks: list[Chunk]) -> None:
    for operator in CUTS:
        by_id = {each.id: each for each in chunks}
        for entry in run(operator, chunks).chunks:
            origin = by_id[entry.chunk.id]
            if entry.chunk is origin:
                continue
            spans = entry.chunk.metadata["derived"][0]["spans"]
            pieces = [origin.text[start:end] for start, end in spans]
            assert " ".join(pieces) == entry.chunk.text
            assert all(piece.strip() for piece in pieces)
            assert spans == sorted(spans)


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_xml_reads_back_whatever_stands_in_it(chunks: list[Chunk]) -> None:
    text = run(Xml(fields=("title",)), chunks).history_text
    root = ElementTree.fromstring(text)
    assert [element.attrib["id"] for element in root] == [each.id for each in chunks]
    for element, origin in zip(root, chunks, strict=True):
        if all(mark in "\t\n\r" or " " <= mark < "\ud800" for mark in origin.text):
            assert (element.text or "") == origin.text


@given(chunks=chunk_lists())
@settings(max_examples=20)
def test_json_reads_back_whatever_stands_in_it(chunks: list[Chunk]) -> None:
    text = run(JsonFormat(fields=("id", "text", "score")), chunks).history_text
    assert json.loads(text) == [
        {"id": each.id, "text": each.text, "score": each.score} for each in chunks
    ]
