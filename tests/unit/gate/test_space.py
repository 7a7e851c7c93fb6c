"""A search over a space, of values that can be counted on the fingers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragbench.core.ablation import VariantReport
from ragbench.core.space_search import Choice, SearchCandidate, SpaceSearch, Standing
from ragbench.gate.space import Searched, search_result
from ragbench.metrics.registry import parse_metric
from ragbench.stats.nested import HonestGain

REPORT = VariantReport(
    name="",
    settings={},
    changes=(),
    chunks=1.0,
    tokens=1.0,
    tokens_p95=1.0,
    seconds_p50=1.0,
    seconds_p95=1.0,
    passed_over=0,
    failed=0,
    acted=1,
)
LOST_BY_ALL = (0.0,) * 12
WON_BY_ALL = (1.0,) * 12
HALVES = (0.5,) * 12


def choice(text: str, factor: str = "operator 1") -> Choice:
    return Choice(factor=factor, text=text)


def searched(
    *candidates: tuple[str, Sequence[float]],
    metric: str = "MRR",
    honest_low: float | None = 0.1,
    choices: Sequence[tuple[Choice, ...]] | None = None,
    idle: Sequence[str] = (),
) -> SpaceSearch:
    """Candidates with a value a case; the first one is held against by nobody."""
    cases = [f"q{place:02}" for place in range(len(candidates[0][1]))]
    found = Searched(
        dataset="quiz",
        rag="rag",
        metric=parse_metric(metric),
        choices=choices or [(choice(name),) for name, _ in candidates],
        trials=[
            replace(REPORT, name=name, acted=None if not at else int(name not in idle))
            for at, (name, _) in enumerate(candidates)
        ],
        seconds=[None] * len(candidates),
        values=[dict(zip(cases, values, strict=True)) for _, values in candidates],
        clusters=dict.fromkeys([*cases, "left out"]),
        notes=(),
    )
    chosen = (1 / len(candidates),) * len(candidates)
    honest = HonestGain(
        gain=0.2, low=honest_low, high=0.3, chosen=chosen, cases=len(cases), clusters=len(cases)
    )
    return search_result(found, honest, confidence=0.95, folds=5, partitions=50, seed=0)


def by_name(found: SpaceSearch) -> dict[str, SearchCandidate]:
    return {one.name: one for one in found.candidates}


def standings(found: SpaceSearch) -> dict[str, Standing]:
    """Of the choices."""
    return {one.choice.text: one.standing for one in found.choices}


def test_of_equal_means_the_first_is_the_best() -> None:
    found = searched(("first", (0.0, 1.0)), ("one", (1.0, 1.0)), ("two", (1.0, 1.0)))
    assert found.best == "one"
    assert searched(("first", (1.0, 1.0)), ("one", (1.0, 1.0))).best == "first"
    scores = [(one.score, one.difference) for one in found.candidates]
    assert scores == [(0.5, 0.0), (1.0, 0.5), (1.0, 0.5)]


def test_the_best_is_kept_only_where_its_honest_gain_is_above_nothing() -> None:
    pair = ("first", (0.0, 0.0, 0.0)), ("new", (1.0, 1.0, 1.0))
    assert searched(*pair, honest_low=0.001).kept == "new"
    for low in (0.0, -0.1, None):
        found = searched(*pair, honest_low=low)
        assert (found.kept, found.best) == ("first", "new")
        assert found.sentence.startswith(
            "By MRR: keep first; new has the best mean, which luck may explain"
        )


def test_where_the_first_is_the_best_it_is_kept_without_a_word_of_luck() -> None:
    found = searched(("first", (1.0, 1.0)), ("new", (0.0, 1.0)))
    assert (found.first, found.kept, found.best) == ("first", "first", "first")
    assert found.naive == 0.0
    assert found.sentence == "By MRR: keep first; new: not distinguishable."


def test_the_naive_gain_is_that_of_all_cases_with_students_interval() -> None:
    """Gains of 1, 0, 1, 0: a mean of 1/2, a standard error of sqrt(1/12), t(3) = 3.1824."""
    found = searched(("first", (0.0,) * 4), ("new", (1.0, 0.0, 1.0, 0.0)))
    assert (found.cases, found.left_out, found.naive) == (4, 1, 0.5)
    low = 0.5 - 3.182446 * (1 / 12) ** 0.5
    assert (found.naive_low, found.naive_high) == pytest.approx((low, 1.0))  # no gain is above 1


def test_no_gain_reaches_beyond_the_scale_and_without_one_none_is_cut() -> None:
    """Gains of 1, -1, 1, 1 of tokens: their error is .5, and t(3) = 3.1824."""
    pair = ("first", (0.0,) * 4), ("new", (1.0, 0.0, 1.0, 1.0))
    bounded = searched(*pair, honest_low=-1.5)
    assert (bounded.honest_low, bounded.honest_high) == (-1.0, 0.3)
    tokens = ("first", (3.0, 3.0, 3.0, 3.0)), ("new", (2.0, 4.0, 2.0, 2.0))
    found = searched(*tokens, metric="total_tokens", honest_low=-1.5)
    assert found.honest_low == -1.5
    reach = 3.182446 * 0.5
    assert (found.naive_low, found.naive_high) == pytest.approx((0.5 - reach, 0.5 + reach))


def test_a_gain_is_above_nothing_where_lower_is_better_too() -> None:
    found = searched(("first", (3.0, 3.0)), ("new", (1.0, 2.0)), metric="total_tokens")
    assert (found.best, found.naive) == ("new", 1.5)
    assert by_name(found)["new"].difference == -1.5


def test_p_values_are_multiplied_by_the_number_that_might_have_been_best() -> None:
    """Twelve of twelve cases lost: 2 of 2^12 arrangements. Two may be best, so twice that."""
    found = searched(("first", LOST_BY_ALL), ("new", WON_BY_ALL))
    assert by_name(found)["first"].p_value == 2 * 2 / 2**12
    assert by_name(found)["new"].p_value is None
    # A third one that is just as good is not tested, and might have been the best.
    found = searched(("first", LOST_BY_ALL), ("new", WON_BY_ALL), ("same", WON_BY_ALL))
    assert by_name(found)["first"].p_value == 3 * 2 / 2**12
    assert by_name(found)["same"].p_value is None
    assert by_name(found)["same"].standing is Standing.OPEN


def test_what_could_never_be_shown_makes_no_correction_stricter() -> None:
    """Six cases give no p below 2 / 2^6, above a level of .05 / 3: only the other one is tested."""
    found = searched(
        ("first", (0.0,) * 10 + (1.0,) * 2), ("few", (0.0,) * 6 + (0.5,) * 6), ("new", HALVES)
    )
    assert by_name(found)["few"].p_value == 3 * 2 / 2**6


@pytest.mark.parametrize(
    ("lost", "p_value", "standing"),
    [
        (7, 2 * 2 / 2**7, Standing.FIRST),
        (6, 2 * 2 / 2**6, Standing.OPEN),
        (1, 1.0, Standing.OPEN),
    ],
)
def test_what_can_be_luck_is_not_worse(lost: int, p_value: float, standing: Standing) -> None:
    """2 * 2 / 2^7 is .03; 2 * 2 / 2^6 is above .05; no p-value is above 1."""
    values = (0.0,) * lost + (1.0,) * (12 - lost)
    found = by_name(searched(("first", values), ("new", WON_BY_ALL)))["first"]
    assert (found.p_value, found.standing) == (p_value, standing)


def test_another_candidate_is_worse_the_first_is_the_first_and_one_without_effect_is_idle() -> None:
    found = searched(
        ("first", LOST_BY_ALL),
        ("bad", LOST_BY_ALL),
        ("good", WON_BY_ALL),
        ("idle", LOST_BY_ALL),
        idle=["idle"],
    )
    assert [one.standing for one in found.candidates] == [
        Standing.FIRST,
        Standing.WORSE,
        Standing.BEST,
        Standing.IDLE,
    ]
    # Of choices nothing is compared with the first one: it is worse, too.
    assert standings(found)["first"] is Standing.WORSE
    assert found.sentence == "By MRR: keep good; first, bad: worse; idle: did not act."


def test_a_choice_stands_where_its_best_candidate_does() -> None:
    """Both operators help, the second one more; the first alone leaves all as it was."""
    none, one, two = choice("none"), choice("one"), choice("two", "operator 2")
    without = choice("without", "operator 2")
    found = searched(
        ("neither", LOST_BY_ALL),
        ("one", LOST_BY_ALL),
        ("two", (1.0,) * 11 + (0.0,)),
        ("both", WON_BY_ALL),
        choices=[(none, without), (one, without), (none, two), (one, two)],
    )
    assert standings(found) == {
        "none": Standing.OPEN,
        "one": Standing.BEST,
        "without": Standing.WORSE,
        "two": Standing.BEST,
    }
    reports = {each.choice.text: (each.best, each.score) for each in found.choices}
    assert reports["none"] == ("two", 11 / 12)
    assert reports["without"] == ("neither", 0.0)
    assert reports["one"] == ("both", 1.0)


def test_where_lower_is_better_a_choice_stands_where_its_lowest_candidate_does() -> None:
    none, one = choice("none"), choice("one")
    small, large = choice("small", "operator 2"), choice("large", "operator 2")
    found = searched(
        ("first", (9.0,) * 12),
        ("least", (1.0,) * 12),
        ("less", (5.0,) * 12),
        metric="total_tokens",
        choices=[(none, large), (one, small), (none, small)],
    )
    reports = {each.choice.text: (each.best, each.score) for each in found.choices}
    assert reports == {
        "none": ("less", 5.0),
        "one": ("least", 1.0),
        "large": ("first", 9.0),
        "small": ("least", 1.0),
    }
    assert [one.choice.text for one in found.choices if one.standing is Standing.WORSE] == [
        "none",
        "large",
    ]


def test_a_choice_that_changes_nothing_alone_did_not_act_though_the_best_one_takes_it() -> None:
    none, one = choice("none"), choice("one")
    without, two = choice("without", "operator 2"), choice("two", "operator 2")
    found = searched(
        ("neither", LOST_BY_ALL),
        ("one", LOST_BY_ALL),
        ("both", WON_BY_ALL),
        choices=[(none, without), (one, without), (one, two)],
        idle=["one"],
    )
    assert standings(found)["one"] is Standing.IDLE


@pytest.mark.parametrize(("others", "told"), [(3, "b0, b1, b2: worse"), (4, "and 1 more: worse")])
def test_the_sentence_names_three_of_a_kind(others: int, told: str) -> None:
    found = searched(("good", WON_BY_ALL), *((f"b{at}", LOST_BY_ALL) for at in range(others)))
    assert told in found.sentence
    assert "b3" not in found.sentence
