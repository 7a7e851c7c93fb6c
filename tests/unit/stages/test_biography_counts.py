"""What operators did over cases, and the best order of the same chunks, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragbench import Case, Matching, RetrievalResult
from ragbench.post.filter import TopK
from ragbench.post.operator import Operator
from ragbench.stages.biography import BiographyTally, best_order
from tests.unit.verbs.test_biography import Backwards, FirstWords, Four, biography, trace

LEAVE_AND_DESK = Case(id="c", query="?", reference_context_ids=("leave", "desk"))
TURNED: tuple[Operator, ...] = (Backwards(), TopK(k=2), FirstWords(words=2))


def test_each_operator_is_counted_by_what_it_was_given() -> None:
    """badge, leave, leave-copy, desk; turned; desk and leave-copy left; both cut."""
    tally = BiographyTally()
    tally.add("c", biography(LEAVE_AND_DESK, *TURNED))
    table = tally.table()
    assert table is not None
    turned, top, cut = table.operators
    assert (turned.given, turned.dropped, turned.added, turned.moved, turned.rewritten) == (
        *(4, 0, 0),
        *(4, 0),
    )
    assert (turned.gold_given, turned.gold_lost, turned.gold_up, turned.gold_down) == (2, 0, 1, 1)
    assert (top.given, top.dropped, top.moved, top.gold_given, top.gold_lost) == (4, 2, 0, 2, 1)
    assert (top.lost_for_good, top.examples, top.gold_added) == (1, ("c",), 0)
    assert (cut.given, cut.dropped, cut.rewritten, cut.moved) == (2, 0, 2, 0)
    assert (cut.gold_given, cut.gold_lost, cut.gold_up, cut.gold_down) == (1, 0, 0, 0)
    assert (table.cases, table.judged, table.gold, table.found, table.kept) == (1, 1, 2, 2, 1)
    assert turned.notes == (("4 turned", 1),)


def test_an_operator_that_stands_twice_is_distinguished_by_its_step() -> None:
    tally = BiographyTally()
    tally.add("c", biography(LEAVE_AND_DESK, TopK(k=3), Backwards(), TopK(k=1)))
    table = tally.table()
    assert table is not None
    assert [(one.operator, one.lost_for_good) for one in table.operators] == [
        ("filter.top_k (step 1)", 1),
        ("test.backwards", 0),
        ("filter.top_k (step 3)", 1),
    ]


def test_examples_are_the_first_five_cases_each_once() -> None:
    """Each loses two gold contexts to the same operator."""
    tally = BiographyTally()
    lost = replace(LEAVE_AND_DESK, reference_context_ids=("leave-copy", "desk"))
    for at in range(7):
        tally.add(f"c{at}", biography(lost, TopK(k=1)))
    table = tally.table()
    assert table is not None
    (top,) = table.operators
    assert (top.lost_for_good, top.examples) == (14, ("c0", "c1", "c2", "c3", "c4"))


def test_why_gold_is_not_known_is_counted_the_most_frequent_reason_first() -> None:
    tally = BiographyTally()
    unknown = replace(LEAVE_AND_DESK, reference_context_ids=None)
    tally.add("a", biography(LEAVE_AND_DESK, TopK(k=4), ids=False))
    tally.add("b", biography(unknown, TopK(k=4)))
    tally.add("c", biography(unknown, TopK(k=4)))
    tally.add("d", biography(LEAVE_AND_DESK, TopK(k=4)))
    table = tally.table()
    assert table is not None
    assert (table.cases, table.judged) == (4, 1)
    assert [count for _, count in table.no_gold] == [2, 1]


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
    found: RetrievalResult[Any] = Four().retrieve_with_metadata("?")
    if not ids:
        found = RetrievalResult(found.contexts)
    desk = ("The help desk is open from 8 to 17.",)
    case = Case(id="c", query="?", grades=grades, reference_contexts=None if grades else desk)
    best = best_order(replace(trace(case, found, found), post_retrieval=None), matching)
    assert best is not None
    done = best.context.value
    assert done is not None
    assert list(done.contexts) == [found.contexts[at] for at in order]
    for given, left in ((found.context_ids, done.context_ids), (found.scores, done.scores)):
        assert left == (None if given is None else [given[at] for at in order])


def test_what_was_not_retrieved_or_not_judged_has_no_best_order() -> None:
    found = Four().retrieve_with_metadata("?")
    unknown = Case(id="c", query="?")
    assert best_order(trace(unknown, found, found), Matching.ID) is None
