"""Which operator lost which gold context: by case, over a run, after reading it back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ragbench import Case, PostRetrieval, RetrievalResult, Skip, report_of
from ragbench.core import record
from ragbench.core.biography import Biography, OperatorTable
from ragbench.core.outcome import Outcome, Status
from ragbench.core.report import Report
from ragbench.core.trace import Trace
from ragbench.metrics.matching import Matching, match
from ragbench.metrics.rank import ranking_of, set_recall
from ragbench.post.chunks import made_from, rewritten
from ragbench.post.filter import DedupNear, Threshold, TopK
from ragbench.post.operator import Operator, OperatorInput, OperatorOutput
from ragbench.post.stage import post_retrieved
from ragbench.stages.biography import BiographyTally, best_order, biography_of
from tests.behaviour.rags import Backwards, NotingRAG, rows, run
from tests.unit.metrics.builders import SKIPPED

BADGE = "Badges are blue and worn on the left side."
LEAVE = "You get 27 days of leave a year, and more after ten years of work."
LEAVE_COPY = "You get 27 days of leave a year, and more after ten years of work!"
DESK = "The help desk is open from 8 to 17."

# In the order of retrieval.
TEXTS = [BADGE, LEAVE, LEAVE_COPY, DESK]
IDS = ["badge", "leave", "leave-copy", "desk"]
SCORES = [0.9, 0.8, 0.7, 0.6]


class RetrievesFour(NotingRAG):
    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        return RetrievalResult(TEXTS, context_ids=IDS, scores=SCORES)


def retrieval(*, with_ids: bool = True) -> RetrievalResult:
    if with_ids:
        return RetrievalResult(TEXTS, context_ids=IDS, scores=SCORES)
    return RetrievalResult(TEXTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstWords:
    """Cuts every text behind its first words."""

    words: int
    name: str = "test.first_words"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        chunks = []
        for scored in context.chunks:
            words = scored.chunk.text.split()
            text = " ".join(words[: self.words])
            chunks.append(rewritten(scored, text, by=self.name))
        return OperatorOutput(chunks=tuple(chunks))


@dataclass(frozen=True, kw_only=True, slots=True)
class OneOfAll:
    """One chunk in the place of all."""

    name: str = "test.one_of_all"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        text = " ".join(scored.chunk.text for scored in context.chunks)
        chunk = made_from(context.chunks, text, id="all", by=self.name)
        return OperatorOutput(chunks=(chunk,))


def case_of_ids(*gold: str) -> Case:
    return Case(id="c", query="How many days of leave?", reference_context_ids=gold)


def case_of_texts(*gold: str) -> Case:
    return Case(id="c", query="How many days of leave?", reference_contexts=gold)


CASE_WITHOUT_GOLD = Case(id="c", query="?")
CASE_OF_27_DAYS = case_of_texts("27 days of leave a year")


def trace_of(case: Case, retrieved: RetrievalResult, after: RetrievalResult | None) -> Trace:
    """A trace with a retrieval and, unless it is None, what post-retrieval made of it."""
    post_retrieval = None
    if after is not None:
        post_retrieval = Outcome(status=Status.MEASURED, value=after)
    return Trace(
        case=case,
        retrieval=Outcome(status=Status.MEASURED, value=retrieved),
        generation=SKIPPED,
        post_retrieval=post_retrieval,
    )


def biography_after(
    case: Case,
    *operators: Operator,
    matching: Matching = Matching.ID,
    with_ids: bool = True,
) -> Biography:
    """Of a case whose four chunks went through the operators."""
    retrieved = retrieval(with_ids=with_ids)
    after = post_retrieved(PostRetrieval(operators=operators), case.query, retrieved)
    biography = biography_of(trace_of(case, retrieved, after), matching)
    assert biography is not None
    return biography


# --- one case


def test_gold_that_reaches_generation_is_lost_by_nobody() -> None:
    case = case_of_ids("leave-copy")

    biography = biography_after(case, Backwards(), DedupNear(), TopK(k=2))

    # Backwards: desk, leave-copy, leave, badge. DedupNear drops leave: desk, leave-copy, badge.
    (fate,) = biography.gold
    assert fate.gold == "leave-copy"
    assert fate.ranks == (3, 2, 2, 2)
    assert fate.lost_by is None


def test_the_operator_that_dropped_a_gold_chunk_is_named_with_its_last_rank() -> None:
    case = case_of_ids("badge")

    biography = biography_after(case, Backwards(), DedupNear(), TopK(k=2))

    (fate,) = biography.gold
    assert fate.gold == "badge"
    assert fate.chunk == "badge"
    assert fate.ranks == (1, 4, 3, None)
    assert biography.lost_by(fate) == "filter.top_k"
    # Ranks begin with retrieval: at the operator's position is the rank before it.
    assert fate.lost_by == 2


def test_a_chunk_without_gold_has_a_life_too() -> None:
    biography = biography_after(case_of_ids("badge"), Backwards(), DedupNear(), TopK(k=2))

    lives = {life.id: life for life in biography.lives}
    assert lives["leave"].ranks == (2, 3, None, None)
    assert lives["leave"].dropped_by == 1
    assert lives["leave"].gold == ()


def test_a_chunk_names_the_gold_that_it_holds() -> None:
    case = case_of_ids("leave-copy", "badge")

    biography = biography_after(case, TopK(k=2))

    lives = {life.id: life for life in biography.lives}
    assert lives["leave-copy"].gold == (0,)
    assert lives["badge"].gold == (1,)


def test_what_an_operator_reported_stands_at_its_position() -> None:
    biography = biography_after(case_of_ids("badge"), Backwards(), TopK(k=2))

    assert biography.notes[0] == ("4 turned",)


@pytest.mark.parametrize(
    ("operators", "ranks", "lost_by"),
    [
        pytest.param(
            [FirstWords(words=4), TopK(k=4)],
            (2, None, None),
            0,
            id="cut out of the text",
        ),
        pytest.param(
            [FirstWords(words=8), TopK(k=2)],
            (2, 2, 2),
            None,
            id="left in the shorter text",
        ),
        pytest.param(
            [FirstWords(words=8), TopK(k=1)],
            (2, 2, None),
            1,
            id="dropped with the shorter text",
        ),
        pytest.param(
            [FirstWords(words=8), FirstWords(words=3), Backwards()],
            (2, 2, None, None),
            1,
            id="cut out by the second of two cuts",
        ),
        pytest.param(
            [OneOfAll()],
            (2, 1),
            None,
            id="taken over into a new chunk",
        ),
    ],
)
def test_gold_text_is_lost_by_the_operator_that_took_it_out(
    operators: list[Operator], ranks: tuple[int | None, ...], lost_by: int | None
) -> None:
    biography = biography_after(CASE_OF_27_DAYS, *operators, matching=Matching.TEXT)

    (fate,) = biography.gold
    assert fate.ranks == ranks
    assert fate.lost_by == lost_by
    assert fate.chunk is not None


def test_gold_that_was_never_retrieved_is_not_lost() -> None:
    biography = biography_after(case_of_ids("elsewhere"), TopK(k=1))

    (fate,) = biography.gold
    assert fate.ranks == (None, None)
    assert fate.lost_by is None
    assert fate.chunk is None


def test_gold_is_lost_by_the_operator_that_left_nothing() -> None:
    biography = biography_after(case_of_ids("badge"), Threshold(min_score=2), TopK(k=4))

    (fate,) = biography.gold
    assert fate.ranks == (1, None, None)
    assert fate.lost_by == 0


def test_a_gold_id_is_lost_where_a_new_chunk_takes_its_place() -> None:
    biography = biography_after(case_of_ids("leave"), OneOfAll())

    (fate,) = biography.gold
    assert fate.ranks == (2, None)
    assert fate.lost_by == 0


def test_a_chunk_names_the_operators_that_rewrote_it() -> None:
    operators = (FirstWords(words=8), FirstWords(words=3))

    biography = biography_after(CASE_OF_27_DAYS, *operators, matching=Matching.TEXT)

    leave = biography.lives[1]
    assert leave.id == "leave"
    assert leave.rewritten == (0, 1)


def test_a_new_chunk_names_the_chunks_that_it_was_made_from() -> None:
    biography = biography_after(CASE_OF_27_DAYS, OneOfAll(), matching=Matching.TEXT)

    new_chunk = biography.lives[-1]
    assert new_chunk.id == "all"
    assert new_chunk.ranks == (None, 1)
    assert new_chunk.made_from == ("badge", "leave", "leave-copy", "desk")


def test_a_chunk_without_an_id_is_named_by_its_position() -> None:
    biography = biography_after(CASE_OF_27_DAYS, TopK(k=1), matching=Matching.TEXT, with_ids=False)

    (fate,) = biography.gold
    assert fate.chunk == "1"
    assert fate.ranks == (2, None)


@pytest.mark.parametrize("matching", [Matching.ID, Matching.DOCUMENT_ID, Matching.TEXT])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_gold_that_reaches_generation_is_what_the_rank_metrics_count(
    matching: Matching, k: int
) -> None:
    gold_texts = ("You get 27 days of leave a year", "open from 8 to 17", "gone text")
    case = replace(case_of_ids("leave", "desk", "gone"), reference_contexts=gold_texts)
    retrieved = retrieval()
    after = post_retrieved(PostRetrieval(operators=(TopK(k=k),)), "?", retrieved)

    biography = biography_of(trace_of(case, retrieved, after), matching)

    assert biography is not None
    matched = match(case, after, matching)
    assert not isinstance(matched, Skip)
    ranking = ranking_of(matched)
    reached = [fate for fate in biography.gold if fate.ranks[-1] is not None]
    share_reached = len(reached) / len(biography.gold)
    assert share_reached == set_recall(ranking)
    assert len(biography.gold) == ranking.relevant()


# --- a run


@pytest.fixture
def filtered(tmp_path: Path) -> Report:
    """A run over four cases, without near duplicates and then cut to two chunks.

    The chunks are badge, leave and desk after the first operator, badge and leave after the second.
    """
    data = [
        Case(id="kept", query="kept", reference_context_ids=("badge",)),
        Case(id="dropped", query="dropped", reference_context_ids=("leave-copy", "desk")),
        Case(id="missed", query="missed", reference_context_ids=("elsewhere",)),
        Case(id="unknown", query="unknown"),
    ]
    stage = PostRetrieval(operators=(DedupNear(), TopK(k=2)))
    folder = tmp_path / "run"
    return run(data, RetrievesFour(), folder, metrics="recall@2", post_retrieval=stage)


def test_a_report_counts_the_gold_that_was_found_and_that_reached_generation(
    filtered: Report,
) -> None:
    table = filtered.operators

    assert table is not None
    assert table.cases == 4
    assert table.judged == 3
    # badge, leave-copy, desk and elsewhere; the last is not retrieved, only badge is left.
    assert table.gold == 4
    assert table.found == 3
    assert table.kept == 1
    assert table.no_gold == (("no relevant context is known", 1),)


def test_a_report_counts_what_each_operator_dropped(filtered: Report) -> None:
    assert filtered.operators is not None
    dedup, top_k = filtered.operators.operators

    # leave-copy in each of the four cases, then desk.
    assert (dedup.given, dedup.dropped, dedup.acted) == (16, 4, 4)
    assert (top_k.given, top_k.dropped) == (12, 4)


def test_a_report_counts_the_gold_that_each_operator_lost(filtered: Report) -> None:
    assert filtered.operators is not None
    dedup, top_k = filtered.operators.operators

    assert (dedup.gold_given, dedup.gold_lost, dedup.lost_for_good) == (3, 1, 1)
    assert top_k.gold_lost == 1
    assert top_k.examples == ("dropped",)
    losers = [effect.operator for effect in filtered.operators.losers]
    assert losers == ["filter.dedup_near", "filter.top_k"]


def test_a_stored_run_reads_the_same_table_back(filtered: Report, tmp_path: Path) -> None:
    assert filtered.operators is not None
    assert report_of(tmp_path / "run").operators == filtered.operators


def test_a_row_of_a_report_names_who_lost_each_gold_context(filtered: Report) -> None:
    biography = rows(filtered)["dropped"].biography

    assert biography is not None
    leave_copy, desk = biography.gold
    assert biography.lost_by(leave_copy) == "filter.dedup_near"
    assert biography.lost_by(desk) == "filter.top_k"


def table_of_a_run(folder: Path, *operators: Operator, cases: int = 1) -> OperatorTable:
    """The operators of a run over cases with the gold chunk desk."""
    queries = [f"query {number}" for number in range(cases)]
    data = [Case(id=query, query=query, reference_context_ids=("desk",)) for query in queries]
    stage = PostRetrieval(operators=operators)
    report = run(data, RetrievesFour(), folder, metrics="recall@2", post_retrieval=stage)
    assert report.operators is not None
    return report.operators


def test_a_chunk_that_only_closes_ranks_has_not_moved(tmp_path: Path) -> None:
    table = table_of_a_run(tmp_path, DedupNear())

    # desk goes from rank 4 to 3, because leave-copy before it is dropped.
    (dedup,) = table.operators
    assert dedup.moved == 0
    assert dedup.gold_up == 1


def test_chunks_that_change_places_are_counted(tmp_path: Path) -> None:
    table = table_of_a_run(tmp_path, DedupNear(), Backwards())

    # badge, leave, desk turned: leave stays in the middle.
    _, turned = table.operators
    assert turned.moved == 2
    assert (turned.gold_up, turned.gold_down) == (1, 0)


def test_rewritten_chunks_are_counted_and_neither_dropped_nor_moved(tmp_path: Path) -> None:
    table = table_of_a_run(tmp_path, DedupNear(), FirstWords(words=2))

    _, cut = table.operators
    assert (cut.given, cut.rewritten) == (3, 3)
    assert (cut.dropped, cut.moved) == (0, 0)


def test_equal_notes_of_several_cases_are_counted_as_one(tmp_path: Path) -> None:
    table = table_of_a_run(tmp_path, TopK(k=2), Backwards(), cases=2)

    assert table.operators[1].notes == (("2 turned", 2),)


# --- counts over cases, by hand

LEAVE_AND_DESK = case_of_ids("leave", "desk")


def table_over(*biographies: Biography) -> OperatorTable:
    """Counts over cases with the ids c0, c1 and so on."""
    tally = BiographyTally()
    for number, biography in enumerate(biographies):
        tally.add(f"c{number}", biography)
    table = tally.table()
    assert table is not None
    return table


def test_an_operator_that_stands_twice_is_distinguished_by_its_step() -> None:
    biography = biography_after(LEAVE_AND_DESK, TopK(k=3), Backwards(), TopK(k=1))

    table = table_over(biography)

    lost_by_operator = [(effect.operator, effect.lost_for_good) for effect in table.operators]
    assert lost_by_operator == [
        ("filter.top_k (step 1)", 1),
        ("test.backwards", 0),
        ("filter.top_k (step 3)", 1),
    ]


def test_examples_are_the_first_five_cases_each_named_once() -> None:
    """Each case loses two gold contexts to the same operator."""
    biography = biography_after(case_of_ids("leave-copy", "desk"), TopK(k=1))
    seven_cases = [biography] * 7

    (top_k,) = table_over(*seven_cases).operators

    assert top_k.lost_for_good == 14
    assert top_k.examples == ("c0", "c1", "c2", "c3", "c4")


def test_reasons_for_unknown_gold_are_counted_the_most_frequent_first() -> None:
    judged = biography_after(LEAVE_AND_DESK, TopK(k=4))
    without_ids = biography_after(LEAVE_AND_DESK, TopK(k=4), with_ids=False)
    without_gold = biography_after(CASE_WITHOUT_GOLD, TopK(k=4))

    table = table_over(without_ids, without_gold, without_gold, judged)

    assert table.cases == 4
    assert table.judged == 1
    assert [count for _, count in table.no_gold] == [2, 1]


def test_notes_that_differ_in_numbers_alone_are_counted_together_under_the_first() -> None:
    biography = biography_after(LEAVE_AND_DESK, Backwards())
    four_turned = record.replace(biography, notes=(("4 turned",),))
    three_turned = record.replace(biography, notes=(("3 turned",),))

    table = table_over(four_turned, three_turned, four_turned)

    assert table.operators[0].notes == (("4 turned", 3),)


# --- the best order of the same chunks


def best_result(case: Case, retrieved: RetrievalResult, matching: Matching) -> RetrievalResult:
    """The same chunks in the best order."""
    best = best_order(trace_of(case, retrieved, None), matching)
    assert best is not None
    result = best.context.value
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("grades", "best_ids"),
    [
        pytest.param(
            {"leave": 1, "desk": 3}, ["desk", "leave", "badge", "leave-copy"], id="desk higher"
        ),
        pytest.param(
            {"leave": 3, "desk": 1}, ["leave", "desk", "badge", "leave-copy"], id="leave higher"
        ),
        pytest.param(
            {"leave": 2, "desk": 2, "gone": 3},
            ["leave", "desk", "badge", "leave-copy"],
            id="equal grades keep their order",
        ),
        pytest.param(
            {"badge": 0, "desk": 1},
            ["desk", "badge", "leave", "leave-copy"],
            id="grade 0 is not relevant",
        ),
        pytest.param(
            {"gone": 1}, ["badge", "leave", "leave-copy", "desk"], id="nothing relevant retrieved"
        ),
    ],
)
def test_the_best_order_has_the_highest_grades_first_and_leaves_the_rest_alone(
    grades: dict[str, int], best_ids: list[str]
) -> None:
    case = Case(id="c", query="?", grades=grades)

    best = best_result(case, retrieval(), Matching.ID)

    assert best.context_ids is not None
    assert list(best.context_ids) == best_ids


def test_texts_and_scores_go_with_their_chunk_into_the_best_order() -> None:
    case = Case(id="c", query="?", grades={"desk": 1})

    best = best_result(case, retrieval(), Matching.ID)

    assert list(best.contexts) == [DESK, BADGE, LEAVE, LEAVE_COPY]
    assert best.scores is not None
    assert list(best.scores) == [0.6, 0.9, 0.8, 0.7]


@pytest.mark.parametrize("with_ids", [True, False], ids=["with ids", "without ids"])
def test_the_best_order_is_found_by_text(with_ids: bool) -> None:
    case = Case(id="c", query="?", reference_contexts=(DESK,))

    best = best_result(case, retrieval(with_ids=with_ids), Matching.TEXT)

    assert list(best.contexts) == [DESK, BADGE, LEAVE, LEAVE_COPY]
    assert (best.context_ids is not None) is with_ids
    assert (best.scores is not None) is with_ids


def test_a_case_without_gold_has_no_best_order() -> None:
    trace = trace_of(CASE_WITHOUT_GOLD, retrieval(), None)

    assert best_order(trace, Matching.ID) is None


def test_a_case_without_a_retrieval_has_no_best_order() -> None:
    trace = Trace(case=case_of_ids("leave"), retrieval=SKIPPED, generation=SKIPPED)

    assert best_order(trace, Matching.ID) is None
