"""ablate: variants over one stored run, what they score, what they cost, who answers."""

from __future__ import annotations

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
FIRST = parse_metrics("nDCG@1, recall@2")
ANSWERS = parse_metrics("exact_match, hit_rate@1")
STORED = "hit_rate@1, exact_match, retrieval_latency"
NAMES = [f"easy {at}" for at in range(4)] + [f"hard {at}" for at in range(12)]


class Ranked(NotingRAG):
    """The right chunk stands first for a query with "easy" in it, last for any other."""

    noise = 1
    scores = (0.3, 0.2, 0.1)

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        right = super().retrieve_with_metadata(query, top_k)
        ids = [*(right.context_ids or ()), *"xy"[: self.noise]]
        texts = [*right.contexts, *["one two three", "four five six"][: self.noise]]
        if "easy" not in query:
            ids, texts = [*ids[1:], ids[0]], [*texts[1:], texts[0]]
        return RetrievalResult(texts, context_ids=ids, scores=[*self.scores[: len(ids)]])


class Three(Ranked):
    noise = 2


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
        self.given = self.plain.given

    async def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        return self.plain.generate_with_metadata(query, contexts)


def compare(folder: Path, *variants: Variant, **options: Any) -> Any:
    """What an ablation found; without its type, which allows None in most places."""
    return ablate(folder, variants, **options)


class Stopped(RAGInterface, families=("generation",)):
    def generate(self, query: str, contexts: list[str]) -> str:
        raise LLMStoppedError("the cap is reached")


def variant(name: str, *operators: Any, **settings: Any) -> Variant:
    return Variant(name=name, stage=PostRetrieval(operators=operators, **settings))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    data = cases("easy a", "easy b", "hard c", "hard d", "lost e")
    run(data, Ranked(), tmp_path / "run", metrics=STORED)
    return tmp_path / "run"


def test_variants_are_compared_with_the_first_one(stored: Path) -> None:
    as_retrieved, turned = variant("as retrieved", TopK(k=2)), variant("swapped", Backwards())
    found = compare(stored, as_retrieved, turned, variant("one", TopK(k=1)), metrics=METRICS)
    assert (found.cases, found.replayed, found.depth) == (5, 4, 2)
    first, swapped, one = found.variants
    assert [change.score for change in first.changes] == [0.5, 1.0]
    assert [change.difference for change in first.changes] == [None, None]
    hit, recall = swapped.changes
    assert (hit.score, hit.difference, hit.gained, hit.lost, hit.compared) == (0.5, 0.0, 2, 2, 4)
    assert (recall.difference, recall.gained, recall.lost) == (0.0, 0, 0)
    # Differences 0, 0, -1, -1: sd = 0.57735, se = 0.288675, t(3) = 3.182446; the lower end,
    # -1.4187, is cut at the end of the scale.
    recall = one.changes[1]
    assert recall.difference == -0.5
    assert recall.alone == pytest.approx((-1.0, -0.5 + 3.182446 * 0.288675), abs=1e-5)
    assert recall.low == pytest.approx(-1.0)
    assert recall.high >= recall.alone[1]


def test_that_the_stored_scores_rise_as_distances_do_is_said_first(
    stored: Path, tmp_path: Path
) -> None:
    """Operators read a higher score as a better one: MMR, thresholds and fusion would be wrong."""
    both = [variant("as retrieved", TopK(k=2)), variant("one", TopK(k=1))]
    assert not [note for note in ablate(stored, both).notes if "distances" in note]
    far = Ranked()
    far.scores = (0.1, 0.2, 0.3)
    run(cases("easy a", "hard b"), far, tmp_path / "far", metrics="hit_rate@1")
    first = ablate(tmp_path / "far", both).notes[0]
    assert first.startswith("In 2 of 2 retrievals with different scores these rise")


