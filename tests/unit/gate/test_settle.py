"""Which cases are asked about again, and what the answers decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from ragbench.stats.bets import MeanBet
from ragbench.verbs.settle import SettleQuestion, Settling

Answers = list[Mapping[str, float | None]]
"""Of each case that was drawn: its new difference, by metric; None where it was not measured."""


def question(
    differences: Mapping[str, float], *, metric: str = "m", tolerance: float = 0.02
) -> SettleQuestion:
    return SettleQuestion(metric=metric, tolerance=tolerance, scale=1.0, differences=differences)


# --- which cases are drawn


@pytest.fixture(name="draws_of_two_that_flip", scope="module")
def draws_where_two_of_a_hundred_cases_flip() -> list[str]:
    """A thousand draws, once ten rounds have shown that q000 and q001 flip and no case else."""
    differences = {f"q{number:03}": 0.0 for number in range(100)}
    differences["q000"] = 1.0
    differences["q001"] = -1.0
    settling = Settling([question(differences)], alpha=0.001)
    for _ in range(10):
        answers: Answers = []
        for position, case_id in enumerate(settling.draw(100)):
            if case_id in ("q000", "q001"):
                answers.append({"m": float(position % 3 - 1)})  # -1, 0 or 1
            else:
                answers.append({"m": 0.0})
        settling.see(answers)
    return list(settling.draw(1_000))


def test_cases_that_carry_the_variance_are_asked_about_most(
    draws_of_two_that_flip: list[str],
) -> None:
    draws_of_the_two = draws_of_two_that_flip.count("q000") + draws_of_two_that_flip.count("q001")

    # 20 if all cases were alike.
    assert draws_of_the_two > 100


def test_cases_that_never_moved_are_asked_about_too(draws_of_two_that_flip: list[str]) -> None:
    assert len(set(draws_of_two_that_flip)) > 90


def test_the_draws_of_a_seed_are_the_same_on_every_machine() -> None:
    case_ids = [f"q{number:02}" for number in range(40)]
    settling = Settling([question(dict.fromkeys(case_ids, 0.0))], alpha=0.05, seed=3)

    assert list(settling.draw(6)) == ["q03", "q09", "q32", "q23", "q03", "q17"]
    # The next draw goes on in the stream.
    assert list(settling.draw(6)) != ["q03", "q09", "q32", "q23", "q03", "q17"]


def test_the_order_of_the_cases_changes_no_draw() -> None:
    case_ids = [f"q{number:02}" for number in range(40)]
    settling = Settling([question(dict.fromkeys(case_ids, 0.0))], alpha=0.05, seed=3)
    reversed_cases = question(dict.fromkeys(case_ids[::-1], 0.0))
    settling_in_reverse = Settling([reversed_cases], alpha=0.05, seed=3)

    for _ in range(2):
        assert settling.draw(6) == settling_in_reverse.draw(6)


# --- what the answers decide


def test_metrics_share_the_answers_and_the_level() -> None:
    # Metric m lost half of its ten cases; n is of the five lost ones, and did not move.
    losing = {f"q{number}": -1.0 if number < 5 else 0.0 for number in range(10)}
    still = {"q0": 0.0, "q1": 0.0, "q2": 0.0, "q3": 0.0, "q4": 0.0}
    settling = Settling([question(losing), question(still, metric="n")], alpha=0.05)
    case_ids = settling.draw(100)
    answers: Answers = []
    for case_id in case_ids:
        answer_of_n = None if case_id == "q0" else still.get(case_id)
        answers.append({"m": losing[case_id], "n": answer_of_n})

    settling.see(answers)

    outcomes = settling.settled()
    assert settling.is_done
    assert outcomes["m"].change == "worse"
    assert outcomes["m"].level == 0.05 / 2
    assert outcomes["n"].asked == 100
    assert outcomes["n"].unmeasured == case_ids.count("q0")
    assert outcomes["n"].drop == pytest.approx(0.0)


def settled_by_hand(
    questions: Sequence[SettleQuestion], rounds: Sequence[tuple[Sequence[str], Answers]]
) -> dict[str, MeanBet]:
    """The bets on ``mean(c) + (D - c) / (n q)``, case by case.

    c is the centre of a case's differences so far, D its new one, n the number of the metric's
    cases, and q the chance that the case is drawn.
    """
    pool: set[str] = set()
    differences: dict[str, dict[str, list[float]]] = {}
    bets: dict[str, MeanBet] = {}
    prior: dict[str, float] = {}
    for q in questions:
        pool.update(q.differences)
        differences[q.metric] = {case_id: [value] for case_id, value in q.differences.items()}
        bets[q.metric] = MeanBet(limit=-q.tolerance, scale=q.scale)
        mean_square = sum(value**2 for value in q.differences.values()) / len(q.differences)
        prior[q.metric] = max(mean_square, (q.scale / 1000) ** 2)

    for case_ids, answers in rounds:
        centres: dict[str, dict[str, float]] = {}
        variance = dict.fromkeys(pool, 0.0)
        for q in questions:
            centres[q.metric] = {}
            # A metric of few cases needs each of them more.
            weight = (len(pool) / len(q.differences) / q.scale) ** 2
            for case_id, values in differences[q.metric].items():
                # One value more than there are: a 0 that shrinks the centre.
                centre = sum(values) / (len(values) + 1)
                squares = sum((value - centre) ** 2 for value in values)
                centres[q.metric][case_id] = centre
                variance[case_id] += (squares + prior[q.metric]) / (len(values) + 1) * weight

        # Half of the draws go to all cases alike, half by the standard deviation.
        total_deviation = sum(math.sqrt(variance[case_id]) for case_id in pool)
        chance: dict[str, float] = {}
        for case_id in pool:
            share = math.sqrt(variance[case_id]) / total_deviation
            chance[case_id] = 0.5 / len(pool) + 0.5 * share

        for q in questions:
            centre_of = centres[q.metric]
            mean = sum(centre_of.values()) / len(centre_of)
            # How far the estimate can lie from the mean; a case of another metric leaves it there.
            lowest = mean
            highest = mean
            reach: dict[str, float] = {}
            for case_id, centre in centre_of.items():
                reach[case_id] = 1 / (len(centre_of) * chance[case_id])
                lowest = min(lowest, mean + (-q.scale - centre) * reach[case_id])
                highest = max(highest, mean + (q.scale - centre) * reach[case_id])
            for case_id, answer in zip(case_ids, answers, strict=True):
                estimate = mean
                if case_id in centre_of:
                    difference = answer[q.metric] or 0.0
                    estimate += (difference - centre_of[case_id]) * reach[case_id]
                    differences[q.metric][case_id].append(difference)
                bets[q.metric].see(estimate, lowest=lowest, highest=highest)
    return bets


@pytest.mark.parametrize("scale", [1.0, 5.0])
@pytest.mark.parametrize(
    "first_differences",
    [(1.0, 0.0, -0.5), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)],
    ids=["mixed", "still", "all risen"],
)
def test_estimates_and_p_values_are_those_of_plain_arithmetic(
    scale: float, first_differences: tuple[float, float, float]
) -> None:
    """Two metrics, one of a few cases and another scale, over three rounds."""
    a, b, c = first_differences
    differences_of_m = {"a": scale * a, "b": scale * b, "c": scale * c}
    differences_of_n = {"b": 0.25, "d": -0.25}
    questions = [
        SettleQuestion(metric="m", tolerance=0.02, scale=scale, differences=differences_of_m),
        SettleQuestion(metric="n", tolerance=0.05, scale=2.0, differences=differences_of_n),
    ]
    settling = Settling(questions, alpha=0.05)
    rounds: list[tuple[Sequence[str], Answers]] = []
    for _ in range(3):
        case_ids = settling.draw(12)
        answers: Answers = []
        for position, case_id in enumerate(case_ids):
            answer_of_m = -scale * (position % 2) if case_id == "a" else None
            answers.append({"m": answer_of_m, "n": 0.5 * (position % 3) - 0.25})
        settling.see(answers)
        rounds.append((case_ids, answers))

    outcomes = settling.settled()

    for metric, bet in settled_by_hand(questions, rounds).items():
        assert bet.mean is not None
        assert outcomes[metric].drop == pytest.approx(-bet.mean)
        assert outcomes[metric].p_worse == pytest.approx(bet.p_below)
        assert outcomes[metric].p_not_worse == pytest.approx(bet.p_above)
