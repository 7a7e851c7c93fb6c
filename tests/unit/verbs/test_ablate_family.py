"""ablate: what holds together, what did not act, what cannot be reached, and who lost it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from scipy import stats

from ragbench import Chunk, PostRetrieval, Query, RetrievalResult, ablate, parse_metrics
from ragbench.core.ablation import Ablation
from ragbench.errors import ConfigError, LLMStoppedError
from ragbench.post.build import Variant
from ragbench.post.filter import TopK
from ragbench.post.operator import OperatorInput, OperatorOutput
from ragbench.post.rerank import Rerank
from ragbench.post.rerankers.semantic import SemanticReranker
from ragbench.post.score_store import ScoreStore
from ragbench.views.ablation import ablation_object
from tests.behaviour.rags import NotingRAG, cases, run

METRICS = parse_metrics("nDCG@1, recall@2")
NAMES = [f"easy {at}" for at in range(4)] + [f"hard {at}" for at in range(12)]


class Three(NotingRAG):
    """The right chunk stands first for a query with "easy" in it, last of three for another."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        right = super().retrieve_with_metadata(query, top_k)
        ids, texts = ["x", "y"], ["text x", "text y"]
        at = 0 if "easy" in query else 2
        return RetrievalResult(
            [*texts[:at], *right.contexts, *texts[at:]],
            context_ids=[*ids[:at], *(right.context_ids or ()), *ids[at:]],
            scores=[0.3, 0.2, 0.1],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Backwards:
    name: str = "test.backwards"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        return OperatorOutput(chunks=context.chunks[::-1])


@dataclass(frozen=True, kw_only=True, slots=True)
class Paid:
    """Longer ids first; it fails once its money is spent."""

    scores_alone: ClassVar[bool] = True
    asks_elsewhere: ClassVar[bool] = True

    asked: list[str] = field(default_factory=list[str], compare=False, metadata={"setting": False})
    money: list[int] = field(
        default_factory=lambda: [10**6], compare=False, metadata={"setting": False}
    )
    name: str = "paid"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> list[float]:
        self.money[0] -= 1
        if self.money[0] < 0:
            raise LLMStoppedError("the cap is reached")
        self.asked.extend(chunk.id for chunk in chunks)
        return [float(len(chunk.id)) for chunk in chunks]


def variant(name: str, *operators: object) -> Variant:
    return Variant(name=name, stage=PostRetrieval(operators=operators))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    run(cases(*NAMES), Three(), tmp_path / "run", metrics="nDCG@1")
    return tmp_path / "run"


def found(stored: Path) -> Ablation:
    semantic = Rerank(reranker=SemanticReranker())
    return ablate(
        stored,
        [
            variant("as retrieved"),
            variant("turned", Backwards()),
            variant("semantic", semantic),
            variant("first", TopK(k=1)),
        ],
        metrics=METRICS,
    )


def test_the_intervals_of_all_comparisons_hold_together(stored: Path) -> None:
    done = found(stored)
    # turned and first act, by two metrics each; semantic does not, and is not tested.
    assert done.family == 4
    change = done.variants[1].changes[0]
    # nDCG@1: 12 cases gain 1, 4 lose 1: mean 0.5, s = sqrt(16 * (1 - 0.25) / 15).
    error = (16 * 0.75 / 15) ** 0.5 / 4
    assert change.difference == pytest.approx(0.5)
    assert change.alone is not None
    assert change.alone[0] == pytest.approx(0.5 - stats.t.ppf(0.975, 15) * error)
    assert change.low is not None
    bonferroni = 0.5 - stats.t.ppf(1 - 0.05 / 8, 15) * error
    assert bonferroni - 1e-9 <= change.low <= change.alone[0]
    # 16 informative signs, at least 12 on one side: 2 * P(B(16, 1/2) >= 12).
    exact = 2 * float(stats.binom.sf(11, 16, 0.5))
    assert change.p_value == pytest.approx(exact)
    assert change.p_corrected is not None
    assert change.p_corrected >= exact


def test_a_variant_that_did_nothing_is_not_called_equal(stored: Path) -> None:
    done = found(stored)
    semantic = done.variants[2]
    assert semantic.acted == 0
    assert semantic.changes[0].p_value is None
    assert semantic.operators is not None
    (note, count), *_ = semantic.operators.operators[0].notes
    assert ("no embedding" in note, count) == (True, 16)
    assert [one.acted for one in done.variants] == [None, 16, 0, 16]


def test_the_ceiling_is_the_best_order_of_the_same_chunks(stored: Path) -> None:
    done = found(stored)
    assert done.variants[0].changes[0].score == 0.25
    assert done.ceiling == (1.0, 1.0)


def test_who_lost_what_is_listed(stored: Path) -> None:
    done = found(stored)
    losses = done.variants[1].changes[0].losses
    assert [(loss.case, loss.before, loss.after) for loss in losses] == [
        (f"easy {at}", 1.0, 0.0) for at in range(4)
    ]
    operators = done.variants[3].operators
    assert operators is not None
    assert operators.operators[0].lost_for_good == 12


def test_what_to_keep_is_said_in_a_sentence(stored: Path) -> None:
    done = found(stored)
    change = done.variants[1].changes[0]
    assert not change.is_significant  # beyond chance alone, not among four comparisons
    assert done.keep == (
        "By nDCG@1: keep as retrieved; turned, first: not distinguishable from as retrieved; "
        "semantic: did not act."
    )
    assert ablation_object(done)["keep"] == done.keep


def test_a_gain_beyond_chance_is_kept(tmp_path: Path) -> None:
    names = [f"hard {at}" for at in range(12)]
    run(cases(*names), Three(), tmp_path / "run", metrics="nDCG@1")
    done = ablate(
        tmp_path / "run",
        [variant("plain"), variant("turned", Backwards()), variant("first", TopK(k=1))],
        metrics=parse_metrics("nDCG@1"),
    )
    assert done.keep.startswith("By nDCG@1: keep turned; first: ")
    back = ablate(
        tmp_path / "run",
        [variant("turned", Backwards()), variant("plain")],
        metrics=parse_metrics("nDCG@1"),
    )
    assert back.keep == "By nDCG@1: keep turned; plain: worse than turned."


def test_scores_are_asked_once_for_all_variants_and_runs(stored: Path, tmp_path: Path) -> None:
    paid = Paid()
    variants = [variant(f"top {k}", Rerank(reranker=paid, top_k=k)) for k in (1, 2, 3)]
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        first = ablate(stored, variants, metrics=METRICS, scores=store)
        again = ablate(stored, variants, metrics=METRICS, scores=store, concurrency=4)
    assert len(paid.asked) == 16 * 3
    # Times of what was looked up are no times of the reranker, and are not shown as such.
    assert [one.reused_scores for one in first.variants] == [0, 48, 48]
    shown = ablation_object(first)["variants"]
    assert [one["seconds"] is None for one in shown] == [False, True, True]
    assert [one.changes for one in first.variants] == [one.changes for one in again.variants]


def test_an_ablation_that_is_stopped_goes_on_where_it_ended(stored: Path, tmp_path: Path) -> None:
    broke, rich = Paid(money=[5]), Paid()
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        with pytest.raises(LLMStoppedError, match="the cap"):
            ablate(stored, [variant("a", Rerank(reranker=broke))], metrics=METRICS, scores=store)
        ablate(stored, [variant("a", Rerank(reranker=rich))], metrics=METRICS, scores=store)
    assert (len(broke.asked), len(rich.asked)) == (15, 33)


def test_a_limit_takes_the_first_cases(stored: Path) -> None:
    with pytest.raises(ConfigError, match="limit must be at least 1, not 0"):
        ablate(stored, [variant("a")], metrics=METRICS, limit=0)
    done = ablate(stored, [variant("a")], metrics=METRICS, limit=3)
    assert (done.cases, done.variants[0].changes[0].measured) == (3, 3)
