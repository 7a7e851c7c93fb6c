"""Variants over one stored run: what they score, what they cost, and that nobody is asked again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ragbench import Case, PostRetrieval, RetrievalResult, ablate, parse_metrics
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.post.build import Variant
from ragbench.post.filter import Threshold, TopK
from ragbench.post.format import LongContext
from ragbench.post.operator import OperatorInput, OperatorOutput
from ragbench.stages.trial import percentile
from ragbench.views.ablation import ablation_object
from tests.behaviour.rags import NotingRAG, cases, run

METRICS = parse_metrics("hit_rate@1, recall@2")


class Ranked(NotingRAG):
    """Retrieves the right chunk first for a query with "easy" in it, second for any other."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        right = super().retrieve_with_metadata(query, top_k)
        ids = [*(right.context_ids or ()), "x"]
        texts = [*right.contexts, "one two three"]
        scores = [0.2, 0.1]
        if "easy" not in query:
            ids, texts = ids[::-1], texts[::-1]
        return RetrievalResult(texts, context_ids=ids, scores=scores)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failing:
    name: str = "custom.failing"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        raise RuntimeError("no model")


def variant(name: str, *operators: object, **settings: str) -> Variant:
    stage = PostRetrieval(operators=operators, **settings)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    return Variant(name=name, stage=stage)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    data = cases("easy a", "easy b", "hard c", "hard d", "lost e")
    run(data, Ranked(), tmp_path / "run", metrics="hit_rate@1, exact_match, retrieval_latency")
    return tmp_path / "run"


def test_variants_are_compared_with_the_first_one(stored: Path) -> None:
    found = ablate(
        stored,
        [variant("as retrieved", TopK(k=2)), variant("swapped", Swap()), variant("one", TopK(k=1))],
        metrics=METRICS,
    )
    assert (found.cases, found.replayed, found.depth) == (5, 4, 2)
    first, swapped, one = found.variants
    assert [change.score for change in first.changes] == [0.5, 1.0]
    assert [change.difference for change in first.changes] == [None, None]
    hit, recall = swapped.changes
    assert (hit.score, hit.difference, hit.gained, hit.lost, hit.compared) == (0.5, 0.0, 2, 2, 4)
    assert (recall.difference, recall.gained, recall.lost) == (0.0, 0, 0)
    assert one.changes[1].difference == -0.5
    # Differences 0, 0, -1, -1: sd = 0.57735, se = 0.288675, t(3) = 3.182446.
    assert one.changes[1].low == pytest.approx(-1.0)  # -1.4187, cut at the end of the scale
    assert one.changes[1].high == pytest.approx(-0.5 + 3.182446 * 0.288675, abs=1e-5)


