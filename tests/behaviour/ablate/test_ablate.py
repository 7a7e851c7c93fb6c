"""ablate: variants over one stored run, what they score, what they cost, who answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from ragbench import (
    AsyncRAGInterface,
    GenerationResult,
    PostRetrieval,
    RAGInterface,
    RetrievalResult,
    ablate,
    parse_metrics,
)
from ragbench.errors import ConfigError, LLMStoppedError, RunMismatchError
from ragbench.ledger.scores import ScoreStore
from ragbench.post.build import Variant
from ragbench.post.filter import TopK
from ragbench.post.rerank import Rerank
from ragbench.post.rerankers.semantic import SemanticReranker
from ragbench.views.ablation import ablation_document, ablation_object
from tests.behaviour.rags import Backwards, Failing, NotingRAG, OnlyRetrieves, cases, run
from tests.unit.post.builders import Paid

METRICS = parse_metrics("hit_rate@1, recall@2")
RANK_METRICS = parse_metrics("nDCG@1, recall@2")
ANSWER_METRICS = parse_metrics("exact_match, hit_rate@1")
STORED = "hit_rate@1, exact_match, retrieval_latency"
EASY_QUERIES = ["easy 0", "easy 1", "easy 2", "easy 3"]
HARD_QUERIES = [f"hard {number}" for number in range(12)]


class Ranked(NotingRAG):
    """Retrieves the right chunk and a wrong one.

    The right chunk stands first for a query with "easy" in it, last for any other.
    """

    wrong_ids: tuple[str, ...] = ("x",)
    wrong_texts: tuple[str, ...] = ("one two three",)
    scores: tuple[float, ...] = (0.3, 0.2)

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        right = super().retrieve_with_metadata(query, top_k)
        right_ids = right.context_ids or ()
        if "easy" in query:
            ids = [*right_ids, *self.wrong_ids]
            texts = [*right.contexts, *self.wrong_texts]
        else:
            ids = [*self.wrong_ids, *right_ids]
            texts = [*self.wrong_texts, *right.contexts]
        return RetrievalResult(texts, context_ids=ids, scores=list(self.scores))


class RankedOfThree(Ranked):
    """The same with two wrong chunks."""

    wrong_ids = ("x", "y")
    wrong_texts = ("one two three", "four five six")
    scores = (0.3, 0.2, 0.1)


class RankedByDistance(Ranked):
    """The same, with distances in place of scores: the first chunk has the lowest."""

    scores = (0.1, 0.2)


class Reading(RAGInterface, families=("generation",)):
    """Answers rightly where the contexts have the right text, declines otherwise, reports tokens.

    Fails for a query with "broken" in it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[tuple[str, list[str]]] = []

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        self.questions.append((query, contexts))
        if "broken" in query:
            raise ValueError("no words")
        usage = {"prompt_tokens": 100 * len(contexts), "completion_tokens": 10}
        if f"text {query}" in contexts:
            return GenerationResult(f"A {query}", metadata={"usage": usage})
        return GenerationResult("", abstained=True, metadata={"usage": usage})


class AsyncReading(AsyncRAGInterface, families=("generation",)):
    """The same in coroutines."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = Reading()
        self.questions = self.plain.questions

    async def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        return self.plain.generate_with_metadata(query, contexts)


class Stopped(RAGInterface, families=("generation",)):
    def generate(self, query: str, contexts: list[str]) -> str:
        raise LLMStoppedError("the cap is reached")


def ablation_of(folder: Path, *variants: Variant, **options: Any) -> Any:
    """An ablation without its type, which allows None in most places."""
    return ablate(folder, variants, **options)


def variant(name: str, *operators: Any, **settings: Any) -> Variant:
    """A variant of this name, whose stage has these operators."""
    return Variant(name=name, stage=PostRetrieval(operators=operators, **settings))


ALL = variant("all")
TOP_1 = variant("one", TopK(k=1))
TOP_2 = variant("two", TopK(k=2))
TURNED = variant("turned", Backwards())


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A run over five cases, one of which has no retrieval."""
    data = cases("easy a", "easy b", "hard c", "hard d", "lost e")
    run(data, Ranked(), tmp_path / "run", metrics=STORED)
    return tmp_path / "run"


