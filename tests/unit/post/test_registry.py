"""Rerankers from a configuration file."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from pathlib import Path

import pytest

from ragbench import build_reranker
from ragbench.core.chat import ChatModel
from ragbench.errors import ConfigError
from ragbench.io.settings import from_settings
from ragbench.post.catalogue import RERANKERS
from ragbench.post.rerank import Reranker
from ragbench.post.rerankers.fusion import ReciprocalRankFusionReranker
from ragbench.post.rerankers.lexical import LexicalReranker
from ragbench.post.rerankers.llm import LlmListwiseReranker
from ragbench.post.rerankers.weighted import Factor, WeightedReranker
from tests.unit.post.rerankers.builders import FixedScores, ScriptedChat


def test_a_name_alone_takes_all_defaults() -> None:
    assert build_reranker("lexical") == LexicalReranker()


def test_settings_are_the_fields() -> None:
    given = {"name": "lexical", "method": "idf", "k1": 2, "title_weight": 0}
    assert build_reranker(given) == LexicalReranker(method="idf", k1=2.0, title_weight=0)
    assert given["name"] == "lexical"


def test_rerankers_and_factors_within_rerankers() -> None:
    built = build_reranker(
        {
            "name": "rrf",
            "given_weight": 1,
            "weights": [1, 0.5],
            "rerankers": ["lexical", {"name": "weighted", "factors": [{"field": "likes"}, {}]}],
        }
    )
    assert built == ReciprocalRankFusionReranker(
        rerankers=(
            LexicalReranker(),
            WeightedReranker(factors=(Factor(field="likes"), Factor())),
        ),
        weights=(1.0, 0.5),
        given_weight=1.0,
    )


def test_a_reranker_is_taken_as_it_is() -> None:
    mine = FixedScores(1)
    assert build_reranker(mine) is mine
    fused = build_reranker({"name": "rrf", "rerankers": [mine]})
    assert isinstance(fused, ReciprocalRankFusionReranker)
    assert fused.rerankers == (mine,)


def test_a_language_model_is_handed_over() -> None:
    chat = ScriptedChat()
    built = build_reranker({"name": "llm_listwise", "window": 4, "step": 2}, chat=chat)
    assert built == LlmListwiseReranker(chat=chat, window=4, step=2)
    nested = build_reranker({"name": "rrf", "rerankers": ["llm_pointwise"]}, chat=chat)
    assert isinstance(nested, ReciprocalRankFusionReranker)
    assert nested.rerankers[0].name == "llm_pointwise"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("lexcal", r"Did you mean 'lexical'\? Known: cross_encoder, feedback, http, lexical"),
        ({"k1": 1}, "needs a 'name'. Known: cross_encoder"),
        (7, "a name or a mapping"),
        (
            {"name": "lexical", "k": 1},
            r"unknown setting 'k'. Did you mean 'k1'\? Known: b, corpus, k1",
        ),
        ({"name": "lexical", "k1": "1.2"}, "lexical: k1 must be a number, not '1.2'"),
        ({"name": "lexical", "k1": float("inf")}, "k1 must be a number"),
        ({"name": "lexical", "k1": True}, "k1 must be a number"),
        ({"name": "lexical", "title_weight": 1.5}, "must be a whole number, not 1.5"),
        ({"name": "lexical", "method": "tfidf"}, "must be one of bm25, idf, not 'tfidf'"),
        ({"name": "lexical", "b": 2}, "b must lie between 0 and 1"),
        ({"name": "ppr", "directed": 1}, "must be true or false, not 1"),
        ({"name": "rrf"}, "rrf: the setting 'rerankers' is missing"),
        ({"name": "rrf", "rerankers": "lexical"}, "must be a list, not 'lexical'"),
        ({"name": "rrf", "rerankers": ["lexcal"]}, "Did you mean 'lexical'"),
        ({"name": "weighted", "factors": [{"feld": 1}]}, r"factors\[0\]: unknown setting 'feld'"),
        ({"name": "weighted", "factors": ["score"]}, "must be a mapping, not 'score'"),
        pytest.param(
            {"name": "http", "url": "http://h/rerank", "headers": "x"},
            "headers must be a mapping",
            marks=pytest.mark.extra("http"),
        ),
        pytest.param(
            {"name": "http", "url": "http://h/rerank", "sleep": 1},
            "unknown setting 'sleep'",
            marks=pytest.mark.extra("http"),
        ),
        ({"name": "llm_listwise"}, "'llm_listwise' needs a language model, and none was given"),
        ({"name": "llm_listwise", "chat": "x"}, "'chat' is not a setting"),
    ],
)
def test_errors_say_what_is_wrong_and_what_exists(given: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_reranker(given)


def test_few_settings_have_no_default() -> None:
    needed = {
        name: {
            field.name
            for field in fields(RERANKERS.load(name))
            if field.init and field.default is MISSING and field.default_factory is MISSING
        }
        for name in RERANKERS.builtin
    }
    assert {name: sorted(names) for name, names in needed.items() if names} == {
        "cross_encoder": ["model"],
        "http": ["url"],
        "linear": ["rerankers"],
        "llm_listwise": ["chat"],
        "llm_pointwise": ["chat"],
        "rrf": ["rerankers"],
    }


def test_any_callable_can_be_registered_by_another_package() -> None:
    def factory(scale: float = 1.0) -> Reranker:
        return FixedScores(scale)

    assert isinstance(from_settings(factory, {"scale": 2.0}, where="mine"), FixedScores)
    with pytest.raises(ConfigError, match=r"mine: .*'scle'"):
        from_settings(factory, {"scle": 2.0}, where="mine")


def test_optional_and_unknown_types_pass() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Settings:
        path: Path
        limit: int | None = None
        chat: ChatModel | None = None

    built = from_settings(Settings, {"path": Path("x"), "limit": None}, where="s")
    assert built == Settings(path=Path("x"))
    with pytest.raises(ConfigError, match="s: limit must be a whole number"):
        from_settings(Settings, {"path": Path("x"), "limit": "3"}, where="s")
