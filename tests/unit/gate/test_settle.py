"""Which cases are asked about again, and what the answers decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from ragbench.stats.bets import MeanBet
from ragbench.verbs.settle import SettleQuestion, Settling

Answers = list[Mapping[str, float | None]]
"""Of each case that was drawn: its new difference, by metric; None where it was not measured."""


def question_of(differences: Mapping[str, float], *, metric: str = "m") -> SettleQuestion:
    """Whether a metric that moved so in each case is down by more than 0.02."""
    return SettleQuestion(metric=metric, tolerance=0.02, scale=1.0, differences=differences)


# --- which cases are drawn


@pytest.fixture(name="draws_of_two_that_flip", scope="module")
def draws_where_two_of_a_hundred_cases_flip() -> list[str]:
    """A thousand draws, once ten rounds have shown that q000 and q001 flip and no case else."""
    differences = {f"q{number:03}": 0.0 for number in range(100)}
    differences["q000"] = 1.0
    differences["q001"] = -1.0
    settling = Settling([question_of(differences)], alpha=0.001)

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
    draws_of_q000 = draws_of_two_that_flip.count("q000")
    draws_of_q001 = draws_of_two_that_flip.count("q001")

    # 20 if all cases were alike.
    assert draws_of_q000 + draws_of_q001 > 100


def test_cases_that_never_moved_are_asked_about_too(draws_of_two_that_flip: list[str]) -> None:
    assert len(set(draws_of_two_that_flip)) > 90


def test_the_draws_of_a_seed_are_the_same_on_every_machine() -> None:
    case_ids = [f"q{number:02}" for number in range(40)]
    unchanged = question_of(dict.fromkeys(case_ids, 0.0))
    settling = Settling([unchanged], alpha=0.05, seed=3)

    drawn = list(settling.draw(6))
    drawn_next = list(settling.draw(6))

    assert drawn == ["q03", "q09", "q32", "q23", "q03", "q17"]
    # The next draw goes on in the stream.
    assert drawn_next != drawn


def test_the_order_of_the_cases_changes_no_draw() -> None:
    case_ids = [f"q{number:02}" for number in range(40)]
    cases_in_order = question_of(dict.fromkeys(case_ids, 0.0))
    reversed_cases = question_of(dict.fromkeys(case_ids[::-1], 0.0))
    settling = Settling([cases_in_order], alpha=0.05, seed=3)
    settling_in_reverse = Settling([reversed_cases], alpha=0.05, seed=3)

    for _ in range(2):
        assert settling.draw(6) == settling_in_reverse.draw(6)


# --- what the answers decide


def test_metrics_share_the_answers_and_the_level() -> None:
    # Metric m lost half of its ten cases; n is of the five lost ones, and did not move.
    lost_ids = ["q0", "q1", "q2", "q3", "q4"]
    unmoved_ids = ["q5", "q6", "q7", "q8", "q9"]
    losing = dict.fromkeys(lost_ids, -1.0) | dict.fromkeys(unmoved_ids, 0.0)
    still = dict.fromkeys(lost_ids, 0.0)
    settling = Settling([question_of(losing), question_of(still, metric="n")], alpha=0.05)
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


def shrunk_mean(values: Sequence[float]) -> float:
    """Divided by one value more than there are: a 0 that shrinks it."""
    return sum(values) / (len(values) + 1)


def squares_about(centre: float, values: Sequence[float]) -> float:
    return sum((value - centre) ** 2 for value in values)


def chances_of_being_drawn(variances: Mapping[str, float]) -> dict[str, float]:
    """Half of the draws go to all cases alike, half by the standard deviation."""
    deviations = {case_id: math.sqrt(variance) for case_id, variance in variances.items()}
    total_deviation = sum(deviations.values())
    chances: dict[str, float] = {}
    for case_id, deviation in deviations.items():
        share = deviation / total_deviation
        chances[case_id] = 0.5 / len(variances) + 0.5 * share
    return chances


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
    priors: dict[str, float] = {}
    for question in questions:
        metric = question.metric
        pool.update(question.differences)
        differences[metric] = {
            case_id: [difference] for case_id, difference in question.differences.items()
        }
        bets[metric] = MeanBet(limit=-question.tolerance, scale=question.scale)
        squares = squares_about(0.0, [*question.differences.values()])
        mean_square = squares / len(question.differences)
        priors[metric] = max(mean_square, (question.scale / 1000) ** 2)

    for case_ids, answers in rounds:
        centres: dict[str, dict[str, float]] = {}
        variances = dict.fromkeys(pool, 0.0)
        for question in questions:
            metric = question.metric
            centres[metric] = {}
            # A metric of few cases needs each of them more.
            cases_per_case = len(pool) / len(question.differences)
            weight = (cases_per_case / question.scale) ** 2
            for case_id, values in differences[metric].items():
                centre = shrunk_mean(values)
                centres[metric][case_id] = centre
                squares = squares_about(centre, values) + priors[metric]
                variances[case_id] += squares / (len(values) + 1) * weight

        chances = chances_of_being_drawn(variances)

        for question in questions:
            metric = question.metric
            centre_of = centres[metric]
            mean = sum(centre_of.values()) / len(centre_of)
            # How far the estimate can lie from the mean; a case of another metric leaves it there.
            lowest = mean
            highest = mean
            reach: dict[str, float] = {}
            for case_id, centre in centre_of.items():
                reach[case_id] = 1 / (len(centre_of) * chances[case_id])
                lowest_of_case = mean + (-question.scale - centre) * reach[case_id]
                highest_of_case = mean + (question.scale - centre) * reach[case_id]
                lowest = min(lowest, lowest_of_case)
                highest = max(highest, highest_of_case)
            for case_id, answer in zip(case_ids, answers, strict=True):
                estimate = mean
                if case_id in centre_of:
                    difference = answer[metric] or 0.0
                    estimate += (difference - centre_of[case_id]) * reach[case_id]
                    differences[metric][case_id].append(difference)
                bets[metric].see(estimate, lowest=lowest, highest=highest)
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
            answer_of_n = 0.5 * (position % 3) - 0.25  # -0.25, 0.25 or 0.75
            answers.append({"m": answer_of_m, "n": answer_of_n})
        settling.see(answers)
        rounds.append((case_ids, answers))
    bets = settled_by_hand(questions, rounds)

    outcomes = settling.settled()

    for metric, bet in bets.items():
        assert bet.mean is not None
        assert outcomes[metric].drop == pytest.approx(-bet.mean)
        assert outcomes[metric].p_worse == pytest.approx(bet.p_below)
        assert outcomes[metric].p_not_worse == pytest.approx(bet.p_above)