def test_costs_are_those_of_what_generation_would_be_given(stored: Path) -> None:
    found = compare(stored, variant("all"), variant("one", TopK(k=1)), metrics=METRICS)
    everything, one = found.variants
    notes = " ".join(found.notes)
    for part in ("hold 2 chunks", "1 cases have no retrieval", "Tokens are an estimate"):
        assert part in notes
    # "text easy a" and "one two three": 3 and 4 estimated tokens.
    assert (everything.chunks, everything.tokens, everything.tokens_p95) == (2.0, 7.0, 7.0)
    assert (one.chunks, one.tokens) == (1.0, 3.5)
    assert one.seconds_p95 >= one.seconds_p50 > 0
    assert (found.counter, found.is_estimate) == ("approximate", True)


def test_the_run_is_left_alone_and_its_own_retriever_metrics_are_measured(tmp_path: Path) -> None:
    """What its own post-retrieval left is not looked at."""
    stage = PostRetrieval(operators=(TopK(k=1),))
    run(cases("hard a"), Ranked(), tmp_path, metrics=STORED, post_retrieval=stage)
    before = {path: path.read_bytes() for path in tmp_path.glob("*.json")}
    found = compare(tmp_path, variant("all"))
    assert [metric.name for metric in found.metrics] == ["hit_rate@1"]
    assert found.variants[0].chunks == 2.0
    assert {path: path.read_bytes() for path in tmp_path.glob("*.json")} == before


def test_an_operator_that_fails_is_counted_in_both_manners(stored: Path) -> None:
    both = [variant("kept", Failing()), variant("raised", Failing(), on_error="raise")]
    found = ablate(stored, both, metrics=METRICS)
    kept, raised = found.variants
    assert (kept.passed_over, kept.failed, kept.changes[0].measured) == (4, 0, 4)
    assert (raised.passed_over, raised.failed, raised.changes[0].measured) == (0, 4, 0)
    assert raised.changes[0].score is None
    assert kept.failures == (("custom.failing: RuntimeError: no model", 4),)


def test_clusters_widen_the_interval(tmp_path: Path) -> None:
    def high(*clusters: str | None) -> Any:
        folder = tmp_path / str(len(set(clusters)))
        names = ("easy a", "easy b", "hard c", "hard d", "hard e", "easy f")
        pairs = zip(cases(*names), clusters, strict=True)
        data = [replace(case, cluster=cluster) for case, cluster in pairs]
        run(data, Ranked(), folder, metrics="hit_rate@1")
        found = compare(folder, variant("all"), variant("one", TopK(k=1)), metrics=METRICS)
        return found.variants[1].changes[1].high

    assert high(*"112221") > high(*[None] * 6)


def test_what_cannot_be_replayed_is_refused(tmp_path: Path) -> None:
    run(cases("a"), NotingRAG(), tmp_path / "answers", metrics="exact_match")
    run(cases("lost a"), NotingRAG(), tmp_path / "lost", metrics="hit_rate@1")
    for name, variants, error, message in (
        ("answers", [], ConfigError, "no variant"),
        ("nowhere", [variant("all")], RunMismatchError, "not a run folder"),
        ("answers", [variant("all")], ConfigError, "name metrics with --metrics"),
        ("lost", [variant("all")], RunMismatchError, "no retrieval to replay"),
    ):
        with pytest.raises(error, match=message):
            ablate(tmp_path / name, variants)


# --- comparisons that hold together


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    run(cases(*NAMES), Three(), tmp_path / "run", metrics="nDCG@1")
    return tmp_path / "run"


def compared(deep: Path) -> Any:
    first, turned = variant("first", TopK(k=1)), variant("turned", Backwards())
    semantic = variant("semantic", Rerank(reranker=SemanticReranker()))
    return compare(deep, variant("as retrieved"), turned, semantic, first, metrics=FIRST)


