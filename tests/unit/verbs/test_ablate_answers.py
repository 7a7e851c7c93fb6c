"""ablate with somebody who answers: the quality of answers per variant, and what they take."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ragbench import (
    AsyncRAGInterface,
    GenerationResult,
    PostRetrieval,
    RAGInterface,
    RetrievalResult,
    ablate,
    parse_metrics,
)
from ragbench.core.ablation import Ablation
from ragbench.errors import ConfigError, LLMStoppedError
from ragbench.llm.endpoint import Price
from ragbench.post.build import Variant
from ragbench.post.filter import TopK
from ragbench.views.ablation import ablation_markdown, ablation_object
from tests.behaviour.rags import NotingRAG, cases, run

METRICS = parse_metrics("exact_match, hit_rate@1")


class Second(NotingRAG):
    """The right chunk stands second."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        right = super().retrieve_with_metadata(query, top_k)
        return RetrievalResult(
            ["noise", *right.contexts], context_ids=["x", *(right.context_ids or ())]
        )


class Reading(RAGInterface, families=("generation",)):
    """Answers rightly where it is given the right text, declines over one text, reports tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[tuple[str, list[str]]] = []

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        self.given.append((query, contexts))
        if "broken" in query:
            raise ValueError("no words")
        usage = {"prompt_tokens": 100 * len(contexts), "completion_tokens": 10}
        if f"text {query}" in contexts:
            return GenerationResult(f"A {query}", metadata={"usage": usage})
        return GenerationResult("", abstained=True, metadata={"usage": usage})


class AsyncReading(AsyncRAGInterface, families=("generation",)):
    def __init__(self) -> None:
        super().__init__()
        self.plain = Reading()

    async def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        return self.plain.generate_with_metadata(query, contexts)


class Stopped(RAGInterface, families=("generation",)):
    def generate(self, query: str, contexts: list[str]) -> str:
        raise LLMStoppedError("the cap is reached")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    run(cases("red", "blue", "green", "gold"), Second(), tmp_path / "run", metrics="hit_rate@1")
    return tmp_path / "run"


def variant(name: str, *operators: Any) -> Variant:
    return Variant(name=name, stage=PostRetrieval(operators=operators))


def found(stored: Path, rag: Any, **options: Any) -> Ablation:
    variants = [variant("all"), variant("one", TopK(k=1)), variant("both", TopK(k=2))]
    return ablate(stored, variants, rag=rag, metrics=METRICS, **options)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_each_variant_has_the_quality_of_its_answers(stored: Path, concurrency: int) -> None:
    rag = Reading()
    done = found(stored, rag, concurrency=concurrency)
    all_, one, both = done.variants
    assert [each.changes[0].score for each in done.variants] == [1.0, None, 1.0]
    assert all_.answers is not None
    assert one.answers is not None
    assert (all_.answers.answered, all_.answers.declined, all_.answers.failed) == (4, 0, 0)
    assert (one.answers.answered, one.answers.declined, one.answers.failed) == (0, 4, 0)
    assert both.acted == 0
    assert done.generator == "Reading"
    # "all" and "both" leave the same: four questions with two lists of contexts each.
    assert len(rag.given) == 8


def test_declining_is_no_way_to_win(stored: Path) -> None:
    variants = [variant("all"), variant("one", TopK(k=1))]
    done = ablate(stored, variants, rag=Reading())
    assert [metric.name for metric in done.metrics] == ["end_to_end_f1", "token_f1", "hit_rate@1"]
    end_to_end = done.variants[1].changes[0]
    assert (end_to_end.score, end_to_end.difference, end_to_end.lost) == (0.0, -1.0, 4)
    assert done.keep == "By end_to_end_f1: keep all; one: not distinguishable from all."


def test_an_async_rag_answers_too(stored: Path) -> None:
    plain, coroutines = found(stored, Reading()), found(stored, AsyncReading())
    assert [v.changes[0].score for v in plain.variants] == [
        v.changes[0].score for v in coroutines.variants
    ]


def test_tokens_that_are_reported_have_a_cost(stored: Path) -> None:
    price = Price(input=Decimal(1), output=Decimal(10))
    done = found(stored, Reading(), price=price)
    first, one, _ = done.variants
    assert first.answers is not None
    assert one.answers is not None
    # 200 tokens at 1 and 10 at 10 a million; 100 and 10 for one chunk.
    assert first.answers.cost == pytest.approx(300e-6)
    assert one.answers.cost == pytest.approx(200e-6)
    assert (first.answers.prompt_tokens, first.answers.response_tokens) == (200, 10)
    assert done.currency == "USD"
    without = found(stored, Reading())
    assert without.variants[0].answers is not None
    assert without.variants[0].answers.cost is None


def test_a_generation_that_fails_is_counted_and_no_zero(tmp_path: Path) -> None:
    run(cases("red", "broken blue"), Second(), tmp_path / "run", metrics="hit_rate@1")
    first = found(tmp_path / "run", Reading()).variants[0]
    assert first.answers is not None
    assert (first.answers.answered, first.answers.failed) == (1, 1)
    assert (first.changes[0].score, first.changes[0].measured) == (1.0, 1)
    assert [count for text, count in first.failures if "no words" in text] == [1]


def test_who_cannot_answer_is_refused(stored: Path) -> None:
    class OnlyRetrieves(RAGInterface, families=("retrieval",)):
        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            return []

    with pytest.raises(ConfigError, match="does not generate"):
        found(stored, OnlyRetrieves())
    with pytest.raises(ConfigError, match="reads the answer, and nobody is asked"):
        found(stored, None)
    with pytest.raises(ConfigError, match="asks a model, which an ablation does not"):
        ablate(stored, [variant("all")], metrics=["support"], rag=Reading())
    with pytest.raises(LLMStoppedError):
        found(stored, Stopped())


def test_the_answers_are_in_every_form(stored: Path) -> None:
    done = found(stored, Reading())
    plain = ablation_object(done)
    assert plain["generator"] == "Reading"
    assert plain["variants"][1]["answers"]["declined"] == 4
    text = ablation_markdown(done)
    assert "## answers of Reading" in text
    assert "| one | 0 | 4 | 0 |" in text