# --- the effect of each variant


def test_an_ablation_counts_its_cases_and_those_that_it_can_replay(stored: Path) -> None:
    ablation = ablation_of(stored, TOP_2, metrics=METRICS)

    assert ablation.cases == 5
    assert ablation.replayed == 4
    assert ablation.depth == 2


def test_the_first_variant_has_scores_and_no_differences(stored: Path) -> None:
    ablation = ablation_of(stored, TOP_2, TURNED, metrics=METRICS)

    hit_rate, recall = ablation.variants[0].changes
    assert (hit_rate.score, hit_rate.difference) == (0.5, None)
    assert (recall.score, recall.difference) == (1.0, None)


def test_a_turned_order_gains_and_loses_as_many_cases(stored: Path) -> None:
    ablation = ablation_of(stored, TOP_2, TURNED, metrics=METRICS)

    hit_rate, recall = ablation.variants[1].changes
    # The right chunk now stands first in the two hard cases, and last in the two easy ones.
    assert hit_rate.gained == 2
    assert hit_rate.lost == 2
    assert hit_rate.compared == 4
    assert (hit_rate.score, hit_rate.difference) == (0.5, 0.0)
    assert (recall.gained, recall.lost) == (0, 0)
    assert recall.difference == 0.0


def test_a_difference_has_an_interval_that_ends_with_the_scale(stored: Path) -> None:
    ablation = ablation_of(stored, TOP_2, TURNED, TOP_1, metrics=METRICS)

    recall = ablation.variants[2].changes[1]
    # Differences 0, 0, -1, -1: sd = 0.57735, se = 0.288675, t(3) = 3.182446; the lower end,
    # -1.4187, is cut at the end of the scale.
    upper_end = -0.5 + 3.182446 * 0.288675
    assert recall.difference == -0.5
    assert recall.alone == pytest.approx((-1.0, upper_end), abs=1e-5)
    assert recall.low == pytest.approx(-1.0)
    assert recall.high >= recall.alone[1]


def test_scores_that_rise_as_distances_do_are_the_first_note(tmp_path: Path) -> None:
    """Operators read a higher score as a better one: MMR, thresholds and fusion would be wrong."""
    run(cases("easy a", "hard b"), RankedByDistance(), tmp_path, metrics="hit_rate@1")

    notes = ablate(tmp_path, [TOP_2, TOP_1]).notes

    assert notes[0].startswith("In 2 of 2 retrievals with different scores these rise")
    assert "distances" in notes[0]


def test_scores_that_fall_are_not_taken_for_distances(stored: Path) -> None:
    notes = ablate(stored, [TOP_2, TOP_1]).notes

    assert "distances" not in " ".join(notes)


def test_costs_are_those_of_what_generation_would_be_given(stored: Path) -> None:
    ablation = ablation_of(stored, ALL, TOP_1, metrics=METRICS)

    everything, top_1 = ablation.variants
    # "text easy a" and "one two three": 3 and 4 estimated tokens.
    assert everything.chunks == 2.0
    assert everything.tokens == 7.0
    assert everything.tokens_p95 == 7.0
    assert (top_1.chunks, top_1.tokens) == (1.0, 3.5)
    assert top_1.seconds_p95 >= top_1.seconds_p50 > 0


def test_the_notes_say_what_the_numbers_rest_on(stored: Path) -> None:
    ablation = ablation_of(stored, ALL, TOP_1, metrics=METRICS)

    notes = " ".join(ablation.notes)
    assert "hold 2 chunks" in notes
    assert "Without a retrieval to replay: 1 case." in notes
    assert "Tokens are an estimate" in notes
    assert ablation.counter == "approximate"
    assert ablation.is_estimate


@pytest.fixture
def filtered(tmp_path: Path) -> Path:
    """A run whose own post-retrieval leaves one chunk of two."""
    stage = PostRetrieval(operators=(TopK(k=1),))
    run(cases("hard a"), Ranked(), tmp_path, metrics=STORED, post_retrieval=stage)
    return tmp_path