def test_the_intervals_of_all_comparisons_hold_together(deep: Path) -> None:
    done = compared(deep)
    # turned and first act, by two metrics each; semantic does not, and is not tested.
    assert done.family == 4
    change = done.variants[1].changes[0]
    # nDCG@1: 12 cases gain 1, 4 lose 1: mean 0.5, s = sqrt(16 * (1 - 0.25) / 15).
    error = (16 * 0.75 / 15) ** 0.5 / 4
    assert change.difference == pytest.approx(0.5)
    assert change.alone[0] == pytest.approx(0.5 - stats.t.ppf(0.975, 15) * error)
    bonferroni = 0.5 - stats.t.ppf(1 - 0.05 / 8, 15) * error
    assert bonferroni - 1e-9 <= change.low <= change.alone[0]
    # 16 informative signs, at least 12 on one side: 2 * P(B(16, 1/2) >= 12).
    exact = 2 * float(stats.binom.sf(11, 16, 0.5))
    assert change.p_value == pytest.approx(exact, abs=0.01)  # drawn
    assert change.p_corrected >= exact


def test_what_each_variant_did_is_listed(deep: Path) -> None:
    done = compared(deep)
    plain, turned, semantic, first = done.variants
    assert (plain.changes[0].score, done.ceiling) == (0.25, (1.0, 1.0))
    assert [one.acted for one in done.variants] == [None, 16, 0, 16]
    # One that did nothing is not called equal.
    assert semantic.changes[0].p_value is None
    (note, count), *_ = semantic.operators.operators[0].notes
    assert ("no embedding" in note, count) == (True, 16)
    losses = turned.changes[0].losses
    assert [(loss.case, loss.before, loss.after) for loss in losses] == [
        (f"easy {at}", 1.0, 0.0) for at in range(4)
    ]
    assert first.operators.operators[0].lost_for_good == 12
    assert not turned.changes[0].is_significant  # beyond chance alone, not among four comparisons
    kept = "By nDCG@1: keep as retrieved; turned, first: inconclusive against as retrieved; "
    assert done.keep == f"{kept}semantic: did not act."


def test_a_gain_beyond_chance_is_kept(tmp_path: Path) -> None:
    run(cases(*NAMES[4:]), Three(), tmp_path / "run", metrics="nDCG@1")
    plain, turned = variant("plain"), variant("turned", Backwards())
    first = variant("first", TopK(k=1))
    done = ablate(tmp_path / "run", [plain, turned, first])
    assert done.keep.startswith("By nDCG@1: keep turned; first: ")
    back = ablate(tmp_path / "run", [turned, plain])
    assert back.keep == "By nDCG@1: keep turned; plain: worse than turned."
    # What the first one lost is said, too: the others' losses are to be seen beside it.
    sections = ablation_document(ablate(tmp_path / "run", [first, plain])).sections
    (said,) = [list(one.lines) for one in sections if one.title == "Operators"]
    assert said[0].startswith("first: filter.top_k lost")


def test_scores_are_asked_once_for_all_variants_and_runs(deep: Path, tmp_path: Path) -> None:
    paid = Paid()
    variants = [variant(f"top {k}", Rerank(reranker=paid, top_k=k)) for k in (1, 2, 3)]
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        first = ablate(deep, variants, metrics=FIRST, scores=store)
        again = ablate(deep, variants, metrics=FIRST, scores=store, concurrency=4)
    assert sum(map(len, paid.asked)) == 16 * 3
    # Times of what was looked up are no times of the reranker, and are not shown as such.
    assert [one.reused_scores for one in first.variants] == [0, 48, 48]
    shown = ablation_object(first)["variants"]
    assert [one["seconds"] is None for one in shown] == [False, True, True]
    assert [one.changes for one in first.variants] == [one.changes for one in again.variants]
    # One that is stopped goes on where it ended.
    broke, rich = Paid(money=[5]), Paid()
    with ScoreStore(tmp_path / "others.sqlite") as store:
        with pytest.raises(LLMStoppedError, match="the cap"):
            compare(deep, variant("a", Rerank(reranker=broke)), metrics=FIRST, scores=store)
        compare(deep, variant("a", Rerank(reranker=rich)), metrics=FIRST, scores=store)
    assert [sum(map(len, one.asked)) for one in (broke, rich)] == [15, 33]


