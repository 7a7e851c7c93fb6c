"""Which operator lost which gold context: by case, over a run, after reading it back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ragbench import Case, PostRetrieval, RetrievalResult, Skip, report_of
from ragbench.core.biography import Biography, OperatorTable
from ragbench.core.outcome import Outcome, Status
from ragbench.core.trace import Trace
from ragbench.metrics.matching import Matching, match
from ragbench.metrics.rank import ranking_of, set_recall
from ragbench.post.chunks import made_from, rewritten
from ragbench.post.filter import DedupNear, Extractive, Threshold, TopK
from ragbench.post.operator import Operator, OperatorInput, OperatorOutput
from ragbench.post.stage import post_retrieved
from ragbench.stages.biography import BiographyTally, best_order, biography_of
from tests.behaviour.rags import Backwards, NotingRAG, rows, run
from tests.unit.metrics.builders import SKIPPED

DESK = "The help desk is open from 8 to 17."


class Four(NotingRAG):
    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        leave = "You get 27 days of leave a year, and more after ten years of work"
        texts = ["Badges are blue and worn on the left side.", f"{leave}.", f"{leave}!", DESK]
        names = ["badge", "leave", "leave-copy", "desk"]
        return RetrievalResult(texts, context_ids=names, scores=[0.9, 0.8, 0.7, 0.6])


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstWords:
    """Cuts every text behind its first words."""

    words: int
    name: str = "test.first_words"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        first = [(one, " ".join(one.chunk.text.split()[: self.words])) for one in context.chunks]
        cut = tuple(rewritten(one, text, by=self.name) for one, text in first)
        return OperatorOutput(chunks=cut)


@dataclass(frozen=True, kw_only=True, slots=True)
class OneOfAll:
    """One chunk in the place of all."""

    name: str = "test.one_of_all"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        text = " ".join(entry.chunk.text for entry in context.chunks)
        return OperatorOutput(chunks=(made_from(context.chunks, text, id="all", by=self.name),))


def case(*gold: str) -> Case:
    return Case(id="c", query="How many days of leave?", reference_context_ids=gold)


def texts(*gold: str) -> Case:
    return Case(id="c", query="How many days of leave?", reference_contexts=gold)


def biography(
    known: Case, *operators: Operator, matching: Matching = Matching.ID, ids: bool = True
) -> Biography:
    """Of a case that went through operators, as it is read back from bytes."""
    result = Four().retrieve_with_metadata(known.query)
    if not ids:
        result = RetrievalResult(result.contexts)
    after = post_retrieved(PostRetrieval(operators=operators), known.query, result)
    done = biography_of(trace(known, result, after), matching)
    assert done is not None
    return done


def trace(known: Case, before: RetrievalResult, after: RetrievalResult) -> Trace:
    found, left = (Outcome(status=Status.MEASURED, value=one) for one in (before, after))
    return Trace(case=known, retrieval=found, generation=SKIPPED, post_retrieval=left)


def test_the_operator_that_dropped_a_gold_chunk_is_named_with_its_last_rank() -> None:
    found = biography(case("leave-copy", "badge"), Backwards(), DedupNear(), TopK(k=2))
    copy, badge = found.gold
    # Backwards: desk, leave-copy, leave, badge. DedupNear drops leave: desk, leave-copy, badge.
    assert (copy.gold, copy.ranks, copy.lost_by) == ("leave-copy", (3, 2, 2, 2), None)
    assert (badge.gold, badge.ranks, badge.chunk) == ("badge", (1, 4, 3, None), "badge")
    assert found.lost_by(badge) == "filter.top_k"
    assert badge.lost_by is not None and badge.ranks[badge.lost_by] == 3
    lives = {life.id: life for life in found.lives}
    assert lives["leave"].ranks == (2, 3, None, None)
    assert lives["leave"].dropped_by == 1
    assert lives["badge"].gold == (1,)
    assert found.notes[0] == ("4 turned",)


LEAVE = texts("27 days of leave a year")


@pytest.mark.parametrize(
    ("known", "operators", "ranks", "lost_by"),
    [
        (case("elsewhere"), [TopK(k=1)], (None, None), None),  # never retrieved is not lost
        (case("badge"), [Threshold(min_score=2), TopK(k=4)], (1, None, None), 0),  # leaves nothing
        (LEAVE, [FirstWords(words=4), TopK(k=4)], (2, None, None), 0),
        (LEAVE, [FirstWords(words=8), TopK(k=2)], (2, 2, 2), None),
        (LEAVE, [FirstWords(words=8), TopK(k=1)], (2, 2, None), 1),
        # Of two cuts the one that took the text.
        (LEAVE, [FirstWords(words=8), FirstWords(words=3), Backwards()], (2, 2, None, None), 1),
        (LEAVE, [OneOfAll()], (2, 1), None),
        (case("leave"), [OneOfAll()], (2, None), 0),
    ],
)
def test_gold_is_lost_by_the_operator_that_took_it_out(
    known: Case, operators: list[Operator], ranks: tuple[int | None, ...], lost_by: int | None
) -> None:
    matching = Matching.TEXT if known.reference_contexts else Matching.ID
    (fate,) = biography(known, *operators, matching=matching).gold
    assert (fate.ranks, fate.lost_by) == (ranks, lost_by)
    assert (fate.chunk is None) == (ranks[0] is None)


def test_what_became_of_a_chunk_is_told_with_who_rewrote_it_and_what_it_was_made_from() -> None:
    found = biography(LEAVE, FirstWords(words=8), FirstWords(words=3), matching=Matching.TEXT)
    assert {life.rewritten for life in found.lives} >= {(0, 1)}
    made = biography(LEAVE, OneOfAll(), matching=Matching.TEXT).lives[-1]
    assert (made.id, made.ranks) == ("all", (None, 1))
    assert made.made_from == ("badge", "leave", "leave-copy", "desk")
    unnamed = biography(LEAVE, TopK(k=1), ids=False).gold[0]
    assert (unnamed.ranks, unnamed.chunk) == ((2, None), "1")  # by position, compared by text


@pytest.mark.parametrize("matching", [Matching.ID, Matching.DOCUMENT_ID, Matching.TEXT])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_what_is_kept_is_what_the_rank_metrics_count(matching: Matching, k: int) -> None:
    golds = ("You get 27 days of leave a year", "open from 8 to 17", "gone text")
    known = replace(case("leave", "desk", "gone"), reference_contexts=golds)
    before = Four().retrieve_with_metadata("?")
    after = post_retrieved(PostRetrieval(operators=(TopK(k=k),)), "?", before)
    one = trace(known, before, after)
    matched, found = match(known, after, matching), biography_of(one, matching)
    assert not isinstance(matched, Skip)
    ranking = ranking_of(matched)
    assert found is not None
    share = sum(fate.ranks[-1] is not None for fate in found.gold) / len(found.gold)
    assert share == set_recall(ranking)
    assert len(found.gold) == ranking.relevant()


def test_the_report_counts_what_each_operator_did_and_reads_the_same_back(tmp_path: Path) -> None:
    golds = {"kept": ("badge",), "dropped": ("leave-copy", "desk"), "missed": ("elsewhere",)}
    known = [replace(case(*gold), id=name, query=name) for name, gold in golds.items()]
    known.append(Case(id="unknown", query="u"))
    stage = PostRetrieval(operators=(DedupNear(), TopK(k=2)))
    report = run(known, Four(), tmp_path / "run", metrics="recall@2", post_retrieval=stage)
    table = report.operators
    assert table is not None
    assert (table.cases, table.judged, table.gold, table.found, table.kept) == (4, 3, 4, 3, 1)
    assert table.no_gold == (("no relevant context is known", 1),)
    dedup, top = table.operators
    assert (dedup.given, dedup.dropped, dedup.acted) == (16, 4, 4)
    assert (dedup.gold_given, dedup.gold_lost, dedup.lost_for_good) == (3, 1, 1)
    assert (top.given, top.dropped, top.gold_lost, top.examples) == (12, 4, 1, ("dropped",))
    assert [one.operator for one in table.losers] == ["filter.dedup_near", "filter.top_k"]
    assert report_of(tmp_path / "run").operators == table
    found = rows(report)["dropped"].biography
    assert found is not None
    assert [found.lost_by(fate) for fate in found.gold] == ["filter.dedup_near", "filter.top_k"]


def table_of(folder: Path, *operators: Operator, names: str = "a") -> OperatorTable:
    known = [Case(id=name, query=name, reference_context_ids=("desk",)) for name in names]
    stage = PostRetrieval(operators=operators)
    table = run(known, Four(), folder, metrics="recall@2", post_retrieval=stage).operators
    assert table is not None
    return table


def test_moves_are_counted_without_those_that_only_close_ranks(tmp_path: Path) -> None:
    operators = (DedupNear(), Backwards(), FirstWords(words=2))
    dedup, turned, cut = table_of(tmp_path, *operators).operators
    assert (dedup.moved, dedup.gold_up) == (0, 1)
    assert (turned.moved, turned.gold_up, turned.gold_down) == (2, 1, 0)
    assert (cut.given, cut.rewritten, cut.dropped, cut.moved) == (3, 3, 0, 0)


def test_notes_that_differ_in_numbers_alone_are_one(tmp_path: Path) -> None:
    table = table_of(tmp_path, TopK(k=2), Backwards(), Extractive(budget=100), names="ab")
    assert table.operators[1].notes == (("2 turned", 2),)
    note, cases = table.operators[2].notes[0]
    assert (cases, "the extra 'tokens' counts exactly" in note) == (2, True)


# --- counts over cases, and the best order of the same chunks, by hand

LEAVE_AND_DESK = case("leave", "desk")


def counted(*found: Biography) -> OperatorTable:
    tally = BiographyTally()
    for at, one in enumerate(found):
        tally.add(f"c{at}", one)
    table = tally.table()
    assert table is not None
    return table


def test_an_operator_that_stands_twice_is_distinguished_by_its_step() -> None:
    table = counted(biography(LEAVE_AND_DESK, TopK(k=3), Backwards(), TopK(k=1)))
    assert [(one.operator, one.lost_for_good) for one in table.operators] == [
        ("filter.top_k (step 1)", 1),
        ("test.backwards", 0),
        ("filter.top_k (step 3)", 1),
    ]


def test_examples_and_reasons_are_the_first_five_cases_and_the_most_frequent() -> None:
    """Each loses two gold contexts to the same operator, of which each case is named once."""
    (top,) = counted(*[biography(case("leave-copy", "desk"), TopK(k=1))] * 7).operators
    assert (top.lost_for_good, top.examples) == (14, ("c0", "c1", "c2", "c3", "c4"))
    without_ids = biography(LEAVE_AND_DESK, TopK(k=4), ids=False)
    unknown = biography(Case(id="c", query="?"), TopK(k=4))
    table = counted(without_ids, unknown, unknown, biography(LEAVE_AND_DESK, TopK(k=4)))
    assert (table.cases, table.judged, [count for _, count in table.no_gold]) == (4, 1, [2, 1])


@pytest.mark.parametrize(
    ("grades", "matching", "ids", "order"),
    [
        ({"leave": 1, "desk": 3}, Matching.ID, True, [3, 1, 0, 2]),
        ({"leave": 3, "desk": 1}, Matching.ID, True, [1, 3, 0, 2]),
        ({"leave": 2, "desk": 2, "gone": 3}, Matching.ID, True, [1, 3, 0, 2]),
        ({"badge": 0, "desk": 1}, Matching.ID, True, [3, 0, 1, 2]),
        ({"gone": 1}, Matching.ID, True, [0, 1, 2, 3]),
        (None, Matching.TEXT, True, [3, 0, 1, 2]),
        (None, Matching.TEXT, False, [3, 0, 1, 2]),
    ],
)
def test_the_best_order_has_the_highest_grades_first_and_leaves_the_rest_alone(
    grades: dict[str, int] | None, matching: Matching, ids: bool, order: list[int]
) -> None:
    found = Four().retrieve_with_metadata("?")
    if not ids:
        found = RetrievalResult(found.contexts)
    known = Case(id="c", query="?", grades=grades, reference_contexts=None if grades else (DESK,))
    best = best_order(replace(trace(known, found, found), post_retrieval=None), matching)
    assert best is not None
    done = best.context.value
    assert done is not None
    assert list(done.contexts) == [found.contexts[at] for at in order]
    for given, left in ((found.context_ids, done.context_ids), (found.scores, done.scores)):
        assert left == (None if given is None else [given[at] for at in order])


def test_what_was_not_retrieved_or_not_judged_has_no_best_order() -> None:
    found = Four().retrieve_with_metadata("?")
    assert best_order(trace(Case(id="c", query="?"), found, found), Matching.ID) is None
