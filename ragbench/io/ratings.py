"""Ratings of answers on a scale, such as 1 to 5 stars, read as right and wrong.

Only a user knows from which rating on an answer counts as right, so the bound is part of the
option: ``--labels "answer_correct>=4=answers.csv"``. `ragbench.io.proposals` proposes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.fields import field_names
from ragbench.io.headers import header_words
from ragbench.io.values import is_missing

_BOUND = re.compile(r"(?P<metric>[^<>]+?)\s*(?P<sign>>=|<=)\s*(?P<number>\d+(?:\.\d+)?)")
_RATING = re.compile(
    r"(?P<number>\d{1,3}(?:[.,]\d+)?)(?:\s*(?:/|of|out of|von|sur|de|su)\s*\d{1,3})?"
    r"\s*(?:stars?|sterne?|étoiles?|estrellas?|stelle|points?|punkte?|puntos?)?",
    re.IGNORECASE,
)
"""A cell with a rating, such as ``4``, ``4,5``, ``4/5`` or ``4 of 5 stars``."""
_FULL_STARS = "★⭐"
_STARS = re.compile(rf"[{_FULL_STARS}]+[☆✩]*")
_HIGHEST = 10
"""Scales of people end here at the latest: a larger number is a count, a year or a percentage."""
_GOOD_SHARE = 0.8
"""The bound that is proposed, as a share of the highest rating: 4 of 5 stars, or 8 of 10."""


class RatingBound(Record):
    """From which rating on an answer is right."""

    number: float
    low_is_right: bool = False
    """Whether ratings up to the number are right, where 1 is the best grade."""

    def is_right(self, rating: float) -> bool:
        """Whether an answer with this rating counts as right, by the bound that the user gave.

        He writes it as ``answer_correct>=4``, or ``<=2`` where 1 is the best grade; a rating of
        just that number is right, too.
        """
        return rating <= self.number if self.low_is_right else rating >= self.number

    def __str__(self) -> str:
        """The bound as ``--labels`` has it, such as ``>=4``."""
        sign = "<=" if self.low_is_right else ">="
        return f"{sign}{self.number:g}"


class RatingScale(Record):
    """The lowest and the highest rating of a column."""

    low: int
    high: int

    @property
    def bound(self) -> int:
        """The rating from which an answer is proposed to count as right, if high ratings are good.

        The bound is 80 % of the highest rating: 4 of 5 stars. It is only a proposal: the user
        confirms it.
        """
        return math.ceil(_GOOD_SHARE * self.high)

    @property
    def reverse_bound(self) -> int:
        """The rating up to which an answer is proposed to count as right, if low ratings are good.

        It mirrors `bound`: on grades from 1 to 5 it is 2, as 4 is where 5 is the best.
        """
        return self.low + self.high - self.bound

    @property
    def described(self) -> str:
        """The scale in words: which ratings the proposed bound counts as right, and the reverse.

        A user reads this and decides, since only he knows whether 1 or 5 is the best.
        """
        return (
            f"from {self.low} to {self.high}, of which {self.bound} and more count as right (if "
            f"{self.low} is the best: answer_correct<={self.reverse_bound})"
        )


def metric_and_bound(text: str) -> tuple[str, RatingBound | None]:
    """The metric of ``--labels METRIC=FILE``, and the bound of ratings, None where it has none.

    Ratings become right and wrong only by a bound that the user names. A sign of comparison without
    a whole bound is refused: it would be read as part of the metric's name.

    Example:
        >>> metric_and_bound("answer_correct>=4")
        ('answer_correct', RatingBound(number=4.0, low_is_right=False))

    Raises:
        ConfigError: there is a sign of comparison, and no such bound.
    """
    match = _BOUND.fullmatch(text.strip())
    if match is not None:
        bound = RatingBound(number=float(match["number"]), low_is_right=match["sign"] == "<=")
        return match["metric"], bound
    if not set(text).isdisjoint("<>"):
        raise ConfigError(
            f"--labels {text}=FILE: expected METRIC>=NUMBER=FILE, such as answer_correct>=4=FILE, "
            "or METRIC<=NUMBER=FILE where 1 is the best grade"
        )
    return text, None


def rating_of(value: object) -> float | None:
    """The number that a cell rates an answer with, however people wrote it; None for other cells.

    Example:
        >>> [rating_of(value) for value in (4, "4,5", "4/5", "★★★☆☆", "good")]
        [4.0, 4.5, 4.0, 3.0, None]
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else None
    if not isinstance(value, str):
        return None
    text = value.strip().replace("\ufe0f", "")  # the mark that a character is shown in colour
    if _STARS.fullmatch(text):
        return float(sum(text.count(star) for star in _FULL_STARS))
    match = _RATING.fullmatch(text)
    return None if match is None else float(match["number"].replace(",", "."))


def says_rating(name: str) -> bool:
    """Whether a field's name says that it holds ratings of answers, such as ``Stars (1-5)``.

    Numbers alone look like any count, so only such a field is offered as labels. Words of other
    things, such as a rating of a product or of the retrieval, rule it out; ``fields.toml`` lists
    both kinds of words.
    """
    words = set(header_words(name))
    word_lists = field_names("rating")
    is_of_other = not words.isdisjoint({*field_names("verdict")["others"], *word_lists["others"]})
    return not is_of_other and not words.isdisjoint(word_lists["words"])


def scale_of(name: str, values: Sequence[object]) -> RatingScale | None:
    """The scale of a column of ratings; None where the name or the values are of something else.

    From the scale a bound is proposed. Ratings are whole or half numbers up to 10, and not only 0
    and 1, which are verdicts. A higher end that the header or a cell names ("Stars (1-5)", "4/5")
    counts, because people may never have given the best rating.

    Args:
        values: those that are not missing.
    """
    if not values or not says_rating(name):
        return None
    ratings: list[float] = []
    for value in values:
        rating = rating_of(value)
        if rating is None or not 0 <= rating <= _HIGHEST or not (2 * rating).is_integer():
            return None
        ratings.append(rating)
    if max(ratings) <= 1:
        return None
    # "Stars (1-5)" and "4/5" say the highest rating, which nobody may have given.
    numbers = [int(number) for number in re.findall(r"\d+", name)]
    for value in values:
        if isinstance(value, str) and "/" in value:
            numbers.append(int(value.rpartition("/")[2]))
    high = math.ceil(max(ratings))
    for number in numbers:
        if number <= _HIGHEST:
            high = max(high, number)
    return RatingScale(low=0 if min(ratings) < 1 else 1, high=high)


def rating_column(names: Sequence[str], values: Sequence[object]) -> str | None:
    """The only field of a row that holds a rating, or may hold one and is empty; None in doubt.

    With two such fields the user has to name the right one.

    Args:
        names: the fields of the row.
        values: the value of each field.
    """
    columns: list[str] = []
    for name, value in zip(names, values, strict=True):
        if says_rating(name) and (is_missing(value) or rating_of(value) is not None):
            columns.append(name)
    return columns[0] if len(columns) == 1 else None
