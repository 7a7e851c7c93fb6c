"""Operators and rerankers from files and mappings; every mistake with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragbench import Chunk, build_operator, build_reranker, rerank
from ragbench.errors import ConfigError, DataError
from ragbench.post import build
from ragbench.post.augment import QueryMerge, SecondaryQuery
from ragbench.post.build import load_post_retrieval, load_variants
from ragbench.post.filter import TopK
from ragbench.post.rerankers import fusion
from ragbench.post.rerankers.lexical import LexicalReranker
from ragbench.post.rerankers.llm import LlmListwiseReranker
from tests.unit.post.builders import FixedScores, Scripted, Shelf


def saved(folder: Path, text: str) -> Path:
    path = folder / "stage.yaml"
    path.write_text(text, "utf-8")
    return path


def problems(path: Path, load: object = load_post_retrieval) -> list[tuple[int | None, str | None]]:
    assert callable(load)
    with pytest.raises(DataError) as caught:
        load(path)
    return [(problem.line, problem.field) for problem in caught.value.problems]


def test_a_file_becomes_a_stage(tmp_path: Path) -> None:
    merge = '{action: merge, type: multi_query, queries: [{query: "{question} again", top_k: 3}]}'
    operators = f"[{{action: filter, type: top_k, k: 2}}, {merge}]"
    text = f"on_error: raise\nscore_field: rerank_score\noperators: {operators}"
    shelf = Shelf()
    stage = load_post_retrieval(saved(tmp_path, text), build.Resources(service=shelf))
    queries = (SecondaryQuery(query="{question} again", top_k=3),)
    assert stage.operators == (TopK(k=2), QueryMerge(service=shelf, queries=queries))
    assert (stage.on_error, stage.score_field) == ("raise", "rerank_score")


PROBLEMS = """on_error: skip
operatrs: 3
operators:
  - action: rerank
    type: lexicall
  - action: filter
    type: top_k
    k: 0
  - {action: filter, type: token_budget, budget: many}
  - {action: rerank, type: "mine.py:Plain", facto: 1}
  - action: format
    type: template
    template: "{foo}"
    header: "{text}"
  - 7