def test_the_run_is_not_written_to(filtered: Path) -> None:
    files = sorted(filtered.glob("*.json"))
    before = [path.read_bytes() for path in files]

    ablate(filtered, [ALL])

    assert sorted(filtered.glob("*.json")) == files
    assert [path.read_bytes() for path in files] == before


def test_the_retriever_metrics_of_the_run_are_measured(filtered: Path) -> None:
    ablation = ablate(filtered, [ALL])

    assert [metric.name for metric in ablation.metrics] == ["hit_rate@1"]


def test_a_variant_begins_with_the_chunks_before_the_runs_own_post_retrieval(
    filtered: Path,
) -> None:
    ablation = ablate(filtered, [ALL])

    assert ablation.variants[0].chunks == 2.0


def test_a_failing_operator_is_passed_over_and_counted(stored: Path) -> None:
    passes_over = variant("passes over", Failing())

    (report,) = ablate(stored, [passes_over], metrics=METRICS).variants

    assert report.passed_over == 4
    assert report.failed == 0
    assert report.changes[0].measured == 4
    assert report.failures == (("custom.failing: RuntimeError: no model", 4),)


def test_a_failing_operator_that_raises_leaves_its_cases_without_a_score(stored: Path) -> None:
    raises = variant("raises", Failing(), on_error="raise")

    (report,) = ablate(stored, [raises], metrics=METRICS).variants

    assert report.passed_over == 0
    assert report.failed == 4
    assert report.changes[0].measured == 0
    assert report.changes[0].score is None


def upper_end_of_the_recall_difference(folder: Path, clusters: Sequence[str | None]) -> float:
    """Of one chunk against two, where the cases belong to these clusters."""
    data = cases("easy a", "easy b", "hard c", "hard d", "hard e", "easy f")
    for number, cluster in enumerate(clusters):
        data[number] = replace(data[number], cluster=cluster)
    run(data, Ranked(), folder, metrics="hit_rate@1")
    ablation = ablation_of(folder, ALL, TOP_1, metrics=METRICS)
    _, recall = ablation.variants[1].changes
    return float(recall.high)


def test_clusters_widen_the_interval(tmp_path: Path) -> None:
    alone = upper_end_of_the_recall_difference(tmp_path / "alone", [None] * 6)
    two_clusters = ["1", "1", "2", "2", "2", "1"]

    clustered = upper_end_of_the_recall_difference(tmp_path / "clustered", two_clusters)

    assert clustered > alone


# --- what is refused


def test_an_ablation_without_variants_is_refused(stored: Path) -> None:
    with pytest.raises(ConfigError, match="no variant"):
        ablate(stored, [])


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match="not a run folder"):
        ablate(tmp_path / "nowhere", [ALL])


def test_a_run_without_retriever_metrics_needs_metrics(tmp_path: Path) -> None:
    run(cases("a"), NotingRAG(), tmp_path, metrics="exact_match")

    with pytest.raises(ConfigError, match="name metrics with --metrics"):
        ablate(tmp_path, [ALL])


def test_a_run_in_which_every_retrieval_failed_is_refused(tmp_path: Path) -> None:
    run(cases("lost a"), NotingRAG(), tmp_path, metrics="hit_rate@1")

    with pytest.raises(RunMismatchError, match="no retrieval to replay"):
        ablate(tmp_path, [ALL])


