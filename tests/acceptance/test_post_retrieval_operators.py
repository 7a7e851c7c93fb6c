"""Document 001, the post-retrieval operators: every action and variant, run through ``execute``."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import ragbench
from ragbench import (
    ChunkNeighbours,
    ChunkSearch,
    Message,
    PostRetrieval,
    Resources,
    build_operator,
)
from ragbench.errors import ConfigError, RagbenchWarning
from ragbench.post.build import OPERATORS

NOW = datetime(2024, 6, 1, tzinfo=UTC)


def item(name: str, score: float | None = None, text: str = "", **metadata: Any) -> dict[str, Any]:
    """An item of the memory, as the document has it."""
    return {
        "entry_id": name,
        "text": text or f"Text of {name}.",
        "score": score,
        "metadata": metadata,
    }


class Memory:
    """A memory service that answers with mappings, as the document has it, and keeps all calls."""

    def __init__(self, *answer: Mapping[str, Any]) -> None:
        self.answer = list(answer)
        self.calls: list[tuple[str, str, int]] = []

    def search(self, query: str, top_k: int) -> Sequence[Any]:
        self.calls.append(("search", query, top_k))
        return self.answer

    def neighbours(self, chunk_id: str, top_k: int) -> Sequence[Any]:
        self.calls.append(("neighbours", chunk_id, top_k))
        return self.answer if chunk_id == "a" else []


class Model:
    """A language model that says the same each time."""

    name = "model"

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def complete(self, messages: Sequence[Message]) -> str:
        return self.answer


def executed(
    settings: Mapping[str, Any],
    *items: Mapping[str, Any],
    service: Any = None,
    chat: Any = None,
    score_field: str | None = None,
    **data: Any,
) -> dict[str, Any]:
    """The data after a stage of one operator."""
    operator = build_operator(dict(settings), Resources(service=service, chat=chat))
    stage = PostRetrieval(operators=(operator,), score_field=score_field)
    return stage.execute({"memory_data": list(items), "question": "Which?", **data})


def ids_of(result: Mapping[str, Any]) -> list[str]:
    """Those of the document's items are entry ids, those of items from an operator ids."""
    ids: list[str] = []
    for entry in result["memory_data"]:
        ids.append(str(entry.get("entry_id", entry.get("id"))))
    return ids


def scores(result: Mapping[str, Any]) -> list[float]:
    return [entry["score"] for entry in result["memory_data"]]


# --- rerank


def test_rerank_semantic_takes_the_cosine_of_given_embeddings() -> None:
    result = executed(
        {"action": "rerank", "type": "semantic"},
        item("a", 0.9, embedding=[0.0, 1.0]),
        item("b", 0.1, embedding=[3.0, 4.0]),
        query_embedding=[1.0, 0.0],
    )

    assert ids_of(result) == ["b", "a"]
    assert scores(result) == pytest.approx([0.6, 0.0], abs=1e-6)


def test_rerank_semantic_without_a_query_embedding_keeps_the_scores_and_says_so() -> None:
    with pytest.warns(RagbenchWarning):
        result = executed({"action": "rerank", "type": "semantic"}, item("a", 0.9), item("b", 0.1))

    assert ids_of(result) == ["a", "b"]
    assert scores(result) == [0.9, 0.1]
    assert result["steps"][0]["notes"]


def test_rerank_time_weighted_multiplies_by_the_decay_of_the_age() -> None:
    yesterday = NOW - timedelta(hours=24)

    result = executed(
        {"action": "rerank", "type": "time_weighted", "rate": 0.1},
        item("old", 0.9, timestamp=yesterday.isoformat()),
        item("new", 0.5, timestamp=NOW.isoformat()),
        now=NOW,
    )

    assert ids_of(result) == ["new", "old"]
    assert scores(result) == pytest.approx([0.5, 0.9 * math.exp(-2.4)])


def test_rerank_ppr_follows_the_links_of_the_items() -> None:
    """The document leaves it as a placeholder; here the ranks of a graph are computed."""
    result = executed(
        {"action": "rerank", "type": "ppr"},
        item("a", 0.5, links=["c"]),
        item("b", 0.5),
        item("c", 0.5),
    )
    ids = ids_of(result)

    assert ids.index("c") < ids.index("b")


def test_rerank_weighted_is_the_weighted_mean_of_its_factors() -> None:
    factors = [{"field": "score", "weight": 1.0}, {"field": "importance", "weight": 3.0}]

    result = executed(
        {"action": "rerank", "type": "weighted", "factors": factors},
        item("a", 0.8, importance=0.0),
        item("b", 0.4, importance=1.0),
    )

    assert ids_of(result) == ["b", "a"]
    assert scores(result) == pytest.approx([(0.4 + 3.0) / 4, 0.8 / 4])


