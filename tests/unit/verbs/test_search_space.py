"""A search over a space: what is kept, what cannot be told apart, what did not act."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ragbench import GenerationResult, PostRetrieval, RAGInterface, RetrievalResult
from ragbench.core.space_search import Choice, SpaceSearch, Standing
from ragbench.errors import ConfigError
from ragbench.metrics.registry import parse_metric
from ragbench.post.build import Variant
from ragbench.post.filter import TopK
from ragbench.post.operator import OperatorInput, OperatorOutput
from ragbench.post.rerank import Rerank
from ragbench.post.rerankers.semantic import SemanticReranker
from ragbench.post.space import Candidate
from ragbench.verbs.search_space import search_space
from ragbench.views.space_search import search_object, space_search_markdown
from tests.unit.verbs.rags import NotingRAG, cases, run

NAMES = [f"query {at}" for at in range(60)]


class Five(NotingRAG):
    """The right chunk stands at a place that the query decides, among five."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        right = super().retrieve_with_metadata(query, top_k)
        ids = [f"x{at}" for at in range(4)]
        at = Random(f"place of {query}").randrange(5)
        ids[at:at] = right.context_ids or ()
        return RetrievalResult([f"text {id}" for id in ids], context_ids=ids)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shuffled:
    """Luck of a seed."""

    seed: int
    name: str = "test.shuffled"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        chunks = list(context.chunks)
        Random(f"{self.seed} {context.query.text}").shuffle(chunks)
        return OperatorOutput(chunks=tuple(chunks))


@dataclass(frozen=True, kw_only=True, slots=True)
class RightFirst:
    """Finds the right chunk in most cases."""

    name: str = "test.right"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        chunks = list(context.chunks)
        if Random(context.query.text).random() < 0.8:
            chunks.sort(key=lambda one: not one.chunk.id.startswith("d-"))
        return OperatorOutput(chunks=tuple(chunks))


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    name: str = "test.broken"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        raise RuntimeError("no model")


def space(*candidates: tuple[str, Any]) -> list[Candidate]:
    return [
        Candidate(
            variant=Variant(name=name, stage=PostRetrieval(operators=operators)),
            choices=(Choice(factor="operator 1", text=name),),
        )
        for name, operators in candidates
    ]


LUCK = [(f"luck {seed}", (Shuffled(seed=seed),)) for seed in range(9)]
IDLE = ("idle", (Rerank(reranker=SemanticReranker()),))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    run(cases(*NAMES), Five(), tmp_path / "run", metrics="MRR")
    return tmp_path / "run"


def search(stored: Path, *candidates: tuple[str, Any], **options: Any) -> SpaceSearch:
    return search_space(
        stored, space(("as it was", ()), *candidates), metric=parse_metric("MRR"), **options
    )


def test_a_space_without_a_winner_keeps_the_first(stored: Path) -> None:
    found = search(stored, *LUCK, IDLE)
    assert found.naive > 0.02
    assert found.honest < found.naive
    assert found.honest_low is not None
    assert found.honest_high is not None
    assert found.honest_low < 0 < found.honest_high
    assert found.kept == "as it was"
    assert found.sentence.startswith("By MRR: keep as it was; luck ")
    assert "has the best mean, which luck may explain" in found.sentence
    assert found.sentence.endswith("idle: did not act.")


def test_a_planted_winner_is_kept_with_its_honest_gain(stored: Path) -> None:
    found = search(stored, *LUCK, ("right", (RightFirst(),)), IDLE)
    assert (found.best, found.kept) == ("right", "right")
    assert found.honest_low is not None
    assert found.naive_low is not None
    assert found.honest_low > 0
    # Always chosen: on other cases it gains what it gains on its own.
    assert found.honest == pytest.approx(found.naive)
    assert found.candidates[-2].chosen == 1.0
    standings = {one.name: one.standing for one in found.candidates}
    assert standings["right"] is Standing.BEST
    assert standings["idle"] is Standing.IDLE
    assert standings["as it was"] is Standing.FIRST
    assert {standings[name] for name, _ in LUCK} == {Standing.WORSE}
    assert found.sentence == (
        "By MRR: keep right; as it was, luck 0, luck 1 and 7 more: worse; idle: did not act."
    )


def test_what_is_as_good_is_not_called_worse(stored: Path) -> None:
    found = search(stored, ("right", (RightFirst(),)), ("again", (RightFirst(), Shuffled(seed=1))))
    assert found.candidates[2].standing is Standing.WORSE
    twice = search(stored, ("right", (RightFirst(),)), ("twice", (RightFirst(), RightFirst())))
    assert twice.candidates[2].standing is Standing.OPEN
    assert twice.candidates[2].p_value is None
    assert "twice: not distinguishable" in twice.sentence


def test_the_same_seed_gives_the_same_search(stored: Path) -> None:
    def numbers(seed: int) -> object:
        plain = search_object(search(stored, *LUCK, seed=seed))
        for one in plain["candidates"]:
            del one["seconds"]
        return plain

    assert numbers(1) == numbers(1)
    assert numbers(1) != numbers(2)


def test_a_metric_of_answers_needs_somebody_who_answers(stored: Path) -> None:
    with pytest.raises(ConfigError, match="nobody is asked"):
        search_space(stored, space(("as it was", ()), *LUCK), metric=parse_metric("brier"))


def test_candidates_that_fail_are_counted_and_no_zeros(stored: Path) -> None:
    broken = Candidate(
        variant=Variant(
            name="broken", stage=PostRetrieval(operators=(Broken(),), on_error="raise")
        ),
        choices=(Choice(factor="operator 1", text="broken"),),
    )
    with pytest.raises(ConfigError, match="no case has a value of MRR for every candidate"):
        search_space(stored, [*space(("as it was", ())), broken], metric=parse_metric("MRR"))


def test_all_of_it_is_in_every_form(stored: Path) -> None:
    found = search(stored, *LUCK, IDLE, folds=3, seed=7)
    plain = search_object(found)
    assert (plain["seed"], plain["folds"], plain["partitions"]) == (7, 3, 50)
    assert len(plain["candidates"]) == 11
    assert plain["candidates"][-1]["standing"] == "did not act"
    text = space_search_markdown(found)
    assert "| honest |" in text
    assert "seed 7" in text
    assert "| as it was |" in text


class Wordy(RAGInterface, families=("generation",)):
    """Reports a token per context."""

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        usage = {"prompt_tokens": len(contexts), "completion_tokens": 1}
        return GenerationResult("words", metadata={"usage": usage})


def test_where_lower_is_better_the_lowest_is_best(stored: Path) -> None:
    three, one = ("three", (TopK(k=3),)), ("one", (TopK(k=1),))
    found = search_space(
        stored,
        space(("all", ()), three, one),
        metric=parse_metric("prompt_tokens"),
        rag=Wordy(),
    )
    assert (found.best, found.kept) == ("one", "one")
    assert [candidate.difference for candidate in found.candidates] == [0.0, -2.0, -4.0]
    assert (found.naive, found.honest, found.honest_low) == (4.0, 4.0, 4.0)
    assert found.candidates[1].standing is Standing.WORSE
