"""What a system says of its own answer: other candidates, its confidence, that it declines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Annotated, Literal

from ragbench.core.metric import Skip
from ragbench.metrics.answer import edit_similarity, exact_match, token_f1
from ragbench.metrics.metric import AtLeast, metric

_Name = Literal["token_f1", "exact_match", "edit_similarity"]
_MEASURES: dict[str, Callable[[str, str], float]] = {
    "token_f1": token_f1,
    "exact_match": exact_match,
    "edit_similarity": edit_similarity,
}

Correct = Annotated[_Name, "the metric that decides whether an answer is correct"]
Threshold = Annotated[
    float, AtLeast(0.0), "the answer is correct when that metric gives at least this much"
]


@metric(
    group="generator",
    abstains=True,
    cite="oracle best-of-n, as in Brown et al. 2024, Large Language Monkeys, 2407.21787",
)
def best_of_n(
    multi_responses: Sequence[str],
    references: Sequence[str],
    *,
    n: Annotated[int, AtLeast(0), "how many candidates; 0 takes all there are"] = 0,
    metric: Annotated[_Name, "the metric that scores each candidate"] = "token_f1",
) -> float:
    """Score of the best of the first n candidates: the score of a perfect choice.

    A candidate is one of several answers that a system generated for a question. The distance to
    the score of its chosen answer shows what a better choice among them would bring. Stored scores
    of runs are compared by ``version``: raise it in the decorator with a change of values.
    """
    candidates = multi_responses[:n] if n else multi_responses
    return max([_best_score(metric, candidate, references) for candidate in candidates])


@metric(
    group="generator",
    direction="neither",
    cite="lexical similarity of Kuhn, Gal and Farquhar 2023, Semantic Uncertainty, "
    "arXiv:2302.09664, with token F1 in place of ROUGE-L",
)
def candidate_agreement(multi_responses: Sequence[str]) -> float | Skip:
    """Mean token F1 over all pairs of candidates: how alike they are.

    A candidate is one of several answers that a system generated for a question. Candidates that
    differ are a sign that the system does not know; neither direction is better by itself. Stored
    scores of runs are compared by ``version``: raise it in the decorator with a change of values.
    """
    pairs = list(combinations(multi_responses, 2))
    if not pairs:
        return _TOO_FEW
    return sum([token_f1(first, second) for first, second in pairs]) / len(pairs)


@metric(
    group="generator",
    abstains=True,
    direction="lower",
    cite="Brier 1950, Verification of Forecasts Expressed in Terms of Probability",
)
def brier(
    response: str,
    references: Sequence[str],
    confidence: float,
    *,
    by: Correct = "token_f1",
    threshold: Threshold = 0.5,
) -> float:
    """(confidence - correct)^2, where correct is 1 or 0.

    Low where a system is sure of its right answers and unsure of its wrong ones. The confidence is
    what the system reports of its answer, 0 to 1. Stored scores of runs are compared by
    ``version``: raise it in the decorator with a change of values.
    """
    return calibration_gap(response, references, confidence, by=by, threshold=threshold) ** 2


def expected_calibration_error(gaps: Iterable[float], *, bins: int = 10) -> float:
    """The mean over confidence bins of |accuracy - mean confidence|, weighted by the bins' sizes.

    Since accuracy minus mean confidence, times the bin's size, is the sum of the bin's gaps, the
    gaps alone are enough: a positive gap shows that the answer was correct and its confidence 1 -
    gap, a negative one that it was wrong and its confidence -gap. A gap of 0 adds nothing,
    whichever bin it is in. Bins are [0, 1/n), [1/n, 2/n) ... [(n-1)/n, 1].

    Returns:
        A value in [0, 1].
    """
    sums: dict[int, list[float]] = {}
    total = 0
    for gap in gaps:
        total += 1
        confidence = 1 - gap if gap > 0 else -gap
        # 1 - (1 - 0.3) is a little more than 0.3: rounding keeps it in its bin. Nine places are
        # finer than any confidence that a system reports.
        position = min(math.floor(round(confidence * bins, 9)), bins - 1)
        sums.setdefault(position, []).append(gap)
    return sum(abs(math.fsum(sums[position])) for position in sorted(sums)) / total


@metric(
    name="ECE",
    group="generator",
    abstains=True,
    direction="lower",
    low=-1.0,
    aliases=("expected_calibration_error",),
    aggregate=expected_calibration_error,
    cite="Naeini, Cooper and Hauskrecht 2015; Guo et al. 2017, arXiv:1706.04599",
)
def calibration_gap(
    response: str,
    references: Sequence[str],
    confidence: float,
    *,
    bins: Annotated[int, AtLeast(1), "bins of equal width over [0, 1]"] = 10,
    by: Correct = "token_f1",
    threshold: Threshold = 0.5,
) -> float:
    """Expected calibration error; a case's own value is correct - confidence.

    The confidence is the system's own, which it states with its answer, as it may state other
    candidates: all such metrics are in this file. The value is positive when the system was too
    modest, negative when it was too sure of itself. The run's figure, ECE, is made of the gaps of
    all cases by `expected_calibration_error`: that is why a case's own value keeps its sign, which
    tells the figure whether the answer was correct. Stored scores of runs are compared by
    ``version``: raise it in the decorator with a change of values.
    """
    del bins  # only the run's figure has bins
    correct = float(_best_score(by, response, references) >= threshold)
    return correct - confidence


_TOO_FEW = Skip("fewer than two candidates")


def _best_score(name: str, answer: str, references: Sequence[str]) -> float:
    """The score of an answer against the reference that gives it most, as SQuAD scores it.

    Several references are several ways to be right: one that fits is enough.

    Args:
        name: the metric that compares two texts, a key of `_MEASURES`.
    """
    measure = _MEASURES[name]
    return max([measure(answer, reference) for reference in references])


# --- declining

_RAJPURKAR = "Rajpurkar, Jia and Liang 2018, Know What You Don't Know, arXiv:1806.03822"


@metric(group="overall", cite=_RAJPURKAR)
def abstention_accuracy(declined: bool, answerable: bool) -> float:
    """1 when the system declines exactly where there is no answer, else 0.

    One figure for both mistakes: an answer that should have been declined, and a declined question
    that has an answer. Stored scores of runs are compared by ``version``: raise it in the decorator
    with a change of values.
    """
    return float(declined != answerable)


@metric(group="overall", aliases=("answered_when_answerable",), cite=_RAJPURKAR)
def answer_rate(declined: bool, answerable: bool) -> float | Skip:
    """1 when an answerable case is answered, 0 when it is declined; others are skipped.

    Low where a system is too cautious. Beside `abstention_recall`, since either alone is perfect
    for a system that always answers, or never. Stored scores of runs are compared by ``version``:
    raise it in the decorator with a change of values.
    """
    return float(not declined) if answerable else _IS_UNANSWERABLE


@metric(group="overall", aliases=("abstained_when_unanswerable",), cite=_RAJPURKAR)
def abstention_recall(declined: bool, answerable: bool) -> float | Skip:
    """1 when an unanswerable case is declined, 0 when it is answered; others skipped.

    Low where a system answers what it cannot know. Beside `answer_rate`, since either alone is
    perfect for a system that never answers, or always. Stored scores of runs are compared by
    ``version``: raise it in the decorator with a change of values.
    """
    return _IS_ANSWERABLE if answerable else float(declined)


@metric(group="overall", cite=_RAJPURKAR)
def abstention_precision(declined: bool, answerable: bool) -> float | Skip:
    """1 when a declined case is unanswerable, 0 when it is not; answered ones skipped.

    Low where a system declines questions that have an answer. A system that declines everything has
    a perfect `abstention_recall`, and shows here. Stored scores of runs are compared by
    ``version``: raise it in the decorator with a change of values.
    """
    return float(not answerable) if declined else _WAS_ANSWERED


_IS_UNANSWERABLE = Skip("the case is unanswerable")
_IS_ANSWERABLE = Skip("the case is answerable")
_WAS_ANSWERED = Skip("the system did not decline")