def test_rerank_keeps_top_k_and_writes_the_score_into_a_field_of_the_metadata() -> None:
    result = executed(
        {"action": "rerank", "type": "weighted", "factors": [{"field": "importance"}], "top_k": 1},
        item("a", 0.8, importance=0.25),
        item("b", 0.4, importance=0.5),
        score_field="rerank_score",
    )

    assert ids_of(result) == ["b"]
    assert result["memory_data"][0]["metadata"]["rerank_score"] == 0.5


# --- filter


@pytest.mark.parametrize(
    ("settings", "ids"),
    [
        ({"type": "token_budget", "budget": 4, "counter": "approximate"}, ["a"]),
        ({"type": "threshold", "min_score": 0.5}, ["a", "b"]),
        ({"type": "top_k", "k": 1}, ["a"]),
        ({"type": "dedup"}, ["a", "b", "c"]),
        ({"type": "llm"}, ["b"]),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_filter_keeps_the_items_that_pass(settings: dict[str, Any], ids: list[str]) -> None:
    items = [item("a", 0.9), item("b", 0.6), item("c", 0.1)]
    keeps_the_second = Model('{"keep": [2]}')

    result = executed({"action": "filter", **settings}, *items, chat=keeps_the_second)

    assert ids_of(result) == ids


# --- merge


def test_merge_link_expand_asks_the_service_for_neighbours_once_an_item() -> None:
    service = Memory(item("n", 0.3), item("b", 0.2))

    result = executed(
        {"action": "merge", "type": "link_expand", "first": 1, "depth": 1},
        item("a", 0.9),
        item("b", 0.8),
        service=service,
    )

    assert ids_of(result) == ["a", "b", "n"]
    assert service.calls == [("neighbours", "a", 5)]


def test_merge_multi_query_fills_the_template_and_asks_the_service() -> None:
    service = Memory(item("n", 0.3))
    queries = [{"query": "background of {question}", "top_k": 2}]

    result = executed(
        {"action": "merge", "type": "multi_query", "queries": queries},
        item("a", 0.9),
        service=service,
        question="rent",
    )

    assert sorted(ids_of(result)) == ["a", "n"]
    assert service.calls == [("search", "background of rent", 2)]


@pytest.mark.parametrize("fusion", ["concat", "interleave", "weighted", "rrf"])
def test_merge_takes_every_fusion(fusion: str) -> None:
    queries = [{"query": "{question}"}]

    result = executed(
        {"action": "merge", "type": "multi_query", "queries": queries, "fusion": fusion},
        item("a", 0.9),
        item("b", 0.5),
        service=Memory(item("n", 0.3)),
    )

    assert sorted(ids_of(result)) == ["a", "b", "n"]


def test_a_service_has_five_seconds_a_call_and_its_failure_is_reported() -> None:
    release = Event()

    class Slow(Memory):
        def search(self, query: str, top_k: int) -> Sequence[Any]:
            release.wait()
            return []

    queries = [{"query": "{question}"}]
    settings: dict[str, Any] = {"action": "merge", "type": "multi_query", "queries": queries}

    operator: Any = build_operator(settings, Resources(service=Memory()))
    with pytest.warns(RagbenchWarning, match=r"no answer within 0\.01 s"):
        result = executed({**settings, "timeout": 0.01}, item("a", 0.9), service=Slow())
    release.set()

    assert operator.timeout == 5.0
    assert ids_of(result) == ["a"]


# --- augment, compress, format, none


def test_augment_reflection_puts_the_model_s_thought_before_the_items() -> None:
    result = executed(
        {"action": "augment", "type": "reflection"}, item("a"), chat=Model("They agree.")
    )
    reflection, original = result["memory_data"]

    assert reflection["text"] == "They agree."
    assert original["text"] == "Text of a."


def test_augment_context_writes_title_and_place_before_a_text() -> None:
    result = executed({"action": "augment", "type": "context"}, item("a", title="Lease"))
    text = result["memory_data"][0]["text"]

    assert "Lease" in text
    assert text.endswith("Text of a.")


def test_augment_metadata_and_temporal_write_what_is_known_before_a_text() -> None:
    dated = item("a", timestamp="2024-05-20", role="user")

    by_field = executed({"action": "augment", "type": "metadata", "fields": ["role"]}, dated)
    by_time = executed({"action": "augment", "type": "temporal"}, dated, now=NOW)

    assert "user" in by_field["memory_data"][0]["text"]
    assert by_time["memory_data"][0]["text"].startswith("[2024-05-20, 12 days old]")


def test_compress_keeps_sentences_or_asks_a_model() -> None:
    long = item("a", text="Rent is due in May. The sky is blue. The pool is closed.")
    extractive = {
        "action": "compress",
        "type": "extractive",
        "budget": 6,
        "counter": "approximate",
    }
    abstractive = {"action": "compress", "type": "abstractive"}

    extracted = executed(extractive, long, question="When is rent due?")
    summarised = executed(abstractive, long, chat=Model("May."))

    assert extracted["memory_data"][0]["text"] == "Rent is due in May."
    assert summarised["memory_data"][0]["text"] == "May."


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({"type": "template", "template": "{rank}. {text}"}, "1. Text of a."),
        ({"type": "structured"}, '[{"rank": 1, "id": "a", "text": "Text of a."'),
        ({"type": "chat"}, "user: Text of a."),
        ({"type": "xml"}, "<"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_format_writes_the_text_for_generation(settings: dict[str, Any], start: str) -> None:
    result = executed({"action": "format", **settings}, item("a", 0.9), item("b", 0.5))

    assert result["history_text"].lstrip().startswith(start)
    assert "Text of b." in result["history_text"]


def test_none_leaves_the_items_and_writes_their_texts() -> None:
    result = executed({"action": "none"}, item("a", 0.9), item("b", 0.5))

    assert result["memory_data"] == [item("a", 0.9), item("b", 0.5)]
    assert result["history_text"] == "Text of a.\n\nText of b."


# --- execute


DEFAULTS: dict[str, dict[str, Any]] = {
    "rerank": {"reranker": "lexical"},
    "filter.threshold": {"min_score": 0.1},
    "filter.top_k": {"k": 5},
    "filter.token_budget": {"budget": 1000, "counter": "approximate"},
    "filter.llm": {},
    "merge.multi_query": {"queries": [{"query": "{question}"}]},
    "augment.metadata": {"fields": ["role"]},
    "compress.extractive": {"budget": 1000, "counter": "approximate"},
    "format.template": {"template": "{text}"},
}
ANSWERS = {"filter.llm": '{"keep": [1, 2]}'}


@pytest.mark.usefixtures("recwarn")  # a step that did nothing warns
@pytest.mark.parametrize("name", sorted(OPERATORS.builtin))
def test_every_action_writes_a_history_text(name: str) -> None:
    """The last point of the checklist, for every operator that ships."""
    action, _, kind = name.partition(".")
    settings: dict[str, Any] = {"action": action}
    if kind:
        settings["type"] = kind
    settings |= DEFAULTS.get(name, {})
    chat = Model(ANSWERS.get(name, "A summary."))

    result = executed(
        settings, item("a", 0.9), item("b", 0.5), service=Memory(), chat=chat, now=NOW, other=1
    )

    assert "a." in result["history_text"] or "summary" in result["history_text"]
    assert result["other"] == 1


def test_what_comes_in_stays_as_it_is() -> None:
    data = {"memory_data": [item("a", 0.1, importance=1.0)], "question": "Which?"}
    before = repr(data)
    factors = [{"field": "importance"}]
    operator = build_operator({"action": "rerank", "type": "weighted", "factors": factors})

    PostRetrieval(operators=(operator,), score_field="score").execute(data)

    assert repr(data) == before


def test_an_unknown_action_is_refused_with_the_list_of_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"unknown action 'sort'.*rerank.*filter.*merge"):
        build_operator({"action": "sort"})


def test_a_failure_is_a_warning_and_the_items_stay() -> None:
    with pytest.warns(RagbenchWarning, match="model"):
        result = executed(
            {"action": "filter", "type": "llm"}, item("a", 0.9), chat=Model("no list")
        )

    assert ids_of(result) == ["a"]
    assert result["steps"][0]["failures"]


# --- constraints


def test_no_operator_computes_an_embedding() -> None:
    """Operators and rerankers import no embedder; the texts of `augment` and `merge` need none."""
    for path in (Path(ragbench.__file__).parent / "post").rglob("*.py"):
        for statement in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(statement, ast.ImportFrom):
                assert "embedder" not in str(statement.module), path


def test_a_service_is_only_read() -> None:
    """The protocols of a service have one method each, and both only find."""
    for protocol, method in ((ChunkSearch, "search"), (ChunkNeighbours, "neighbours")):
        methods = [name for name, _ in inspect.getmembers(protocol, inspect.isfunction)]
        public = [name for name in methods if not name.startswith("_")]
        assert public == [method]


def test_items_of_one_source_alone_are_read() -> None:
    """Other lists in the mapping are handed on, not merged."""
    result = executed({"action": "none"}, item("a"), other_memory=[item("z")])

    assert ids_of(result) == ["a"]
    assert result["other_memory"] == [item("z")]


def test_each_action_has_one_name_and_its_variants_are_types() -> None:
    """Seven actions, and no variant outside of one."""
    actions = {name.partition(".")[0] for name in OPERATORS.builtin}

    assert actions == {"none", "rerank", "filter", "merge", "augment", "compress", "format"}


def test_chunks_and_mappings_convert_both_ways() -> None:
    """What is kept of the document's helpers: items in, items out, all keys kept."""
    entry = {**item("a", 0.5, page=3), "session": "s1"}

    result = executed({"action": "rerank", "type": "lexical"}, entry, question="Text")

    (reranked_entry,) = result["memory_data"]
    for key in ("entry_id", "text", "metadata", "session"):
        assert reranked_entry[key] == entry[key]
