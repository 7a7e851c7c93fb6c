"""Which cases are asked about again, and what the answers decide."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from ragbench.stats.bets import MeanBet
from ragbench.verbs.settle import SettleQuestion, Settling


def question(
    differences: Mapping[str, float], *, metric: str = "m", tolerance: float = 0.02
) -> SettleQuestion:
    return SettleQuestion(metric=metric, tolerance=tolerance, scale=1.0, differences=differences)


def test_cases_that_carry_the_variance_are_asked_about_most() -> None:
    differences = {f"q{place:03}": 0.0 for place in range(100)}
    differences |= {"q000": 1.0, "q001": -1.0}
    settling = Settling([question(differences)], alpha=0.001)
    for _ in range(10):  # both flip, all others stay as they are
        drawn = settling.draw(100)
        settling.see(
            [{"m": float(at % 3 - 1) if id_ < "q002" else 0.0} for at, id_ in enumerate(drawn)]
        )
    found = Counter(settling.draw(1_000))
    assert found["q000"] + found["q001"] > 100  # 20 if all were alike
    assert len(found) > 90  # and nobody is forgotten


def test_metrics_share_the_answers_and_the_level() -> None:
    losing = {f"q{place}": -1.0 if place < 5 else 0.0 for place in range(10)}
    still = dict.fromkeys(list(losing)[:5], 0.0)
    settling = Settling([question(losing), question(still, metric="n")], alpha=0.05)
    drawn = settling.draw(100)
    settling.see(
        [{"m": losing[id_], "n": None if id_ == "q0" else still.get(id_)} for id_ in drawn]
    )
    found = settling.settled()
    assert settling.is_done
    assert found["m"].change == "worse"
    assert (found["m"].level, found["n"].asked) == (0.025, 100)
    assert found["n"].unmeasured == drawn.count("q0")
    assert found["n"].drop == pytest.approx(0.0)


def settled_by_hand(
    questions: Sequence[SettleQuestion],
    rounds: Sequence[tuple[Sequence[str], Sequence[Mapping[str, float | None]]]],
) -> dict[str, MeanBet]:
    """The bets on ``mean(c) + (D - c) / (n q)``, case by case."""
    pool = {id_ for question in questions for id_ in question.differences}
    said = {q.metric: {id_: [d] for id_, d in q.differences.items()} for q in questions}
    bets = {q.metric: MeanBet(limit=-q.tolerance, scale=q.scale) for q in questions}
    prior = {
        q.metric: max(
            sum(d * d for d in q.differences.values()) / len(q.differences), (q.scale / 1000) ** 2
        )
        for q in questions
    }
    for drawn, answers in rounds:
        centre = {
            metric: {id_: sum(values) / (len(values) + 1) for id_, values in cases.items()}
            for metric, cases in said.items()
        }
        spread = dict.fromkeys(pool, 0.0)
        for q in questions:
            for id_, values in said[q.metric].items():
                around = sum((value - centre[q.metric][id_]) ** 2 for value in values)
                own = (around + prior[q.metric]) / (len(values) + 1)
                spread[id_] += own * (len(pool) / len(q.differences) / q.scale) ** 2
        total = sum(map(math.sqrt, spread.values()))
        chance = {
            id_: 0.5 / len(pool) + 0.5 * math.sqrt(each) / total for id_, each in spread.items()
        }
        for q in questions:
            cases = centre[q.metric]
            reach = {id_: 1 / (len(cases) * chance[id_]) for id_ in cases}
            mean = sum(cases.values()) / len(cases)
            lowest = mean + min(0.0, *((-q.scale - c) * reach[id_] for id_, c in cases.items()))
            highest = mean + max(0.0, *((q.scale - c) * reach[id_] for id_, c in cases.items()))
            for id_, answer in zip(drawn, answers, strict=True):
                found = mean
                if id_ in cases:
                    value = answer[q.metric] or 0.0
                    found += (value - cases[id_]) * reach[id_]
                    said[q.metric][id_].append(value)
                bets[q.metric].see(found, lowest=lowest, highest=highest)
    return bets


@pytest.mark.parametrize("scale", [1.0, 5.0])
@pytest.mark.parametrize("first", [(1.0, 0.0, -0.5), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)])
def test_estimates_and_p_values_are_those_of_plain_arithmetic(
    scale: float, first: tuple[float, ...]
) -> None:
    """Two metrics, one of a few cases and another scale, over three rounds."""
    m = {id_: scale * value for id_, value in zip("abc", first, strict=True)}
    n = {"b": 0.25, "d": -0.25}
    questions = [
        SettleQuestion(metric="m", tolerance=0.02, scale=scale, differences=m),
        SettleQuestion(metric="n", tolerance=0.05, scale=2.0, differences=n),
    ]
    settling = Settling(questions, alpha=0.05)
    rounds: list[tuple[Sequence[str], Sequence[Mapping[str, float | None]]]] = []
    for _ in range(3):
        drawn = settling.draw(12)
        answers = [
            {"m": -scale * (at % 2) if id_ == "a" else None, "n": 0.5 * (at % 3) - 0.25}
            for at, id_ in enumerate(drawn)
        ]
        settling.see(answers)
        rounds.append((drawn, answers))
    for metric, bet in settled_by_hand(questions, rounds).items():
        found = settling.settled()[metric]
        assert bet.mean is not None and found.drop == pytest.approx(-bet.mean)
        assert found.p_worse == pytest.approx(bet.p_below)
        assert found.p_not_worse == pytest.approx(bet.p_above)


def test_the_draws_of_a_seed_are_the_same_on_every_machine() -> None:
    """Whatever the order in which the cases came."""
    cases = [f"q{place:02}" for place in range(40)]
    one, other = (
        Settling([question(dict.fromkeys(order, 0.0))], alpha=0.05, seed=3)
        for order in (cases, cases[::-1])
    )
    expected = ["q03", "q09", "q32", "q23", "q03", "q17"]
    assert one.draw(6) == other.draw(6) == expected
    assert one.draw(6) == other.draw(6) != expected