score_field: [1]
"""


@pytest.mark.usefixtures("here")
def test_all_problems_are_reported_with_their_lines(tmp_path: Path) -> None:
    assert problems(saved(tmp_path, PROBLEMS)) == [
        (1, "on_error"),
        (2, "operatrs"),
        (5, "type"),
        (8, "k"),
        (9, "budget"),
        (10, "facto"),
        (13, "template"),
        (14, "header"),
        (15, "operators"),
        (16, "score_field"),
    ]


@pytest.mark.parametrize("load", [load_post_retrieval, load_variants])
@pytest.mark.parametrize("text", ["", "- 1", "operators: 3", "on_error: keep", "variants: []"])
def test_what_is_no_stage_and_no_variants_is_refused(
    tmp_path: Path, load: object, text: str
) -> None:
    assert problems(saved(tmp_path, text), load)


def test_an_operator_without_its_dash_gets_it_proposed(tmp_path: Path) -> None:
    for text in ("{action: rerank, type: lexical}", "operators: {action: rerank, type: lexical}"):
        with pytest.raises(DataError, match="operators are a list: put '- ' before each"):
            load_post_retrieval(saved(tmp_path, text))


def test_a_model_that_a_file_names_and_that_is_none_is_reported(here: Path) -> None:
    module = "number = 3\n\n\ndef shelf():\n    raise RuntimeError('closed')\n"
    (here / "my_model.py").write_text(module, "utf-8")
    text = "chat: my_model.py:number\nservice: my_model.py:shelf\noperators: []"
    with pytest.raises(DataError) as caught:
        load_post_retrieval(saved(here, text))
    assert [problem.message for problem in caught.value.problems] == [
        "'my_model.py:number' is not a ChatModel: a method or attribute is missing",
        "'my_model.py:shelf' raised RuntimeError: closed",
    ]


def test_variants_with_problems_are_refused(tmp_path: Path) -> None:
    twice = "{name: a, operators: []}"
    bad = "{name: b, operators: [{action: filter, type: top_k, k: 0}], more: 1}"
    text = f"variants:\n- operators: []\n- {twice}\n- {twice}\n- {bad}\n- 3"
    found = set(problems(saved(tmp_path, text), load_variants))
    assert found >= {(2, "name"), (4, "name"), (5, "k"), (5, "more"), (6, "variants")}


# --- operators from mappings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (7, "a mapping with an 'action', not 7"),
        ({}, "'action' is missing. Known: none, rerank, filter"),
        ({"action": "filtre"}, "Did you mean 'filter'"),
        ({"action": "filter"}, "filter: the setting 'type' is missing. Known: threshold"),
        ({"action": "filter", "type": "topk"}, "unknown type 'topk' of .* Did you mean 'top_k'"),
        ({"action": "filter", "type": "top_k"}, "filter.top_k: the setting 'k' is missing"),
        ({"action": "filter", "type": "top_k", "k": 3, "n": 1}, "unknown setting 'n'. Known: k"),
        ({"action": "none", "type": "x"}, "unknown setting 'type'"),
        ({"action": "rerank"}, "rerank: the setting 'type' is missing. Known: cross_encoder"),
        ({"action": "rerank", "type": "lexic"}, "Did you mean 'lexical'"),
        ({"action": "merge", "type": "multi_query", "queries": [{"query": "x"}]}, "method search"),
        ({"action": "merge", "type": "link_expand"}, "method neighbours"),
        ({"action": "merge", "type": "link_expand", "service": 1}, "'service' is not a setting"),
        ({"action": "filter", "type": "llm"}, "needs a language model"),
        ({"action": "filter", "type": "llm", "chat": "x"}, "'chat' is not a setting"),
        ({"action": "filter", "type": "token_budget", "budget": 5, "counter": "x"}, "counter"),
    ],
)
def test_a_bad_setting_is_refused_with_what_exists(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_operator(given)


# --- rerankers from mappings


def test_rerankers_and_factors_within_rerankers() -> None:
    weighted = {"name": "weighted", "factors": [{"field": "likes"}, {}]}
    given = {"given_weight": 1, "weights": [1, 0.5], "rerankers": ["lexical", weighted]}
    made = fusion.WeightedReranker(factors=(fusion.Factor(field="likes"), fusion.Factor()))
    assert build_reranker({"name": "rrf", **given}) == fusion.ReciprocalRankFusionReranker(
        rerankers=(LexicalReranker(), made), weights=(1.0, 0.5), given_weight=1.0
    )


def test_a_reranker_and_a_language_model_are_taken_as_they_are() -> None:
    mine, chat = FixedScores(1), Scripted()
    assert build_reranker(mine) is mine
    built = build_reranker({"name": "llm_listwise", "window": 4, "step": 2}, chat=chat)
    assert built == LlmListwiseReranker(chat=chat, window=4, step=2)
    fused: Any = build_reranker({"name": "rrf", "rerankers": [mine, "llm_pointwise"]}, chat=chat)
    assert (fused.rerankers[0], fused.rerankers[1].chat) == (mine, chat)


# --- a user's own, by their place

SOURCE = '''
from dataclasses import dataclass

from ragbench.post.rerank import Reranker


@dataclass(frozen=True)
class Shorter:
    """Short chunks first."""

    power: float = 1.0
    """How steeply."""
    inner: Reranker | None = None

    name = "shorter"

    def score(self, query, chunks):
        return [-(len(chunk.text) ** self.power) for chunk in chunks]


class Plain:
    name = "plain"

    def __init__(self, factor=1):
        self.factor = factor

    def score(self, query, chunks):
        return [self.factor * len(chunk.text) for chunk in chunks]


class NoScore:
    name = "none"


ready = Plain(3)
'''
CHUNKS = [Chunk(id="long", text="a long text"), Chunk(id="short", text="short")]


@pytest.fixture
def here(own_modules: Path) -> Path:
    (own_modules / "mine.py").write_text(SOURCE, encoding="utf-8")
    return own_modules


def ordered(given: object) -> list[str]:
    return [entry.chunk.id for entry in rerank("q", CHUNKS, build_reranker(given)).chunks]


@pytest.mark.usefixtures("here")
def test_a_class_in_a_file_is_a_reranker_by_its_place() -> None:
    assert ordered("mine.py:Shorter") == ["short", "long"]
    assert ordered("mine:Plain") == ["long", "short"]
    assert ordered({"name": "mine.py:Plain", "factor": -1}) == ["short", "long"]
    assert ordered("mine.py:ready") == ["long", "short"]

    inner = {"name": "mine.py:Plain", "factor": 5}
    built: Any = build_reranker({"name": "mine.py:Shorter", "power": 2, "inner": inner})
    assert (built.power, built.inner.factor) == (2.0, 5)
    fused = build_reranker({"name": "linear", "rerankers": ["mine.py:Shorter"]})
    assert isinstance(fused, fusion.LinearFusionReranker)
    assert fused.rerankers[0].name == "shorter"  # its settings are its fields


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("lexcal", r"Did you mean 'lexical'\? Known: cross_encoder, feedback, http, lexical"),
        (7, "no reranker either: it lacks name, score"),
        ({"name": "lexical", "k": 1}, r"unknown setting 'k'. Did you mean 'k1'\? Known: b, corpus"),
        ({"name": "lexical", "k1": "1.2"}, "lexical: k1 must be a number, not '1.2'"),
        ({"name": "lexical", "title_weight": 1.5}, "must be a whole number, not 1.5"),
        ({"name": "ppr", "directed": 1}, "must be true or false, not 1"),
        ({"name": "rrf"}, "rrf: the setting 'rerankers' is missing"),
        ({"name": "rrf", "rerankers": "lexical"}, "must be a list, not 'lexical'"),
        ({"name": "weighted", "factors": [{"feld": 1}]}, r"factors\[0\]: unknown setting 'feld'"),
        ({"name": "weighted", "factors": ["score"]}, "must be a mapping, not 'score'"),
        ({"name": "http", "url": "http://h/rerank", "headers": "x"}, "headers must be a mapping"),
        ({"name": "llm_listwise"}, "'llm_listwise' needs a language model, and none was given"),
        ("mine.py:Short", "'mine.py:Short': there is no 'Short'. Did you mean Shorter"),
        ("mine.py:NoScore", "'mine.py:NoScore' is not a reranker: it lacks "),
        ({"name": "mine.py:Shorter", "powr": 1}, r"unknown setting 'powr'. Did you mean 'power'\?"),
        ({"name": "mine.py:Plain", "other": 1}, "unexpected keyword argument 'other'"),
        ({"name": "mine.py:ready", "factor": 1}, "is an instance and takes no factor"),
    ],
)
def test_errors_say_what_is_wrong_and_what_exists(given: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_reranker(given)
