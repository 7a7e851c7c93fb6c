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
    """The path of a file with this text."""
    path = folder / "stage.yaml"
    path.write_text(text, "utf-8")
    return path


def problems(path: Path, load: object = load_post_retrieval) -> list[tuple[int | None, str | None]]:
    """Line and field of each problem for which a file is refused."""
    assert callable(load)
    with pytest.raises(DataError) as caught:
        load(path)
    return [(problem.line, problem.field) for problem in caught.value.problems]


STAGE = """
on_error: raise
score_field: rerank_score
operators:
  - {action: filter, type: top_k, k: 2}
  - action: merge
    type: multi_query
    queries: [{query: "{question} again", top_k: 3}]
"""


def test_a_file_becomes_a_stage(tmp_path: Path) -> None:
    shelf = Shelf()
    resources = build.Resources(service=shelf)

    stage = load_post_retrieval(saved(tmp_path, STAGE), resources)

    further_query = SecondaryQuery(query="{question} again", top_k=3)
    top_k, merge = stage.operators
    assert top_k == TopK(k=2)
    assert merge == QueryMerge(service=shelf, queries=(further_query,))
    assert stage.on_error == "raise"
    assert stage.score_field == "rerank_score"


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


@pytest.mark.parametrize("key", ["", "operators: "])
def test_an_operator_without_its_dash_gets_it_proposed(tmp_path: Path, key: str) -> None:
    file = saved(tmp_path, key + "{action: rerank, type: lexical}")

    with pytest.raises(DataError, match="operators are a list: put '- ' before each"):
        load_post_retrieval(file)


def test_a_model_that_a_file_names_and_that_is_none_is_reported(here: Path) -> None:
    module = "number = 3\n\n\ndef shelf():\n    raise RuntimeError('closed')\n"
    (here / "my_model.py").write_text(module, "utf-8")
    file = saved(here, "chat: my_model.py:number\nservice: my_model.py:shelf\noperators: []")

    with pytest.raises(DataError) as caught:
        load_post_retrieval(file)

    chat_problem, service_problem = caught.value.problems
    assert chat_problem.message == (
        "'my_model.py:number' is not a ChatModel: a method or attribute is missing"
    )
    assert service_problem.message == "'my_model.py:shelf' raised RuntimeError: closed"


BROKEN_VARIANTS = """\
variants:
- operators: []
- {name: a, operators: []}
- {name: a, operators: []}
- {name: b, operators: [{action: filter, type: top_k, k: 0}], more: 1}
- 3
"""


def test_variants_with_problems_are_refused(tmp_path: Path) -> None:
    places = problems(saved(tmp_path, BROKEN_VARIANTS), load_variants)

    assert set(places) >= {
        (2, "name"),
        (4, "name"),  # a second a
        (5, "k"),
        (5, "more"),
        (6, "variants"),
    }


# --- operators from mappings


@pytest.mark.parametrize(
    ("operator", "message"),
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
def test_a_bad_setting_is_refused_with_what_exists(operator: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_operator(operator)


# --- rerankers from mappings


def test_rerankers_and_factors_within_rerankers() -> None:
    weighted = {"name": "weighted", "factors": [{"field": "likes"}, {}]}

    reranker = build_reranker(
        {
            "name": "rrf",
            "rerankers": ["lexical", weighted],
            "weights": [1, 0.5],
            "given_weight": 1,
        }
    )

    factors = (fusion.Factor(field="likes"), fusion.Factor())
    assert reranker == fusion.ReciprocalRankFusionReranker(
        rerankers=(LexicalReranker(), fusion.WeightedReranker(factors=factors)),
        weights=(1.0, 0.5),
        given_weight=1.0,
    )


def test_a_reranker_and_a_language_model_are_taken_as_they_are() -> None:
    reranker = FixedScores(1)
    chat = Scripted()

    listwise = build_reranker({"name": "llm_listwise", "window": 4, "step": 2}, chat=chat)
    rrf: Any = build_reranker({"name": "rrf", "rerankers": [reranker, "llm_pointwise"]}, chat=chat)

    assert build_reranker(reranker) is reranker
    assert listwise == LlmListwiseReranker(chat=chat, window=4, step=2)
    member, pointwise = rrf.rerankers
    assert member == reranker
    assert pointwise.chat == chat


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
    """The working directory, with the user's module mine.py in it."""
    (own_modules / "mine.py").write_text(SOURCE, encoding="utf-8")
    return own_modules


def ordered(reranker: object) -> list[str]:
    """The ids of the chunks as a reranker orders them."""
    reranking = rerank("q", CHUNKS, build_reranker(reranker))
    return [entry.chunk.id for entry in reranking.chunks]


@pytest.mark.usefixtures("here")
def test_a_class_in_a_file_is_a_reranker_by_its_place() -> None:
    assert ordered("mine.py:Shorter") == ["short", "long"]
    assert ordered("mine:Plain") == ["long", "short"]
    assert ordered({"name": "mine.py:Plain", "factor": -1}) == ["short", "long"]
    assert ordered("mine.py:ready") == ["long", "short"]


@pytest.mark.usefixtures("here")
def test_settings_of_a_class_in_a_file_are_its_fields() -> None:
    inner = {"name": "mine.py:Plain", "factor": 5}

    reranker: Any = build_reranker({"name": "mine.py:Shorter", "power": 2, "inner": inner})

    assert reranker.power == 2.0
    assert reranker.inner.factor == 5


@pytest.mark.usefixtures("here")
def test_a_class_in_a_file_may_be_a_reranker_within_another() -> None:
    linear = build_reranker({"name": "linear", "rerankers": ["mine.py:Shorter"]})

    assert isinstance(linear, fusion.LinearFusionReranker)
    assert linear.rerankers[0].name == "shorter"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("reranker", "message"),
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
def test_errors_say_what_is_wrong_and_what_exists(reranker: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_reranker(reranker)
