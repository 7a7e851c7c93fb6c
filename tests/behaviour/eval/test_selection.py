"""Which cases of a dataset are taken: all, the first, or a draw."""

from __future__ import annotations

from itertools import count
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Case, Selection


def ids(selection: Selection, case_ids: list[str]) -> list[str]:
    """The ids of the cases that are taken."""
    cases = [Case(id=case_id, query="q") for case_id in case_ids]
    return [case.id for case in selection.apply(cases)]


# --- all or the first


def test_without_a_selection_all_cases_are_taken() -> None:
    assert ids(Selection(), ["a", "b", "c"]) == ["a", "b", "c"]


def test_a_limit_takes_the_first_cases() -> None:
    assert ids(Selection(limit=2), ["a", "b", "c"]) == ["a", "b"]


def test_a_limit_beyond_the_end_takes_all_cases() -> None:
    assert ids(Selection(limit=9), ["a", "b"]) == ["a", "b"]


def test_a_limit_reads_no_further() -> None:
    endless = (Case(id=str(number), query="q") for number in count())

    cases = list(Selection(limit=3).apply(endless))

    assert len(cases) == 3


# --- a draw


THIRTY = [f"c{number}" for number in range(30)]
SIZES = st.integers(1, 29)
SEEDS = st.integers(0, 5)


@settings(max_examples=50)
@given(SIZES, SEEDS)
def test_a_draw_has_its_size_and_the_order_of_the_cases(size: int, seed: int) -> None:
    drawn = ids(Selection(sample=size, seed=seed), THIRTY)

    assert len(drawn) == size
    assert drawn == [case_id for case_id in THIRTY if case_id in drawn]


@settings(max_examples=50)
@given(SIZES, SEEDS, st.randoms(use_true_random=False))
def test_a_draw_is_of_the_same_cases_in_any_order(size: int, seed: int, source: Random) -> None:
    shuffled = source.sample(THIRTY, len(THIRTY))
    selection = Selection(sample=size, seed=seed)

    assert sorted(ids(selection, shuffled)) == sorted(ids(selection, THIRTY))


@settings(max_examples=50)
@given(SIZES, SEEDS)
def test_a_larger_draw_has_all_cases_of_a_smaller_one(size: int, seed: int) -> None:
    smaller = ids(Selection(sample=size, seed=seed), THIRTY)
    larger = ids(Selection(sample=size + 1, seed=seed), THIRTY)

    assert set(smaller) < set(larger)


def test_a_draw_is_fair() -> None:
    """Each of 10 cases is drawn in about half of 400 draws of 5: within five standard errors."""
    ten = THIRTY[:10]
    draws = dict.fromkeys(ten, 0)
    for seed in range(400):
        for case_id in ids(Selection(sample=5, seed=seed), ten):
            draws[case_id] += 1

    # sqrt(400 / 4) = 10 is the standard error.
    assert min(draws.values()) > 150
    assert max(draws.values()) < 250