def test_a_limit_takes_the_first_cases(deep: Path) -> None:
    with pytest.raises(ConfigError, match="limit must be at least 1, not 0"):
        compare(deep, variant("a"), metrics=FIRST, limit=0)
    done = compare(deep, variant("a"), metrics=FIRST, limit=3)
    assert (done.cases, done.variants[0].changes[0].measured) == (3, 3)


# --- with somebody who answers


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    run(cases("red", "blue", "green", "gold"), Ranked(), tmp_path / "run", metrics="hit_rate@1")
    return tmp_path / "run"


def answered(run: Path, rag: Any, **options: Any) -> Any:
    variants = [variant("all"), variant("one", TopK(k=1)), variant("both", TopK(k=2))]
    return compare(run, *variants, rag=rag, metrics=ANSWERS, **options)


@pytest.mark.parametrize(
    ("rag", "concurrency"), [(Reading(), 1), (Reading(), 3), (AsyncReading(), 1)]
)
def test_each_variant_has_the_quality_of_its_answers(
    asked: Path, rag: Any, concurrency: int
) -> None:
    done = answered(asked, rag, concurrency=concurrency)
    assert [each.changes[0].score for each in done.variants] == [1.0, None, 1.0]
    told = [each.answers for each in done.variants[:2]]
    assert [(t.answered, t.declined, t.failed) for t in told] == [(4, 0, 0), (0, 4, 0)]
    assert done.variants[2].acted == 0
    assert done.generator == type(rag).__name__
    # "all" and "both" leave the same: four questions with two lists of contexts each.
    assert len(rag.given) == 8


def test_declining_is_no_way_to_win(asked: Path) -> None:
    done = compare(asked, variant("all"), variant("one", TopK(k=1)), rag=Reading())
    assert [metric.name for metric in done.metrics] == ["end_to_end_f1", "token_f1", "hit_rate@1"]
    end_to_end = done.variants[1].changes[0]
    assert (end_to_end.score, end_to_end.difference, end_to_end.lost) == (0.0, -1.0, 4)
    assert done.keep == "By end_to_end_f1: keep all; one: inconclusive against all."


def test_a_generation_that_fails_is_counted_and_no_zero(tmp_path: Path) -> None:
    run(cases("red", "broken blue"), Ranked(), tmp_path / "run", metrics="hit_rate@1")
    rag = Reading()
    raised = variant("raised", Failing(), on_error="raise")
    done = compare(tmp_path / "run", variant("all"), raised, rag=rag, metrics=ANSWERS)
    first, other = done.variants
    assert (first.answers.answered, first.answers.failed) == (1, 1)
    assert (first.changes[0].score, first.changes[0].measured) == (1.0, 1)
    assert [count for text, count in first.failures if "no words" in text] == [1]
    # Where nothing is left, nobody is asked.
    assert (other.answers.answered, other.answers.failed, other.failed) == (0, 0, 2)
    assert (len(rag.given), other.chunks, other.tokens_p95) == (2, 0.0, 0.0)


def test_who_cannot_answer_is_refused(asked: Path) -> None:
    for rag, metrics, message in (
        (NotingRAG(), ["support"], "asks a model, which an ablation does not"),
        (OnlyRetrieves(), ANSWERS, "has no generation method"),
        (None, ANSWERS, "exact_match: needs an answer, and no RAG is called"),
    ):
        with pytest.raises(ConfigError, match=message):
            ablate(asked, [variant("all")], metrics=metrics, rag=rag)
    with pytest.raises(LLMStoppedError):
        answered(asked, Stopped())
