from __future__ import annotations

from itertools import count
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ragbench import Case, Selection


def cases(*ids: object) -> list[Case]:
    return [Case(id=str(name), query="q") for name in ids]


def ids(selection: Selection, *names: object) -> list[str]:
    return [case.id for case in selection.apply(cases(*names))]


def test_all_cases_or_the_first() -> None:
    assert ids(Selection(), *range(4)) == ["0", "1", "2", "3"]
    assert ids(Selection(limit=2), *range(4)) == ["0", "1"]
    assert ids(Selection(limit=9), *range(2)) == ["0", "1"]
    endless = (Case(id=str(number), query="q") for number in count())
    assert len(list(Selection(limit=3).apply(endless))) == 3  # it reads no further


@given(st.integers(1, 29), st.integers(0, 5), st.randoms(use_true_random=False))
def test_a_draw_is_the_same_in_any_order_and_a_larger_one_holds_it(
    size: int, seed: int, random: Random
) -> None:
    names = [f"c{n}" for n in range(30)]
    shuffled = random.sample(names, len(names))
    drawn = ids(Selection(sample=size, seed=seed), *names)
    assert sorted(drawn) == sorted(ids(Selection(sample=size, seed=seed), *shuffled))
    assert len(drawn) == size
    assert drawn == [name for name in names if name in drawn]
    assert {*drawn} < {*ids(Selection(sample=size + 1, seed=seed), *names)}


def test_a_draw_is_fair() -> None:
    """Each of 10 cases is drawn in about half of 400 draws of 5: within five standard errors."""
    counts = dict.fromkeys(map(str, range(10)), 0)
    for seed in range(400):
        for name in ids(Selection(sample=5, seed=seed), *range(10)):
            counts[name] += 1
    assert all(abs(count - 200) < 50 for count in counts.values())