class Far(Ranked):
    """Hands over distances: the first chunk has the least."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        found = super().retrieve_with_metadata(query, top_k)
        return RetrievalResult(found.contexts, context_ids=found.context_ids, scores=[0.1, 0.2])


def test_that_the_stored_scores_rise_as_distances_do_is_said_first(
    stored: Path, tmp_path: Path
) -> None:
    """Operators read a higher score as a better one: MMR, thresholds and fusion would be wrong."""
    both = [variant("as retrieved", TopK(k=2)), variant("one", TopK(k=1))]
    assert not [note for note in ablate(stored, both).notes if "distances" in note]
    run(cases("easy a", "hard b"), Far(), tmp_path / "far", metrics="hit_rate@1")
    first = ablate(tmp_path / "far", both).notes[0]
    assert first.startswith("In 2 of 2 retrievals with different scores these rise")


@dataclass(frozen=True, kw_only=True, slots=True)
class Swap:
    name: str = "custom.swap"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        return OperatorOutput(chunks=context.chunks[::-1])


def test_costs_are_those_of_what_generation_would_be_given(stored: Path) -> None:
    found = ablate(stored, [variant("all"), variant("one", TopK(k=1))], metrics=METRICS)
    everything, one = found.variants
    # "text easy a" and "one two three": 3 and 4 estimated tokens.
    assert (everything.chunks, everything.tokens, everything.tokens_p95) == (2.0, 7.0, 7.0)
    assert (one.chunks, one.tokens) == (1.0, 3.5)
    assert one.seconds_p95 >= one.seconds_p50 > 0
    assert (found.counter, found.is_estimate) == ("approximate", True)


def test_the_rag_is_not_asked_again_and_the_run_is_left_alone(stored: Path) -> None:
    before = {path.name: path.read_bytes() for path in stored.iterdir() if path.suffix == ".json"}
    rag = Ranked()
    ablate(stored, [variant("one", TopK(k=1))])
    assert rag.retrieved == []
    assert before == {
        path.name: path.read_bytes() for path in stored.iterdir() if path.suffix == ".json"
    }


def test_by_default_the_runs_own_retriever_metrics_are_measured(stored: Path) -> None:
    found = ablate(stored, [variant("one", TopK(k=1))])
    assert [metric.name for metric in found.metrics] == ["hit_rate@1"]


def test_the_runs_own_post_retrieval_is_not_looked_at(tmp_path: Path) -> None:
    stage = PostRetrieval(operators=(TopK(k=1),))
    run(cases("hard a"), Ranked(), tmp_path / "run", post_retrieval=stage)
    found = ablate(tmp_path / "run", [variant("all")], metrics=METRICS)
    assert found.variants[0].chunks == 2.0


def test_an_operator_that_fails_is_counted_in_both_manners(stored: Path) -> None:
    found = ablate(
        stored,
        [variant("kept", Failing()), variant("raised", Failing(), on_error="raise")],
        metrics=METRICS,
    )
    kept, raised = found.variants
    assert (kept.passed_over, kept.failed, kept.changes[0].measured) == (4, 0, 4)
    assert (raised.passed_over, raised.failed, raised.changes[0].measured) == (0, 4, 0)
    assert raised.changes[0].score is None
    assert kept.failures == (("custom.failing: RuntimeError: no model", 4),)


def test_the_same_variants_give_the_same_numbers(stored: Path) -> None:
    def numbers() -> object:
        found = ablation_object(
            ablate(stored, [variant("all", LongContext()), variant("t", Threshold(min_score=0.15))])
        )
        for each in found["variants"]:
            del each["seconds"]
        return found

    assert numbers() == numbers()


def test_clusters_widen_the_interval(tmp_path: Path) -> None:
    def high(clusters: list[str | None]) -> float | None:
        folder = tmp_path / str(len(set(clusters)))
        data = [
            Case(id=q, query=q, reference_context_ids=(f"d-{q}",), cluster=cluster)
            for q, cluster in zip(
                ("easy a", "easy b", "hard c", "hard d", "hard e", "easy f"), clusters, strict=True
            )
        ]
        run(data, Ranked(), folder, metrics="hit_rate@1")
        found = ablate(folder, [variant("all"), variant("one", TopK(k=1))], metrics=METRICS)
        return found.variants[1].changes[1].high

    alone, together = high([None] * 6), high(["1", "1", "2", "2", "2", "1"])
    assert alone is not None
    assert together is not None
    assert together > alone


def test_notes_say_what_limits_the_numbers(stored: Path) -> None:
    notes = " ".join(ablate(stored, [variant("all")]).notes)
    assert "hold 2 chunks" in notes
    assert "1 cases have no retrieval" in notes
    assert "Tokens are an estimate" in notes


def test_metrics_of_the_answer_are_refused(stored: Path) -> None:
    with pytest.raises(ConfigError, match="exact_match: reads the answer"):
        ablate(stored, [variant("all")], metrics=parse_metrics("exact_match, recall@1"))


def test_what_cannot_be_replayed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no variant"):
        ablate(tmp_path, [])
    with pytest.raises(RunMismatchError, match="not a run folder"):
        ablate(tmp_path, [variant("all")])
    run(cases("a"), NotingRAG(), tmp_path / "answers", metrics="exact_match")
    with pytest.raises(ConfigError, match="name metrics with --metrics"):
        ablate(tmp_path / "answers", [variant("all")])
    run(cases("lost a"), NotingRAG(), tmp_path / "lost", metrics="hit_rate@1")
    with pytest.raises(RunMismatchError, match="no retrieval to replay"):
        ablate(tmp_path / "lost", [variant("all")])


def test_percentiles_are_values_that_were_measured() -> None:
    """Nearest rank: of 20 values the 10th, the 19th and the 20th."""
    values = [float(at) for at in range(20, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.96, 1.0)] == [10, 19, 20, 20]
    assert [percentile([3.0], share) for share in (0.0, 0.5, 0.95)] == [3.0, 3.0, 3.0]
    assert percentile([], 0.5) == 0.0