# --- comparisons that hold together


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A run over 4 cases with the right chunk first of three and 12 with it last."""
    run(cases(*EASY_QUERIES, *HARD_QUERIES), RankedOfThree(), tmp_path / "run", metrics="nDCG@1")
    return tmp_path / "run"


def four_variants(deep: Path) -> Any:
    """As retrieved; turned; by a reranker that does nothing without embeddings; the first chunk."""
    as_retrieved = variant("as retrieved")
    semantic = variant("semantic", Rerank(reranker=SemanticReranker()))
    top_1 = variant("first", TopK(k=1))
    return ablation_of(deep, as_retrieved, TURNED, semantic, top_1, metrics=RANK_METRICS)


def test_only_variants_that_act_are_tested(deep: Path) -> None:
    ablation = four_variants(deep)

    # turned and first act, by two metrics each; semantic does not, and is not called equal.
    assert ablation.family == 4
    acted = [report.acted for report in ablation.variants]
    assert acted == [None, 16, 0, 16]
    assert ablation.variants[2].changes[0].p_value is None


def test_the_intervals_of_all_comparisons_hold_together(deep: Path) -> None:
    turned = four_variants(deep).variants[1]

    change = turned.changes[0]
    # nDCG@1: 12 cases gain 1, 4 lose 1: mean 0.5, s = sqrt(16 * (1 - 0.25) / 15).
    standard_error = (16 * 0.75 / 15) ** 0.5 / 4
    low_alone = 0.5 - stats.t.ppf(0.975, 15) * standard_error
    low_by_bonferroni = 0.5 - stats.t.ppf(1 - 0.05 / 8, 15) * standard_error
    assert change.difference == pytest.approx(0.5)
    assert change.alone[0] == pytest.approx(low_alone)
    assert low_by_bonferroni - 1e-9 <= change.low <= change.alone[0]


def test_a_p_value_is_corrected_for_all_comparisons(deep: Path) -> None:
    turned = four_variants(deep).variants[1]

    change = turned.changes[0]
    # 16 informative signs, at least 12 on one side: 2 * P(B(16, 1/2) >= 12).
    exact = 2 * float(stats.binom.sf(11, 16, 0.5))
    assert change.p_value == pytest.approx(exact, abs=0.01)  # drawn
    assert change.p_corrected >= exact
    # The interval of this comparison alone leaves out 0; among four comparisons that is not enough.
    assert change.alone[0] > 0
    assert not change.is_significant


def test_the_ceiling_is_the_score_of_the_best_order(deep: Path) -> None:
    ablation = four_variants(deep)

    # The right chunk stands first in 4 of 16 cases, and could in all.
    assert ablation.variants[0].changes[0].score == 0.25
    assert ablation.ceiling == (1.0, 1.0)


def test_the_cases_that_a_variant_made_worse_are_listed(deep: Path) -> None:
    turned = four_variants(deep).variants[1]

    losses = [(loss.case, loss.before, loss.after) for loss in turned.changes[0].losses]
    assert losses == [
        ("easy 0", 1.0, 0.0),
        ("easy 1", 1.0, 0.0),
        ("easy 2", 1.0, 0.0),
        ("easy 3", 1.0, 0.0),
    ]


def test_what_each_operator_did_is_counted(deep: Path) -> None:
    _, _, semantic, top_1 = four_variants(deep).variants

    (semantic_step,) = semantic.operators.operators
    note, note_cases = semantic_step.notes[0]
    assert "no embedding" in note
    assert note_cases == 16
    (top_1_step,) = top_1.operators.operators
    # The right chunk is the third of the 12 hard cases.
    assert top_1_step.lost_for_good == 12


def test_the_advice_names_each_variant_and_what_is_known_of_it(deep: Path) -> None:
    ablation = four_variants(deep)

    assert ablation.keep == (
        "By nDCG@1: keep as retrieved; turned, first: inconclusive against as retrieved; "
        "semantic: did not act."
    )


@pytest.fixture
def hard(tmp_path: Path) -> Path:
    """A run with the right chunk last of three in all 12 cases: turned, it is the first."""
    run(cases(*HARD_QUERIES), RankedOfThree(), tmp_path / "run", metrics="nDCG@1")
    return tmp_path / "run"


def test_a_gain_beyond_chance_is_kept(hard: Path) -> None:
    ablation = ablate(hard, [ALL, TURNED, TOP_1])

    assert ablation.keep.startswith("By nDCG@1: keep turned; one: ")


def test_a_variant_stands_beside_the_first_on_the_same_cases(stored: Path) -> None:
    """One chunk suffices for the easy cases; of the hard ones no answer is left to be scored."""
    ablation = ablate(stored, [ALL, TOP_1], metrics="token_f1", rag=Reading())

    table = ablation_document(ablation).sections[0]

    all_row, top_1_row = [[str(cell) for cell in row] for row in table.rows]
    assert list(table.columns[1:4]) == ["first", "score", "difference"]
    assert all_row[1:4] == ["", "1.000", ""]
    assert top_1_row[1:4] == ["1.000", "1.000", "+0.000"]
    assert top_1_row[-1] == "2"


def test_a_loss_beyond_chance_is_called_worse(hard: Path) -> None:
    ablation = ablate(hard, [TURNED, ALL])

    assert ablation.keep == "By nDCG@1: keep turned; all: worse than turned."


def test_what_the_first_variant_lost_is_shown_too(hard: Path) -> None:
    """The losses of the other variants are read beside it."""
    ablation = ablate(hard, [TOP_1, ALL])

    document = ablation_document(ablation)

    lines_by_title = {section.title: list(section.lines) for section in document.sections}
    assert lines_by_title["Operators"][0].startswith("one: filter.top_k lost")


def test_a_limit_takes_the_first_cases(deep: Path) -> None:
    ablation = ablation_of(deep, ALL, metrics=RANK_METRICS, limit=3)

    assert ablation.cases == 3
    assert ablation.variants[0].changes[0].measured == 3


def test_a_limit_of_no_cases_is_refused(deep: Path) -> None:
    with pytest.raises(ConfigError, match="limit must be at least 1, not 0"):
        ablate(deep, [ALL], metrics=RANK_METRICS, limit=0)


# --- paid scores


def top_k_by(reranker: Paid) -> list[Variant]:
    """Three variants that ask the same reranker for the same scores."""
    return [
        variant("top 1", Rerank(reranker=reranker, top_k=1)),
        variant("top 2", Rerank(reranker=reranker, top_k=2)),
        variant("top 3", Rerank(reranker=reranker, top_k=3)),
    ]


def scores_paid(reranker: Paid) -> int:
    """How many scores of chunks it gave."""
    return sum(len(chunk_ids) for chunk_ids in reranker.requests)


def test_scores_are_paid_once_for_all_variants_and_runs(deep: Path, tmp_path: Path) -> None:
    reranker = Paid()
    variants = top_k_by(reranker)

    with ScoreStore(tmp_path / "scores.sqlite") as store:
        paid = ablate(deep, variants, metrics=RANK_METRICS, scores=store)
        looked_up = ablate(deep, variants, metrics=RANK_METRICS, scores=store, concurrency=4)

    assert scores_paid(reranker) == 16 * 3
    assert [report.reused_scores for report in paid.variants] == [0, 48, 48]
    changes_of_paid = [report.changes for report in paid.variants]
    changes_of_looked_up = [report.changes for report in looked_up.variants]
    assert changes_of_looked_up == changes_of_paid


def test_no_time_is_shown_where_scores_were_looked_up(deep: Path, tmp_path: Path) -> None:
    """Times of what was looked up are no times of the reranker."""
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        ablation = ablate(deep, top_k_by(Paid()), metrics=RANK_METRICS, scores=store)

    top_1, top_2, top_3 = ablation_object(ablation)["variants"]
    assert top_1["seconds"] is not None
    assert top_2["seconds"] is None
    assert top_3["seconds"] is None


def test_an_ablation_that_was_stopped_goes_on_where_it_ended(deep: Path, tmp_path: Path) -> None:
    poor = Paid(money=[5])
    rich = Paid()

    with ScoreStore(tmp_path / "scores.sqlite") as store:
        with pytest.raises(LLMStoppedError, match="the cap"):
            ablate(deep, top_k_by(poor), metrics=RANK_METRICS, scores=store)
        ablate(deep, top_k_by(rich), metrics=RANK_METRICS, scores=store)

    # 5 cases of 3 chunks, then the other 11.
    assert scores_paid(poor) == 15
    assert scores_paid(rich) == 33


# --- with a RAG that answers


@pytest.fixture
def answerable(tmp_path: Path) -> Path:
    """A run with the right chunk last of two in four cases."""
    run(cases("red", "blue", "green", "gold"), Ranked(), tmp_path / "run", metrics="hit_rate@1")
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("rag", "concurrency"),
    [
        pytest.param(Reading(), 1, id="one at a time"),
        pytest.param(Reading(), 3, id="three at a time"),
        pytest.param(AsyncReading(), 1, id="in coroutines"),
    ],
)
def test_each_variant_has_the_quality_of_its_answers(
    answerable: Path, rag: Any, concurrency: int
) -> None:
    ablation = ablation_of(
        answerable, ALL, TOP_1, TOP_2, rag=rag, metrics=ANSWER_METRICS, concurrency=concurrency
    )

    everything, top_1, top_2 = ablation.variants
    exact_matches = [report.changes[0].score for report in ablation.variants]
    assert exact_matches == [1.0, None, 1.0]
    assert everything.answers.answered == 4
    assert everything.answers.declined == 0
    assert (top_1.answers.answered, top_1.answers.declined) == (0, 4)
    assert everything.answers.failed == 0
    assert top_1.answers.failed == 0
    assert top_2.acted == 0
    assert ablation.generator == type(rag).__name__
    # "all" and "two" leave the same: four questions with two lists of contexts each.
    assert len(rag.questions) == 8


def test_declining_is_no_way_to_win(answerable: Path) -> None:
    ablation = ablation_of(answerable, ALL, TOP_1, rag=Reading())

    names = [metric.name for metric in ablation.metrics]
    assert names == ["end_to_end_f1", "token_f1", "hit_rate@1"]
    end_to_end = ablation.variants[1].changes[0]
    assert end_to_end.score == 0.0
    assert end_to_end.difference == -1.0
    assert end_to_end.lost == 4
    assert ablation.keep == "By end_to_end_f1: keep all; one: inconclusive against all."


@pytest.fixture
def half_broken(tmp_path: Path) -> Path:
    """A run over one case that can be answered and one whose generation fails."""
    run(cases("red", "broken blue"), Ranked(), tmp_path / "run", metrics="hit_rate@1")
    return tmp_path / "run"


def test_a_generation_that_fails_is_counted_and_no_zero(half_broken: Path) -> None:
    (report,) = ablation_of(half_broken, ALL, rag=Reading(), metrics=ANSWER_METRICS).variants

    assert report.answers.answered == 1
    assert report.answers.failed == 1
    exact_match = report.changes[0]
    assert exact_match.score == 1.0
    assert exact_match.measured == 1
    ((failure, failed_cases),) = report.failures
    assert "no words" in failure
    assert failed_cases == 1


def test_nobody_is_asked_where_post_retrieval_fails(half_broken: Path) -> None:
    rag = Reading()
    raises = variant("raises", Failing(), on_error="raise")

    (report,) = ablation_of(half_broken, raises, rag=rag, metrics=ANSWER_METRICS).variants

    assert rag.questions == []
    assert (report.answers.answered, report.answers.failed) == (0, 0)
    assert report.failed == 2
    assert (report.chunks, report.tokens_p95) == (0.0, 0.0)


def test_a_metric_that_asks_a_model_is_refused(answerable: Path) -> None:
    with pytest.raises(ConfigError, match="asks a model, which an ablation does not"):
        ablate(answerable, [ALL], metrics=["support"], rag=NotingRAG())


def test_a_rag_that_cannot_generate_is_refused(answerable: Path) -> None:
    with pytest.raises(ConfigError, match="has no generation method"):
        ablate(answerable, [ALL], metrics=ANSWER_METRICS, rag=OnlyRetrieves())


def test_a_metric_of_answers_without_a_rag_is_refused(answerable: Path) -> None:
    with pytest.raises(ConfigError, match="exact_match: needs an answer, and no RAG is called"):
        ablate(answerable, [ALL], metrics=ANSWER_METRICS)


def test_a_rag_whose_budget_is_spent_stops_the_ablation(answerable: Path) -> None:
    with pytest.raises(LLMStoppedError):
        ablate(answerable, [ALL, TOP_1], metrics=ANSWER_METRICS, rag=Stopped())
